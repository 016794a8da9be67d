"""One process of `benchmarks.collectives`: `all PROCESS COUNT PORT PAIRS SIDES OPERATIONS SIZES`; the first prints."""

from __future__ import annotations

import gc
import json
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np
from jax import lax
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from benchmarks.collectives_mpi import barrier, collectives, written

BLOCK = 0.02
"""Seconds of a block of one side, about."""
FEWEST, MOST = 10, 500
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
    one takes, so that none can be left out, nor be done with another one.
    """
    mesh = Mesh(np.array(jax.devices(platform)), "x")
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
