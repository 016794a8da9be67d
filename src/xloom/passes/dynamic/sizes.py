"""Numbers of a program that depend on one size, as formulas of it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from xloom.hlo.dtype import DType, f64, s32
from xloom.hlo.instruction import Instruction
from xloom.hlo.literal import Literal
from xloom.hlo.shape import array_shape

if TYPE_CHECKING:
    from xloom.passes.dynamic.values import Emitter


@dataclass(frozen=True)
class Affine:
    """`scale * size + offset`."""

    scale: int
    offset: int

    def at(self, size: int) -> int:
        """Its value."""
        return self.scale * size + self.offset


def affine(sizes: Sequence[int], values: Sequence[int]) -> Affine | None:
    """The formula that gives each of `values` at each of at least two different `sizes`; None if there is none."""
    scale, rest = divmod(values[1] - values[0], sizes[1] - sizes[0])
    found = Affine(scale, values[0] - scale * sizes[0])
    return found if not rest and all(found.at(s) == v for s, v in zip(sizes, values, strict=True)) else None


@dataclass(frozen=True)
class Formula:
    """A scalar: an affine number, or with a numerator `plus + numerator / number`."""

    number: Affine
    numerator: int = 0
    plus: int = 0

    def at(self, size: int, dtype: DType) -> np.ndarray:
        """Its value, rounded once."""
        value = np.asarray(self.number.at(size)).astype(_wide(dtype).numpy)
        return (self.plus + self.numerator / value if self.numerator else value).astype(dtype.numpy)

    def emit(self, e: Emitter, size: Instruction, old: Instruction) -> Instruction:
        """The scalar, of the type of the constant `old`."""
        shape, wide = (array_shape(dtype, ()) for dtype in (old.shape.dtype, _wide(old.shape.dtype)))
        value = e("convert", wide, (scaled(e, size, self.number),))
        if self.numerator:
            value = e("divide", wide, (e.filled(wide, self.numerator), value))
            value = e("add", wide, (value, e.filled(wide, self.plus)))
        return value if wide == shape else e("convert", shape, (value,))


def _wide(dtype: DType) -> DType:
    """In which a scalar of the type is computed."""
    return f64 if dtype.is_float else dtype


def formula(sizes: Sequence[int], literals: Sequence[Literal]) -> Formula | None:
    """What gives each of these scalars, to the last bit; None where nothing does."""
    dtype = literals[0].shape.dtype
    if not (dtype.is_float or dtype.is_integer):
        return None
    values = [each.value[()].item() for each in literals]
    for guess in (_itself, _one_over, _over, _one_and_over):
        found = guess(sizes, [Fraction(v) for v in values]) if all(map(math.isfinite, values)) else None
        if found is None or max(abs(found.number.at(s)) for s in sizes) >= 2**31:
            continue
        if all(np.array_equal(found.at(s, dtype), each.value) for s, each in zip(sizes, literals, strict=True)):
            return found
    return None


def _itself(sizes: Sequence[int], values: Sequence[Fraction]) -> Formula | None:
    number = affine(sizes, [round(v) for v in values])
    return None if number is None else Formula(number)


def _one_over(sizes: Sequence[int], values: Sequence[Fraction]) -> Formula | None:
    number = affine(sizes, [round(1 / v) for v in values]) if all(values) else None
    return None if number is None or not number.scale else Formula(number, 1)


def _over(sizes: Sequence[int], values: Sequence[Fraction]) -> Formula | None:
    """A numerator over a number."""
    short = [v.limit_denominator(_MOST) for v in values]
    numerator = math.lcm(*[v.numerator for v in short])
    if not 0 < numerator <= _MOST:
        return None
    number = affine(sizes, [round(numerator / v) for v in short])
    return None if number is None or not number.scale else Formula(number, numerator)


def _one_and_over(sizes: Sequence[int], values: Sequence[Fraction]) -> Formula | None:
    """n / (n - 1) = 1 + 1 / (n - 1)"""
    number = affine(sizes, [round(1 / (v - 1)) for v in values]) if 1 not in values else None
    return None if number is None or not number.scale else Formula(number, 1, 1)


_MOST = 1 << 20


def scaled(e: Emitter, size: Instruction, number: Affine) -> Instruction:
    """An affine number as an s32 scalar."""
    if number == Affine(1, 0):
        return size
    product = size if number.scale == 1 else e.scalar("multiply", size, number.scale)
    return product if number.offset == 0 else e.scalar("add", product, number.offset)


S32 = array_shape(s32, ())
"""Of a size."""
