"""Functions that LLVM calls where the processor has no instruction, and that the process may not have.

They are conversions from and to f16, named as in compiler-rt and libgcc: `__truncdfhf2` from f64, and where
there is no F16C (x86-64-v2), `__truncsfhf2` from f32 and `__extendhfsf2` to it. All round to nearest, ties to even.
"""

from __future__ import annotations

from llvmlite import ir

from xloom.llvm.scalar.conversion import to_odd
from xloom.llvm.types import DOUBLE, FLOAT, HALF, I16, I32

SYMBOLS = ("__truncdfhf2", "__truncsfhf2", "__extendhfsf2")
_INFINITY, _HALF_INFINITY = 0x7F800000, 0x7C00
_LEAST_OVERFLOW = 0x477FF000
"""f32's bits of 65520, which is nearer to 65536 than to the greatest f16."""
_LEAST_NORMAL = 0x38800000
"""f32's bits of 2^-14."""
_HALF = 0x3F000000
"""f32's bits of 0.5, whose last place is the least f16."""


def support_ir() -> str:
    """LLVM IR of them all."""
    module = ir.Module()
    b, (x,) = _begun(module, "__truncdfhf2", DOUBLE, HALF)
    # to odd first: then the second rounding is the only one
    b.ret(b.bitcast(_rounded(b, to_odd(b, x)), HALF))
    b, (x,) = _begun(module, "__truncsfhf2", FLOAT, HALF)
    b.ret(b.bitcast(_rounded(b, x), HALF))
    b, (x,) = _begun(module, "__extendhfsf2", HALF, FLOAT)
    b.ret(_extended(b, b.bitcast(x, I16)))
    return str(module)


def _begun(
    module: ir.Module, name: str, parameter: ir.Type, result: ir.Type
) -> tuple[ir.IRBuilder, tuple[ir.Value, ...]]:
    function = ir.Function(module, ir.FunctionType(result, [parameter]), name)
    return ir.IRBuilder(function.append_basic_block()), function.args


def _rounded(b: ir.IRBuilder, x: ir.Value) -> ir.Value:
    """The bits of the f16 (i16) that is nearest to an f32."""
    bits = b.bitcast(x, I32)
    sign = b.and_(b.lshr(bits, I32(16)), I32(0x8000))
    size = b.and_(bits, I32(0x7FFFFFFF))
    even = b.and_(b.lshr(size, I32(13)), I32(1))
    normal = b.lshr(b.add(b.sub(size, I32(112 << 23)), b.add(even, I32(0xFFF))), I32(13))
    # a sum with 0.5 has no more digits than a subnormal f16
    small = b.sub(b.bitcast(b.fadd(b.bitcast(size, FLOAT), FLOAT(0.5)), I32), I32(_HALF))
    nan = b.or_(I32(_HALF_INFINITY | 0x200), b.and_(b.lshr(size, I32(13)), I32(0x3FF)))
    found = b.select(b.icmp_unsigned("<", size, I32(_LEAST_NORMAL)), small, normal)
    found = b.select(b.icmp_unsigned(">=", size, I32(_LEAST_OVERFLOW)), I32(_HALF_INFINITY), found)
    found = b.select(b.icmp_unsigned(">", size, I32(_INFINITY)), nan, found)
    return b.trunc(b.or_(found, sign), I16)


def _extended(b: ir.IRBuilder, x: ir.Value) -> ir.Value:
    """The f32 of an f16's bits (i16)."""
    bits = b.zext(x, I32)
    size = b.and_(bits, I32(0x7FFF))
    # the same digits with f32's bias; of subnormal numbers the product makes normal ones
    number = b.bitcast(b.fmul(b.bitcast(b.shl(size, I32(13)), FLOAT), FLOAT(2.0**112)), I32)
    special = b.or_(b.shl(size, I32(13)), I32(_INFINITY))
    number = b.select(b.icmp_unsigned(">=", size, I32(_HALF_INFINITY)), special, number)
    sign = b.shl(b.and_(bits, I32(0x8000)), I32(16))
    return b.bitcast(b.or_(number, sign), FLOAT)
