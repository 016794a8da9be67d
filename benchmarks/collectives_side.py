"""One process of `benchmarks.collectives`: `SIDE PROCESS COUNT PORT SIZES`; the first prints a line per measurement."""

from __future__ import annotations

import ctypes
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import jax
import numpy as np
from jax import lax
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

SECONDS = 0.4
"""Of one measurement, about."""
FLOAT32 = 0x210  # MPI_FLOAT and MPI_SUM of the standard ABI
SUM = 0x21
OPERATIONS = ("psum", "all-gather", "reduce-scatter", "all-to-all", "permute")


def of_jax(process: int, count: int) -> Iterator[tuple[str, Callable[[int], Callable[[], Any]]]]:
    """What makes a call, by its operation; `size` are the bytes of the operand, for all-gather of the result.

    There is at least one element per process.
    """
    mesh = Mesh(np.array(jax.devices()), "x")
    pairs = [(k, (k + 1) % count) for k in range(count)]
    functions = {
        "psum": partial(lax.psum, axis_name="x"),
        "all-gather": partial(lax.all_gather, axis_name="x", tiled=True),
        "reduce-scatter": partial(lax.psum_scatter, axis_name="x", tiled=True),
        "all-to-all": partial(lax.all_to_all, axis_name="x", split_axis=0, concat_axis=0, tiled=True),
        "permute": partial(lax.ppermute, axis_name="x", perm=pairs),
    }

    def make(name: str, size: int) -> Callable[[], Any]:
        n = max(size // 4, count) // (count if name == "all-gather" else 1)
        x = jax.make_array_from_process_local_data(NamedSharding(mesh, P("x")), np.ones(n, np.float32))
        call = jax.jit(jax.shard_map(functions[name], mesh=mesh, in_specs=P("x"), out_specs=P("x"), check_vma=False))
        return lambda: call(x).block_until_ready()

    for name in functions:
        yield name, partial(make, name)


def of_mpi(process: int, count: int) -> Iterator[tuple[str, Callable[[int], Callable[[], Any]]]]:
    """The same by MPI itself."""
    from xloom.distributed import library
    from xloom.distributed.communicator import COMM_WORLD

    mpi = library.library()
    world, kind, plus = ctypes.c_void_p(COMM_WORLD), ctypes.c_void_p(FLOAT32), ctypes.c_void_p(SUM)

    def make(name: str, size: int) -> Callable[[], Any]:
        n = max(size // 4, count)
        x, y = np.ones(n, np.float32), np.empty(n, np.float32)
        source, target, part = ctypes.c_void_p(x.ctypes.data), ctypes.c_void_p(y.ctypes.data), n // count
        calls = {
            "psum": lambda: mpi.MPI_Allreduce(source, target, n, kind, plus, world),
            "all-gather": lambda: mpi.MPI_Allgather(source, part, kind, target, part, kind, world),
            "reduce-scatter": lambda: mpi.MPI_Reduce_scatter_block(source, target, part, kind, plus, world),
            "all-to-all": lambda: mpi.MPI_Alltoall(source, part, kind, target, part, kind, world),
            "permute": lambda: mpi.MPI_Sendrecv(
                source, n, kind, (process + 1) % count, 0, target, n, kind, (process - 1) % count, 0, world, None
            ),
        }
        call, kept = calls[name], (x, y)

        def run() -> Any:
            assert not call() and kept

        return run

    for name in OPERATIONS:
        yield name, partial(make, name)


def measured(run: Callable[[], Any], repeats: int) -> float:
    """The median of the seconds that a call takes."""
    times = []
    for _ in range(repeats):
        begun = time.perf_counter()
        run()
        times.append(time.perf_counter() - begun)
    return statistics.median(times)


def main() -> None:
    """Measures every operation at every size."""
    side, process, count, port, *sizes = sys.argv[1:]
    jax.distributed.initialize(f"localhost:{port}", int(count), int(process))
    assert jax.process_count() == int(count)
    for name, make in (of_mpi if side == "mpi" else of_jax)(int(process), int(count)):
        for size in map(int, sizes):
            run = make(size)
            for _ in range(3):
                run()
            repeats = max(7, min(1000, int(SECONDS * 3e8 / (size + 3e4))))  # all must agree on how often
            taken = measured(run, repeats)
            if process == "0":
                print(name, size, taken, flush=True)


if __name__ == "__main__":
    main()
