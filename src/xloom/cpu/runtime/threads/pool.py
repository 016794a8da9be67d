"""The pool of native threads: its size, its code, and what a fork does to it."""

from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Callable

from xloom.cpu.runtime.threads.code import pinned_code
from xloom.cpu.runtime.threads.host_ir import host_ir
from xloom.cpu.runtime.threads.interrupts import Interrupts
from xloom.cpu.runtime.threads.poll_ir import CALL_PYTHON, POLL, WORDS, call_python_ir, poll_ir
from xloom.cpu.runtime.threads.pool_ir import pool_ir
from xloom.cpu.runtime.threads.program_autotuning_ir import BEGIN_PASS, BEGIN_RUN, END_RUN
from xloom.cpu.runtime.threads.team_ir import RUN_IN_TEAM
from xloom.thread_count import processor_count, thread_count

# how long a thread with nothing to do stays awake: about what it costs to wake one up, and longer than most of the gaps
# between the loops of a program
SPIN_NS = 50_000

# a signal is heard after that long at most; to ask Python takes as long as other threads of its own hold it
POLL_NS = 200_000_000

PARALLEL_FOR = "xloom_parallel_for"
_CALLED = (PARALLEL_FOR, BEGIN_RUN, BEGIN_PASS, END_RUN, POLL, CALL_PYTHON, RUN_IN_TEAM)

_creating = threading.Lock()
_pool: ThreadPool | None = None


def pool() -> ThreadPool:
    """The process's pool, of `thread_count()` threads when first asked for."""
    global _pool
    with _creating:
        if _pool is None:
            _pool = ThreadPool(thread_count(), processor_count())
        return _pool


class ThreadPool:
    """Threads, the caller of a loop among them, that run its chunks: `size` of them, but no more than `processors`.

    `parallel_for_address` is native code, valid as long as the process and in its forked children:
    `void xloom_parallel_for(void (*task)(void *buffers, int64_t begin, int64_t end), void *buffers, int64_t count,
    int64_t grain)` cuts [0, count) into at most `size` chunks of at least `grain` items, the same ones at every call,
    and returns when `task` has done them all. A call from inside a task, or while another thread's loop has the pool,
    runs its chunks in the calling thread; so do loops that take longer when they are shared, and those of short
    programs that do, unless all are to be (`finds_out`). Workers compute with the caller's rounding mode. They start at
    the first loop that needs them, and never end. Programs call `POLL` now and then, to end where `interrupts` says.
    """

    def __init__(self, size: int, processors: int, *, finds_out: bool = True):
        self.size = size
        pool_code = pool_ir(size, min(size, processors), SPIN_NS, finds_out)
        names = (*_CALLED, "xloom_reset_pool", "xloom_limit_threads", WORDS)
        *called, reset_address, limit_address, words = pinned_code(
            host_ir() + pool_code + poll_ir(POLL_NS) + call_python_ir(), names
        )
        self.addresses = dict(zip(_CALLED, called, strict=True))
        """Of what programs call, by name."""
        self.parallel_for_address = self.addresses[PARALLEL_FOR]
        self.limit: Callable[[int], None] = ctypes.CFUNCTYPE(None, ctypes.c_int64)(limit_address)
        """Has loops be cut into no more chunks than that, from now on."""
        self.interrupts = Interrupts(words)
        self._reset = ctypes.CFUNCTYPE(None)(reset_address)
        self._reset()
        os.register_at_fork(after_in_child=self._reset)


# a child must not inherit a pool half made, nor the lock held
os.register_at_fork(before=_creating.acquire, after_in_parent=_creating.release, after_in_child=_creating.release)
