"""Cumulative sums, products, maxima and logarithms of sums along each axis."""

from functools import partial

import jax
import jax.numpy as jnp
from jax import lax

from benchmarks.sweep.case import Family, array, size_name

CUMULATIVE = Family("cumulative")

_SQUARE = (1024, 1024)
_OTHERS = ((100_000, 7), (7, 100_000), (1_000_000,), (64, 128, 100), (32, 32), (333, 777))
_AXES = {1: (None,), 2: (0, 1, None), 3: (1, 2)}  # by rank
_TYPES = ("f32", "f64", "bf16", "f16", "s32", "s8")
# sums of thousands of 16-bit numbers depend on their order in the first digit
_TOLERANCES = {"f16": 0.2, "bf16": 1.0}


def _maximum(x: jax.Array, axis: int | None) -> jax.Array:
    return lax.cummax(x.ravel()) if axis is None else lax.cummax(x, axis=axis)


def _log_sum_exp(x: jax.Array, axis: int | None) -> jax.Array:
    return lax.cumlogsumexp(x.ravel()) if axis is None else lax.cumlogsumexp(x, axis=axis)


for name, function in {
    "cumsum": jnp.cumsum,
    "cumprod": jnp.cumprod,
    "cummax": _maximum,
    "cumlogsumexp": _log_sum_exp,
}.items():
    for shape in (_SQUARE, *_OTHERS):
        for axis in _AXES[len(shape)]:
            if name == "cumlogsumexp" and axis is None and len(shape) > 1:
                continue
            for dtype in _TYPES if shape == _SQUARE else ("f32",):
                if axis is None and dtype in _TOLERANCES:
                    continue  # a million of them depend on nothing else
                if dtype.startswith("s"):
                    if name == "cumlogsumexp":
                        continue
                    argument = array(*shape, dtype=dtype)
                elif name == "cumsum":
                    argument = array(*shape, dtype=dtype, low=-0.1, high=0.1)  # a million must not overflow f16
                else:
                    argument = array(*shape, dtype=dtype, low=0.9, high=1.1)
                CUMULATIVE.add(
                    f"{name}-{size_name(shape)}-{axis}-{dtype}",
                    partial(function, axis=axis),
                    argument,
                    tolerance=_TOLERANCES.get(dtype),
                )

CUMULATIVE.add("associative-sum", partial(lax.associative_scan, jnp.add), array(4096, 64))


@CUMULATIVE.program(array(4096, 64, low=-0.9, high=0.9))
def _linear_recurrence(x):
    return lax.associative_scan(lambda a, b: (a[0] * b[0], a[1] * b[0] + b[1]), (x, x))
