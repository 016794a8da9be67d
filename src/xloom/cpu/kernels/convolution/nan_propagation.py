"""A function that makes outputs NaN whose zeros meet what is not finite in the kernel.

It serves windows of any numbers, and is made once for all convolutions of its types. Little of it runs unless there is
something that is not finite.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from math import inf, nan

import numpy as np
from llvmlite import ir

from xloom.cpu.kernels.convolution.nan_propagation_text import FUNCTIONS, HEADER, LOOKS, expanded
from xloom.hlo.dtype import DType
from xloom.llvm.target import Target
from xloom.llvm.types import I64, POINTER, VOID

ROUTINE = ir.FunctionType(VOID, [POINTER, POINTER, POINTER, I64, I64])
"""`f(ptr numbers, ptr w, ptr y, i64 begin, i64 end)`: features [begin, end)."""
NUMBERS = (
    "features", "inputs", "images", "w_base", "w_feature", "w_input", "y_feature", "y_image", "rank", "taps", "rows",
    "lines", "seen",
)  # fmt: skip
"""What is passed (i64): how many there are, and how many words apart they lie in kernel and output.

A word is an element, or half of a complex one. `taps` are the places of the window. The kernel is `rows` in each of
which a feature has `w_feature` adjacent words. Outputs that are adjacent in the last dimension are one of `lines`. Some
outputs, if any are `seen`, meet all places of the window in elements between them: they tell whether the kernel is
finite.
"""
PLACE_NUMBERS = (
    "size", "w_step", "y_step", "stride", "spread", "before", "extent", "dilation", "outputs", "seen_first",
    "seen_count",
)  # fmt: skip
"""And then of each spatial dimension, the last one first."""


@dataclass(frozen=True)
class Spoiling:
    """What the function knows: types."""

    w: DType
    y: DType

    @property
    def symbol(self) -> str:
        """The symbol of the function, one for each pair of types."""
        return f"xloom.convolution.zeros.{self.w.name}.{self.y.name}"

    def text(self, target: Target) -> str:
        """A module that has it."""
        return _text(self, target)


@lru_cache(maxsize=32)
def _text(key: Spoiling, target: Target) -> str:
    w, y = key.w.real, key.y.real
    looked_at = y if y.name in ("f16", "bf16", "f32", "f64") else w  # others never are: no sum is stored in them
    parts = 2 if key.w.is_complex else 1
    names = {
        "NAME": key.symbol,
        "PARTS": str(parts),
        "LAST": str(parts - 1),
        "NAN": str(_bits(y, nan)),
        "W": f"i{w.bytes * 8}",
        "Y": f"i{y.bytes * 8}",
        "WLANES": str(_lanes(w, target)),
        "YLANES": str(_lanes(looked_at, target)),
        "w": w.name,
        "y": looked_at.name,
        "DIM": f"[{len(PLACE_NUMBERS)} x i64]",
        "DIMS": str(len(NUMBERS)),
        **{name: str(k) for table in (NUMBERS, PLACE_NUMBERS) for k, name in enumerate(table)},
    }
    looks = [expanded(LOOKS, {**names, **_type_names(dtype, target)}) for dtype in dict.fromkeys((w, looked_at))]
    return HEADER + "".join(looks) + _NUMBER.sub(_LOADED, expanded(FUNCTIONS, names))


_NUMBER = re.compile(r"(%[\w.]+) = number (\d+) of (%\w+)")
_LOADED = r"""\1.at = getelementptr i64, ptr \3, i64 \2
  \1 = load i64, ptr \1.at"""


def _lanes(dtype: DType, target: Target) -> int:
    return target.registers.nbytes // dtype.bytes


def _bits(dtype: DType, value: float) -> int:
    return int(np.full(1, value, dtype.numpy).view(f"u{dtype.bytes}")[0])


def is_always_finite(dtype: DType) -> bool:
    """True for the real types that have neither infinities nor NaN."""
    return dtype.bits < 8


def _not_finite(dtype: DType) -> tuple[int, int, int]:
    """Of bits that are not finite, those that are kept when some are flipped are no less than a number: these three."""
    ones = (1 << dtype.bits) - 1
    sign = 1 << (dtype.bits - 1)
    if dtype.name.endswith("fnuz"):  # NaN is where -0 would be
        return ones ^ sign, ones, ones
    if dtype.name == "f8e8m0fnu":  # there is no sign
        return 0, ones, ones
    return 0, ones ^ sign, _bits(dtype, inf)


def _type_names(dtype: DType, target: Target) -> dict[str, str]:
    bits, lanes = dtype.bytes * 8, _lanes(dtype, target)
    flipped, kept, least = _not_finite(dtype)
    return {
        "t": dtype.name,
        "T": f"i{bits}",
        "A": str(dtype.bytes),
        "V": f"<{lanes} x i{bits}>",
        "v": f"v{lanes}i{bits}",
        "LANES": str(lanes),
        "FLIPPED": str(flipped),
        "KEPT": str(kept),
        "LEAST": str(least),
    }
