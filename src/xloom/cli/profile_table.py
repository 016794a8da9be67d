"""The kernels of a program as a table: what each is, how long it takes, and what keeps it from being faster."""

from __future__ import annotations

from collections.abc import Sequence

from rich.table import Table
from rich.text import Text

from xloom.cli.durations import duration
from xloom.roofline.kernel_times import KernelTime
from xloom.roofline.limits import Limits

_LEFT = ("kernel", "what", "limited by")
_CACHES = "More than 100 % of memory comes out of caches."


def profile_table(kernels: Sequence[KernelTime], limits: Limits, top: int) -> Table:
    """The first `top` of kernels that come in the order of their time."""
    total = sum(kernel.total for kernel in kernels)
    shown = kernels[:top]
    has_more = any(kernel.of_limit(limits) > 1 for kernel in shown)
    table = Table(
        title=f"{limits.memory / 1e9:.1f} GB/s and {limits.peak / 1e9:.0f} GFLOP/s are this machine's limits",
        caption=_CACHES if has_more else None,
    )
    for name in ("kernel", "what", "share", "time", "runs", "GB/s", "GFLOP/s", "of the limit", "limited by"):
        table.add_column(name, justify="left" if name in _LEFT else "right", overflow="fold")
    for kernel in shown:
        table.add_row(
            kernel.name,
            Text("\n".join(_what(kernel))),
            f"{kernel.total / max(total, 1e-9):.1%}",
            duration(kernel.seconds),
            f"{kernel.runs:g}",
            f"{kernel.bandwidth / 1e9:.1f}",
            f"{kernel.rate / 1e9:.1f}",
            f"{kernel.of_limit(limits):.0%}",
            kernel.limited_by(limits),
        )
    return table


def _what(kernel: KernelTime) -> list[str]:
    """Its operators, the framework's name of it, and its source line."""
    return [line for line in (kernel.fused or kernel.opcode, kernel.op_name, kernel.source) if line]
