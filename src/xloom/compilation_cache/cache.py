"""What was compiled before: by key, in memory while it is used, and on disk for later processes."""

from __future__ import annotations

import atexit
import contextlib
import hashlib
import os
import random
import threading
import weakref
from collections import OrderedDict
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any, Generic, TypeVar

import xloom
from xloom.compilation_cache import trusted_folder
from xloom.compilation_cache.folder import cache_dir, cache_enabled

T = TypeVar("T")

MEMORY_BYTES = 64 << 20
ENTRY_BYTES = 384
"""What an entry in memory takes beside its value: its key, and Python's tables."""
DISK_BYTES = 1 << 30
DRAWERS = 64
"""Folders that the entries are spread over by their keys, so that looking for old ones is quick."""
_chance = random.SystemRandom()  # the program's own random numbers stay as it has seeded them
_MAGIC = b"xloom-1\n"
_PAUSE, _MANY = 0.3, 200
"""Seconds without a new entry before any is written, and the number of those that are in any case."""
_HEADER_BYTES = len(_MAGIC) + hashlib.sha256().digest_size


class Recent(Generic[T]):
    """Values by key: those used last, which take at most `most` bytes of memory."""

    def __init__(self, most: int):
        _all.add(self)
        self.most = most
        self.size = 0
        self._entries: OrderedDict[str, tuple[T, int]] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: str) -> T | None:
        """The value, which then counts as used last."""
        with self._lock:
            entry = self._entries.get(key)
            if entry is None:
                return None
            self._entries.move_to_end(key)
            return entry[0]

    def put(self, key: str, value: T, size: int) -> None:
        """Keeps a value of `size` bytes, and forgets what was not used for longest."""
        size += ENTRY_BYTES
        with self._lock:
            self.size += size - self._entries.pop(key, (None, 0))[1]
            self._entries[key] = value, size
            while self.size > self.most:
                _, (_, freed) = self._entries.popitem(last=False)
                self.size -= freed

    def clear(self) -> None:
        """Forgets everything."""
        with self._lock:
            self._entries.clear()
            self.size = 0


_all: weakref.WeakSet[Recent[Any]] = weakref.WeakSet()


def bytes_in_memory() -> int:
    """What this process keeps in memory of what was compiled, in bytes: at most `MEMORY_BYTES` each for a few kinds."""
    return sum(recent.size for recent in _all)


class Folder:
    """Entries on disk by key, shared by all processes.

    Entries appear whole or not at all, have a checksum, and are replaced when it does not fit. A folder that cannot be
    written has no entries, which is no error, nor has one that other users can write, of which there is a warning. Of
    more than `most` bytes the oldest go.
    """

    def __init__(self, path: Path, most: int = DISK_BYTES):
        self.path = path
        self.most = most

    def get(self, key: str) -> bytes | None:
        """The data, unless there is none or it is damaged."""
        try:
            data = trusted_folder.read(os.path.join(trusted_folder.real_folder(self.path), _drawer(key)), key)
        except trusted_folder.UntrustedError as error:
            trusted_folder.warn_once(self.path, error)
            return None
        except OSError:
            return None
        payload = data[_HEADER_BYTES:]
        return payload if data[:_HEADER_BYTES] == _header(key, payload) else None

    def entries(self) -> dict[str, bytes]:
        """All that is here, by key."""
        keys = (name for number in range(DRAWERS) for name in self._names(f"{number:02d}"))
        return {key: data for key in keys if (data := self.get(key)) is not None}

    def _names(self, drawer: str) -> list[str]:
        with contextlib.suppress(OSError):
            return os.listdir(os.path.join(self.path, drawer))
        return []

    def put(self, key: str, payload: bytes) -> None:
        """Writes an entry."""
        try:
            drawer = trusted_folder.real_folder(os.path.join(self.path, _drawer(key)), create=True)
            trusted_folder.write(drawer, key, _header(key, payload) + payload)
        except OSError:  # it may be full, or read-only: then the next process compiles again
            return
        if _chance.random() < 1 / 8:  # looking costs more than writing
            _shrink(drawer, self.most // DRAWERS)


class Cache:
    """Bytes by key, in memory and on disk."""

    def __init__(self, most: int = MEMORY_BYTES):
        self._memory: Recent[bytes] = Recent(most)

    def clear(self) -> None:
        """Forgets what is in memory."""
        self._memory.clear()

    def get(self, key: str) -> bytes | None:
        """What was put under the key, if it is still there."""
        if not cache_enabled():
            return None
        data = self._memory.get(key)
        if data is None:
            data = folder().get(key)
            if data is not None:
                self._memory.put(key, data, len(data))
        return data

    def put(self, key: str, data: bytes) -> None:
        """Keeps data."""
        if cache_enabled():
            self._memory.put(key, data, len(data))
            later(folder().put, key, data)


class _Writer:
    """A thread that does work for the disk once the process has a pause, or ends.

    At once it would take Python away from the compilation that goes on; so would waking the thread for each entry.
    """

    def __init__(self) -> None:
        self._waiting: list[tuple[Callable[..., None], tuple[Any, ...]]] = []
        self._change = threading.Condition()
        self._has_thread = False
        self._writing = threading.Lock()

    def run(self, work: Callable[..., None], *arguments: Any) -> None:
        with self._change:
            self._waiting.append((work, arguments))
            if len(self._waiting) >= _MANY:
                self._change.notify()
            if self._has_thread:
                return
            self._has_thread = True
        threading.Thread(target=self._later, name="xloom-cache", daemon=True).start()

    def wait(self) -> None:
        with self._writing:
            with self._change:
                waiting, self._waiting = self._waiting, []
            for work, arguments in waiting:
                with contextlib.suppress(OSError):  # the package may be gone meanwhile
                    work(*arguments)

    def _later(self) -> None:
        with self._change:
            seen = 0
            while seen < len(self._waiting) < _MANY:
                seen = len(self._waiting)
                self._change.wait(_PAUSE)
            self._has_thread = False
        self.wait()


_writer = _Writer()


def _renew_writer() -> None:
    global _writer
    _writer = _Writer()


os.register_at_fork(after_in_child=_renew_writer)  # a child has the parent's objects, but not its threads


def later(work: Callable[..., None], *arguments: Any) -> None:
    """Calls `work`, which writes to the disk, before the process ends."""
    _writer.run(work, *arguments)


def flush() -> None:
    """Waits until all is on disk."""
    _writer.wait()


atexit.register(flush)


def folder() -> Folder:
    """The folder of machine code, where the environment says now."""
    return _folder(cache_dir())


@lru_cache(maxsize=8)
def _folder(path: Path) -> Folder:
    return Folder(path / "cpu")


def key_of(*parts: bytes, version: str = "") -> str:
    """The key of what is made of `parts` by this version of the package, or another one."""
    digest = hashlib.sha256((version or VERSION).encode())
    for part in parts:
        digest.update(b"%d\n" % len(part))
        digest.update(part)
    return digest.hexdigest()


def version() -> str:
    """The package's version, and the time and size of its files: an edited compiler never meets what it made before."""
    stamps = [xloom.__version__]
    folders = [os.path.dirname(xloom.__file__)]
    for folder in folders:  # which grows meanwhile
        with os.scandir(folder) as entries:
            for entry in sorted(entries, key=lambda e: e.name):
                if entry.is_dir():
                    if entry.name != "__pycache__":  # as many files again, none of which is a source
                        folders.append(entry.path)
                elif entry.name.endswith(".py"):
                    status = entry.stat()
                    stamps.append(f"{entry.path} {status.st_size} {status.st_mtime_ns}")
    return hashlib.sha256("\n".join(stamps).encode()).hexdigest()


VERSION = version()


def is_current() -> bool:
    """False once the package's files have changed: what the process loads from then on is not of `VERSION`."""
    return version() == VERSION


def _drawer(key: str) -> str:
    return f"{int(key[:4], 16) % DRAWERS:02d}"


def _header(key: str, payload: bytes) -> bytes:
    return _MAGIC + hashlib.sha256(key.encode() + payload).digest()


def _shrink(path: str, most: int) -> None:
    """Removes the oldest files of a folder, unless they fit."""
    found: list[tuple[float, int, str]] = []
    with contextlib.suppress(OSError), os.scandir(path) as entries:
        for entry in entries:
            with contextlib.suppress(OSError):  # another process may be faster
                status = entry.stat()
                found.append((status.st_mtime, status.st_size, entry.path))
    total = sum(size for _, size, _ in found)
    for _, size, place in sorted(found):
        if total <= most:
            return
        with contextlib.suppress(OSError):
            os.unlink(place)
        total -= size
