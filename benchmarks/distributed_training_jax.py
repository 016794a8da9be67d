"""One process of `benchmarks.distributed_training` in JAX: `SIDE PROCESS COUNT PORT DOOR MODEL STEPS`."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from benchmarks.distributed_training_steps import report, sequences, vectors

Loss = Callable[[Any, jax.Array, jax.Array], jax.Array]


def mlp(random: np.random.Generator) -> tuple[Any, Loss]:
    """Parameters and loss of three layers over vectors."""
    parameters = [_matrix(random, *dims) for dims in ((64, 256), (256, 256), (256, 10))]

    def loss(parameters: Any, x: jax.Array, labels: jax.Array) -> jax.Array:
        for each in parameters[:-1]:
            x = jax.nn.gelu(x @ each)
        return _cross_entropy(x @ parameters[-1], labels)

    return parameters, loss


def transformer(random: np.random.Generator) -> tuple[Any, Loss]:
    """The same of two blocks over tokens."""
    width, heads, length = 64, 4, 32
    blocks = [
        {
            name: _matrix(random, *dims)
            for name, dims in {
                "qkv": (width, 3 * width),
                "out": (width, width),
                "up": (width, 4 * width),
                "down": (4 * width, width),
            }.items()
        }
        for _ in range(2)
    ]
    parameters = {"embedding": _matrix(random, 64, width), "head": _matrix(random, width, 64), "blocks": blocks}
    causal = np.tril(np.ones((length, length), bool))

    def norm(x: jax.Array) -> jax.Array:
        return (x - x.mean(-1, keepdims=True)) / jnp.sqrt(x.var(-1, keepdims=True) + 1e-5)

    def loss(parameters: Any, tokens: jax.Array, following: jax.Array) -> jax.Array:
        x = parameters["embedding"][tokens]
        for block in parameters["blocks"]:
            q, k, v = jnp.split((norm(x) @ block["qkv"]).reshape(*tokens.shape, heads, -1), 3, -1)
            scores = jnp.einsum("bthd,bshd->bhts", q, k) / np.sqrt(width // heads)
            weights = jax.nn.softmax(jnp.where(causal, scores, -1e9))
            x += jnp.einsum("bhts,bshd->bthd", weights, v).reshape(x.shape) @ block["out"]
            x += jax.nn.gelu(norm(x) @ block["up"]) @ block["down"]
        return _cross_entropy(x @ parameters["head"], following)

    return parameters, loss


def _matrix(random: np.random.Generator, *dims: int) -> np.ndarray:
    return (random.normal(size=dims) / np.sqrt(dims[0])).astype(np.float32)


def _cross_entropy(logits: jax.Array, labels: jax.Array) -> jax.Array:
    return -jnp.take_along_axis(jax.nn.log_softmax(logits), labels[..., None], -1).mean()


def main() -> None:
    """Trains on all devices, each with its part of every batch."""
    side, process, count, port, door, model, steps = sys.argv[1:]
    if count != "1":
        if side == "gloo":
            jax.config.update("jax_cpu_collectives_implementation", "gloo")
        jax.distributed.initialize(f"localhost:{port}", int(count), int(process))
    assert jax.process_count() == int(count)
    mesh = Mesh(np.array(jax.devices()), "batch")
    everywhere, cut = NamedSharding(mesh, P()), NamedSharding(mesh, P("batch"))
    make, batch = (mlp, vectors) if model == "mlp" else (transformer, sequences)
    parameters, loss_of = make(np.random.default_rng(0))

    def step(parameters: Any, x: jax.Array, y: jax.Array) -> tuple[Any, jax.Array]:
        loss, gradients = jax.value_and_grad(loss_of)(parameters, x, y)
        if door == "shard_map":
            loss, gradients = lax.pmean((loss, gradients), "batch")
        return jax.tree.map(lambda p, g: p - 0.1 * g, parameters, gradients), loss

    if door == "shard_map":
        parts = (P(), P("batch"), P("batch"))
        step = jax.shard_map(step, mesh=mesh, in_specs=parts, out_specs=P(), check_vma=False)
    step = jax.jit(step, donate_argnums=0)

    def losses() -> Iterator[jax.Array]:
        state = jax.tree.map(lambda p: _put(p, everywhere), parameters)
        for k in range(int(steps)):
            state, loss = step(state, *(_put(part, cut) for part in batch(k)))
            yield loss

    report(losses(), process)


def _put(array: np.ndarray, sharding: NamedSharding) -> jax.Array:
    return jax.make_array_from_callback(array.shape, sharding, lambda index: array[index])


if __name__ == "__main__":
    main()
