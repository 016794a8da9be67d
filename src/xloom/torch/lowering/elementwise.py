"""Arithmetic of one and two operands."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from xloom.hlo import dtype as dt
from xloom.hlo.instruction import Instruction
from xloom.torch.lowering.graph import Graph, Number, Value, broadcast_dims
from xloom.torch.lowering.promotion import compute_type, float_type, result_type
from xloom.torch.lowering.registry import lowers

_SAME = {"neg": "negate", "bitwise_not": "not_", "positive": "copy"}
_FLOAT = {
    "acos": "acos",
    "acosh": "acosh",
    "asin": "asin",
    "asinh": "asinh",
    "atan": "atan",
    "atanh": "atanh",
    "cos": "cosine",
    "cosh": "cosh",
    "erf": "erf",
    "exp": "exponential",
    "expm1": "exponential_minus_one",
    "log": "log",
    "log1p": "log_plus_one",
    "rsqrt": "rsqrt",
    "sigmoid": "logistic",
    "sin": "sine",
    "sinh": "sinh",
    "sqrt": "sqrt",
    "tan": "tan",
    "tanh": "tanh",
}
_ROUNDING = {"ceil": "ceil", "floor": "floor", "round": "round_nearest_even"}


def _register() -> None:
    for names, make in ((_SAME, _same), (_FLOAT, _in_float), (_ROUNDING, _rounding)):
        for torch_name, method in names.items():
            lowers(f"aten.{torch_name}.default")(make(method))


def _same(method: str) -> Callable[..., Any]:
    return lambda g, x: getattr(g, method)(x)


def _in_float(method: str) -> Callable[..., Any]:
    if method == "atan":
        return lambda g, x: g.atan2(y := g.cast(x, float_type(x)), g.full_like(y, 1))
    return lambda g, x: getattr(g, method)(g.cast(x, float_type(x)))


def _rounding(method: str) -> Callable[..., Any]:
    return lambda g, x: getattr(g, method)(x) if x.shape.dtype.is_float else x


_register()


def in_wide(g: Graph, dtype: dt.DType, compute: Callable[..., Instruction], *operands: Value) -> Instruction:
    """`compute` of the operands in the type that torch computes `dtype` in, then rounded to `dtype`."""
    wide = compute_type(dtype)
    return g.cast(compute(*g.broadcast_operands(*operands, dtype=wide)), dtype)


def combined(g: Graph, opcode: str, x: Value, y: Value, dtype: dt.DType) -> Instruction:
    """One opcode of two operands; a number, or a tensor of a wider type, is not rounded to a narrow float before."""
    combine = getattr(g, opcode)
    if all(isinstance(o, Instruction) and o.shape.dtype is dtype for o in (x, y)):
        return combine(*g.broadcast_operands(x, y))
    return in_wide(g, dtype, combine, x, y)


@lowers("aten.add.Tensor", "aten.add.Scalar")
def add(g: Graph, x: Value, y: Value, alpha: Value):
    """x + alpha y."""
    return _sum(g, "add", x, y, alpha)


@lowers("aten.sub.Tensor", "aten.sub.Scalar")
def sub(g: Graph, x: Value, y: Value, alpha: Value):
    """x - alpha y."""
    return _sum(g, "subtract", x, y, alpha)


@lowers("aten.rsub.Tensor", "aten.rsub.Scalar")
def rsub(g: Graph, x: Value, y: Value, alpha: Value):
    """y - alpha x."""
    return _sum(g, "subtract", y, x, alpha)


def _sum(g: Graph, opcode: str, x: Value, y: Value, alpha: Value) -> Instruction:
    dtype = result_type(x, y)
    if not isinstance(alpha, Instruction) and isinstance(alpha, (bool, int, float, complex)) and alpha == 1:
        return combined(g, opcode, x, y, dtype)
    combine = getattr(g, opcode)
    return in_wide(g, dtype, lambda a, b: combine(a, g.multiply(b, g.full_like(b, alpha))), x, y)


@lowers("aten.mul.Tensor", "aten.mul.Scalar")
def mul(g: Graph, x: Value, y: Value):
    """x y."""
    return combined(g, "multiply", x, y, result_type(x, y))


@lowers("aten.pow.Tensor_Tensor", "aten.pow.Scalar", "aten.pow.Tensor_Scalar")
def pow_(g: Graph, x: Value, exponent: Value):
    """x ** exponent."""
    dtype = result_type(x, exponent)
    if isinstance(x, Instruction) and isinstance(exponent, (int, float)):
        short = _short_power(g, g.cast(x, dtype), exponent)
        if short is not None:
            return short
    if dtype is dt.pred:
        a, b = g.broadcast_operands(x, exponent)
        return g.or_(a, g.not_(b))
    if dtype.is_complex:
        return g.cast(_complex_power(g, *g.broadcast_operands(x, exponent)), dtype)
    return in_wide(g, dtype, g.power, x, exponent)


def _times_log(log: str) -> Callable[..., Any]:
    def product(g: Graph, x: Value, y: Value) -> Instruction:
        a, b = g.broadcast_operands(x, y, dtype=float_type(x, y))
        zero = g.full_like(a, 0)
        some = g.select(g.compare(a, zero, direction="EQ"), zero, g.multiply(a, getattr(g, log)(b)))
        return g.select(g.compare(b, b, direction="NE"), b, some)

    return product


for _kind in ("Tensor", "Scalar_Self", "Scalar_Other"):
    lowers(f"aten.xlogy.{_kind}")(_times_log("log"))
for _kind in ("default", "self_scalar", "other_scalar"):
    lowers(f"aten.special_xlog1py.{_kind}")(_times_log("log_plus_one"))


def _complex_power(g: Graph, a: Instruction, b: Instruction) -> Instruction:
    # the general formula takes the logarithm of the base
    zero = g.full_like(b, 0)
    one = g.full_like(b, 1)
    return g.select(g.compare(b, zero, direction="EQ"), one, g.power(a, b))


def _short_power(g: Graph, x: Instruction, exponent: float) -> Instruction | None:
    dtype = x.shape.dtype
    if dtype is dt.pred:
        return None
    if exponent == 0:
        return g.full_like(x, 1)
    if exponent == 1:
        return x
    if exponent == 2:
        return g.multiply(x, x)
    if exponent == 3:
        return in_wide(g, dtype, lambda a: g.multiply(g.multiply(a, a), a), x)
    if dtype.is_float and exponent == 0.5:
        return g.sqrt(x)
    if dtype.is_float and exponent == -0.5:
        return g.rsqrt(x)
    if (dtype.is_float or dtype.is_complex) and exponent == -1:
        return g.divide(g.full_like(x, 1), x)
    return None


@lowers("aten.square.default")
def square(g: Graph, x):
    """x x."""
    return g.multiply(x, x)


@lowers("aten.reciprocal.default")
def reciprocal(g: Graph, x):
    """1 / x."""
    x = g.cast(x, float_type(x))
    return g.divide(g.full_like(x, 1), x)


def toward_zero(g: Graph, x: Instruction) -> Instruction:
    """A float without its fraction."""
    return g.select(g.compare(x, g.full_like(x, 0), direction="LT"), g.ceil(x), g.floor(x))


@lowers("aten.trunc.default")
def trunc(g: Graph, x):
    """x without its fraction."""
    return toward_zero(g, x) if x.shape.dtype.is_float else x


@lowers("aten.round.decimals")
def round_decimals(g: Graph, x, decimals: int):
    """Rounded to so many digits after the point."""
    if not x.shape.dtype.is_float:
        return x
    scale = 10.0 ** abs(decimals)

    def compute(a: Instruction) -> Instruction:
        by = g.full_like(a, scale)
        if decimals < 0:
            return g.multiply(g.round_nearest_even(g.divide(a, by)), by)
        return g.divide(g.round_nearest_even(g.multiply(a, by)), by)

    return in_wide(g, x.shape.dtype, compute, x)


@lowers("aten.exp2.default")
def exp2(g: Graph, x):
    """2 ** x."""
    x = g.cast(x, float_type(x))
    return g.power(g.full_like(x, 2), x)


def _log_of_base(base: float) -> Callable[..., Any]:
    def rule(g: Graph, x: Instruction) -> Instruction:
        dtype = float_type(x)
        return in_wide(g, dtype, lambda a: g.multiply(g.log(a), g.full_like(a, 1 / base)), x)

    return rule


lowers("aten.log2.default")(_log_of_base(0.6931471805599453))
lowers("aten.log10.default")(_log_of_base(2.302585092994046))


@lowers("aten.abs.default")
def abs_(g: Graph, x):
    """|x|; of complex numbers a real."""
    dtype = x.shape.dtype
    return x if dtype is dt.pred or dtype.kind is dt.Kind.UNSIGNED else g.abs(x)


@lowers("aten.sign.default", "aten.sgn.default")
def sign(g: Graph, x):
    """-1, 0 or 1; of complex numbers the direction."""
    if not x.shape.dtype.is_float:
        return x if x.shape.dtype is dt.pred else g.sign(x)
    found = g.sign(x)
    return g.select(g.compare(x, x, direction="EQ"), found, g.full_like(x, 0))


@lowers("aten.atan2.default")
def atan2(g: Graph, x: Value, y: Value):
    """The angle of the point (y, x)."""
    return g.atan2(*g.broadcast_operands(x, y, dtype=float_type(x, y)))


@lowers("aten.hypot.default")
def hypot(g: Graph, x: Value, y: Value):
    """sqrt(x² + y²), without overflow."""
    dtype = result_type(x, y)

    def compute(a: Instruction, b: Instruction) -> Instruction:
        return g.abs(g.complex(a, b))

    return in_wide(g, dtype, compute, x, y)


@lowers("aten.clamp.default", "aten.clamp.Tensor")
def clamp(g: Graph, x, min: Value | None, max: Value | None):
    """min(max(x, min), max); either may be absent."""
    dtype = result_type(x, min, max)
    if min is not None:
        x = g.maximum(*g.broadcast_operands(x, min, dtype=dtype))
    return x if max is None else g.minimum(*g.broadcast_operands(x, max, dtype=dtype))


@lowers("aten.clamp_min.default", "aten.clamp_min.Tensor")
def clamp_min(g: Graph, x, min: Value):
    """max(x, min)."""
    return clamp(g, x, min, None)


@lowers("aten.clamp_max.default", "aten.clamp_max.Tensor")
def clamp_max(g: Graph, x, max: Value):
    """min(x, max)."""
    return clamp(g, x, None, max)


@lowers("aten.maximum.default")
def maximum(g: Graph, x: Value, y: Value):
    """The greater; NaN if either is NaN."""
    return g.maximum(*g.broadcast_operands(x, y))


@lowers("aten.minimum.default")
def minimum(g: Graph, x: Value, y: Value):
    """The lesser; NaN if either is NaN."""
    return g.minimum(*g.broadcast_operands(x, y))


@lowers("aten.fmax.default")
def fmax(g: Graph, x: Value, y: Value):
    """The greater; a NaN only if both are."""
    return _ignoring_nan(g, "maximum", x, y)


@lowers("aten.fmin.default")
def fmin(g: Graph, x: Value, y: Value):
    """The lesser; a NaN only if both are."""
    return _ignoring_nan(g, "minimum", x, y)


def _ignoring_nan(g: Graph, opcode: str, x: Value, y: Value) -> Instruction:
    a, b = g.broadcast_operands(x, y)
    both = getattr(g, opcode)(a, b)
    if not a.shape.dtype.is_float:
        return both
    both = g.select(g.compare(a, a, direction="NE"), b, both)
    return g.select(g.compare(b, b, direction="NE"), a, both)


@lowers("aten.where.self", "aten.where.ScalarSelf", "aten.where.ScalarOther", "aten.where.Scalar")
def where(g: Graph, condition: Instruction, x: Value, y: Value):
    """condition ? x : y."""
    dtype = result_type(x, y)
    own = [o.shape.dims for o in (condition, x, y) if isinstance(o, Instruction)]
    dims = broadcast_dims(*own)
    a, b = (g.expand(g.cast(o, dtype), dims) for o in (x, y))
    return g.select(g.expand(g.cast(condition, dt.pred), dims), a, b)


@lowers("prims.fma.default")
def fma(g: Graph, a, b, c):
    """a b + c, as Dynamo spells addcmul_; native code rounds it once."""
    return in_wide(g, result_type(a, b, c), lambda x, y, z: g.add(g.multiply(x, y), z), a, b, c)


@lowers("aten.addcmul.default")
def addcmul(g: Graph, x, tensor1, tensor2, value: Number):
    """x + value tensor1 tensor2."""
    dtype = result_type(x, tensor1, tensor2)

    def compute(a: Instruction, b: Instruction, c: Instruction) -> Instruction:
        return g.add(a, g.multiply(g.multiply(b, g.full_like(b, value)), c))

    return in_wide(g, dtype, compute, x, tensor1, tensor2)


@lowers("aten.addcdiv.default")
def addcdiv(g: Graph, x, tensor1, tensor2, value: Number):
    """x + value tensor1 / tensor2."""
    dtype = result_type(x, tensor1, tensor2)

    def compute(a: Instruction, b: Instruction, c: Instruction) -> Instruction:
        return g.add(a, g.divide(g.multiply(b, g.full_like(b, value)), c))

    return in_wide(g, dtype, compute, x, tensor1, tensor2)


@lowers("aten.lerp.Scalar", "aten.lerp.Tensor")
def lerp(g: Graph, x, end, weight: Value):
    """x + weight (end - x), from whichever end is nearer."""
    dtype = result_type(x, end)

    def compute(a: Instruction, b: Instruction, w: Instruction) -> Instruction:
        span = g.subtract(b, a)
        size = g.abs(w)
        near = g.compare(size, g.full_like(size, 0.5), direction="LT")
        far = g.subtract(b, g.multiply(span, g.subtract(g.full_like(w, 1), w)))
        return g.select(near, g.add(a, g.multiply(w, span)), far)

    return in_wide(g, dtype, compute, x, end, weight)


@lowers("aten.deg2rad.default")
def deg2rad(g: Graph, x):
    """x pi / 180."""
    return combined(g, "multiply", x, 0.017453292519943295, float_type(x))


@lowers("aten.rad2deg.default")
def rad2deg(g: Graph, x):
    """180 x / pi."""
    return combined(g, "multiply", x, 57.29577951308232, float_type(x))
