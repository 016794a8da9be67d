"""L-BFGS by optax, with its zoom line search: softmax regression."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

TOLERANCE = 1e-3


def prepare() -> Callable[[], Any]:
    """Fifty steps on 2,000 rows of 50 features, 10 classes."""
    import optax

    keys = jax.random.split(jax.random.key(0), 3)
    x = jax.random.normal(keys[0], (2000, 50))
    labels = jnp.argmax(x @ jax.random.normal(keys[1], (50, 10)) + jax.random.gumbel(keys[2], (2000, 10)), 1)
    optimizer = optax.lbfgs()

    def loss(weights: Any) -> Any:
        logits = x @ weights["w"] + weights["b"]
        plain = optax.softmax_cross_entropy_with_integer_labels(logits, labels).mean()
        return plain + 1e-3 * optax.tree.norm(weights, squared=True)

    @jax.jit
    def run() -> Any:
        weights = {"w": jnp.zeros((50, 10)), "b": jnp.zeros(10)}

        def step(carry: Any, _: Any) -> Any:
            weights, state = carry
            value, gradient = optax.value_and_grad_from_state(loss)(weights, state=state)
            updates, state = optimizer.update(gradient, state, weights, value=value, grad=gradient, value_fn=loss)
            return (optax.apply_updates(weights, updates), state), value

        (weights, _), values = jax.lax.scan(step, (weights, optimizer.init(weights)), length=50)
        return values[-1]

    return run
