"""Device memory: asked for and given back in the order of the stream that computes."""

from __future__ import annotations

import ctypes
from collections import deque
from typing import Any

from xloom.cuda.driver import entry_points, results
from xloom.cuda.driver.driver import Driver
from xloom.cuda.driver.results import DriverError
from xloom.errors import OutOfMemoryError


class Block:
    """Bytes of a device. They are given back when nothing refers to them, behind all that the stream was given so far.

    Who uses them in another stream keeps them until that is done.
    """

    __slots__ = ("_returned", "nbytes", "pointer")

    def __init__(self, pointer: int, nbytes: int, returned: deque[tuple[int, int]]):
        self.pointer, self.nbytes, self._returned = pointer, nbytes, returned

    def __del__(self) -> None:
        if self.pointer:
            self._returned.append((self.pointer, self.nbytes))


class Lent:
    """Bytes of a device that belong to other code; their owner is kept as long as they are used."""

    __slots__ = ("keep", "nbytes", "pointer")

    def __init__(self, pointer: int, nbytes: int, keep: Any):
        self.pointer, self.nbytes, self.keep = pointer, nbytes, keep


class DeviceMemory:
    """The driver's pool of a device's memory, which keeps what it has had for the process."""

    def __init__(self, driver: Driver, device: int, stream: int, total_bytes: int):
        """The device is the thread's. Raises UnsupportedError where the driver has no pools."""
        self._driver, self._stream, self._total = driver, stream, total_bytes
        self._pool = driver.made("cuDeviceGetDefaultMemPool", device)
        most = ctypes.c_uint64(2**64 - 1)
        driver.call("cuMemPoolSetAttribute", self._pool, entry_points.RELEASE_THRESHOLD, ctypes.addressof(most))
        # which whoever drops an array adds to, in the midst of anything
        self._returned: deque[tuple[int, int]] = deque()
        self._used = self._most = self._count = self._largest = 0

    def allocate(self, nbytes: int) -> Block:
        """Bytes, of unknown content, for the stream that computes and who waits for it. The device is the thread's.

        Raises OutOfMemoryError when the device is full.
        """
        self._give_back()
        if not nbytes:
            return Block(0, 0, self._returned)
        try:
            pointer = self._allocated(nbytes)
        except DriverError as error:
            if error.result != results.OUT_OF_MEMORY:
                raise
            self._driver.call("cuStreamSynchronize", self._stream)  # what was given back is free then
            pointer = self._allocated_or_full(nbytes)
        self._used += nbytes
        self._most, self._largest = max(self._most, self._used), max(self._largest, nbytes)
        self._count += 1
        return Block(pointer, nbytes, self._returned)

    def statistics(self) -> dict[str, int]:
        """Its bytes and counts, by PJRT's names. The device is the thread's."""
        self._give_back()
        reserved, most = (self._driver_says(each) for each in (entry_points.RESERVED, entry_points.RESERVED_HIGH))
        return {
            "bytes_in_use": self._used,
            "peak_bytes_in_use": self._most,
            "num_allocs": self._count,
            "largest_alloc_size": self._largest,
            "bytes_limit": self._total,
            "pool_bytes": reserved,
            "peak_pool_bytes": most,
        }

    def _driver_says(self, attribute: int) -> int:
        out = ctypes.c_uint64()
        self._driver.call("cuMemPoolGetAttribute", self._pool, attribute, ctypes.addressof(out))
        return out.value

    def _allocated(self, nbytes: int) -> int:
        return self._driver.made("cuMemAllocAsync", nbytes, self._stream, kind=ctypes.c_uint64)

    def _allocated_or_full(self, nbytes: int) -> int:
        try:
            return self._allocated(nbytes)
        except DriverError as error:
            if error.result != results.OUT_OF_MEMORY:
                raise
            raise OutOfMemoryError(
                f"out of device memory: {nbytes} bytes asked for, {self._used} of {self._total} in use by this process",
                hint="a smaller batch needs less; nvidia-smi says what other processes hold",
            ) from None

    def _give_back(self) -> None:
        while self._returned:
            try:
                pointer, nbytes = self._returned.popleft()
            except IndexError:  # another thread was faster
                return
            self._used -= nbytes
            self._driver.call("cuMemFreeAsync", pointer, self._stream)
