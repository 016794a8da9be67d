"""What JAX pays for a call, a wait and a transfer on xloom, against jaxlib's CPU, alternated in one process.

python -m benchmarks.jax_dispatch [rounds]
"""

from __future__ import annotations

import os
import statistics
import sys
from collections.abc import Callable

os.environ["JAX_PLATFORMS"] = "xloom,cpu"

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.programs import PROGRAMS
from benchmarks.timing import Run, alternate, median_wall, ratios

_SMALL, _LARGE = (8,), (1024, 1024)


def _add(x: jax.Array) -> jax.Array:
    return x + 1


def _dispatch(device: jax.Device) -> Run:
    x, function = jax.device_put(jnp.ones(_SMALL), device), jax.jit(_add)
    return lambda: function(x)


def _dispatch_many(device: jax.Device) -> Run:
    rows = [jax.device_put(jnp.full(_SMALL, float(k)), device) for k in range(20)]
    function = jax.jit(lambda *xs: [x + 1 for x in xs])
    return lambda: function(*rows)


def _dispatch_donated(device: jax.Device) -> Run:
    function = jax.jit(_add, donate_argnums=0)
    state = [jax.device_put(jnp.ones(_SMALL), device)]

    def run() -> None:
        state[0] = function(state[0])

    return run


def _compiled(device: jax.Device) -> Run:
    x = jax.device_put(jnp.ones(_SMALL), device)
    function = jax.jit(_add).lower(x).compile()
    return lambda: function(x)


def _optimiser(device: jax.Device) -> Run:
    """A step of a hundred tensors."""
    program = PROGRAMS["training/adam"]
    arguments, function = jax.device_put(program.make_arguments(), device), jax.jit(program.flat)
    return lambda: jax.block_until_ready(function(*arguments))


def _operator(device: jax.Device) -> Run:
    x = jax.device_put(jnp.ones(_SMALL), device)
    return lambda: x * x


def _block(device: jax.Device) -> Run:
    x, function = jax.device_put(jnp.ones(_SMALL), device), jax.jit(_add)
    return lambda: function(x).block_until_ready()


def _block_large(device: jax.Device) -> Run:
    x, function = jax.device_put(jnp.ones(_LARGE), device), jax.jit(_add)
    return lambda: function(x).block_until_ready()


def _to_numpy(shape: tuple[int, ...]) -> Callable[[jax.Device], Run]:
    def prepare(device: jax.Device) -> Run:
        x, function = jax.device_put(jnp.ones(shape), device), jax.jit(_add)
        return lambda: np.asarray(function(x))  # an array keeps its first answer: each needs a new one

    return prepare


def _from_numpy(shape: tuple[int, ...]) -> Callable[[jax.Device], Run]:
    def prepare(device: jax.Device) -> Run:
        x = np.ones(shape, np.float32)
        return lambda: jax.device_put(x, device).block_until_ready()

    return prepare


def _copied(device: jax.Device) -> Run:
    x = np.ones(_LARGE, np.float32)
    return lambda: jax.device_put(x, device, may_alias=False).block_until_ready()


def _scalar(device: jax.Device) -> Run:
    x, function = jax.device_put(jnp.float32(1), device), jax.jit(_add)
    return lambda: float(function(x))


CASES: dict[str, Callable[[jax.Device], Run]] = {
    "dispatch": _dispatch,
    "dispatch, 20 arguments and results": _dispatch_many,
    "dispatch, donated": _dispatch_donated,
    "400 arguments and 300 results, 22 MB": _optimiser,
    "dispatch, compiled ahead of time": _compiled,
    "operator x * x": _operator,
    "dispatch and block": _block,
    "dispatch and block, 4 MB": _block_large,
    "dispatch and float()": _scalar,
    "dispatch and np.asarray": _to_numpy(_SMALL),
    "dispatch and np.asarray, 4 MB": _to_numpy(_LARGE),
    "device_put": _from_numpy(_SMALL),
    "device_put, 4 MB": _from_numpy(_LARGE),
    "device_put that must copy, 4 MB": _copied,
}


def main() -> None:
    """Prints one row a case."""
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 41
    ours, theirs = jax.devices("xloom")[0], jax.devices("cpu")[0]
    print(f"{'microseconds a call':36} {'xloom':>9} {'XLA:CPU':>9} {'ratio':>6}")
    for name, prepare in CASES.items():
        first, second = alternate(prepare(ours), prepare(theirs), repeats=rounds)
        times = [median_wall(x) * 1e6 for x in (first, second)]
        print(f"{name:36} {times[0]:9.2f} {times[1]:9.2f} {statistics.median(ratios(first, second)):6.2f}", flush=True)


if __name__ == "__main__":
    main()
