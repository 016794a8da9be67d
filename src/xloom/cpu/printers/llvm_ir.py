"""A program's LLVM IR and machine code: the entry function, then each kernel."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from functools import partial

from xloom.codegen.schedule.thunks import roots_of
from xloom.cpu.entry.emitted_program import EmittedProgram
from xloom.cpu.entry.main_function import MAIN
from xloom.cpu.lower import lowered
from xloom.cpu.prepare import prepared
from xloom.hlo.module import Module
from xloom.llvm import jit
from xloom.llvm.target import Target, process_target


def llvm_text(module: Module, target: Target | None = None) -> str:
    """The LLVM modules of a program, before LLVM's passes. Raises LoweringError for what has no native code."""
    return _text(module, target or process_target(), ";", lambda text, _: text)


def asm_text(module: Module, target: Target | None = None) -> str:
    """The assembly of a program for a target. Raises LoweringError for what has no native code."""
    target = target or process_target()
    return _text(module, target, "#", partial(jit.assembly, target=target))


def _text(module: Module, target: Target, comment: str, shown: Callable[[str, jit.PassPipeline], str]) -> str:
    _, _, program = lowered(prepared(module, target=target), target)
    makes = _makers(program)
    parts = [f"{comment} {MAIN}: the entry function\n{shown(program.main, program.main_pipeline)}"]
    for name, kernels in program.modules.items():
        parts.append(f"{comment} {name}: {'; '.join(makes[name])}\n{shown(kernels.text, kernels.pipeline)}")
    return "\n".join(parts)


def _makers(program: EmittedProgram) -> dict[str, list[str]]:
    """What the thunks make that are done by each kernel."""
    made: dict[str, list[str]] = defaultdict(list)
    for thunk, code in program.code.items():
        made[code.module_name].append(", ".join(f"%{i.name}" for i in roots_of(thunk)))
    return made
