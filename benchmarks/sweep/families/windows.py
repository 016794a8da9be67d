"""Reductions of windows, and their gradients."""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax import lax

from benchmarks.sweep.case import Family, array

WINDOWS = Family("windows")


def _max_pool(x: jax.Array, size: int, padding: str = "VALID") -> jax.Array:
    return lax.reduce_window(x, -jnp.inf, lax.max, (1, size, size, 1), (1, 2, 2, 1), padding)


def _sum_pool(x: jax.Array, size: int, stride: int, padding: str) -> jax.Array:
    return lax.reduce_window(x, 0.0, lax.add, (1, size, size, 1), (1, stride, stride, 1), padding)


def _max_pool_nchw(x: jax.Array) -> jax.Array:
    return lax.reduce_window(x.transpose(0, 3, 1, 2), -jnp.inf, lax.max, (1, 1, 2, 2), (1, 1, 2, 2), "VALID")


def _sum_pool_nchw(x: jax.Array) -> jax.Array:
    return lax.reduce_window(x.transpose(0, 3, 1, 2), 0.0, lax.add, (1, 1, 3, 3), (1, 1, 1, 1), "SAME")


def _gradient(function: Callable[[jax.Array], jax.Array]) -> Callable[[jax.Array], jax.Array]:
    return jax.grad(lambda x: function(x).astype(jnp.float32).sum())


_WINDOWS = {
    "max-2": lambda x: _max_pool(x, 2),
    "max-3": lambda x: _max_pool(x, 3, "SAME"),
    "sum-3": lambda x: _sum_pool(x, 3, 1, "SAME"),
    "sum-7": lambda x: _sum_pool(x, 7, 1, "SAME"),
    "max-2-gradient": _gradient(lambda x: _max_pool(x, 2)),
    "max-3-gradient": _gradient(lambda x: _max_pool(x, 3, "SAME")),
    "sum-2-gradient": _gradient(lambda x: _sum_pool(x, 2, 2, "VALID") ** 2),
    "max-2-nchw": _max_pool_nchw,
    "sum-3-nchw": _sum_pool_nchw,
}

for name, function in _WINDOWS.items():
    for dtype in ("f32", "bf16", "f64"):
        WINDOWS.add(f"{name}-{dtype}-56", function, array(4, 56, 56, 32, dtype=dtype))
    WINDOWS.add(f"{name}-f32-28", function, array(1, 28, 28, 3))


def _shifted(x: jax.Array, size: int, axis: int = 0) -> jax.Array:
    return jnp.stack([x[k : len(x) - size + 1 + k] for k in range(size)], axis)


# each place with those after it, as layers of an array
for name, function in {
    "mean": lambda x: _shifted(x, 7).mean(0),
    "deviation": lambda x: _shifted(x, 5).std(0),
    "most": lambda x: _shifted(x, 7, -1).max(-1),
}.items():
    for dtype in ("f32", "bf16", "s32") if name == "most" else ("f32", "f64"):
        WINDOWS.add(f"stacked-{name}-{dtype}", function, array(200_000, 4, dtype=dtype))
