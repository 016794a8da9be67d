"""Sorts and selections of vectors and along either axis of matrices."""

import jax.numpy as jnp
from jax import lax

from benchmarks.sweep.case import Family, array, size_name

SORTING = Family("sorting")

_TYPES = ("f32", "f64", "bf16", "s32", "s8", "u32", "s64")
_VECTORS = ((10_000,), (200,))
_MATRICES = ((256, 500), (20_000, 10))
_FEW_TYPES = {(200,), (20_000, 10)}  # f32 alone shows what there is to see

_OF_ANY_RANK = {
    "sort": jnp.sort,
    "argsort": jnp.argsort,
    "descending": lambda x: -jnp.sort(-x),
    "one-key": lambda x: lax.sort((x, x * 2), num_keys=1),
    "two-keys": lambda x: lax.sort((x, x * 2), num_keys=2),
    "median": lambda x: jnp.median(x, axis=-1),
    "top-8": lambda x: lax.top_k(x, 8),
    "top-100": lambda x: lax.top_k(x, 100),
    "approximate-top-8": lambda x: lax.approx_max_k(x.astype(jnp.float32), 8),
}
_OF_MATRICES = {
    "sort-columns": lambda x: jnp.sort(x, axis=0),
    "argsort-columns": lambda x: jnp.argsort(x, axis=0),
}
_LONG_ROWS = {"top-8", "top-100", "approximate-top-8"}


def _takes(name: str, dtype: str, shape: tuple[int, ...]) -> bool:
    if (dtype != "f32" and shape in _FEW_TYPES) or (name in _LONG_ROWS and shape[-1] < 100):
        return False
    return name != "median" or dtype not in ("s8", "u32")


for table, shapes in ((_OF_ANY_RANK, (*_VECTORS, *_MATRICES)), (_OF_MATRICES, _MATRICES)):
    for name, function in table.items():
        for dtype in _TYPES:
            for shape in shapes:
                if _takes(name, dtype, shape):
                    SORTING.add(f"{name}-{dtype}-{size_name(shape)}", function, array(*shape, dtype=dtype))
