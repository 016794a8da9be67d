"""Division, remainders and common divisors."""

from __future__ import annotations

from xloom.hlo import dtype as dt
from xloom.hlo.instruction import Instruction
from xloom.torch.lowering.elementwise import combined, in_wide, toward_zero
from xloom.torch.lowering.float_bits import with_sign
from xloom.torch.lowering.graph import Graph, Value
from xloom.torch.lowering.loops import while_any
from xloom.torch.lowering.promotion import float_type, result_type
from xloom.torch.lowering.registry import lowers


@lowers("aten.div.Tensor", "aten.div.Scalar", "aten.true_divide.Tensor")
def div(g: Graph, x: Value, y: Value):
    """x / y, never in integers."""
    return combined(g, "divide", x, y, float_type(x, y))


@lowers("aten.div.Tensor_mode", "aten.div.Scalar_mode")
def div_mode(g: Graph, x: Value, y: Value, rounding_mode: str | None):
    """x / y, rounded towards zero or down."""
    if rounding_mode is None:
        return div(g, x, y)
    return floor_divide(g, x, y) if rounding_mode == "floor" else _truncated(g, x, y)


def _truncated(g: Graph, x: Value, y: Value) -> Instruction:
    dtype = result_type(x, y)
    if not dtype.is_float:
        return g.divide(*g.broadcast_operands(x, y))
    return in_wide(g, dtype, lambda a, b: toward_zero(g, g.divide(a, b)), x, y)


@lowers("aten.floor_divide.default", "aten.floor_divide.Scalar")
def floor_divide(g: Graph, x: Value, y: Value):
    """The quotient rounded down; of floats as Python does it, from the remainder."""
    dtype = result_type(x, y)
    if dtype.is_float:
        return in_wide(g, dtype, lambda a, b: _floor_quotient(g, a, b), x, y)
    a, b = g.broadcast_operands(x, y)
    quotient = g.divide(a, b)
    if dtype.kind is not dt.Kind.SIGNED:
        return quotient
    return g.select(_signs_differ(g, g.remainder(a, b), b), g.subtract(quotient, g.full_like(quotient, 1)), quotient)


def _floor_quotient(g: Graph, a: Instruction, b: Instruction) -> Instruction:
    zero, one = g.full_like(a, 0), g.full_like(a, 1)
    rest = g.remainder(a, b)
    exact = g.divide(g.subtract(a, rest), b)
    exact = g.select(_signs_differ(g, rest, b), g.subtract(exact, one), exact)
    down = g.floor(exact)
    down = g.select(g.compare(g.subtract(exact, down), g.full_like(a, 0.5), direction="GT"), g.add(down, one), down)
    plain = g.divide(a, b)
    down = g.select(g.compare(exact, zero, direction="EQ"), with_sign(g, zero, plain), down)
    return g.select(g.compare(b, zero, direction="EQ"), plain, down)


def _signs_differ(g: Graph, rest: Instruction, b: Instruction) -> Instruction:
    zero = g.full_like(b, 0)
    differ = g.compare(g.compare(rest, zero, direction="LT"), g.compare(b, zero, direction="LT"), direction="NE")
    return g.and_(g.compare(rest, zero, direction="NE"), differ)


@lowers("aten.remainder.Tensor", "aten.remainder.Scalar", "aten.remainder.Scalar_Tensor")
def remainder(g: Graph, x: Value, y: Value):
    """The remainder that has the divisor's sign."""

    def compute(a: Instruction, b: Instruction) -> Instruction:
        rest = g.remainder(a, b)
        return g.select(_signs_differ(g, rest, b), g.add(rest, b), rest)

    return in_wide(g, result_type(x, y), compute, x, y)


@lowers("aten.fmod.Tensor", "aten.fmod.Scalar")
def fmod(g: Graph, x: Value, y: Value):
    """The remainder that has the dividend's sign."""
    return g.remainder(*g.broadcast_operands(x, y))


@lowers("aten.gcd.default")
def gcd(g: Graph, x: Value, y: Value):
    """The greatest common divisor, by Euclid."""
    x, y = g.broadcast_operands(x, y)
    return greatest_divisor(g, g.abs(x), g.abs(y))


def greatest_divisor(g: Graph, x: Instruction, y: Instruction) -> Instruction:
    """gcd of numbers that are not negative."""

    def left(h: Graph, pair: list[Instruction]) -> Instruction:
        return h.compare(pair[1], h.full_like(pair[1], 0), direction="NE")

    def divide(h: Graph, pair: list[Instruction]) -> list[Instruction]:
        a, b = pair
        done = h.compare(b, h.full_like(b, 0), direction="EQ")
        rest = h.remainder(a, h.select(done, h.full_like(b, 1), b))
        return [h.select(done, a, b), h.select(done, b, rest)]

    return while_any(g, left, divide, [x, y])[0]


@lowers("aten.lcm.default")
def lcm(g: Graph, x: Value, y: Value):
    """The least common multiple."""
    x, y = g.broadcast_operands(x, y)
    divisor = greatest_divisor(g, g.abs(x), g.abs(y))
    zero = g.compare(divisor, g.full_like(divisor, 0), direction="EQ")
    return g.abs(g.multiply(g.divide(x, g.select(zero, g.full_like(divisor, 1), divisor)), y))
