"""Why an instruction has an array in memory, and why two are not computed in one loop nest: `xloom opt --explain`."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

from xloom.codegen.fusion.fusion_group import FusionGroup, is_alias
from xloom.codegen.fusion.multi_output import WINDOW, Refusals, thunks_of
from xloom.codegen.fusion.producer_consumer import producer_consumer_fusion
from xloom.codegen.ops import OP_ROWS, Role
from xloom.errors import XloomError, near
from xloom.hlo.computation import Computation
from xloom.hlo.instruction import Instruction
from xloom.hlo.module import Module


def fusion_report(module: Module, names: tuple[str, ...] = ()) -> str:
    """What became of each instruction of a prepared module; of two `names`, why they are not in one loop nest.

    Raises XloomError for a name that the module has not: passes may have rewritten what had it.
    """
    reports = [_Report(c) for c in _scheduled_computations(module)]
    if not names:
        return "".join(line + "\n" for report in reports for line in report.lines())
    found = {name: _find(reports, name.removeprefix("%")) for name in names}
    if len(found) == 1:
        ((report, instruction),) = found.values()
        return report.line(instruction) + "\n"
    (report, first), (other, second) = list(found.values())[:2]
    if report is not other:
        return f"%{first.name} and %{second.name} are in different computations, which control flow enters\n"
    return report.pair(first, second) + "\n"


def _scheduled_computations(module: Module) -> Iterator[Computation]:
    stack = [module.entry]
    while stack:
        computation = stack.pop()
        yield computation
        for instruction in computation.instructions:
            if OP_ROWS[instruction.opcode].role is Role.CONTROL:
                stack.extend(instruction.called_computations)


def _find(reports: list[_Report], name: str) -> tuple[_Report, Instruction]:
    known: list[str] = []
    for report in reports:
        for instruction in report.fusion.order:
            if instruction.name == name:
                return report, instruction
            known.append(instruction.name)
    raise XloomError(
        f"no instruction %{name} in the prepared program, which passes have rewritten",
        hint=near(name, known) or "xloom opt --emit prepared shows it",
    )


class _Report:
    """What fusion made of a computation."""

    def __init__(self, computation: Computation):
        self.fusion = producer_consumer_fusion(computation)
        self.refusals: Refusals = {}
        self.nests: dict[Instruction, list[FusionGroup]] = {}
        groups = [thunk for thunk in thunks_of(self.fusion, self.refusals) if isinstance(thunk, FusionGroup)]
        for group in groups:
            for made in (*group.roots, *group.inlined):
                self.nests.setdefault(made, []).append(group)

    def lines(self) -> Iterator[str]:
        """A line for each instruction."""
        yield f"%{self.fusion.root.parent.name if self.fusion.root.parent else ''}:"
        for instruction in self.fusion.order:
            yield f"  {self.line(instruction)}"

    def line(self, instruction: Instruction) -> str:
        """What became of an instruction: stored, computed where it is used, or no code, and why."""
        head = f"%{instruction.name} {instruction.opcode}:"
        if instruction in self.fusion.stored:
            if instruction not in self.nests:
                return f"{head} {_LONE[OP_ROWS[instruction.opcode].role]}"
            others = [r for r in self.nests[instruction][0].roots if r is not instruction]
            beside = f" with {_names(others)}" if others else ""
            return f"{head} stored by a loop nest{beside}: {self.fusion.reasons[instruction]}"
        if instruction not in self.nests:
            names = is_alias(instruction.opcode)
            return f"{head} {'no code: whose memory a value is' if names else 'nothing needs it'}"
        return f"{head} computed where it is used, in the loop nest of {_names(_roots(self.nests[instruction]))}"

    def pair(self, first: Instruction, second: Instruction) -> str:
        """Why two are in one loop nest or not."""
        ours, theirs = self.nests.get(first, []), self.nests.get(second, [])
        for instruction, nests in ((first, ours), (second, theirs)):
            if not nests:
                return f"not in one loop nest: {self.line(instruction)}"
        shared = [nest for nest in ours if any(nest is other for other in theirs)]
        if shared:
            return f"in one loop nest, which stores {_names(shared[0].roots)}"
        stored = product([first, *_roots(ours)], [second, *_roots(theirs)])
        for a, b in stored:
            reason = self.refusals.get((a, b)) or self.refusals.get((b, a))
            if reason:
                return f"the loop nests of %{a.name} and %{b.name} are two: {reason}"
        roots = [*_roots(ours), *_roots(theirs)]
        updates = [root for root in roots if root.opcode == "dynamic-update-slice"]
        if updates:
            return f"not in one loop nest: {_names(updates)} changes an array in place, and joins nothing before it"
        return f"not in one loop nest: more than {WINDOW} thunks are between them, and no more are looked at"


def _roots(nests: list[FusionGroup]) -> list[Instruction]:
    return [root for nest in nests for root in nest.roots]


def _names(instructions: list[Instruction]) -> str:
    return ", ".join(f"%{i.name}" for i in dict.fromkeys(instructions))


_LONE = {
    Role.KERNEL: "a kernel of its own",
    Role.ENTRY: "a thunk of the entry function",
    Role.CONTROL: "a thunk of the entry function",
    Role.REWRITTEN: "a kernel, with its operands computed block by block",
    Role.ELEMENT: "a thunk of the entry function",
    Role.ROOT: "a thunk of the entry function",
    Role.ALIAS: "no code: whose memory a value is",
}
"""Of what is stored by no loop nest."""
