"""Predicates that rewrite rules ask of an instruction: is it a constant, do all its elements equal a value?"""

from __future__ import annotations

from typing import Any

import numpy as np

from xloom.hlo.dtype import DType, Kind
from xloom.hlo.instruction import Instruction
from xloom.hlo.opcodes import OPCODES

ELEMENTWISE = frozenset(n for n, row in OPCODES.items() if row.elementwise and n not in ("copy", "stochastic-convert"))
"""Opcodes of operators that do the same to any element."""


def is_constant(instruction: Instruction) -> bool:
    """True for a constant whose value is known, and a broadcast of one."""
    if instruction.opcode == "broadcast":
        instruction = instruction.operands[0]
    return instruction.opcode == "constant" and not instruction.literal.elided


def splat(instruction: Instruction) -> Any:
    """The one value (a NumPy scalar) that all elements have bit for bit; None if unknown, or if there are none."""
    while instruction.opcode in ("broadcast", "reshape"):
        if not instruction.shape.size:
            return None
        instruction = instruction.operands[0]
    if instruction.opcode != "constant":
        return None
    array = instruction.literal.array
    if array is None or not array.size:
        return None
    if array.size == 1:
        return array.reshape(())[()]
    bits = np.ascontiguousarray(array).reshape(-1)
    if bits.dtype.kind not in "biu":
        bits = bits.view(f"V{bits.dtype.itemsize}").view((np.uint8, (bits.dtype.itemsize,)))
    if (bits[0] != bits[-1]).any() or (bits != bits[0]).any():
        return None
    return array.reshape(-1)[0]


def is_splat(instruction: Instruction, value: float) -> bool:
    """True when every element of an integer, pred or real array is `value`; -0.0 and 0.0 differ."""
    found = splat(instruction)
    if found is None or instruction.shape.dtype.is_complex:
        return False
    if instruction.shape.dtype.is_float:
        as_float = float(found)
        return as_float == value and bool(np.signbit(as_float)) == bool(np.signbit(float(value)))
    return int(found) == value


def exponent_of_two(instruction: Instruction) -> int | None:
    """k, where every element of an integer array is 2**k and k > 0; else None."""
    found = splat(instruction) if instruction.shape.dtype.is_integer else None
    n = 0 if found is None else int(found)
    return None if n <= 1 or n & (n - 1) else n.bit_length() - 1


def is_zero(instruction: Instruction) -> bool:
    """True for integers, all 0, and preds, all false. Never for floats, which have two zeros."""
    return not instruction.shape.dtype.is_float and is_splat(instruction, 0)


def is_all_ones(instruction: Instruction) -> bool:
    """True for integers with all bits set, and preds, all true."""
    dtype = instruction.shape.dtype
    if not is_logical(dtype):
        return False
    found = splat(instruction)
    mask = 1 if dtype.kind is Kind.PRED else (1 << dtype.bits) - 1
    return found is not None and int(found) & mask == mask


def is_elementwise(x: Instruction) -> bool:
    """True of an operator on elements that does the same to any of them, and waits for nothing else."""
    return x.opcode in ELEMENTWISE and not x.control_predecessors


def is_logical(dtype: DType) -> bool:
    """True for types made of bits: integers and pred."""
    return dtype.is_integer or dtype.kind is Kind.PRED


def lowest(dtype: DType) -> Any:
    """The value that is not above any other (NaN aside): -inf where there is one."""
    return _limit(dtype, lowest=True)


def highest(dtype: DType) -> Any:
    """The value that is not below any other (NaN aside): inf where there is one."""
    return _limit(dtype, lowest=False)


def _limit(dtype: DType, lowest: bool) -> Any:
    if dtype.kind is Kind.PRED:
        return 0 if lowest else 1
    if dtype.kind is Kind.SIGNED:
        return -(1 << (dtype.bits - 1)) if lowest else (1 << (dtype.bits - 1)) - 1
    if dtype.kind is Kind.UNSIGNED:
        return 0 if lowest else (1 << dtype.bits) - 1
    return -np.inf if lowest else np.inf
