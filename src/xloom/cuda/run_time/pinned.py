"""The host's memory that a GPU reads and writes by itself: page-locked, and kept, as it is slow to get."""

from __future__ import annotations

import ctypes
import threading
import weakref
from collections import defaultdict
from typing import Any

import numpy as np

from xloom.cuda.driver.driver import Driver

_SMALLEST = 4096
_KEPT_BYTES = 1 << 30
"""What is kept at most of what is not in use."""


class PinnedMemory:
    """Arrays of bytes, whose memory is used again when nothing refers to them."""

    def __init__(self, driver: Driver):
        self._driver = driver
        self._lock = threading.Lock()
        self._idle: dict[int, list[int]] = defaultdict(list)
        self._idle_bytes = 0
        self._returned: list[tuple[int, int]] = []

    def array(self, nbytes: int) -> np.ndarray:
        """Bytes, of unknown content. The device is the thread's."""
        size = max(_SMALLEST, 1 << (nbytes - 1).bit_length()) if nbytes else _SMALLEST
        with self._lock:
            self._take_back()
            address = self._idle[size].pop() if self._idle[size] else 0
            self._idle_bytes -= size if address else 0
        if not address:
            address = self._driver.made("cuMemHostAlloc", size, 0)
        raw = np.ctypeslib.as_array((ctypes.c_uint8 * size).from_address(address))
        owner = _Owner(raw)
        # not under the lock, which whoever drops an array may hold
        weakref.finalize(owner, self._returned.append, (size, address)).atexit = False
        return np.asarray(owner)[:nbytes]

    def copied(self, array: np.ndarray) -> np.ndarray:
        """A copy of an array, row-major."""
        out = self.array(array.nbytes).view(array.dtype).reshape(array.shape)
        out[...] = array
        return out

    def _take_back(self) -> None:
        while self._returned:
            size, address = self._returned.pop()
            if self._idle_bytes + size > _KEPT_BYTES:
                self._driver.call("cuMemFreeHost", address)
                continue
            self._idle[size].append(address)
            self._idle_bytes += size


class _Owner:
    """What an array and its views refer to, so that it dies after them."""

    def __init__(self, array: np.ndarray):
        self.__array_interface__: Any = array.__array_interface__
        self._array = array
