"""How many threads the process's pools have."""

from __future__ import annotations

import os
import re

from xloom.environment import NUM_THREADS
from xloom.errors import XloomError

MOST_THREADS = 1024


def thread_count() -> int:
    """What $XLOOM_NUM_THREADS says, or else the number of processors that this process may run on."""
    text = NUM_THREADS.text
    if not text:
        return processor_count()
    if not re.fullmatch("[0-9]{1,4}", text) or not 1 <= int(text) <= MOST_THREADS:
        raise XloomError(
            f"{NUM_THREADS} is {text!r}, which is not a number of threads",
            hint=f"give a whole number from 1 to {MOST_THREADS}, or unset it for one thread a processor",
        )
    return int(text)


def processor_count() -> int:
    """How many processors this process may run on."""
    return len(usable_processors())


def usable_processors() -> list[int]:
    """The numbers of those that this process may run on: all, unless its launcher has bound it to some."""
    if hasattr(os, "sched_getaffinity"):
        return sorted(os.sched_getaffinity(0))
    return list(range(os.cpu_count() or 1))
