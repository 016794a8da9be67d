"""How kernels compute what they do, and why so: `xloom opt --explain kernel`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from xloom.codegen.fusion.fusion_group import FusionGroup
from xloom.codegen.fusion.multi_output import Thunk
from xloom.codegen.schedule.thunks import roots_of
from xloom.cpu.entry.emitted_program import ThunkCode
from xloom.cpu.lower import lowered
from xloom.cpu.prepare import prepared
from xloom.cpu.printers.named import checked_names
from xloom.cpu.printers.schedule import code_text
from xloom.hlo.instruction import Instruction
from xloom.hlo.module import Module
from xloom.llvm.target import Target, process_target


def kernel_choices_text(module: Module, names: Sequence[str] = (), target: Target | None = None) -> str:
    """Of each kernel, or of those that compute instructions called `names`: the strategies, and what held for them.

    Raises XloomError for a name that the prepared module has not, LoweringError for what has no native code.
    """
    _, assignment, program = lowered(prepared(module, target=target), target or process_target())
    wanted = checked_names(assignment.entry.computation.module, names)
    lines: list[str] = []
    shown: set[str] = set()
    for thunk, code in program.code.items():
        inside = _instructions(thunk)
        if not wanted or wanted & inside:
            shown |= wanted & inside
            lines += _lines(thunk, code)
    lines += [f"%{name}: no kernel, see --explain fusion:{name}" for name in sorted(wanted - shown)]
    return "".join(f"{line}\n" for line in lines)


def _instructions(thunk: Thunk) -> set[str]:
    made = [*thunk.roots, *thunk.inlined] if isinstance(thunk, FusionGroup) else [thunk]
    called = [i for each in made if each.opcode == "fusion" for i in each["calls"]]
    return {i.name for i in (*made, *called)}


def _lines(thunk: Thunk, code: ThunkCode) -> Iterator[str]:
    yield f"{', '.join(f'%{i.name} {_opcode(i)} {i.shape.to_text(layout=False)}' for i in roots_of(thunk))}"
    if isinstance(thunk, FusionGroup) and thunk.inlined:
        yield f"  of {', '.join(sorted(f'%{i.name}' for i in thunk.inlined))}"
    for choice in code.choices:
        yield f"  {choice}"
    if not code.choices and code.phases:
        yield "  this operator tells of no choice between strategies"
    if code.phases or not code.choices:  # a loop has none of its own
        yield f"  runs as {code_text(code)}"


def _opcode(instruction: Instruction) -> str:
    if instruction.opcode != "fusion":
        return instruction.opcode
    root = instruction["calls"].root
    if root.opcode in ("dot", "scatter"):
        return f"{root.opcode} with its operands"
    product = next(i for i in instruction["calls"] if i.opcode in ("dot", "convolution"))
    return f"{product.opcode} with its epilogue"
