"""What a sweep found: how many, how fast, and each program that is not as it should be."""

from __future__ import annotations

from collections.abc import Iterator

from rich.table import Table
from rich.text import Text

from benchmarks.figures import duration, factor, peak_factor, size
from benchmarks.result import Result, geometric_mean

_PAGE = 4096  # less memory than this is no difference


def report(results: list[Result], slower_than: float) -> Iterator[Table | str]:
    """What to print, in turn."""
    good = [r for r in results if r.status == "ok"]
    yield f"{len(good)} of {len(results)} programs compile, agree with XLA, and were measured."
    if good:
        yield (
            f"XLA's time is {factor(geometric_mean(r.ratio for r in good))} times ours (geometric mean), "
            f"its processor time {factor(geometric_mean(r.cpu_ratio for r in good))} times."
        )
    slow = sorted((r for r in good if r.ratio < slower_than), key=lambda r: r.ratio)
    busy = sorted((r for r in good if r.cpu_ratio < slower_than <= r.ratio), key=lambda r: r.cpu_ratio)
    large = sorted(filter(_needs_more_memory, good), key=peak_factor, reverse=True)
    yield from _measured("Slower than XLA by the clock", slow)
    yield from _measured("More processor time than XLA's", busy)
    yield from _measured("More memory than XLA's", large)
    yield from _unmeasured([r for r in results if r.status != "ok"])


def _needs_more_memory(result: Result) -> bool:
    assert result.xla and result.ours
    return result.ours.peak_bytes > result.xla.peak_bytes + _PAGE


def _measured(title: str, results: list[Result]) -> Iterator[Table]:
    columns = ("program", "ratio", "CPU ratio", "XLA", "xloom", "peak", "of XLA's")
    rows = [
        (r.name, factor(r.ratio), factor(r.cpu_ratio), duration(r.xla.run), duration(r.ours.run))
        + (size(r.ours.peak_bytes), factor(peak_factor(r)))
        for r in results
        if r.xla and r.ours
    ]
    yield from _table(title, columns, rows)


def _unmeasured(results: list[Result]) -> Iterator[Table]:
    yield from _table("Not measured", ("program", "status", "why"), [(r.name, r.status, r.message) for r in results])


def _table(title: str, columns: tuple[str, ...], rows: list[tuple[str, ...]]) -> Iterator[Table]:
    """None of no rows."""
    if not rows:
        return
    table = Table(box=None, header_style="bold", pad_edge=False, row_styles=["", "dim"])
    table.title, table.title_justify = f"{title}: {len(rows)}", "left"
    for k, column in enumerate(columns):
        table.add_column(column, justify="right" if k and len(columns) > 3 else "left", no_wrap=True)
    for row in rows:
        table.add_row(*map(Text, row))
    yield table
