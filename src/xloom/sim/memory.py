"""A device's memory: one arena of fixed size, and who has which part of it."""

from __future__ import annotations

import mmap
import threading
import weakref
from bisect import insort
from collections import deque

import numpy as np

from xloom.calls.buffers import ALIGNMENT
from xloom.errors import OutOfMemoryError


class DeviceMemoryError(OutOfMemoryError):
    """The device has not enough memory. Act: run a smaller program, or give the device more."""


class DeviceMemory:
    """`allocate` gives bytes; they are free again when no array refers to them."""

    def __init__(self, nbytes: int):
        self.nbytes = nbytes
        self.used = 0
        self.peak = 0
        """The most that was ever used at once."""
        self.allocations = 0
        """How many there were."""
        self.largest = 0
        """Bytes of the largest one."""
        # untouched pages take no memory of the host
        self._arena = np.frombuffer(mmap.mmap(-1, max(1, nbytes)), np.uint8)
        self._free = [(0, nbytes)]  # begin and size, in order
        self._returned: deque[tuple[int, int]] = deque()
        self._lock = threading.Lock()

    def allocate(self, nbytes: int) -> np.ndarray:
        """Bytes, of unknown content. Raises DeviceMemoryError when no part that is free is long enough."""
        size = -(-max(1, nbytes) // ALIGNMENT) * ALIGNMENT
        with self._lock:
            self._take_back()
            for k, (begin, room) in enumerate(self._free):
                if room >= size:
                    self._free[k : k + 1] = [(begin + size, room - size)] if room > size else []
                    self.used += size
                    self.peak = max(self.peak, self.used)
                    self.allocations += 1
                    self.largest = max(self.largest, size)
                    break
            else:
                raise DeviceMemoryError(
                    f"out of device memory: {nbytes} bytes asked for, {self.used} of {self.nbytes} in use, "
                    f"the longest free part has {self._longest}",
                    hint="the device's class says how much it has; a smaller batch needs less",
                )
        owner = _Owner(self._arena[begin : begin + nbytes])
        # not under the lock, which whoever drops an array may hold
        weakref.finalize(owner, self._returned.append, (begin, size)).atexit = False
        return np.asarray(owner)

    def holds(self, array: np.ndarray) -> bool:
        """True for an array in this memory."""
        offset = array.ctypes.data - self._arena.ctypes.data
        return 0 <= offset < self._arena.size

    def statistics(self) -> dict[str, int]:
        """Its bytes and counts, by PJRT's names."""
        with self._lock:
            self._take_back()
            return {
                "bytes_in_use": self.used,
                "peak_bytes_in_use": self.peak,
                "num_allocs": self.allocations,
                "largest_alloc_size": self.largest,
                "bytes_limit": self.nbytes,
                "largest_free_block_bytes": self._longest,
            }

    @property
    def _longest(self) -> int:
        return max((room for _, room in self._free), default=0)

    def _take_back(self) -> None:
        while self._returned:
            begin, size = self._returned.popleft()
            self.used -= size
            insort(self._free, (begin, size))
        merged: list[tuple[int, int]] = []
        for begin, size in self._free:
            if merged and sum(merged[-1]) == begin:
                merged[-1] = (merged[-1][0], merged[-1][1] + size)
            else:
                merged.append((begin, size))
        self._free = merged


class _Owner:
    """What an array and its views refer to, so that it dies after them."""

    def __init__(self, array: np.ndarray):
        self.__array_interface__ = array.__array_interface__
        self._array = array
