"""How many threads the process's pools have."""

from __future__ import annotations

import os
import re

from xloom.errors import XloomError

SIZE_VARIABLE = "XLOOM_NUM_THREADS"
MOST_THREADS = 1024


def thread_count() -> int:
    """What XLOOM_NUM_THREADS says, or else the number of processors that this process may run on."""
    text = os.environ.get(SIZE_VARIABLE, "").strip()
    if not text:
        return processor_count()
    if not re.fullmatch("[0-9]{1,4}", text) or not 1 <= int(text) <= MOST_THREADS:
        raise XloomError(
            f"{SIZE_VARIABLE} is {text!r}, which is not a number of threads",
            hint=f"give a whole number from 1 to {MOST_THREADS}, or unset it for one thread a processor",
        )
    return int(text)


def processor_count() -> int:
    """How many processors this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
