"""Reductions over each axis of square, tall, wide, long, deep, small and odd arrays."""

from functools import partial

import jax
import jax.numpy as jnp
from jax.scipy import special

from benchmarks.sweep.case import REALS, Family, array, size_name

REDUCTIONS = Family("reductions")

_SQUARE = (1024, 1024)
_SMALL = ((32, 32), (333, 777))
_LARGE = ((100_000, 7), (7, 100_000), (1_000_000,), (64, 128, 100))
_AXES = {1: (None,), 2: (0, 1, None), 3: (1, 2)}  # by rank

_INTEGERS = ("s32", "s8")

# fmt: off
_OF_ALL_TYPES = (
    "sum", "prod", "max", "min", "argmax", "argmin", "any", "all", "count_nonzero", "mean", "average", "std", "var",
    "ptp", "nansum", "nanmax",
)
# fmt: on
_OF_FLOATS = {
    "logsumexp": special.logsumexp,
    "norm": jnp.linalg.norm,
    "softmax": jax.nn.softmax,
    "log_softmax": jax.nn.log_softmax,
}

for name, function in {**{n: getattr(jnp, n) for n in _OF_ALL_TYPES}, **_OF_FLOATS}.items():
    for shape in (_SQUARE, *_SMALL, *_LARGE):
        for axis in _AXES[len(shape)]:
            if name == "logsumexp" and axis is None and len(shape) > 1:
                continue
            every = REALS if name in _OF_FLOATS else REALS + _INTEGERS
            for dtype in every if shape == _SQUARE else ("f32",):
                low, high = (None, None) if dtype in _INTEGERS else (0.9, 1.1)
                argument = array(*shape, dtype=dtype, low=low, high=high)
                REDUCTIONS.add(f"{name}-{size_name(shape)}-{axis}-{dtype}", partial(function, axis=axis), argument)

# a sort each: of small arrays only
for shape in _SMALL:
    for axis in _AXES[len(shape)]:
        REDUCTIONS.add(f"median-{size_name(shape)}-{axis}-f32", partial(jnp.median, axis=axis), array(*shape))

# of rows that no cache holds
for name in ("sum", "max", "min"):
    for dtype in ("f32", "f64"):
        shape = (2048, 3000)
        function = partial(getattr(jnp, name), axis=1)
        REDUCTIONS.add(f"{name}-{size_name(shape)}-1-{dtype}", function, array(*shape, dtype=dtype))
