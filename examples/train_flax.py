"""Trains a classifier of Flax on the devices of several processes, each of which has its part of every batch.

    python train_flax.py                                                        one process
    python train_flax.py --address localhost:4000 --processes 2 --process 0     two: this command,
    python train_flax.py --address localhost:4000 --processes 2 --process 1     and this one

On several machines the address is that of the first, which all can reach. With `JAX_PLATFORMS=xloom,cpu` it runs on
xloom, with `JAX_PLATFORMS=cpu` on XLA:CPU.

`--checkpoint FOLDER` saves what is trained every 50 steps, by Orbax. If a process dies, the others end with an error
that says which one, after as many seconds as XLOOM_DISTRIBUTED_TIMEOUT says; the same commands then go on from the last
checkpoint.
"""

import argparse
import os
import sys
import time
from pathlib import Path

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

BATCH = 256
MODEL = nn.Sequential([nn.Dense(512), nn.gelu, nn.Dense(512), nn.gelu, nn.Dense(10)])
OPTIMIZER = optax.adamw(1e-3)


def batch(step: int) -> tuple[np.ndarray, np.ndarray]:
    """This process's part of a batch: points, and which of ten others each is nearest to."""
    random = np.random.default_rng(step)
    points = np.random.default_rng(0).normal(size=(10, 64)).astype(np.float32)
    inputs = random.normal(size=(BATCH, 64)).astype(np.float32)
    classes = (inputs @ points.T).argmax(1).astype(np.int32)
    mine = np.array_split(np.arange(BATCH), jax.process_count())[jax.process_index()]
    return inputs[mine], classes[mine]


def initial(key: jax.Array) -> dict:
    parameters = MODEL.init(key, jnp.zeros((1, 64)))
    return {"parameters": parameters, "optimizer": OPTIMIZER.init(parameters), "step": jnp.zeros((), jnp.int32)}


def train_step(state: dict, inputs: jax.Array, classes: jax.Array) -> tuple[dict, jax.Array]:
    def loss_of(parameters):
        logits = MODEL.apply(parameters, inputs)
        return optax.softmax_cross_entropy_with_integer_labels(logits, classes).mean()

    loss, gradients = jax.value_and_grad(loss_of)(state["parameters"])
    updates, optimizer = OPTIMIZER.update(gradients, state["optimizer"], state["parameters"])
    parameters = optax.apply_updates(state["parameters"], updates)
    return {"parameters": parameters, "optimizer": optimizer, "step": state["step"] + 1}, loss


def train(steps: int, checkpoint: Path | None) -> None:
    mesh = Mesh(np.array(jax.devices()), "batch")
    everywhere, cut = NamedSharding(mesh, P()), NamedSharding(mesh, P("batch"))
    state = jax.jit(initial, out_shardings=everywhere)(jax.random.key(0))
    manager = None
    if checkpoint:
        import orbax.checkpoint as ocp

        manager = ocp.CheckpointManager(checkpoint.resolve())
        if manager.latest_step() is not None:
            state = manager.restore(manager.latest_step(), args=ocp.args.StandardRestore(state))
    step_fn = jax.jit(train_step, donate_argnums=0)
    start = time.perf_counter()
    for step in range(int(state["step"]), steps):
        inputs, classes = (jax.make_array_from_process_local_data(cut, part) for part in batch(step))
        state, loss = step_fn(state, inputs, classes)
        if step % 50 == 0 or step == steps - 1:
            print(f"step {step:4d}: loss {float(loss):.4f}, {time.perf_counter() - start:.1f} s", flush=True)
        if manager and step % 50 == 49:
            jax.block_until_ready(state)  # what went wrong is told here; Orbax would wait for who is gone
            manager.save(step + 1, args=ocp.args.StandardSave(state))
    if manager:
        manager.wait_until_finished()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--address", help="host:port of the first process")
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--process", type=int, default=0)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--checkpoint", type=Path)
    options = parser.parse_args()
    if options.address:
        jax.distributed.initialize(options.address, options.processes, options.process)
    try:
        train(options.steps, options.checkpoint)
    except jax.errors.JaxRuntimeError as error:
        print(f"process {options.process} ends: {error}", file=sys.stderr, flush=True)
        os._exit(1)  # Python's own end would wait for processes that are gone


if __name__ == "__main__":
    main()
