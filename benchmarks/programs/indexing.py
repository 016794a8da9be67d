"""Gathers, scatters, and slices at run-time places."""

import jax
import jax.numpy as jnp
from jax import lax

from benchmarks.programs.arguments import integers, normal, permutation, scalar
from benchmarks.programs.registry import program

_MANY = 1 << 18


@program("gather-rows", normal(32000, 512), integers(2048, high=32000))
def gather_rows(table, tokens):
    """An embedding."""
    return table[tokens]


@program("gather-elements", normal(_MANY), permutation(_MANY))
def gather_elements(x, places):
    """Single numbers from anywhere."""
    return x[places] * 2.0


@program("take-along-axis", normal(1024, 1024), integers(1024, 256, high=1024))
def take_along_axis(x, places):
    """Within each row."""
    return jnp.take_along_axis(x, places, axis=1)


@program("bilinear", normal(512, 512), integers(2, 512, 512, low=1, high=510), normal(2, 512, 512, scale=0.3))
def bilinear(image, place, offset):
    """Four neighbours of each point, weighed."""
    y, x = place
    dy, dx = offset
    top = image[y, x] * (1 - dx) + image[y, x + 1] * dx
    bottom = image[y + 1, x] * (1 - dx) + image[y + 1, x + 1] * dx
    return top * (1 - dy) + bottom * dy


@program("scatter-add", integers(_MANY, high=4096), normal(_MANY), tolerance=1e-3)
def scatter_add(places, values):
    """A histogram with weights."""
    return jnp.zeros(4096).at[places].add(values)


@program("scatter-add-rows", integers(2048, high=8000), normal(2048, 512))
def scatter_add_rows(tokens, gradient):
    """The gradient of an embedding."""
    return jnp.zeros((8000, 512)).at[tokens].add(gradient)


@program("scatter-set", normal(_MANY), permutation(_MANY), normal(_MANY))
def scatter_set(x, places, values):
    """Places that are known to differ."""
    return x.at[places].set(values, unique_indices=True)


@program("scatter-max", integers(_MANY, high=4096), normal(_MANY))
def scatter_max(places, values):
    """The greatest in each bin."""
    return jnp.full(4096, -jnp.inf).at[places].max(values)


@program("segment-sum", normal(16384, 64), integers(16384, high=1024))
def segment_sum(x, segments):
    """Messages of a graph network."""
    return jax.ops.segment_sum(x, segments, 1024)


@program("one-hot", integers(8192, high=512))
def one_hot(x):
    """A comparison with an iota."""
    return jax.nn.one_hot(x, 512)


@program("cache-update", normal(8, 16, 512, 64), normal(8, 16, 1, 64), scalar(100, "int32"))
def cache_update(cache, new, position):
    """A token's keys go into the cache of attention; the argument is not donated, so it is copied."""
    return lax.dynamic_update_slice_in_dim(cache, new, position, axis=2)


@program("dynamic-slice", normal(4096, 1024), scalar(100, "int32"))
def dynamic_slice(x, start):
    """A part of the rows, summed."""
    return lax.dynamic_slice_in_dim(x, start, 2048).sum(axis=1)


@program("mask-fill", normal(2048, 1024), integers(2048, high=1024))
def mask_fill(x, lengths):
    """What lies past a row's length is cleared."""
    return jnp.where(jnp.arange(1024) < lengths[:, None], x, 0.0)
