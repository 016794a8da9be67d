"""One process of `benchmarks.collectives`: `SIDE PROCESS COUNT PORT OPERATIONS SIZES`; the first prints times."""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from jax import lax
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

SECONDS = 0.4
"""Of one measurement, about."""
FEWEST = 20
"""Collectives in a program of many: what begins and ends it, as copies of its state, is a small part of the time."""
COLLECTIVES = ("psum", "all-gather", "reduce-scatter", "all-to-all", "permute")
NOTHING = "nothing"
"""A program among all devices in which these exchange nothing."""
OPERATIONS = (*COLLECTIVES, NOTHING)

Make = Callable[[str, int, int], Callable[[], Any]]


def written(n: int) -> np.ndarray:
    """So many zeros in memory of their own: pages that nobody has written to are one, which caches hold, for all."""
    return np.full(n, 0, np.float32)


def of_jax(process: int, count: int) -> Make:
    """What makes a call of a program with so many collectives, one after another, by their name and bytes.

    These are the bytes of the larger side; there is at least one element per process. What a collective gives the next
    one takes, so that none can be left out, nor be done with another one.
    """
    mesh = Mesh(np.array(jax.devices()), "x")
    pairs = [(k, (k + 1) % count) for k in range(count)]

    def part(x: Any) -> Any:
        return lax.dynamic_slice_in_dim(x, lax.axis_index("x") * (len(x) // count), len(x) // count)

    def whole(x: Any, part: Any) -> Any:
        return lax.dynamic_update_slice_in_dim(x, part, 0, 0)

    alone: dict[str, Callable[[Any], Any]] = {
        "psum": lambda x: lax.psum(x, "x"),
        "all-gather": lambda x: lax.all_gather(x, "x", tiled=True),
        "reduce-scatter": lambda x: lax.psum_scatter(x, "x", tiled=True),
        "all-to-all": lambda x: lax.all_to_all(x, "x", 0, 0, tiled=True),
        "permute": lambda x: lax.ppermute(x, "x", pairs),
        NOTHING: lambda x: x + 1,
    }
    chained = {
        **alone,
        "all-gather": lambda x: alone["all-gather"](part(x)),
        "reduce-scatter": lambda x: whole(x, alone["reduce-scatter"](x)),
    }

    def make(name: str, size: int, calls: int) -> Callable[[], Any]:
        n = max(size // 4, count) // (count if name == "all-gather" and calls == 1 else 1)
        x = jax.make_array_from_process_local_data(NamedSharding(mesh, P("x")), written(n))

        def program(x: Any) -> Any:
            return alone[name](x) if calls == 1 else lax.fori_loop(0, calls, lambda _, x: chained[name](x), x)

        call = jax.jit(jax.shard_map(program, mesh=mesh, in_specs=P("x"), out_specs=P("x"), check_vma=False))
        return lambda: call(x).block_until_ready()

    return make


def of_mpi(process: int, count: int) -> Make:
    """The same by MPI itself."""
    from benchmarks.collectives_mpi import collectives

    return collectives(process, count)


def measured(run: Callable[[], Any], repeats: int) -> float:
    """The median of the seconds that a call takes."""
    times = []
    for _ in range(repeats):
        begun = time.perf_counter()
        run()
        times.append(time.perf_counter() - begun)
    return statistics.median(times)


def main() -> None:
    """Measures operations at every size: one in each program, and many in one."""
    side, process, count, port, operations, *sizes = sys.argv[1:]
    jax.distributed.initialize(f"localhost:{port}", int(count), int(process))
    assert jax.process_count() == int(count)
    make = (of_mpi if side == "mpi" else of_jax)(int(process), int(count))
    for name in operations.split(","):
        if side == "mpi" and name == NOTHING:
            continue
        for size in map(int, sizes):
            most = int(SECONDS * 3e8 / (size + 3e4))  # all must agree on how often
            calls, chains = max(FEWEST, min(200, most // 10)), min(10, 5 + most // 20)
            for way, number, repeats in (("alone", 1, max(7, min(1000, most))), ("chained", calls, chains)):
                if name == NOTHING and number > 1:
                    continue
                run = make(name, size, number)
                for _ in range(3):
                    run()
                taken = measured(run, repeats) / number
                if process == "0":
                    print(way, name, size, taken, flush=True)


if __name__ == "__main__":
    main()
