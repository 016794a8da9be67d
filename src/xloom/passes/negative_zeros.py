"""Which arrays have no -0.0 in them: x + 0.0 is x only of those."""

from __future__ import annotations

import math
from collections import defaultdict

from xloom.hlo.computation import Computation
from xloom.hlo.instruction import Instruction
from xloom.hlo.module import Module
from xloom.passes.match import splat

_MOST = 100
"""Instructions that an answer may take."""

_OF_OPERANDS = frozenset(
    ("broadcast", "concatenate", "copy", "dynamic-slice", "dynamic-update-slice")
    + ("pad", "reshape", "reverse", "select", "slice", "transpose")
)
"""Opcodes whose elements are all elements of operands of the same type."""


class NegativeZeros:
    """What is known of a module as it is at the moment of each question."""

    def __init__(self, module: Module):
        self._loops: dict[Computation, list[Instruction]] = defaultdict(list)
        callers: dict[Computation, int] = defaultdict(int)
        for instruction in module.instructions:
            for callee in instruction.called_computations:
                callers[callee] += 1
            if instruction.opcode == "while":
                self._loops[instruction["body"]].append(instruction)
        for body in [body for body, loops in self._loops.items() if callers[body] > len(loops)]:
            del self._loops[body]  # something else calls it, too

    def is_excluded(self, array: Instruction) -> bool:
        """True where no element of `array` is -0.0, however it is computed; integers have none."""
        return _Question(self._loops).holds(array)


class _Question:
    def __init__(self, loops: dict[Computation, list[Instruction]]):
        self._loops = loops
        self._asked = 0
        self._assumed: set[tuple[Computation, int]] = set()
        """State elements of loops that have none as long as no iteration makes one: what is to be shown."""
        self._refuted: set[tuple[Computation, int]] = set()

    def holds(self, x: Instruction) -> bool:
        """Whether `x` has no -0.0, by what is assumed."""
        self._asked += 1
        if self._asked > _MOST:
            return False
        if not x.shape.is_tuple and not x.shape.dtype.is_float:
            return not x.shape.dtype.is_complex
        if x.opcode == "constant":
            value = splat(x)
            return value is not None and not (value == 0 and math.copysign(1, float(value)) < 0)
        if x.opcode == "add":  # the sum of two numbers is -0.0 only if both are
            return any(map(self.holds, x.operands))
        if x.opcode in _OF_OPERANDS:
            return all(self.holds(o) for o in x.operands if o.shape.dtype is x.shape.dtype)
        if x.opcode == "get-tuple-element":
            return self._element(x.operands[0], x["index"])
        return x.opcode == "abs"

    def _element(self, whole: Instruction, index: int) -> bool:
        if whole.opcode == "while":
            return self._state(whole["body"], index)
        if whole.opcode == "parameter" and whole.parent is not None:
            return self._state(whole.parent, index)
        return whole.opcode == "tuple" and self.holds(whole.operands[index])

    def _state(self, body: Computation, index: int) -> bool:
        """Whether an element of the state of loops with this body begins without, and no iteration makes one."""
        element = (body, index)
        if element in self._assumed or element in self._refuted:
            return element in self._assumed
        before = self._assumed
        self._assumed = before | {element}
        states = (*(loop.operands[0] for loop in self._loops.get(body, ())), body.root)
        if len(states) > 1 and all(self._element(state, index) for state in states):
            return True
        self._assumed = before  # what was shown by this element is not shown
        self._refuted.add(element)
        return False
