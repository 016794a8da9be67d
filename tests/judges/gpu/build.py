"""What needs no GPU: programs with the interpreter's values, and the machine code of their kernels, in a folder."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Collection
from pathlib import Path

from tests.judges.gpu.benchmarks import programs
from tests.judges.gpu.images import Images
from tests.judges.gpu.machine import record_target
from tests.judges.gpu.recorded import record
from tests.judges.gpu.sources import SOURCES, candidates
from xloom.cpu.runtime.dynamic_shapes import padded_to_bounds
from xloom.cuda.kernel import DeviceKernel
from xloom.cuda.lower import lowered
from xloom.errors import LoweringError, XloomError
from xloom.hlo.dynamic_sizes import has_dynamic
from xloom.hlo.module import Module
from xloom.interpreter.bounds import bounds
from xloom.llvm.target import Target


def build(folder: Path, target: Target, sources: Collection[str], share: float, assembles: bool) -> Counter[str]:
    """Records a share of all programs of some sources; how many there are, and are refused, by source.

    `assembles`: kernels are made into machine code, in the folder too.
    """
    record_target(folder, target.name)
    images = Images(folder)
    counts: Counter[str] = Counter()
    for source in sources:
        start = time.monotonic()
        for number, candidate in enumerate(candidates(source, max(1, round(SOURCES[source][1] * share)))):
            try:
                kernels = kernels_of(candidate.module, target)
                for kernel in kernels if assembles else ():
                    images.make(kernel, target)
                given = list(candidate.arguments)
                runs = [] if candidate.is_exact else [b.runs for b in bounds(candidate.module, given)]
                record(folder, source, number, candidate.name, candidate.module, given, runs)
                counts[source] += 1
            except LoweringError:
                counts[f"{source} refused"] += 1
            except XloomError as error:
                counts[f"{source} without values"] += 1
                print(f"{source} {candidate.name}: {error}")
        print(f"{source}: {counts[source]} programs in {time.monotonic() - start:.0f} s", flush=True)
    if assembles:
        for benchmark in programs(is_small=False):
            for kernel in kernels_of(benchmark.module, target):
                images.make(kernel, target)
    return counts


def kernels_of(module: Module, target: Target) -> Collection[DeviceKernel]:
    """A program's kernels. Raises LoweringError for what has none."""
    padded = padded_to_bounds(module)[0] if has_dynamic(module) else module
    return lowered(padded, target).kernels
