"""A Kalman filter: the likelihood of a state space model, and its gradient to the model."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax.scipy.linalg import cho_solve

TOLERANCE = 1e-3


def prepare() -> Callable[[], Any]:
    """A state of 6, 3 observed, 500 times, 16 series."""
    keys = jax.random.split(jax.random.key(0), 3)
    model = {
        "transition": 0.9 * jnp.eye(6) + 0.05 * jax.random.normal(keys[0], (6, 6)),
        "emission": jax.random.normal(keys[1], (3, 6)),
        "noise": jnp.zeros(6),
        "error": jnp.zeros(3),
    }
    series = jnp.cumsum(jax.random.normal(keys[2], (16, 500, 3)), 1) * 0.1

    def likelihood(model: Any, observed: Any) -> Any:
        move, see = model["transition"], model["emission"]
        noise, error = jnp.diag(jnp.exp(model["noise"])), jnp.diag(jnp.exp(model["error"]))

        def step(carry: Any, y: Any) -> Any:
            mean, spread = carry
            mean, spread = move @ mean, move @ spread @ move.T + noise
            rest = y - see @ mean
            factor = jnp.linalg.cholesky(see @ spread @ see.T + error)
            gain = cho_solve((factor, True), see @ spread).T
            found = -0.5 * rest @ cho_solve((factor, True), rest) - jnp.log(jnp.diag(factor)).sum()
            return (mean + gain @ rest, spread - gain @ see @ spread), found

        return jax.lax.scan(step, (jnp.zeros(6), jnp.eye(6)), observed)[1].sum()

    both = jax.jit(jax.value_and_grad(lambda model: jax.vmap(lambda y: likelihood(model, y))(series).mean()))
    return lambda: both(model)
