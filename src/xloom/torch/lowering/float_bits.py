"""What is read off the bits of floats: their signs, their neighbours, and the parts that they are stored as."""

from __future__ import annotations

from xloom.hlo import dtype as dt
from xloom.hlo.instruction import Instruction
from xloom.torch.lowering.graph import Graph, Value
from xloom.torch.lowering.promotion import float_type
from xloom.torch.lowering.registry import lowers


def with_sign(g: Graph, x: Instruction, y: Instruction) -> Instruction:
    """|x| with the sign of y, -0 and NaN included."""
    size = g.abs(x)
    return g.select(_is_negative(g, y), g.negate(size), size)


def _is_negative(g: Graph, x: Instruction) -> Instruction:
    """Whether the sign bit is set."""
    dtype = x.shape.dtype
    if dtype.is_float:
        x = g.bitcast_convert(x, shape=_signed(dtype)[x.shape.dims] if x.shape.dims else _signed(dtype)[()])
    return g.compare(x, g.full_like(x, 0), direction="LT")


def _signed(dtype: dt.DType) -> dt.DType:
    return {16: dt.s16, 32: dt.s32, 64: dt.s64}[dtype.bits]


@lowers("aten.copysign.Tensor", "aten.copysign.Scalar")
def copysign(g: Graph, x: Value, y: Value):
    """|x| with the sign of y."""
    return with_sign(g, *g.broadcast_operands(x, y, dtype=float_type(x, y)))


@lowers("aten.signbit.default")
def signbit(g: Graph, x):
    """Whether the sign bit is set."""
    if x.shape.dtype is dt.pred:
        return g.full_like(x, False)
    return _is_negative(g, x)


@lowers("aten.nextafter.default")
def nextafter(g: Graph, x: Value, y: Value):
    """The next float from x towards y."""
    x, y = g.broadcast_operands(x, y)
    dtype = x.shape.dtype
    bits = x.shape.with_dtype(_signed(dtype))
    step = g.select(
        g.compare(g.compare(y, x, direction="GT"), g.compare(x, g.full_like(x, 0), direction="GT"), direction="EQ"),
        g.full(x.shape.dims, 1, bits.dtype),
        g.full(x.shape.dims, -1, bits.dtype),
    )
    moved = g.bitcast_convert(g.add(g.bitcast_convert(x, shape=bits), step), shape=x.shape)
    least = g.bitcast_convert(g.full(x.shape.dims, 1, bits.dtype), shape=x.shape)
    least = g.select(g.compare(y, x, direction="LT"), g.negate(least), least)
    moved = g.select(g.compare(x, g.full_like(x, 0), direction="EQ"), least, moved)
    moved = g.select(g.compare(x, y, direction="EQ"), y, moved)
    nan = g.or_(g.compare(x, x, direction="NE"), g.compare(y, y, direction="NE"))
    return g.select(nan, g.add(x, y), moved)


@lowers("aten.frexp.Tensor")
def frexp(g: Graph, x):
    """A significand in [0.5, 1) and a power of two."""
    dtype = x.shape.dtype
    wide = g.cast(x, dt.f64)
    bits = g.bitcast_convert(wide, shape=wide.shape.with_dtype(dt.s64))
    field = g.and_(g.shift_right_logical(bits, g.full_like(bits, 52)), g.full_like(bits, 0x7FF))
    rest = g.or_(g.and_(bits, g.full_like(bits, -0x7FF0000000000001)), g.full_like(bits, 0x3FE0000000000000))
    significand = g.bitcast_convert(rest, shape=wide.shape)
    plain = g.and_(g.is_finite(wide), g.compare(wide, g.full_like(wide, 0), direction="NE"))
    exponent = g.select(plain, g.subtract(field, g.full_like(field, 1022)), g.full_like(field, 0))
    return [g.cast(g.select(plain, significand, wide), dtype), g.cast(exponent, dt.s32)]
