"""Windows over images, and their gradients."""

import jax
import jax.numpy as jnp
from jax import lax

from benchmarks.programs.arguments import normal
from benchmarks.programs.registry import program

_IMAGE = normal(1, 112, 112, 64)
_HALF = normal(1, 56, 56, 64)


def _max_pool(x):
    return lax.reduce_window(x, -jnp.inf, lax.max, (1, 3, 3, 1), (1, 2, 2, 1), "SAME")


def _average_pool(x):
    return lax.reduce_window(x, 0.0, lax.add, (1, 2, 2, 1), (1, 2, 2, 1), "VALID") * 0.25


@program("max", _IMAGE, streams=True)
def max_pool(x):
    """Windows that overlap."""
    return _max_pool(x)


@program("max-gradient", _IMAGE, _HALF, streams=True)
def max_pool_gradient(x, y):
    """Each value goes back to where the greatest was."""
    return jax.vjp(_max_pool, x)[1](y)


@program("average", _IMAGE, streams=True)
def average_pool(x):
    """Windows side by side."""
    return _average_pool(x)


@program("average-gradient", _IMAGE, _HALF, streams=True)
def average_pool_gradient(x, y):
    """Each value goes back to its whole window."""
    return jax.vjp(_average_pool, x)[1](y)


@program("global-average", _IMAGE, streams=True)
def global_average(x):
    """One number a channel."""
    return jnp.mean(x, axis=(1, 2))


@program("box-filter", normal(512, 512), streams=True)
def box_filter(x):
    """Large windows, where sums of neighbours share most of their terms."""
    return lax.reduce_window(x, 0.0, lax.add, (15, 15), (1, 1), "SAME")
