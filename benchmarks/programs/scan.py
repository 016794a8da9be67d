"""Cumulative operations."""

import jax
import jax.numpy as jnp
from jax import lax

from benchmarks.programs.arguments import integers, normal, uniform
from benchmarks.programs.registry import program


@program("cumsum-rows", normal(1024, 1024), streams=True)
def cumsum_rows(x):
    """Along the contiguous dimension."""
    return jnp.cumsum(x, axis=1)


@program("cumsum-columns", normal(1024, 1024), streams=True)
def cumsum_columns(x):
    """Across the contiguous dimension."""
    return jnp.cumsum(x, axis=0)


@program("cumsum-vector", uniform(1 << 20), streams=True, tolerance=1e-3)
def cumsum_vector(x):
    """One long vector."""
    return jnp.cumsum(x)


@program("cumsum-integers", integers(1 << 20, low=-100, high=100), streams=True)
def cumsum_integers(x):
    """Sums in any order are equal."""
    return jnp.cumsum(x)


@program("cumprod", uniform(1024, 1024, low=0.99, high=1.01), streams=True)
def cumprod(x):
    """Products along rows."""
    return jnp.cumprod(x, axis=1)


@program("cummax", normal(1024, 1024), streams=True)
def cummax(x):
    """The greatest so far, from the end."""
    return lax.cummax(x, axis=1, reverse=True)


@program("cumlogsumexp", normal(256, 512), streams=True)
def cumlogsumexp(x):
    """With a combiner of many operations."""
    return lax.cumlogsumexp(x, axis=1)


@program("linear-recurrence", uniform(1024, 1024, high=0.99), normal(1024, 1024))
def linear_recurrence(a, b):
    """h[t] = a[t] h[t-1] + b[t] as a tree of slices and concatenations."""

    def combine(left, right):
        return left[0] * right[0], left[1] * right[0] + right[1]

    return jax.lax.associative_scan(combine, (a, b), axis=0)[1]
