"""A power of two that brings numbers near to one, so that their squares neither overflow nor vanish."""

from __future__ import annotations

from llvmlite import ir

from xloom.llvm.intrinsics import intrinsic
from xloom.llvm.types import I32, I64

_FORMATS = {"float": (I32, 23, 127), "double": (I64, 52, 1023)}
"""Of a type the integer of its width, the bits of its fraction, and the exponent of one."""


def scaling(b: ir.IRBuilder, size: ir.Value) -> tuple[ir.Value, ir.Value]:
    """What makes `size`, a number that is not negative, one or some less than four, without rounding; its inverse.

    Both are normal numbers: what is too small for one becomes as great as that allows.
    """
    kind, fraction, one = _FORMATS[str(size.type)]
    exponent = b.lshr(b.bitcast(size, kind), kind(fraction))
    exponent = intrinsic(b, "umin", intrinsic(b, "umax", exponent, kind(1)), kind(2 * one - 1))
    scale, back = (b.shl(x, kind(fraction)) for x in (b.sub(kind(2 * one), exponent), exponent))
    return b.bitcast(scale, size.type), b.bitcast(back, size.type)
