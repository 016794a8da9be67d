"""One operation an element, on real and complex numbers."""

import jax
import jax.numpy as jnp
from jax import lax
from jax.scipy import special

from benchmarks.sweep.case import COMPLEX, REALS, SMALL, Family, array, size_name

ELEMENTWISE = Family("elementwise")

_SHAPE = (1024, 512)
_EXPONENTIAL = ("exp", "expm1", "log", "log1p", "sqrt")
# fmt: off
_TRIGONOMETRIC = (
    "sin", "cos", "tan", "sinh", "cosh", "tanh",
    "arcsin", "arccos", "arctan", "arcsinh", "arccosh", "arctanh",
)
# fmt: on
_ARITHMETIC = ("abs", "sign", "reciprocal", "square")
_ROUNDING = ("floor", "ceil", "round")
_ACTIVATIONS = ("relu", "gelu", "softplus", "silu", "elu", "selu", "log_sigmoid", "mish", "hard_swish")
_UNARY = (
    (jnp, (*_EXPONENTIAL, *_TRIGONOMETRIC, *_ARITHMETIC, *_ROUNDING)),
    (jnp, ("exp2", "log2", "log10", "cbrt", "i0", "sinc", "nan_to_num", "isfinite", "degrees", "negative")),
    (jax.nn, ("sigmoid", *_ACTIVATIONS)),
    (lax, ("rsqrt", "erf", "erfc", "erf_inv", "lgamma", "digamma")),
    (special, ("i1", "i0e", "i1e", "logit", "expit", "ndtr", "ndtri", "log_ndtr")),
)
_DOMAINS = {
    **dict.fromkeys(["log", "log2", "log10", "rsqrt", "lgamma", "digamma"], (0.1, 5.0)),
    **dict.fromkeys(["arcsin", "arccos", "arctanh", "erf_inv"], (-0.9, 0.9)),
    **dict.fromkeys(["logit", "ndtri"], (0.1, 0.9)),
    "log1p": (-0.5, 5.0),
    "sqrt": (0.0, 5.0),
    "arccosh": (1.1, 5.0),
}
_NOT_IN_16_BITS = {"ndtr", "ndtri", "log_ndtr"}
_UNARY_COMPLEX = (
    (jnp, (*_EXPONENTIAL, *_TRIGONOMETRIC, *_ARITHMETIC, "angle", "conj")),
    (jax.nn, ("sigmoid",)),
    (lax, ("rsqrt",)),
)
# fmt: off
_BINARY = (
    (jnp, (
        "add", "subtract", "multiply", "divide", "fmod", "remainder", "floor_divide", "power", "maximum", "minimum",
        "arctan2", "hypot", "logaddexp", "logaddexp2", "copysign", "nextafter", "heaviside", "equal", "less",
    )),
    (special, ("xlogy", "xlog1py")),
)
# fmt: on
_BINARY_COMPLEX = ["add", "subtract", "multiply", "divide", "power"]


for module, names in _UNARY:
    for name in names:
        low, high = _DOMAINS.get(name, (None, None))
        for dtype in REALS[:2] if name in _NOT_IN_16_BITS else REALS:
            for shape in ((1000,), _SHAPE):
                argument = array(*shape, dtype=dtype, low=low, high=high)
                ELEMENTWISE.add(f"{name}-{dtype}-{size_name(shape)}", getattr(module, name), argument)

for module, names in _UNARY_COMPLEX:
    for name in names:
        for dtype in COMPLEX:
            ELEMENTWISE.add(f"{name}-{dtype}", getattr(module, name), array(256, 1024, dtype=dtype))

for module, names in _BINARY:
    for name in names:
        for dtype in REALS:
            operand = array(*_SHAPE, dtype=dtype, low=0.1, high=5.0)
            ELEMENTWISE.add(f"{name}-{dtype}", getattr(module, name), operand, operand)

for name in _BINARY_COMPLEX:
    for dtype in COMPLEX:
        operand = array(512, 512, dtype=dtype)
        ELEMENTWISE.add(f"{name}-{dtype}", getattr(jnp, name), operand, operand)

for name, function in {
    "add": jnp.add,
    "multiply": jnp.multiply,
    "divide": jnp.divide,
    "maximum": jnp.maximum,
    "negative": lambda x, _: -x,
    "multiply-add": lambda x, y: x * y + x,
    "where-less": lambda x, y: jnp.where(x < y, x, y),
}.items():
    for dtype in SMALL:
        operand = array(1024, 4096, dtype=dtype, low=0.1, high=5.0)
        ELEMENTWISE.add(f"{name}-{dtype}", function, operand, operand)
