"""The threads for tasks that handlers schedule."""

from __future__ import annotations

import os
import threading
from concurrent.futures import ThreadPoolExecutor

from xloom.thread_count import thread_count

_creating = threading.Lock()
_pool: ThreadPoolExecutor | None = None


def thread_pool() -> ThreadPoolExecutor:
    """The process's pool, of `thread_count()` threads when first asked for."""
    global _pool
    with _creating:
        if _pool is None:
            _pool = ThreadPoolExecutor(thread_count(), "xloom-ffi")
        return _pool


def _forget() -> None:
    global _pool
    _pool = None  # its threads are not in the child
    _creating.release()


os.register_at_fork(before=_creating.acquire, after_in_parent=_creating.release, after_in_child=_forget)
