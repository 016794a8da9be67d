"""The first instruction whose value differs: by bisection, then one by one, then inside what it calls."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from xloom.difference.bounded import ProgramBounds, is_usual, wrong_leaf
from xloom.difference.cuts import entered
from xloom.difference.found import FirstDifference
from xloom.difference.matching import matched
from xloom.difference.sides import Side
from xloom.errors import ShapeError
from xloom.hlo.computation import Computation
from xloom.hlo.excerpt import excerpt
from xloom.hlo.instruction import Instruction
from xloom.hlo.module import Module
from xloom.interpreter.bounds import bounds, leaves
from xloom.interpreter.evaluator import Evaluator
from xloom.interpreter.registry import Value
from xloom.interpreter.values import from_argument
from xloom.testing.agreement import ulps_between

_PASSED_ON = frozenset(
    ("parameter", "constant", "tuple", "get-tuple-element", "after-all", "partition-id", "replica-id")
)
"""Their values are those of others."""
_WINDOW = 16
"""Instructions that are asked for at once."""
_CUTS = 16
"""Parts that a program is looked at between, if its results do not say that something is wrong."""
_OF_THE_WORLD = frozenset(("rng", "rng-get-and-update-state", "infeed", "outfeed", "recv", "recv-done", "send"))
"""They give another value when they are run again."""


@dataclass
class Program:
    """A module, and who computes it."""

    module: Module
    side: Side


def first_difference(
    judged: Program, right: Program, arguments: Sequence[Value], pairs: Mapping[str, str] | None = None
) -> FirstDifference | None:
    """The first instruction of `judged` whose value is not, within rounding, what `right` makes of it; None if all are.

    First in the order operands first, among those that a different result depends on. `pairs` has for names of
    instructions of the judged module those of the other; None if the modules are one. `arguments` are one for each
    parameter. A compiler is asked for interior values as results, which changes what it fuses: as few as possible are
    asked for at once, by bisection. Raises ShapeError for arguments that do not fit.
    """
    parameters = judged.module.entry.parameters
    shapes = [p.shape for p in right.module.entry.parameters]
    if len(parameters) != len(arguments) or [p.shape.dims for p in parameters] != [s.dims for s in shapes]:
        raise ShapeError(
            f"{judged.module.name} takes {len(parameters)} arguments, {right.module.name} {len(shapes)}, "
            f"found {len(arguments)}",
            hint="both take the same: parameters of the same dimensions, and an argument for each",
        )
    values = [from_argument(a, p.shape, p.name) for a, p in zip(arguments, parameters, strict=True)]
    found = _Search(judged, right, pairs).first(values)
    return replace(found, arguments=values) if found is not None else None


def between(
    before: Program, after: Program, arguments: Sequence[Value], *, names: bool = False
) -> FirstDifference | None:
    """The same for two modules, of which the second is judged: `diff` says which instructions are pairs."""
    pairs = {y.name: x.name for x, y in matched(before.module, after.module, names=names).instructions.items()}
    found = first_difference(after, before, arguments, pairs)
    who = f"{before.side.name} before", f"{after.side.name} after"
    return replace(found, expected_by=who[0], found_by=who[1]) if found is not None else None


class _Search:
    """Two programs, whose instructions are pairs by their names."""

    def __init__(self, judged: Program, right: Program, pairs: Mapping[str, str] | None):
        self._judged, self._right, self._pairs = judged, right, pairs
        self._inner: dict[Computation, _Search] = {}
        others = {i.name: i for i in right.module.entry}
        self._other: dict[Instruction, Instruction] = {}
        for instruction in judged.module.entry:
            name = instruction.name if pairs is None else pairs.get(instruction.name)
            other = others.get(name) if name is not None else None
            if other is not None and other.shape.compatible(instruction.shape):
                self._other[instruction] = other
        # what is put into the same place of a result, or of a loop's state, has the same value
        for mine, other in list(self._other.items()):
            if mine.opcode == "tuple" == other.opcode and len(mine.operands) == len(other.operands):
                for new, old in zip(mine.operands, other.operands, strict=True):
                    if new.shape.compatible(old.shape):
                        self._other.setdefault(new, old)
        order = judged.module.entry.post_order()
        self._order = [i for i in order if i in self._other and i.opcode not in _PASSED_ON and _is_plain(i)]

    def first(self, arguments: Sequence[Value]) -> FirstDifference | None:
        """For one set of arguments."""
        if not self._order:
            return None
        run = _Run(self._judged, self._right, self._other, arguments)
        lo, hi = 0, len(self._order)
        if not self._judged.side.observes_all:
            last_use = self._last_uses()
            results = [i for i in self._order if last_use[i] >= hi]
            wrong = run.wrong(results)
            if not wrong and not run.equal(results):
                lo, hi, wrong = self._at_cuts(run, last_use)
            if not wrong:
                return None
            while hi - lo > _WINDOW:
                middle = (lo + hi) // 2
                live = [i for i in self._order[:middle] if last_use[i] >= middle]
                now = run.wrong(live)
                lo, hi, wrong = (lo, middle, now) if now else (middle, hi, wrong)
            candidates = run.wrong(self._order[lo:hi]) or wrong
        else:
            candidates = run.wrong(self._order)
        for instruction in candidates:
            found = self._explained(run, instruction)
            if found is not None:
                return found
        return run.described(candidates[0], alone=False) if candidates else None

    def _at_cuts(self, run: _Run, last_use: Mapping[Instruction, float]) -> tuple[int, int, list[Instruction]]:
        """The first of some evenly spaced places where a value that is read later is wrong, after the one before it.

        For results that are within the rounding of all before them, which may be more than what a wrong value makes of
        them: nearer to it is less rounding."""
        places = [len(self._order) * k // _CUTS for k in range(_CUTS + 1)]
        live = {end: [i for i in self._order[:end] if last_use[i] >= end] for end in places[1:-1]}
        wrong = set(run.wrong(list(dict.fromkeys(i for values in live.values() for i in values))))
        for start, end in pairwise(places[:-1]):
            found = [i for i in live[end] if i in wrong]
            if found:
                return start, end, found
        return 0, 0, []

    def _last_uses(self) -> dict[Instruction, float]:
        """Of each instruction, the place of the last that reads it, also through tuples; infinity for a result."""
        place = {i: k for k, i in enumerate(self._order)}
        found: dict[Instruction, float] = {}
        for instruction in reversed(self._judged.module.entry.post_order()):
            users = instruction.users
            last = max((place.get(u, found.get(u, -1)) for u in users), default=-1)
            found[instruction] = float("inf") if instruction.is_root else last
        return found

    def _explained(self, run: _Run, instruction: Instruction) -> FirstDifference | None:
        """What is wrong with an instruction for the values that its operands have; None if nothing is."""
        found = run.alone(instruction)
        if found is None:
            return None
        return self._inside(run, instruction) or found

    def _inside(self, run: _Run, instruction: Instruction) -> FirstDifference | None:
        """In what an instruction calls."""
        other = self._other[instruction]
        if len(instruction.called_computations) != len(other.called_computations):
            return None
        operands = run.operands(instruction)
        for callee, its, values, where in _calls(instruction, other, operands):
            search = self._of(callee, its)
            inner = search.first([leaf for value in values for leaf in leaves(value)])
            if inner is not None:
                name = inner.instruction.name
                original = next((i for i in callee if i.name == name), inner.instruction)
                return replace(inner, instruction=original, inside=(where, *inner.inside))
        return None

    def _of(self, callee: Computation, its: Computation) -> _Search:
        known = self._inner
        if callee not in known:
            judged = Program(entered(self._judged.module, callee), self._judged.side)
            right = judged if self._right.module is self._judged.module else None
            module = right.module if right is not None else entered(self._right.module, its)
            known[callee] = _Search(judged, Program(module, self._right.side), self._pairs)
        return known[callee]


def _calls(
    instruction: Instruction, other: Instruction, operands: Sequence[Value]
) -> Iterator[tuple[Computation, Computation, Sequence[Value], str]]:
    """What it calls, what its partner calls, with which values, and in words."""
    pairs = list(zip(instruction.called_computations, other.called_computations, strict=True))
    name = f"%{instruction.name}"
    if instruction.opcode in ("call", "fusion"):
        yield *pairs[0], operands, f"{instruction.opcode} {name}"
    elif instruction.opcode == "conditional":
        which = operands[0]
        number = int(which)
        if instruction.operands[0].shape.dtype.name == "pred":
            number = 0 if which else 1
        number = number if 0 <= number < len(pairs) else len(pairs) - 1
        yield *pairs[number], [operands[1 + number]], f"branch {number} of {name}"
    elif instruction.opcode == "while":
        yield from _iterations(instruction, other, operands[0], name)


def _iterations(
    loop: Instruction, other: Instruction, state: Value, name: str
) -> Iterator[tuple[Computation, Computation, Sequence[Value], str]]:
    """Condition and body with each state, which is the interpreter's own."""
    condition, body = loop["condition"], loop["body"]
    assert other.parent is not None and other.parent.module is not None
    right = Evaluator(other.parent.module)
    number = 0
    while True:
        yield condition, other["condition"], [state], f"the condition of {name}, before iteration {number}"
        if not right.call(other["condition"], [state]):
            return
        yield body, other["body"], [state], f"iteration {number} of {name}"
        state = right.call(other["body"], [state])
        number += 1


def _is_plain(instruction: Instruction) -> bool:
    return all(leaf.is_array and not leaf.is_dynamic for _, leaf in instruction.shape.leaves())


class _Run:
    """Values of both programs for one set of arguments."""

    def __init__(
        self,
        judged: Program,
        right: Program,
        other: Mapping[Instruction, Instruction],
        arguments: Sequence[Value],
    ):
        self._judged, self._right, self._other, self.arguments = judged, right, other, arguments
        self._bounds = ProgramBounds(right.module, arguments)
        self._mine: dict[Instruction, Value] = {}
        self._theirs: dict[Instruction, Value] = {}
        self._places: dict[Instruction, tuple[int, np.ndarray]] = {}  # where values are wrong

    def wrong(self, instructions: Sequence[Instruction]) -> list[Instruction]:
        """Those whose values are out of bounds, rounding of all before them included."""
        if not instructions:
            return []
        others = [self._other[i] for i in instructions]
        mine = self._judged.side.values(self._judged.module, instructions, self.arguments)
        theirs = self._right.side.values(self._right.module, others, self.arguments)
        self._mine |= dict(zip(instructions, mine, strict=True))
        self._theirs |= dict(zip(instructions, theirs, strict=True))
        suspects = [i for i in instructions if not is_usual(self._other[i], self._mine[i], self._theirs[i])]
        if not suspects:
            return []
        limits = self._bounds.of([self._other[i] for i in suspects])
        found = []
        for instruction, bound in zip(suspects, limits, strict=True):
            place = wrong_leaf(self._mine[instruction], self._theirs[instruction], bound)
            if place is not None:
                self._places[instruction] = place
                found.append(instruction)
        return found

    def equal(self, instructions: Sequence[Instruction]) -> bool:
        """Whether both have the same bits for these, which were looked at before."""
        return all(
            mine.tobytes() == theirs.tobytes()
            for i in instructions
            for mine, theirs in zip(leaves(self._mine[i]), leaves(self._theirs[i]), strict=True)
        )

    def operands(self, instruction: Instruction) -> list[Value]:
        """The values of its operands, by the program that is judged."""
        wanted: dict[Instruction, None] = {}
        stack = list(instruction.operands)
        while stack:
            operand = stack.pop()
            if operand.opcode in ("tuple", "get-tuple-element"):
                stack.extend(operand.operands)
            elif operand.opcode != "parameter" and operand not in self._mine:
                wanted[operand] = None
        if wanted:
            values = self._judged.side.values(self._judged.module, list(wanted), self.arguments)
            self._mine |= dict(zip(wanted, values, strict=True))
        return [self._value(o) for o in instruction.operands]

    def _value(self, instruction: Instruction) -> Value:
        if instruction.opcode == "tuple":
            return tuple(self._value(o) for o in instruction.operands)
        if instruction.opcode == "parameter":
            return self.arguments[instruction["parameter_number"]]
        if instruction.opcode == "get-tuple-element":
            return self._value(instruction.operands[0])[instruction["index"]]
        return self._mine[instruction]

    def alone(self, instruction: Instruction) -> FirstDifference | None:
        """How its value differs from what the other side makes of the operands' values, if it does."""
        other = self._other[instruction]
        matching = [self._other.get(o) for o in instruction.operands] == list(other.operands)
        if not matching or instruction.opcode in _OF_THE_WORLD:
            return self.described(instruction)  # what goes in is not the same, and agrees where it is
        module = excerpt([other], "alone", [other]).module
        by_operand = dict(zip(instruction.operands, self.operands(instruction), strict=True))
        operands = list(by_operand.values())
        (expected,) = self._right.side.values(module, [module.entry.root], operands)
        mine = self._mine[instruction]
        place = None if is_usual(other, mine, expected) else wrong_leaf(mine, expected, bounds(module, operands))
        if place is None:
            return None
        self._theirs[instruction], self._places[instruction] = expected, place
        return self.described(instruction)

    def described(self, instruction: Instruction, *, alone: bool = True) -> FirstDifference:
        """What is known of a wrong value."""
        part, wrong = self._places[instruction]
        mine, theirs = leaves(self._mine[instruction])[part], leaves(self._theirs[instruction])[part]
        index = tuple(int(k) for k in np.argwhere(wrong)[0])
        ulps = float(ulps_between(mine, theirs)[index])
        by_operand = dict(zip(instruction.operands, self.operands(instruction), strict=True))
        return FirstDifference(
            instruction,
            (),
            part,
            index,
            mine[index],
            theirs[index],
            ulps if np.isfinite(ulps) else 0.0,
            int(wrong.sum()),
            wrong.size,
            self._judged.side.name,
            self._right.side.name,
            alone,
            excerpt([instruction], "alone", [instruction]).module,
            list(by_operand.values()),
            self.arguments,
        )
