"""A graph network by flax: messages along edges, summed by segments, trained on nodes' labels."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

TOLERANCE = 0.02


def prepare() -> Callable[[], Any]:
    """Twenty steps of Adam on a graph of 2,000 nodes and 10,000 edges."""
    import optax
    from flax import linen as nn

    keys = jax.random.split(jax.random.key(0), 4)
    senders, receivers = jax.random.randint(keys[0], (2, 10_000), 0, 2000)
    features = jax.random.normal(keys[1], (2000, 32))
    labels = jnp.argmax(features[:, :5] + jax.ops.segment_sum(features[senders, :5], receivers, 2000), 1)
    degrees = jax.ops.segment_sum(jnp.ones(10_000), receivers, 2000)[:, None] + 1

    class Network(nn.Module):
        @nn.compact
        def __call__(self, nodes: Any) -> Any:
            for _ in range(3):
                pairs = jnp.concatenate([nodes[senders], nodes[receivers]], 1)
                messages = nn.relu(nn.Dense(64)(pairs))
                nodes = nn.LayerNorm()(nn.Dense(64)(nodes) + jax.ops.segment_sum(messages, receivers, 2000) / degrees)
                nodes = nn.relu(nodes)
            return nn.Dense(5)(nodes)

    network, optimizer = Network(), optax.adam(1e-2)
    first = jax.jit(network.init)(keys[2], features)

    @jax.jit
    def step(weights: Any, state: Any) -> Any:
        def loss(weights: Any) -> Any:
            logits: Any = network.apply(weights, features)
            return optax.softmax_cross_entropy_with_integer_labels(logits, labels).mean()

        value, gradients = jax.value_and_grad(loss)(weights)
        updates, state = optimizer.update(gradients, state)
        return optax.apply_updates(weights, updates), state, value

    def run() -> Any:
        weights, state, value = first, optimizer.init(first), None
        for _ in range(20):
            weights, state, value = step(weights, state)
        return value

    return run
