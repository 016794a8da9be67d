"""The first instruction of a program that does what is checked for: slow, and exact about which elements."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Sequence
from typing import Any

import numpy as np

from xloom.errors import CheckError
from xloom.hlo.computation import Computation
from xloom.hlo.index_operands import Indices, index_arithmetic, index_operands
from xloom.hlo.instruction import Instruction
from xloom.hlo.module import Module
from xloom.hlo.non_finite import is_inexact, made_by
from xloom.hlo.stack_frames import place
from xloom.interpreter.evaluator import Evaluator
from xloom.interpreter.made_elements import Element, made_elements, makers
from xloom.interpreter.nested_values import leaves
from xloom.interpreter.registry import RULES, Value
from xloom.interpreter.values import from_argument
from xloom.trampoline import Nested

_SPOKEN = {"nan": "NaN", "inf": "an infinity"}
_LACKED = {"nan": "operands that have none", "inf": "finite operands"}


def evaluate_checked(
    module: Module, *arguments: Any, checks: Collection[str], infeed: Iterable[Value] = (), seed: int = 0
) -> Value:
    """As `evaluate`. Raises CheckError at the first instruction that does what `checks`, of `VALUE_CHECKS`, name.

    The order is that in which the module lists its instructions. What a region does that reduces, scatters or maps is
    done by the instruction that calls it.
    """
    values = [from_argument(a, p.shape, p.name) for a, p in zip(arguments, module.entry.parameters, strict=True)]
    evaluator = _Checked(module, frozenset(checks), seed)
    evaluator.infeed = deque(infeed)
    return evaluator.call(module.entry, values)


class _Checked(Evaluator):
    def __init__(self, module: Module, checks: frozenset[str], seed: int):
        super().__init__(module, seed=seed, rules={**RULES, "while": self._while})
        self._checks = checks
        self._iterations: list[tuple[Instruction, int]] = []
        """The loops that are under way, outermost first."""
        self._arithmetic: set[Instruction] = set()
        self._steps: set[Computation] = set()
        """Computations of whose instructions each is a step of the program."""
        waiting = [module.entry]
        while waiting:
            computation = waiting.pop()
            if computation in self._steps:
                continue
            self._steps.add(computation)
            self._orders[computation] = _as_listed(computation)
            if "overflow" in checks:
                self._arithmetic |= index_arithmetic(computation)
            for instruction in computation:
                if instruction.opcode in ("call", "fusion", "while", "conditional", "async-start"):
                    waiting += instruction.called_computations

    def apply(self, instruction: Instruction, operands: Sequence[Value]) -> Value:
        """See Evaluator."""
        if instruction.parent not in self._steps:
            return super().apply(instruction, operands)
        if "oob" in self._checks:
            for use in index_operands(instruction):
                self._check_range(instruction, use, operands[use.number])
        value = super().apply(instruction, operands)
        for kind in sorted(made_by(instruction) & self._checks, reverse=True):  # a NaN says more
            for (index, shape), leaf in zip(instruction.shape.leaves(), leaves(value), strict=True):
                if is_inexact(shape):
                    self._check_made(instruction, operands, np.asarray(leaf), kind, index)
        if instruction in self._arithmetic:
            self._check_overflow(instruction, operands, np.asarray(value))
        return value

    def _while(self, instruction: Instruction, operands: Sequence[Value], evaluator: Evaluator) -> Nested[Value]:
        (state,) = operands
        count = 0
        self._iterations.append((instruction, count))
        while bool((yield evaluator.nested(instruction["condition"], [state]))):
            state = yield evaluator.nested(instruction["body"], [state])
            count += 1
            self._iterations[-1] = (instruction, count)
        self._iterations.pop()
        return state

    def _check_made(
        self, instruction: Instruction, operands: Sequence[Value], value: np.ndarray, kind: str, leaf: tuple[int, ...]
    ) -> None:
        made = made_elements(instruction, operands, value, kind, self)
        if made.any():
            index = _first(made)
            part = "".join(f" of result {k}" for k in leaf)
            found = [_spelled(instruction, each) for each in makers(instruction, operands, index)]
            self._fail(
                kind,
                instruction,
                index,
                f"makes {_SPOKEN[kind]} of {_LACKED[kind]}: element {list(index)}{part}{_more(made)}",
                found,
            )

    def _check_range(self, instruction: Instruction, use: Indices, indices: np.ndarray) -> None:
        wide = np.asarray(indices).astype(object)
        limits = np.array(use.limits, object)
        if use.axis is not None:
            limits = limits.reshape([-1 if d == use.axis else 1 for d in range(wide.ndim)])
        elif wide.ndim:
            limits = limits[0]
        out = np.asarray((wide < 0) | (wide > limits), bool)
        out = out.reshape(wide.shape)
        if out.any():
            index = _first(out)
            limit = use.limits[index[use.axis] if use.axis is not None else 0]
            element = _spelled(instruction, Element(use.number, index, np.asarray(indices)[index]))
            text = f"has an index out of range: element {list(index)} of operand {use.number}{_more(out)}"
            self._fail("oob", instruction, index, text, [f"{element}, where 0 to {limit} are in range"])

    def _check_overflow(self, instruction: Instruction, operands: Sequence[Value], value: np.ndarray) -> None:
        a, b = (np.asarray(o).astype(object) for o in operands)
        exact = {"add": np.add, "subtract": np.subtract, "multiply": np.multiply}[instruction.opcode](a, b)
        wrong = np.asarray(exact != value.astype(object), bool).reshape(value.shape)
        if wrong.any():
            index = _first(wrong)
            found = [_spelled(instruction, each) for each in makers(instruction, operands, index)]
            text = f"overflows {instruction.shape.dtype} on the way to an index: element {list(index)}{_more(wrong)}"
            self._fail("overflow", instruction, index, text, found)

    def _fail(
        self, check: str, instruction: Instruction, index: tuple[int, ...], text: str, elements: Sequence[str]
    ) -> None:
        loops = [f"in iteration {n}, from 0, of %{loop.name}" for loop, n in reversed(self._iterations)]
        error = CheckError(
            "; ".join([f"{instruction.opcode} {text}", ", ".join(elements), *loops]), where=place(instruction)
        )
        error.check, error.instruction, error.index = check, instruction.name, index
        raise error


def _as_listed(computation: Computation) -> list[Instruction]:
    """The instructions in their order, if operands come first in it."""
    listed = list(computation.instructions)
    number = {instruction: k for k, instruction in enumerate(listed)}
    before = all(number[o] < k for k, i in enumerate(listed) for o in (*i.operands, *i.control_predecessors))
    return listed if before else computation.post_order()


def _first(marks: np.ndarray) -> tuple[int, ...]:
    return tuple(int(k) for k in np.unravel_index(int(np.argmax(marks)), marks.shape))


def _more(marks: np.ndarray) -> str:
    count = int(np.count_nonzero(marks))
    return f", and {count - 1} more of {marks.size}" if count > 1 else f" of {marks.size}" if marks.size > 1 else ""


def _spelled(instruction: Instruction, element: Element) -> str:
    name = instruction.operands[element.number].name
    return f"%{name}{list(element.index) if element.index else ''} = {element.value!s}"
