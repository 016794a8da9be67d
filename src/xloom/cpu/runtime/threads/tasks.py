"""The native threads for tasks that are scheduled and not waited for."""

from __future__ import annotations

import ctypes
import os
import threading

from xloom.cpu.runtime.threads.code import pinned_code
from xloom.cpu.runtime.threads.host_ir import threads_ir
from xloom.cpu.runtime.threads.tasks_ir import tasks_ir
from xloom.thread_count import thread_count

_creating = threading.Lock()
_tasks: Tasks | None = None


def tasks() -> Tasks:
    """The process's own, of `thread_count()` threads when first asked for."""
    global _tasks
    with _creating:
        if _tasks is None:
            _tasks = Tasks(thread_count())
        return _tasks


class Tasks:
    """At most `size` threads, which start as they are needed and never end.

    `add_address` is native code, valid as long as the process and in its forked children:
    `void xloom_add_task(void (*task)(void *data), void *data)` returns at once. Tasks run in the order they came, with
    the rounding mode of who added them.
    """

    def __init__(self, size: int):
        self.size = size
        names = ("xloom_add_task", "xloom_reset_tasks")
        self.add_address, reset_address = pinned_code(threads_ir() + tasks_ir(size), names)
        reset = ctypes.CFUNCTYPE(None)(reset_address)
        reset()
        os.register_at_fork(after_in_child=reset)


# a child must not inherit threads half made, nor the lock held
os.register_at_fork(before=_creating.acquire, after_in_parent=_creating.release, after_in_child=_creating.release)
