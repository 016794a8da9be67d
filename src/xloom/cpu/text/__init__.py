"""A compiled program at each stage, as text for people."""

from xloom.cpu.text.code_text import asm_text, llvm_text
from xloom.cpu.text.loops_text import loops_text
from xloom.cpu.text.memory_text import memory_text
from xloom.cpu.text.schedule_text import schedule_text

__all__ = ["asm_text", "llvm_text", "loops_text", "memory_text", "schedule_text"]
