"""A module evaluated on trial, for translation validation: its result, and the states that its loops go through."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from xloom.errors import EvaluationError
from xloom.hlo.call_graph import callees_first
from xloom.hlo.computation import Computation
from xloom.hlo.instruction import Instruction
from xloom.hlo.module import Module
from xloom.hlo.shape import Shape
from xloom.interpreter.perturbed import Perturbed
from xloom.interpreter.registry import RULES, Value

MOST_WORK = 1 << 22
"""Elements that a trial computes, or as many instructions as take about as long."""
LESS = "compare a smaller program: fewer or smaller arrays, loops of fewer iterations"
_LEAST = 64
"""Elements that are computed in the time that an instruction takes in any case."""
_STATES = 32
"""Of a loop, that are kept."""
_ENTERS = frozenset({"call", "while", "conditional"})


class TooMuchWork(EvaluationError):
    """A trial would take too long, or never end."""


@dataclass(frozen=True)
class Loops:
    """The loops that two modules have in common, and which of them have states of one shape, by their names."""

    common: frozenset[str]
    alike: frozenset[str]

    @staticmethod
    def of(before: Module, after: Module) -> Loops:
        """Loops are the same that have one name, and run in as many places of the program."""
        old, new = loops_of(before), loops_of(after)
        common = frozenset(name for name in old if name in new and old[name][0] == new[name][0])
        return Loops(common, frozenset(n for n in common if plain(old[n][1]) == plain(new[n][1])))


def loops_of(module: Module) -> dict[str, tuple[int, Shape]]:
    """Each loop by its name: by how many paths the entry calls its computation, and the shape of its state."""
    paths: dict[Computation, int] = {module.entry: 1}
    for computation in reversed(callees_first([module.entry])):
        for instruction in computation:
            for callee in instruction.called_computations:
                paths[callee] = paths.get(callee, 0) + paths.get(computation, 0)
    return {i.name: (paths[c], i.shape) for c in module.computations if c in paths for i in c if i.opcode == "while"}


def trial(
    module: Module, arguments: Sequence[Value], loops: Loops, trips: int | None, *, run: int = 0, work: int = MOST_WORK
) -> dict[str, Value]:
    """The result and the first states of loops, by what they are; `run` says how results are rounded (`Perturbed`).

    With `trips`, the loops in common end after so many iterations at the latest: they are compared unrolled so often.
    Raises TooMuchWork.
    """
    seen = _Seen(module, loops, trips, run, work)
    result = seen.call(module.entry, arguments)
    return {**seen.states, "result": result}


class _Seen(Perturbed):
    def __init__(self, module: Module, loops: Loops, trips: int | None, run: int, work: int):
        super().__init__(module, run, {**RULES, "while": self._while})
        self.loops, self.trips, self.left = loops, trips, work
        self.states: dict[str, Value] = {}
        self._kept: dict[str, int] = {}
        self._whole = _whole_computations(module)

    def apply(self, instruction: Instruction, operands: Sequence[Value]) -> Value:
        self.left -= max(_LEAST, _work(instruction))
        if self.left < 0:
            raise TooMuchWork("there is too much to evaluate", hint=LESS)
        value = super().apply(instruction, operands)
        shape = instruction.shape
        # where NumPy would broadcast what does not fit, native code would read past it
        is_known = shape.is_array or instruction.opcode in ("tuple", "while")
        if is_known and instruction.parent in self._whole and not _fits(value, shape):
            raise EvaluationError(
                f"it is {shape} by its shape, and {_text(value)} by its value",
                where=instruction.name,
                hint="the pass gave it another shape than its operands give: xloom opt --dump steps/ keeps the module",
            )
        return value

    def _while(self, instruction: Instruction, operands: Sequence[Value], _: object) -> Value:
        (state,) = operands
        condition, body, name = instruction["condition"], instruction["body"], instruction.name
        limit = self.trips if name in self.loops.common else None
        count = 0
        self._keep(name, state)
        while bool(self.call(condition, [state])) and (limit is None or count < limit):
            state = self.call(body, [state])
            count += 1
            self._keep(name, state)
        return state

    def _keep(self, name: str, state: Value) -> None:
        number = self._kept.get(name, 0)
        if name in self.loops.alike and number < _STATES:
            self._kept[name] = number + 1
            self.states[f"state {number} of {name}"] = state


def _work(instruction: Instruction) -> int:
    """About how many elements the interpreter goes through."""
    elements = sum(leaf.size for _, leaf in instruction.shape.leaves() if leaf.is_array)
    if instruction.opcode in ("dot", "convolution"):
        return elements + (elements * instruction.operands[1].shape.size >> 6)
    return elements + sum(o.shape.size for o in instruction.operands if o.shape.is_array)


def _whole_computations(module: Module) -> set[Computation]:
    """Those whose values have their shapes: combiners of elements are evaluated for many at once."""
    found: set[Computation] = set()
    stack = [module.entry]
    while stack:
        computation = stack.pop()
        if computation not in found:
            found.add(computation)
            stack += [c for i in computation if i.opcode in _ENTERS for c in i.called_computations]
    return found


def _text(value: Value) -> str:
    if isinstance(value, tuple):
        return f"({', '.join(map(_text, value))})"
    return f"{value.dtype}{list(value.shape)}" if isinstance(value, np.ndarray | np.generic) else str(value)


def _fits(value: Value, shape: Shape) -> bool:
    """True for a value of the shape, dynamic sizes and tokens aside."""
    if shape.is_tuple:
        return isinstance(value, tuple) and all(map(_fits, value, shape.elements))
    if not shape.is_array or shape.is_dynamic or not isinstance(value, np.ndarray | np.generic):
        return not isinstance(value, tuple)
    return value.shape == shape.dims and value.dtype == shape.dtype.numpy


def plain(shape: Shape) -> object:
    """A shape without its layout."""
    if shape.is_tuple:
        return tuple(plain(e) for e in shape.elements)
    return (shape.dtype, shape.dims, shape.dynamic) if shape.is_array else shape
