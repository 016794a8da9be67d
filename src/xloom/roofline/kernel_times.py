"""How long each kernel of a program takes, and how near that is to the machine's limits."""

from __future__ import annotations

import os
import statistics
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from xloom.cpu.compile import compile as compile_module
from xloom.hlo.module import Module
from xloom.roofline.limits import Limits
from xloom.trace import trace

_LOCAL_BYTES = 1 << 20  # what is smaller stays in caches, and no memory bandwidth limits it
_CONTROL = ("while", "conditional", "call")  # their time is that of what is inside


@dataclass(frozen=True)
class KernelTime:
    """A kernel in the runs of a program."""

    name: str
    """The names of the instructions that it makes."""
    opcode: str
    op_name: str
    """Of its first instruction that has one."""
    seconds: float
    """The median of its runs."""
    total: float
    """Seconds of all its runs in one of the program."""
    runs: float
    """How often it runs in one run of the program."""
    bytes: int
    flops: int

    @property
    def bandwidth(self) -> float:
        """Bytes a second."""
        return self.bytes / max(self.seconds, 1e-9)

    @property
    def rate(self) -> float:
        """Operations a second."""
        return self.flops / max(self.seconds, 1e-9)

    def of_limit(self, limits: Limits) -> float:
        """The share of the limit that it is nearest to; bandwidth is none of what the caches hold."""
        reached = self.rate / limits.peak
        return max(reached, self.bandwidth / limits.bandwidth) if self.bytes > _LOCAL_BYTES else reached


def kernel_times(
    module: Module, arguments: Sequence[Any], repeats: int, path: str | os.PathLike[str] | None = None
) -> list[KernelTime]:
    """Compiles and runs a program `repeats` times; its kernels, the one that takes the most time first.

    The trace is written to `path`. Raises LoweringError for what has no native code.
    """
    with trace(path) as taken:
        program = compile_module(module)
        program(*arguments)
        first = len(taken.spans())
        for _ in range(repeats):
            program(*arguments)
    kernels: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for span in taken.spans()[first:]:
        if span["cat"] == "kernel" and span["args"]["opcode"] not in _CONTROL:
            kernels[span["name"]].append(span)
    times = []
    for name, spans in kernels.items():
        durations = [span["dur"] / 1e6 for span in spans]
        details = spans[0]["args"]
        times.append(
            KernelTime(
                name,
                details["opcode"],
                details.get("op_name", ""),
                statistics.median(durations),
                sum(durations) / repeats,
                len(spans) / repeats,
                details["bytes"],
                details["flops"],
            )
        )
    return sorted(times, key=lambda kernel: -kernel.total)
