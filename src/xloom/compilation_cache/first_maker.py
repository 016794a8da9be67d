"""Of the processes and threads that want the same entry at once, one makes it, and the others wait for it."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from contextlib import suppress
from fcntl import LOCK_EX, LOCK_NB, LOCK_SH, LOCK_UN, flock
from typing import TypeVar

from xloom.compilation_cache import cache, trusted_folder

T = TypeVar("T")

PATIENCE = 60.0
"""Seconds after which who waits makes the entry, too: the first one may have been stopped."""
_SHORTEST, _LONGEST = 0.001, 0.02
"""Seconds between two looks of who waits."""


def found_or_made(key: str, find: Callable[[], T | None], make: Callable[[], T]) -> T:
    """What `find` gives, else what `make` does, which puts it into the cache.

    While another one makes the entry, waits, then finds it. Who finds nothing then, as the first one has failed or
    keeps nothing, makes it without a lock: all who have waited do so at the same time.
    """
    try:
        path = os.path.join(trusted_folder.real_folder(cache.folder().path / "making", create=True), key)
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    except OSError:  # where nothing can be written, nothing is shared
        return make()
    try:
        if _is_locked(file, LOCK_EX):
            try:
                found = find()  # it may have come since the caller looked
                if found is None:
                    found = make()
                    if os.fstat(file).st_size:
                        cache.flush()  # others wait for it
                return found
            finally:
                with suppress(OSError):
                    os.unlink(path)
                flock(file, LOCK_UN)  # a child that was forked meanwhile has the file open, too
        os.write(file, b".")
        _wait(file)
    finally:
        os.close(file)
    found = find()
    return make() if found is None else found


def _is_locked(file: int, kind: int) -> bool:
    try:
        flock(file, kind | LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # a file system without locks
        return True
    return True


def _wait(file: int) -> None:
    end, pause = time.monotonic() + PATIENCE, _SHORTEST
    while not _is_locked(file, LOCK_SH) and time.monotonic() < end:
        time.sleep(pause)
        pause = min(2 * pause, _LONGEST)
