"""What the rule of a scalar operator is told: its opcode, its attributes, and the types of what it takes and gives.

Of its operands it knows nothing else: an operator is a value, and equal ones have the same code.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from xloom.errors import LoweringError
from xloom.hlo.dtype import DType
from xloom.hlo.instruction import Instruction
from xloom.hlo.opcodes import OPCODES


@dataclass(frozen=True)
class Operator:
    """An elementwise opcode of HLO, or one of the loop IR's own, on scalars; `operator["direction"]` reads of it."""

    opcode: str
    dtype: DType
    """Of the result."""
    operand_types: tuple[DType, ...]
    attributes: tuple[tuple[str, Any], ...] = ()
    """Names and values, in the order of names."""
    is_scalar: bool = False
    """There is one element, rather than a loop over many."""

    def __getitem__(self, name: str) -> Any:
        for key, value in self.attributes:
            if key == name:
                return value
        return OPCODES[self.opcode].attributes[name].info.default


def operator_of(instruction: Instruction) -> Operator:
    """The operator that an elementwise instruction applies to each element."""
    shape, opcode = instruction.shape, instruction.opcode
    if opcode == "reduce-precision" and shape.dtype.is_complex:
        raise LoweringError("reduce-precision of complex numbers", where=instruction.name)
    types = tuple([o.shape.dtype for o in instruction._operands])
    attributes = (
        tuple(sorted((k, v) for k, v in instruction.attrs.items() if k not in _IGNORED)) if instruction.attrs else ()
    )
    return Operator(opcode, shape.dtype, types, attributes, shape.is_scalar)


_IGNORED = frozenset({"result_accuracy"})
"""What no rule goes by: all are as exact as the best that may be asked for."""
