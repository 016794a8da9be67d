"""Numbers as people read them, and what a set of results comes to."""

from __future__ import annotations

import math
from dataclasses import dataclass

from benchmarks.result import Result, geometric_mean


def duration(seconds: float) -> str:
    """Three digits and a unit."""
    for scale, unit in ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs")):
        if seconds >= scale:
            return f"{_digits(seconds / scale)} {unit}"
    return f"{_digits(seconds * 1e9)} ns"


def size(count: int) -> str:
    """Three digits and a unit of bytes."""
    if count < 1024:
        return f"{count} B"
    exponent = min(4, int(math.log(count, 1024)))
    return f"{_digits(count / 1024**exponent)} {'KMGT'[exponent - 1]}iB"


def factor(value: float) -> str:
    """Two digits after the point; "-" for what is not known."""
    return f"{value:.2f}" if math.isfinite(value) else "-"


def share(result: Result) -> str:
    """How near xloom comes to what bounds the program."""
    return f"{result.reached:.0%} {result.bound}" if result.bound else ""


def compile_factor(result: Result, seconds: float) -> float:
    """A compilation of ours, of XLA's: below 1 is faster."""
    return seconds / result.xla.compile if result.xla else math.nan


def peak_factor(result: Result) -> float:
    """Our memory, of XLA's: below 1 is less."""
    if result.xla is None or result.ours is None or not result.xla.peak_bytes:
        return math.nan
    return result.ours.peak_bytes / result.xla.peak_bytes


@dataclass(frozen=True)
class Summary:
    """All results in a few numbers."""

    measured: int
    total: int
    ratio: float
    cpu_ratio: float
    compile: float
    cached_compile: float
    compile_seconds: tuple[float, float]  # of all programs: XLA's and ours
    peak: float
    families: dict[str, float]
    slowest: Result | None
    dispatch: Result | None  # of a program that does nothing


def summarise(results: list[Result]) -> Summary:
    """Geometric means over what was measured."""
    good = [r for r in results if r.status == "ok"]
    families = {
        f: geometric_mean(r.ratio for r in good if r.family == f) for f in dict.fromkeys(r.family for r in good)
    }
    peaks = [p for p in map(peak_factor, good) if p > 0]
    return Summary(
        measured=len(good),
        total=len(results),
        ratio=geometric_mean(r.ratio for r in good),
        cpu_ratio=geometric_mean(r.cpu_ratio for r in good),
        compile=geometric_mean(compile_factor(r, r.ours.compile) for r in good if r.ours),
        cached_compile=geometric_mean(compile_factor(r, r.cached_compile) for r in good),
        compile_seconds=(sum(r.xla.compile for r in good if r.xla), sum(r.ours.compile for r in good if r.ours)),
        peak=geometric_mean(peaks),
        families=families,
        slowest=min(good, key=lambda r: r.ratio, default=None),
        dispatch=next((r for r in good if r.name == "dispatch/empty"), None),
    )


def summary_lines(summary: Summary) -> list[str]:
    """The summary in words."""
    lines = [f"{summary.measured} of {summary.total} programs compile on xloom, agree with XLA, and were measured."]
    if summary.slowest is None:
        return lines
    return [
        *lines,
        f"Run time: XLA's is {factor(summary.ratio)} times ours (geometric mean); "
        f"the least is {factor(summary.slowest.ratio)}, {summary.slowest.name}.",
        f"Processor time over all threads: XLA's is {factor(summary.cpu_ratio)} times ours.",
        f"Compile time: ours is {factor(summary.compile)} of XLA's with nothing cached, "
        f"and {factor(summary.cached_compile)} from the cache on disk; "
        f"of all programs {duration(summary.compile_seconds[1])} with nothing cached, "
        f"XLA's {duration(summary.compile_seconds[0])}.",
        f"Peak memory: ours is {factor(summary.peak)} of XLA's.",
        *_dispatch_lines(summary.dispatch),
    ]


def _dispatch_lines(empty: Result | None) -> list[str]:
    if empty is None or empty.xla is None or empty.ours is None:
        return []
    return [
        f"Dispatch: a call of an empty program takes XLA {duration(empty.xla.run)}, and us {duration(empty.ours.run)}."
    ]


def _digits(value: float) -> str:
    if value >= 100:
        return f"{value:.0f}"
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}"
