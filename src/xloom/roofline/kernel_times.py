"""How long each kernel of a program takes, and how near that is to the machine's limits."""

from __future__ import annotations

import os
import statistics
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from xloom.hlo.module import Module
from xloom.hlo.opcodes import OPCODES, Flags
from xloom.roofline.limits import Gauge, Limits
from xloom.roofline.repeatable import Repeatable
from xloom.trace import trace

_LOCAL_BYTES = 1 << 20  # what is smaller stays in caches, and no memory bandwidth limits it
_CONTROL = ("while", "conditional", "call")  # their time is that of what is inside
_OUTSIDE = ("custom-call", "infeed", "outfeed")
_MATH = frozenset(
    """exponential exponential-minus-one log log-plus-one logistic tanh tan sine cosine power erf atan2 cbrt divide
    remainder sqrt rsqrt""".split()  # noqa: SIM905 - as a table
)
Span = dict[str, Any]
"""An event of a trace."""
_CALL_SECONDS = 2e-6  # what is shorter is mostly the way there and back
_NEAR = 0.5
_UNEVEN = 1.5


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
    """Seconds of all its runs in one of the program, the median of these."""
    runs: float
    """How often it runs in one run of the program."""
    bytes: int
    flops: int
    fused: str = ""
    """The opcodes of all that it computes; empty of one instruction."""
    source: str = ""
    """`file:line` of its first instruction that has one."""
    element_bytes: int = 4
    """Of the numbers that it computes with."""
    best: float = 0.0
    """Seconds of its shortest run; 0 where that is not known."""

    @property
    def bandwidth(self) -> float:
        """Bytes a second."""
        return self.bytes / max(self.seconds, 1e-9)

    @property
    def rate(self) -> float:
        """Operations a second."""
        return self.flops / max(self.seconds, 1e-9)

    def of_arithmetic(self, limits: Limits) -> float:
        """The share of the arithmetic that there can be; twice as much of what is half as wide as f32."""
        return self.rate / (limits.peak * 4 / self.element_bytes)

    def of_memory(self, limits: Limits) -> float:
        """What it moves, in shares of what memory can give: more than 1 only of what the caches hold."""
        return self.bandwidth / limits.memory

    def of_limit(self, limits: Limits) -> float:
        """The share of the limit that it is nearest to; bandwidth is none of what the caches hold."""
        reached = self.of_arithmetic(limits)
        return max(reached, self.of_memory(limits)) if self.bytes > _LOCAL_BYTES else reached

    def limited_by(self, limits: Limits) -> str:
        """What keeps it from being faster, in a word or two."""
        row = OPCODES.get(self.opcode)
        arithmetic, memory = self.of_arithmetic(limits), self.of_memory(limits)
        if row is not None and Flags.COLLECTIVE in row.flags:
            return "waits for devices"
        if self.opcode in _OUTSIDE:
            return "code outside"
        if arithmetic >= _NEAR and arithmetic >= memory:
            return "arithmetic"
        if self.seconds < _CALL_SECONDS:
            return "latency of a call"
        if self.seconds > _UNEVEN * self.best > 0:
            return "waits for threads"  # the same work has been done sooner: others had the processors
        if memory > 1:
            return "caches"  # for memory does not give so much
        if memory >= _NEAR:
            return "memory"
        if _MATH.intersection((self.fused or self.opcode).split(", ")):
            return "math functions"
        return "caches, order of access" if self.bytes > self.flops else "own instructions"


def kernel_times(
    module: Module,
    arguments: Sequence[Any],
    repeats: int,
    path: str | os.PathLike[str] | None = None,
    gauge: Gauge | None = None,
) -> list[KernelTime]:
    """Compiles and runs a program `repeats` times; its kernels, the one that takes the most time first.

    The trace is written to `path`. `gauge` looks at the machine's limits between the runs: each of these comes after
    one that is not counted, and finds the caches as a program leaves them. Raises LoweringError for what has no native
    code.
    """
    runs: list[list[Span]] = []
    with trace(path) as taken:
        run = Repeatable.native(module, arguments)
        run(run.fresh_arguments())
        for _ in range(repeats):
            if gauge is not None:
                gauge.look()
                run(run.fresh_arguments())
            given, first = run.fresh_arguments(), len(taken.spans())
            run(given)
            runs.append([span for span in taken.spans()[first:] if _is_kernel(span)])
    return times_of(runs)


def times_of(runs: Sequence[Sequence[Span]]) -> list[KernelTime]:
    """The kernels of several runs of a program, each the spans of its kernels; what takes the most time comes first."""
    kernels: dict[str, list[list[Span]]] = defaultdict(list)
    for spans in runs:
        in_run: dict[str, list[Span]] = defaultdict(list)
        for span in spans:
            in_run[span["args"]["instructions"]].append(span)
        for name, found in in_run.items():
            kernels[name].append(found)
    times = []
    for name, in_runs in kernels.items():
        durations = [span["dur"] / 1e6 for found in in_runs for span in found]
        details = in_runs[0][0]["args"]
        times.append(
            KernelTime(
                name,
                details["opcode"],
                details.get("op_name", ""),
                statistics.median(durations),
                # not the mean: a run in which others had the processor would put this kernel first
                statistics.median(sum(span["dur"] for span in found) / 1e6 for found in in_runs),
                len(durations) / len(runs),
                details["bytes"],
                details["flops"],
                details.get("fused", ""),
                details.get("source", ""),
                details["element_bytes"],
                min(durations),
            )
        )
    return sorted(times, key=lambda kernel: -kernel.total)


def _is_kernel(span: Span) -> bool:
    return span["cat"] == "kernel" and span["args"]["opcode"] not in _CONTROL
