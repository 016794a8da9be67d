"""What needs no GPU: programs with the interpreter's values, and the machine code of their kernels, in a folder."""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Collection
from pathlib import Path

from tests.judges.gpu.benchmarks import programs
from tests.judges.gpu.recorded import cache_of, record
from tests.judges.gpu.sources import SOURCES, candidates
from xloom.cpu.runtime.dynamic_shapes import padded_to_bounds
from xloom.cuda.lower import lowered
from xloom.environment import CACHE_DIR
from xloom.errors import LoweringError, XloomError
from xloom.hlo.module import Module
from xloom.interpreter.bounds import bounds
from xloom.llvm.target import Target
from xloom.passes.dynamic_padding import has_dynamic


def build(folder: Path, target: Target, sources: Collection[str], share: float, assembles: bool) -> Counter[str]:
    """Records a share of all programs of some sources; how many there are, and are refused, by source.

    `assembles`: kernels are made into machine code, in the folder's own cache.
    """
    folder.mkdir(parents=True, exist_ok=True)
    os.environ[CACHE_DIR.name] = str(cache_of(folder))
    counts: Counter[str] = Counter()
    for source in sources:
        start = time.monotonic()
        for number, candidate in enumerate(candidates(source, max(1, round(SOURCES[source][1] * share)))):
            try:
                if assembles:
                    assemble(candidate.module, target)
                else:
                    lowered(_padded(candidate.module), target)
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
            assemble(benchmark.module, target)
    return counts


def assemble(module: Module, target: Target) -> None:
    """Machine code of a program's kernels, into the cache. Raises LoweringError for what has none."""
    from xloom.cuda.run_time.images import image_of

    for kernel in lowered(_padded(module), target).kernels:
        image_of(kernel, target)


def _padded(module: Module) -> Module:
    return padded_to_bounds(module)[0] if has_dynamic(module) else module
