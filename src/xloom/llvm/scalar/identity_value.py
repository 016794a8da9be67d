"""What an operator leaves as it is."""

from __future__ import annotations

import math

import numpy as np

from xloom.hlo.dtype import DType, Kind


def identity_value(opcode: str, dtype: DType) -> float | int | None:
    """The number that changes no other operand; None of operators that have none."""
    if dtype.is_float or dtype.is_complex:
        numbers = {"add": -0.0, "multiply": 1.0}
        if dtype.is_float:
            numbers |= {"maximum": -math.inf, "minimum": math.inf}
        return numbers.get(opcode)
    if dtype.kind is Kind.PRED:
        return {"and": 1, "or": 0, "xor": 0, "maximum": 0, "minimum": 1, "multiply": 1, "add": 0}.get(opcode)
    if dtype.bits < 8:
        return None
    info = np.iinfo(dtype.numpy)
    numbers = {"add": 0, "multiply": 1, "maximum": info.min, "minimum": info.max, "and": -1, "or": 0, "xor": 0}
    return numbers.get(opcode)
