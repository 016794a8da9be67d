"""Sorts and selections."""

import jax.numpy as jnp
import numpy as np
from jax import lax

from benchmarks.programs.arguments import integers, normal
from benchmarks.programs.registry import program

_LONG = 1 << 17


@program("sort", normal(_LONG))
def sort(x):
    """One vector; NaN goes last, -0 before 0."""
    return jnp.sort(x)


@program("sort-integers", integers(_LONG, low=-(1 << 31), high=1 << 31))
def sort_integers(x):
    """One vector of integers."""
    return jnp.sort(x)


@program("sort-descending", integers(_LONG, low=0, high=1 << 16, dtype=np.uint16))
def sort_descending(x):
    """Sixteen bits, greatest first."""
    return jnp.sort(x, descending=True)


@program("sort-rows", normal(1024, 256))
def sort_rows(x):
    """Many short ones."""
    return jnp.sort(x, axis=1)


@program("sort-columns", normal(256, 1024))
def sort_columns(x):
    """Many short ones, across the contiguous dimension."""
    return jnp.sort(x, axis=0)


@program("argsort", normal(_LONG))
def argsort(x):
    """Indices go with the keys."""
    return jnp.argsort(x)


@program("sort-operands", integers(_LONG, high=100), normal(_LONG), normal(_LONG))
def sort_operands(a, b, c):
    """Two keys and a payload."""
    return lax.sort((a, b, c), num_keys=2)


@program("top-k-rows", normal(256, 8192))
def top_k_rows(x):
    """Eight of each row."""
    return lax.top_k(x, 8)


@program("top-k-vector", normal(1 << 20))
def top_k_vector(x):
    """A hundred of a million."""
    return lax.top_k(x, 100)


@program("median", normal(1024, 255))
def median(x):
    """By a sort of each row."""
    return jnp.median(x, axis=1)


@program("search-sorted", normal(1 << 12), normal(1 << 14))
def search_sorted(a, v):
    """A sort and binary searches."""
    return jnp.searchsorted(jnp.sort(a), v)
