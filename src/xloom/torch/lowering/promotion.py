"""The dtype of an operator's result, by torch's rules.

Tensors with dimensions decide; a tensor of rank 0, and after it a Python number, only where its category (bool,
integer, float, complex) is the higher one.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch

from xloom.hlo import dtype as dt
from xloom.hlo.dtype import DType
from xloom.hlo.instruction import Instruction
from xloom.torch.dtypes import hlo_dtype, torch_dtype
from xloom.torch.lowering.scalar import Scalar


def category(dtype: DType) -> int:
    """0 for pred, 1 for integers, 2 for floats, 3 for complex numbers."""
    return 0 if dtype is dt.pred else 1 if dtype.is_integer else 2 if dtype.is_float else 3


def default_float() -> DType:
    """What torch makes of a Python float."""
    return hlo_dtype(torch.get_default_dtype())


def complex_of(dtype: DType) -> DType:
    """The complex type whose parts are of `dtype`."""
    return dtype if dtype.is_complex else dt.c128 if dtype is dt.f64 else dt.c64


def number_dtype(value: bool | int | float | complex | Scalar) -> DType:
    """The dtype that a Python number has as an operand."""
    kind = value.kind if isinstance(value, Scalar) else type(value)
    if kind is bool:
        return dt.pred
    if issubclass(kind, int):
        return dt.s64
    return default_float() if issubclass(kind, float) else complex_of(default_float())


def promote_types(a: DType, b: DType) -> DType:
    """The dtype of two tensors of equal rank."""
    return a if a is b else hlo_dtype(torch.promote_types(torch_dtype(a), torch_dtype(b)))


def _combined(higher: DType | None, lower: DType | None) -> DType | None:
    if higher is None or lower is None:
        return higher or lower
    if higher.is_complex:
        return higher
    if higher.is_float:
        return complex_of(higher) if lower.is_complex else higher
    return promote_types(higher, lower) if higher is dt.pred or category(lower) >= 2 else higher


def result_type(*operands: Any) -> DType:
    """The dtype in which instructions and Python numbers are combined; None among them is passed over."""
    found: list[DType | None] = [None, None, None]
    for operand in operands:
        if operand is None:
            continue
        if isinstance(operand, Instruction):
            level, own = (0 if operand.shape.dims else 1), operand.shape.dtype
        else:
            level, own = 2, number_dtype(operand)
        before = found[level]
        found[level] = own if before is None else promote_types(before, own)
    result = _combined(_combined(found[0], found[1]), found[2])
    assert result is not None, "no operand decides the dtype"
    return result


def float_type(*operands: Any) -> DType:
    """The same, for operators that make floats of integers."""
    dtype = result_type(*operands)
    return dtype if category(dtype) >= 2 else default_float()


def compute_type(dtype: DType) -> DType:
    """The type in which torch computes what it stores as `dtype`: f32 for the narrow floats."""
    return dt.f32 if dtype.is_float and dtype.bits < 32 else dtype


def is_inexact(dtypes: Iterable[DType]) -> bool:
    """True when one of them is float or complex."""
    return any(category(d) >= 2 for d in dtypes)
