"""What the rule of an elementwise opcode is told: itself, and the types of what it gets.

Of its operands it knows nothing else. Kernels that only read other arrays share their code, so what a rule may make of
where an operand comes from is decided here, by the name of another operator: the kernel's key sees that.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from xloom.errors import LoweringError
from xloom.hlo.dtype import DType
from xloom.hlo.instruction import Instruction
from xloom.hlo.opcodes import OPCODES

LOG_OF_FRACTION = "log-plus-one-of-fraction"
"""log(1 + x) of an x in [0, 1]."""


@dataclass(frozen=True, eq=False)
class Operator:
    """An elementwise instruction, or one that does the same to such operands; `operator["direction"]` reads of it."""

    name: str
    opcode: str
    dtype: DType
    """Of the result."""
    operand_types: tuple[DType, ...]
    is_scalar: bool
    """There is one element, rather than a loop over many."""
    attrs: Mapping[str, Any]

    def __getitem__(self, name: str) -> Any:
        return self.attrs[name] if name in self.attrs else OPCODES[self.opcode].attributes[name].info.default


def operator_of(instruction: Instruction) -> Operator:
    """The operator that an instruction is, where it is."""
    shape, opcode = instruction.shape, instruction.opcode
    name = LOG_OF_FRACTION if opcode == "log-plus-one" and _is_fraction(instruction._operands[0]) else opcode
    if opcode == "reduce-precision" and shape.dtype.is_complex:
        raise LoweringError("reduce-precision of complex numbers", where=instruction.name)
    types = tuple([o.shape.dtype for o in instruction._operands])
    return Operator(name, opcode, shape.dtype, types, shape.is_scalar, instruction.attrs)


def _is_fraction(operand: Instruction) -> bool:
    """True of exp(-|x|), as in sums of numbers that are kept as their logarithms, and in softplus."""
    for opcode in ("exponential", "negate", "abs"):
        if operand.opcode != opcode:
            return False
        (operand,) = operand._operands
    return True
