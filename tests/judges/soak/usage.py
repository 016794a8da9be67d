"""What a process holds, as Linux's /proc tells it."""

from __future__ import annotations

import ctypes
import os
import statistics
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

_PROC = Path("/proc")
_MIB = 1 << 20
_PR_SET_CHILD_SUBREAPER = 36


class Usage(NamedTuple):
    """Of one process, at one time."""

    memory: float
    """MiB that are resident and no file's, but for those that are kept."""
    kept: float
    """MiB of what was compiled, which the process keeps for later up to a bound."""
    files: int
    threads: int
    processes: int
    """That it has started, those among them that have ended and were not waited for."""


def usage_of(process: int, kept: int) -> Usage:
    """What a process holds that says that it keeps so many bytes.

    Raises FileNotFoundError for a process that there is not."""
    lines = (_PROC / str(process) / "status").read_text().splitlines()
    fields = dict(line.split(":", 1) for line in lines if ":" in line)
    kib = int(fields["RssAnon"].split()[0])
    return Usage(
        (kib * 1024 - kept) / _MIB,
        kept / _MIB,
        len(os.listdir(_PROC / str(process) / "fd")),
        int(fields["Threads"]),
        len(descendants(process)),
    )


@contextmanager
def adopting() -> Iterator[None]:
    """Orphans among the descendants of this process become its children: else they would be init's, and no one's leak."""
    libc = ctypes.CDLL(None)
    libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    try:
        yield
    finally:
        libc.prctl(_PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)


def working(processes: set[int]) -> set[int]:
    """Those that have not ended."""
    found: set[int] = set()
    for process in processes:
        try:
            state = (_PROC / str(process) / "stat").read_text().rpartition(")")[2].split()[0]
        except FileNotFoundError:
            continue
        found |= {process} if state != "Z" else set()
    return found


def descendants(process: int) -> set[int]:
    """The processes that a process has started and that are still there, and theirs."""
    found: set[int] = set()
    for task in (_PROC / str(process) / "task").iterdir():
        with suppress(FileNotFoundError):  # the thread has ended meanwhile
            for child in map(int, (task / "children").read_text().split()):
                with suppress(FileNotFoundError):  # or the child
                    found |= {child, *descendants(child)}
    return found


def growth(values: Sequence[float]) -> float:
    """How much more the last third has than the second: of the first, what is kept for later is part."""
    third = len(values) // 3
    return statistics.median(values[-third:]) - statistics.median(values[third : 2 * third]) if third else 0.0
