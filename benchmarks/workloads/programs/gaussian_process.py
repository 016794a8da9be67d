"""A Gaussian process: its marginal likelihood in doubles, maximised over the kernel's parameters."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

TOLERANCE = 1e-6


def prepare() -> Callable[[], Any]:
    """Thirty steps of gradient ascent on 300 points, then predictions at 100."""
    jax.config.update("jax_enable_x64", True)
    keys = jax.random.split(jax.random.key(0), 3)
    x, new = jax.random.uniform(keys[0], (300, 3)), jax.random.uniform(keys[1], (100, 3))
    y = jnp.sin(5 * x).sum(1) + 0.1 * jax.random.normal(keys[2], (300,))

    def kernel(p: Any, a: Any, b: Any) -> Any:
        squared = (((a[:, None] - b[None]) / jnp.exp(p["lengths"])) ** 2).sum(-1)
        r = jnp.sqrt(5 * squared + 1e-12)
        return jnp.exp(p["scale"]) * (1 + r + r**2 / 3) * jnp.exp(-r)

    def factored(p: Any) -> Any:
        return jax.scipy.linalg.cho_factor(kernel(p, x, x) + jnp.exp(p["noise"]) * jnp.eye(300), lower=True)

    @jax.jit
    @jax.value_and_grad
    def loss(p: Any) -> Any:
        factor = factored(p)
        return 0.5 * y @ jax.scipy.linalg.cho_solve(factor, y) + jnp.log(jnp.diag(factor[0])).sum()

    @jax.jit
    def predict(p: Any) -> Any:
        across = kernel(p, new, x)
        return across @ jax.scipy.linalg.cho_solve(factored(p), y)

    def run() -> Any:
        p = {"lengths": jnp.zeros(3), "scale": jnp.array(0.0), "noise": jnp.array(-2.0)}
        for _ in range(30):
            _, gradient = loss(p)
            p = jax.tree.map(lambda v, g: v - 2e-3 * g, p, gradient)
        return predict(p)

    return run
