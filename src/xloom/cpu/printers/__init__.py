"""A compiled program at each stage, as text for people."""

from xloom.cpu.printers.llvm_ir import asm_text, llvm_text
from xloom.cpu.printers.loop_ir import loop_ir_text
from xloom.cpu.printers.loops import loops_text
from xloom.cpu.printers.memory import memory_text
from xloom.cpu.printers.prepared import prepared_text
from xloom.cpu.printers.schedule import schedule_text

__all__ = ["asm_text", "llvm_text", "loop_ir_text", "loops_text", "memory_text", "prepared_text", "schedule_text"]
