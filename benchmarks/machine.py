"""What this machine can do at best.

python -m benchmarks.machine prints it as JSON; the number of threads comes from the affinity mask.
"""

from __future__ import annotations

import json
import os
import platform
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path

from xloom.roofline.limits import measure as measure_limits

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
    limits = measure_limits(_SECONDS)
    return Machine(_processor(), threads, load, limits.bandwidth, limits.peak, versions)


def _processor() -> str:
    model = next((x for x in Path("/proc/cpuinfo").read_text().splitlines() if x.startswith("model name")), "")
    return model.partition(":")[2].strip() or platform.machine()


if __name__ == "__main__":
    print(json.dumps(asdict(measure())))
