"""One process of `benchmarks.collectives`: `all PROCESS COUNT PORT PAIRS SIDES OPERATIONS SIZES`; the first prints."""

from __future__ import annotations

import gc
import json
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from benchmarks.collectives_mpi import barrier, collectives

BLOCK = 0.02
"""Seconds of a block of one side, about."""
FEWEST, MOST = 20, 500
"""Collectives in a program of many, and calls in a block: what begins and ends them is a small part of the time."""
OURS = "xloom"
COLLECTIVES = ("psum", "all-gather", "reduce-scatter", "all-to-all", "permute")
NOTHING = "nothing"
"""A program among all devices in which these exchange nothing."""
OPERATIONS = (*COLLECTIVES, NOTHING)

Make = Callable[[str, int, int], Callable[[], Any]]


def of_jax(platform: str, count: int) -> Make:
    """What makes a call of a program with so many collectives, one after another, by their name and bytes.

    These are the bytes of the larger side; there is at least one element per process. What a collective gives the next
    one takes, as a part of what it takes where it is smaller, or a part of it where it is larger: so none can be left
    out, nor be done with another one.
    """
    mesh = Mesh(np.array(jax.devices(platform)), "x")
    pairs = [(k, (k + 1) % count) for k in range(count)]

    alone: dict[str, Callable[[Any], Any]] = {
        "psum": lambda x: lax.psum(x, "x"),
        "all-gather": lambda x: lax.all_gather(x, "x", tiled=True),
        "reduce-scatter": lambda x: lax.psum_scatter(x, "x", tiled=True),
        "all-to-all": lambda x: lax.all_to_all(x, "x", 0, 0, tiled=True),
        "permute": lambda x: lax.ppermute(x, "x", pairs),
        NOTHING: lambda x: x + 1,
    }

    def chained(x: Any, name: str) -> Any:
        y = alone[name](x)
        if y.shape == x.shape:
            return y
        return lax.dynamic_update_slice_in_dim(x, y[-1:] if len(y) > len(x) else y, 0, 0)

    def make(name: str, size: int, calls: int) -> Callable[[], Any]:
        n = max(size // 4, count) // (count if name == "all-gather" else 1)
        # by a program, as a result that is donated time and again would be
        x = jax.jit(lambda: jnp.zeros(n * count), out_shardings=NamedSharding(mesh, P("x")))()

        def program(x: Any) -> Any:
            return alone[name](x) if calls == 1 else lax.fori_loop(0, calls, lambda _, x: chained(x, name), x)

        mapped = jax.shard_map(program, mesh=mesh, in_specs=P("x"), out_specs=P("x"), check_vma=False)
        if calls == 1:
            call = jax.jit(mapped)
            return lambda: call(x).block_until_ready()
        call = jax.jit(mapped, donate_argnums=0)  # a program of many begins without a copy, as MPI's calls do
        state = [x]

        def run() -> None:
            state[0] = call(state[0]).block_until_ready()

        return run

    return make


def sides(names: Sequence[str], process: int, count: int) -> dict[str, Make]:
    """What makes calls, by side."""
    found = {OURS: of_jax("xloom", count), "gloo": of_jax("cpu", count), "mpi": collectives(process, count)}
    return {name: found[name] for name in names}


def alternated(runs: dict[str, Callable[[], Any]], calls: int, pairs: int) -> dict[str, list[float]]:
    """The seconds of a call in blocks of each, side by side; who begins changes every time."""
    blocks: dict[str, list[float]] = {side: [] for side in runs}
    for k in range(pairs):
        gc.collect()
        for side in list(runs) if k % 2 == 0 else reversed(list(runs)):
            runs[side]()  # caches hold what the others left
            barrier()
            begun = time.perf_counter()
            for _ in range(calls):
                runs[side]()
            blocks[side].append((time.perf_counter() - begun) / calls)
    return blocks


def main() -> None:
    """Measures operations at every size: one in each program, and many in one."""
    _, process, count, port, pairs, names, operations, *sizes = sys.argv[1:]
    jax.distributed.initialize(f"localhost:{port}", int(count), int(process))
    assert jax.process_count() == int(count)
    makes = sides(names.split(","), int(process), int(count))
    for name in operations.split(","):
        for size in map(int, sizes):
            most = min(MOST, int(BLOCK * 3e8 / (size + 3e4)))  # all must agree on how often
            for way, number, calls in (("alone", 1, max(1, most)), ("chained", max(FEWEST, most), 1)):
                if name == NOTHING and number > 1:
                    continue
                takes_part = [side for side in makes if (name, side) != (NOTHING, "mpi")]
                runs = {side: makes[side](name, size, number) for side in takes_part}
                for run in runs.values():
                    run()
                taken = alternated(runs, calls, int(pairs))
                if process == "0":
                    each = {side: [seconds / number for seconds in blocks] for side, blocks in taken.items()}
                    print(way, name, size, json.dumps(each), flush=True)


if __name__ == "__main__":
    main()
