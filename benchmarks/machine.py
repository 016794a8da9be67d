"""What this machine can do, measured: a triad for memory, a large matrix product for arithmetic.

python -m benchmarks.machine prints it as JSON; the number of threads comes from the affinity mask.
"""

from __future__ import annotations

import json
import math
import os
import platform
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path

import numpy as np

_TRIAD_ELEMENTS = 1 << 24  # three arrays of 64 MiB: more than any cache
_GEMM_SIZES = (1024, 2048, 4096)
_SECONDS = 1.0  # of looking for the shortest time


@dataclass(frozen=True)
class Machine:
    """Where numbers come from."""

    processor: str
    threads: int
    load: float  # processes that wanted to run in the minute before
    bandwidth: float  # bytes a second
    peak: float  # f32 operations a second, two a fused multiply-add
    versions: dict[str, str]


def measure() -> Machine:
    """Takes a few seconds."""
    threads = len(os.sched_getaffinity(0))
    versions = {name: version(name) for name in ("xloom", "jaxlib", "numpy", "llvmlite")}
    return Machine(_processor(), threads, os.getloadavg()[0], _bandwidth(threads), _peak(), versions)


def _processor() -> str:
    model = next((x for x in Path("/proc/cpuinfo").read_text().splitlines() if x.startswith("model name")), "")
    return model.partition(":")[2].strip() or platform.machine()


def _best(function: Callable[[], object]) -> float:
    """The shortest of several calls: what the machine can do, not what its other guests left."""
    function()
    shortest = math.inf
    end = time.perf_counter() + _SECONDS
    while (start := time.perf_counter()) < end:
        function()
        shortest = min(shortest, time.perf_counter() - start)
    return shortest


def _bandwidth(threads: int) -> float:
    import numba

    numba.set_num_threads(threads)

    @numba.njit(parallel=True, fastmath=True)
    def triad(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> None:
        for k in numba.prange(a.size):
            a[k] = b[k] + np.float32(3.0) * c[k]

    a, b, c = (np.ones(_TRIAD_ELEMENTS, np.float32) for _ in range(3))
    # as STREAM counts: two reads and a write, without the read that a write may cost
    return 3 * a.nbytes / _best(lambda: triad(a, b, c))


def _peak() -> float:
    fastest = 0.0
    for n in _GEMM_SIZES:
        a = np.ones((n, n), np.float32)
        out = np.empty_like(a)
        fastest = max(fastest, 2 * n**3 / _best(lambda a=a, out=out: np.matmul(a, a, out=out)))
    return fastest


if __name__ == "__main__":
    print(json.dumps(asdict(measure())))
