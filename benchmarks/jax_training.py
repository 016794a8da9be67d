"""Trains two small models on xloom and on jaxlib's CPU, step by step in turn: loss curves and step times.

python -m benchmarks.jax_training [steps]
"""

from __future__ import annotations

import os
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

os.environ["JAX_PLATFORMS"] = "xloom,cpu"

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax

_WARM_UP = 5  # steps that are not timed


class Mlp(nn.Module):
    """Four layers over vectors."""

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        """Logits."""
        for width in (256, 256, 128):
            x = nn.gelu(nn.Dense(width)(x))
        return nn.Dense(10)(x)


class Transformer(nn.Module):
    """Two decoder blocks over tokens."""

    vocabulary: int = 64
    width: int = 128

    @nn.compact
    def __call__(self, tokens: jax.Array) -> jax.Array:
        """Logits of each next token."""
        place = self.param("place", nn.initializers.normal(0.02), (tokens.shape[1], self.width))
        x = nn.Embed(self.vocabulary, self.width)(tokens) + place
        mask = nn.make_causal_mask(tokens)
        for _ in range(2):
            x = x + nn.MultiHeadDotProductAttention(num_heads=4)(nn.LayerNorm()(x), mask=mask)
            x = x + nn.Dense(self.width)(nn.gelu(nn.Dense(4 * self.width)(nn.LayerNorm()(x))))
        return nn.Dense(self.vocabulary)(nn.LayerNorm()(x))


def _vectors(step: int) -> tuple[np.ndarray, np.ndarray]:
    """Points around ten centres."""
    centres = np.random.default_rng(0).standard_normal((10, 64), np.float32)
    random = np.random.default_rng(step + 1)
    labels = random.integers(0, 10, 128)
    return centres[labels] + 2 * random.standard_normal((128, 64), np.float32), labels


def _sequences(step: int) -> tuple[np.ndarray, np.ndarray]:
    """Arithmetic sequences modulo the vocabulary."""
    random = np.random.default_rng(step + 1)
    first, by = random.integers(0, 64, (8, 1)), random.integers(1, 8, (8, 1))
    tokens = (first + by * np.arange(65)) % 64
    return tokens[:, :-1], tokens[:, 1:]


MODELS: dict[str, tuple[nn.Module, Callable[[int], tuple[np.ndarray, np.ndarray]]]] = {
    "MLP": (Mlp(), _vectors),
    "transformer": (Transformer(), _sequences),
}


def train(model: nn.Module, batch: Callable[[int], tuple[np.ndarray, np.ndarray]], steps: int) -> Any:
    """Losses and seconds of each step: first ours, then theirs."""
    devices = [jax.devices("xloom")[0], jax.devices("cpu")[0]]
    optimiser = optax.adamw(1e-3)
    with jax.default_device(devices[1]):
        parameters = model.init(jax.random.key(0), jnp.asarray(batch(0)[0]))
    states = [jax.device_put((parameters, optimiser.init(parameters)), device) for device in devices]

    @jax.jit
    def step(state: Any, x: jax.Array, y: jax.Array) -> Any:
        def loss(parameters: Any) -> jax.Array:
            logits: Any = model.apply(parameters, x)
            return optax.softmax_cross_entropy_with_integer_labels(logits, y).mean()

        parameters, memory = state
        value, gradient = jax.value_and_grad(loss)(parameters)
        updates, memory = optimiser.update(gradient, memory, parameters)
        return (optax.apply_updates(parameters, updates), memory), value

    losses, seconds = np.zeros((2, steps)), np.zeros((2, steps))
    for n in range(steps):
        for side in (0, 1) if n % 2 else (1, 0):
            x, y = jax.device_put(batch(n), devices[side])
            start = time.perf_counter()
            states[side], value = step(states[side], x, y)
            jax.block_until_ready(states[side])
            losses[side, n] = value
            seconds[side, n] = time.perf_counter() - start
    return losses, seconds


def main() -> None:
    """Prints a row a model."""
    steps = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    for name, (model, batch) in MODELS.items():
        (ours, theirs), seconds = train(model, batch, steps)
        ours_ms, theirs_ms = np.median(seconds[:, _WARM_UP:], axis=1) * 1e3
        ratio = statistics.median(seconds[0, _WARM_UP:] / seconds[1, _WARM_UP:])
        far = np.max(np.abs(ours - theirs) / theirs)
        print(
            f"{name}: loss {ours[0]:.4f} to {ours[-1]:.4f} (XLA:CPU {theirs[-1]:.4f}; relative difference {far:.1e}), "
            f"step {ours_ms:.2f} ms (XLA:CPU {theirs_ms:.2f} ms), ratio {ratio:.2f}, "
            f"first step {seconds[0, 0]:.1f} s (XLA:CPU {seconds[1, 0]:.1f} s)",
            flush=True,
        )


if __name__ == "__main__":
    main()
