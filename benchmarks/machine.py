"""What this machine can do, measured: a triad for memory, matrix products for arithmetic.

python -m benchmarks.machine prints it as JSON; the number of threads comes from the affinity mask.
"""

from __future__ import annotations

import json
import math
import os
import platform
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path

_TRIAD_ELEMENTS = 1 << 23  # three arrays of 32 MiB: more than a cache holds
_GEMM_SIZE = 512  # short enough to end before another process is let in
_SECONDS = 2.0  # of looking for the shortest time


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
    load = os.getloadavg()[0]
    peak = _peak(threads)  # first, as NumPy's BLAS has to be told its threads before it is loaded
    return Machine(_processor(), threads, load, _bandwidth(threads), peak, versions)


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
    import numpy as np

    numba.set_num_threads(threads)

    @numba.njit(parallel=True, fastmath=True)
    def triad(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> None:
        for k in numba.prange(a.size):
            a[k] = b[k] + np.float32(3.0) * c[k]

    a, b, c = (np.ones(_TRIAD_ELEMENTS, np.float32) for _ in range(3))
    # as STREAM counts: two reads and a write, without the read that a write may cost
    return 3 * a.nbytes / _best(lambda: triad(a, b, c))


def _peak(threads: int) -> float:
    # a product a thread: threads that share one wait for each other, and on a busy machine that is all they do
    os.environ["OPENBLAS_NUM_THREADS"] = "1"
    import numpy as np

    flops = 2 * _GEMM_SIZE**3
    a = np.ones((_GEMM_SIZE, _GEMM_SIZE), np.float32)
    outs = [np.empty_like(a) for _ in range(threads)]
    alone = flops / _best(lambda: np.matmul(a, a, out=outs[0]))
    with ThreadPoolExecutor(threads) as pool:
        together = threads * flops / _best(lambda: list(pool.map(lambda out: np.matmul(a, a, out=out), outs)))
    return max(alone, together)  # cores that share their arithmetic units gain nothing together


if __name__ == "__main__":
    print(json.dumps(asdict(measure())))
