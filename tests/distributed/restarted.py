"""Trains until it is done, and saves what it has: `restarted.py PROCESS COUNT ADDRESS FOLDER STEPS`.

It needs nothing but JAX. The first process saves, every ten steps, and all go on from what is saved last.
"""

import os
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

EVERY = 10
process, count, address, folder, steps = sys.argv[1:]


def batch(step):
    x = np.random.default_rng(step).normal(size=(16, 8)).astype(np.float32)
    return x, np.sin(x).sum(1)


@jax.jit
def train(weights, x, y):
    def loss_of(weights):
        first, second = weights
        return jnp.mean((jnp.tanh(x @ first) @ second - y) ** 2)

    loss, gradients = jax.value_and_grad(loss_of)(weights)
    return [w - 0.05 * g for w, g in zip(weights, gradients, strict=True)], loss


def main():
    mesh = Mesh(np.array(jax.devices()), "x")
    everywhere, cut = NamedSharding(mesh, P()), NamedSharding(mesh, P("x"))

    def put(value, sharding):
        return jax.make_array_from_callback(value.shape, sharding, lambda index: value[index])

    begun, saved = 0, max(Path(folder).glob("step*.npz"), default=None)
    random = np.random.default_rng(0)
    weights = [random.normal(size=dims).astype(np.float32) for dims in ((8, 32), (32,))]
    if saved:
        with np.load(saved) as found:
            begun, weights = int(found["step"]), [found["first"], found["second"]]
    weights = [put(weight, everywhere) for weight in weights]
    for step in range(begun, int(steps)):
        weights, loss = train(weights, *(put(part, cut) for part in batch(step)))
        print(f"step {step}: loss {float(loss).hex()}", flush=True)
        if process == "0" and step % EVERY == EVERY - 1:
            first, second = map(np.asarray, weights)
            part = Path(folder) / "part.npz"
            np.savez(part, step=step + 1, first=first, second=second)
            part.rename(Path(folder) / f"step{step + 1:06}.npz")  # what is cut off has another name


# JAX ends processes whose heartbeats it misses, also where the machine has only stood still
jax.distributed.initialize(address, int(count), int(process), heartbeat_timeout_seconds=3600)
try:
    main()
except jax.errors.JaxRuntimeError as error:
    print(f"process {process} ends: {error}", file=sys.stderr, flush=True)
    os._exit(1)  # Python's own end would wait for processes that are gone
