"""Numbers of a program that depend on one size, as formulas of it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from xloom.hlo.dtype import DType, f32, f64, s32
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
    """A scalar: an affine number, or 1 over it."""

    number: Affine
    inverse: bool

    def at(self, size: int, dtype: DType) -> np.ndarray:
        """Its value, rounded as the program's operators round."""
        value = np.asarray(self.number.at(size)).astype(_wide(dtype).numpy)
        return (np.ones_like(value) / value if self.inverse else value).astype(dtype.numpy)

    def emit(self, e: Emitter, size: Instruction, old: Instruction) -> Instruction:
        """The scalar, of the type of the constant `old`."""
        shape, wide = (array_shape(dtype, ()) for dtype in (old.shape.dtype, _wide(old.shape.dtype)))
        value = e("convert", wide, (scaled(e, size, self.number),))
        if self.inverse:
            value = e("divide", wide, (e.filled(wide, 1), value))
        return value if wide == shape else e("convert", shape, (value,))


def _wide(dtype: DType) -> DType:
    """In which a scalar of the type is computed, so that it is rounded once."""
    return f32 if dtype.is_float and dtype is not f64 else dtype


def formula(sizes: Sequence[int], literals: Sequence[Literal]) -> Formula | None:
    """What gives each of these scalars, to the last bit; None where nothing does."""
    arrays = [np.asarray(each.value) for each in literals]
    dtype = literals[0].shape.dtype
    if dtype.is_complex or not (dtype.is_float or dtype.is_integer):
        return None
    wide = [float(a) if dtype.is_float else int(a) for a in arrays]
    if not all(wide) or not all(map(math.isfinite, wide)):
        return None
    for inverse in (False, True) if dtype.is_float else (False,):
        numbers = [round(1 / w if inverse else w) for w in wide]
        number = affine(sizes, numbers)
        if number is None or not number.scale or not all(numbers) or max(map(abs, numbers)) >= 2**31:
            continue
        found = Formula(number, inverse)
        if all(np.array_equal(found.at(s, dtype), a) for s, a in zip(sizes, arrays, strict=True)):
            return found
    return None


def scaled(e: Emitter, size: Instruction, number: Affine) -> Instruction:
    """An affine number as an s32 scalar."""
    if number == Affine(1, 0):
        return size
    product = size if number.scale == 1 else e.scalar("multiply", size, number.scale)
    return product if number.offset == 0 else e.scalar("add", product, number.offset)


S32 = array_shape(s32, ())
"""Of a size."""
