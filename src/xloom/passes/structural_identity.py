"""Structural identity: which instructions, and which computations, compute the same from the same operands."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

from xloom.hlo.call_graph import callees_first
from xloom.hlo.computation import Computation
from xloom.hlo.instruction import Instruction
from xloom.hlo.literal import Literal

_NOT_MEANING = frozenset({"origin", "statistics"})


class StructuralIdentity:
    """Numbers computations so that equal numbers mean the same structure, whatever the names."""

    def __init__(self) -> None:
        self._numbers: dict[Hashable, int] = {}
        self._computations: dict[Computation, int] = {}

    def key(self, instruction: Instruction, operands: tuple[int, ...]) -> Hashable:
        """Equal for instructions that give the same value, where `operands` numbers what they work on.

        Opcode, shape with layout, attributes, called computations, sharding, backend config and frontend attributes
        must agree; names and metadata need not. Operands of commutative operators may be swapped.
        """
        if instruction.op.commutes and not _order_shows(instruction):
            operands = tuple(sorted(operands))
        return (
            instruction.opcode,
            instruction.shape,
            operands,
            tuple(
                (name, self._value(value))
                for name, value in sorted(instruction.attrs.items(), key=lambda item: item[0])
                if name not in _NOT_MEANING
            ),
            self._value(instruction.sharding),
            instruction.backend_config,
            tuple(sorted(instruction.frontend_attributes.items())),
        )

    def number(self, computation: Computation) -> int:
        """The same for two computations just if they have the same structure."""
        for callee in callees_first([computation], self._computations):
            self._computations[callee] = self._number(callee)
        return self._computations[computation]

    def _number(self, computation: Computation) -> int:
        place: dict[Instruction, int] = {}
        rows: list[Hashable] = []
        for instruction in computation.post_order():
            before = tuple(place[p] for p in instruction.control_predecessors)
            rows.append((self.key(instruction, tuple(place[o] for o in instruction.operands)), before))
            place[instruction] = len(place)
        key = (tuple(rows), place[computation.root], computation.execution_thread)
        return self._numbers.setdefault(key, len(self._numbers))

    def _value(self, value: Any) -> Hashable:
        if isinstance(value, Computation):
            return ("computation", self.number(value))
        if isinstance(value, Literal):
            return _literal_key(value)
        if isinstance(value, tuple) and type(value) is tuple:
            return tuple(self._value(v) for v in value)
        if isinstance(value, float):
            return value.hex()  # tells -0.0 from 0.0, and NaN equals itself
        try:
            hash(value)
        except TypeError:
            return repr(value)
        return value


def _order_shows(instruction: Instruction) -> bool:
    # max(0.0, -0.0) is the first of the two
    return instruction.opcode in ("maximum", "minimum") and instruction.shape.dtype.is_float


def _literal_key(literal: Literal) -> Hashable:
    if literal.elided:
        return ("elided", id(literal))
    if literal.shape.is_tuple:
        return (literal.shape, tuple(_literal_key(e) for e in literal.elements))
    return (literal.shape, None if literal.array is None else literal.array.tobytes())
