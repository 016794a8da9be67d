"""One operation an element, on integers."""

import jax.numpy as jnp
from jax import lax

from benchmarks.sweep.case import Family, array

INTEGERS = Family("integers")

_SHAPE = (1024, 512)
_UNARY = {
    jnp: ["abs", "sign", "negative", "invert", "square", "bitwise_not"],
    lax: ["population_count", "clz"],
}
# fmt: off
_BINARY = (
    "add", "multiply", "divide", "true_divide", "floor_divide", "remainder", "power", "gcd", "lcm", "maximum",
    "bitwise_and", "bitwise_xor", "left_shift", "right_shift", "equal", "less",
)
# fmt: on

for module, names in _UNARY.items():
    for name in names:
        for dtype in ("s32", "s8", "s64", "s16"):
            INTEGERS.add(f"{name}-{dtype}", getattr(module, name), array(*_SHAPE, dtype=dtype))

for name in _BINARY:
    for dtype in ("s32", "s8", "u8", "s64", "s16"):
        left, right = (array(*_SHAPE, dtype=dtype, low=1, high=high) for high in (20, 7))
        INTEGERS.add(f"{name}-{dtype}", getattr(jnp, name), left, right)
