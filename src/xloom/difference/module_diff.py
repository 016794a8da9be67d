"""What was added, removed, changed and moved from one module to another."""

from __future__ import annotations

import bisect
from collections.abc import Iterator
from dataclasses import dataclass, field

from xloom.difference.fingerprints import says
from xloom.difference.matching import Matching, matched
from xloom.hlo.instruction import Instruction
from xloom.hlo.module import Module

_LONG = 60


@dataclass(frozen=True)
class Change:
    """An instruction of both modules, and in words what is not the same."""

    before: Instruction
    after: Instruction
    what: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.after.name}: {'; '.join(self.what)}"


@dataclass
class ModuleDiff:
    """What is different; of `moved`, `what` says from where to where. `header` is what modules say of themselves."""

    before: Module
    after: Module
    matching: Matching
    added: list[Instruction] = field(default_factory=list)
    removed: list[Instruction] = field(default_factory=list)
    changed: list[Change] = field(default_factory=list)
    moved: list[Change] = field(default_factory=list)
    header: list[str] = field(default_factory=list)

    @property
    def same(self) -> bool:
        """True if the modules do the same in the same way; names do not count, unless they were taken as meaning."""
        return not (self.added or self.removed or self.changed or self.moved or self.header)

    def __str__(self) -> str:
        from xloom.difference.markup import text

        return text(self).plain


def diff(a: Module, b: Module, *, names: bool = False) -> ModuleDiff:
    """What becomes of `a` in `b`: instructions are matched by what they compute, and by their neighbours.

    With `names`, they are matched by their names first, and a name that changes is a change. Metadata does not count.
    """
    matching = matched(a, b, names=names)
    found = ModuleDiff(a, b, matching)
    found.removed = [i for i in a.instructions if i not in matching.instructions]
    found.added = [i for i in b.instructions if i not in matching.back]
    moved_in_order = _moved_in_order(matching, a, b) if a.config.is_scheduled and b.config.is_scheduled else set()
    for x, y in matching.instructions.items():
        what = tuple(_changes(x, y, matching, names))
        if what:
            found.changed.append(Change(x, y, what))
        assert x.parent is not None and y.parent is not None
        if matching.computations.get(x.parent) is not y.parent:
            found.moved.append(Change(x, y, (f"from {x.parent.name} to {y.parent.name}",)))
        elif x in moved_in_order:
            found.moved.append(Change(x, y, ("to another place of the schedule",)))
    order = {i: k for k, i in enumerate(b.instructions)}
    for changes in (found.changed, found.moved):
        changes.sort(key=lambda change: order[change.after])
    found.header = [
        f"{name}: {_short(value)} -> {_short(getattr(b.config, name))}"
        for name, value in vars(a.config).items()
        if value != getattr(b.config, name) and "layout" not in name
    ]
    return found


def _changes(x: Instruction, y: Instruction, matching: Matching, names: bool) -> Iterator[str]:
    if names and x.name != y.name:
        yield f"name {x.name} -> {y.name}"
    if x.opcode != y.opcode:
        yield f"opcode {x.opcode} -> {y.opcode}"
    if x.shape != y.shape:
        yield f"shape {x.shape} -> {y.shape}"
    mine, other = says(x), says(y)
    for name in sorted(mine.keys() | other.keys()):
        if mine.get(name) != other.get(name):
            yield f"{name} {_attribute(x, name)} -> {_attribute(y, name)}"
    called = zip(x.called_computations, y.called_computations, strict=False)
    wrong = [f"{c.name} -> {d.name}" for c, d in called if matching.computations.get(c) is not d]
    if wrong or len(x.called_computations) != len(y.called_computations):
        yield f"calls {', '.join(wrong) or 'another number of computations'}"
    if len(x.operands) != len(y.operands):
        yield f"{len(x.operands)} operands -> {len(y.operands)}"
    else:
        for k, (operand, new) in enumerate(zip(x.operands, y.operands, strict=True)):
            if matching.instructions.get(operand) is not new:
                yield f"operand {k} {operand.name} -> {new.name}"
    if {matching.instructions.get(p) for p in x.control_predecessors} != set(y.control_predecessors):
        yield "control predecessors"
    if x.is_root != y.is_root:
        yield "is the root now" if y.is_root else "is the root no more"


def _attribute(instruction: Instruction, name: str) -> str:
    if name == "literal" and name in instruction.attrs:
        return _short(instruction.literal.to_text())
    return _short(instruction.attrs.get(name, getattr(instruction, name, None)) if name in says(instruction) else None)


def _short(value: object) -> str:
    text = "none" if value is None else str(value)
    return text if len(text) <= _LONG else f"{text[:_LONG]}..."


def _moved_in_order(matching: Matching, a: Module, b: Module) -> set[Instruction]:
    """Those that have to move, if as many as possible stay in the order in which they were."""
    moved: set[Instruction] = set()
    for one, other in matching.computations.items():
        place = {i: k for k, i in enumerate(other.instructions)}
        pairs = [(i, place.get(matching.instructions[i])) for i in one if i in matching.instructions]
        stay = _longest_increasing([(i, k) for i, k in pairs if k is not None])
        moved |= {i for i, k in pairs if k is not None} - stay
    return moved


def _longest_increasing(pairs: list[tuple[Instruction, int]]) -> set[Instruction]:
    ends: list[int] = []
    tops: list[int] = []
    before: list[int] = []
    for number, (_, place) in enumerate(pairs):
        at = bisect.bisect_left(ends, place)
        before.append(tops[at - 1] if at else -1)
        ends[at : at + 1], tops[at : at + 1] = [place], [number]
    found = set()
    number = tops[-1] if tops else -1
    while number >= 0:
        found.add(pairs[number][0])
        number = before[number]
    return found
