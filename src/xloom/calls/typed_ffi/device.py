"""The device that a typed handler runs on, as it can ask for it: its stream, and memory for the call."""

from __future__ import annotations

import ctypes
from functools import lru_cache
from typing import Protocol

from xloom.calls.typed_ffi.errors import Failure
from xloom.status_code import Code


class Device(Protocol):
    """Where a run of a program is, and in which stream."""

    @property
    def stream(self) -> int:
        """The stream's handle. Raises Failure on a device without streams."""
        ...

    @property
    def ordinal(self) -> int:
        """Its number among those of the process."""
        ...

    def allocate(self, size: int, alignment: int) -> int:
        """The address of memory on the device. Raises Failure when there is none."""
        ...

    def free(self, address: int) -> None:
        """Gives back what `allocate` gave."""
        ...


class Host:
    """The host: no streams, and the C library's memory."""

    @property
    def stream(self) -> int:
        """See Device."""
        raise Failure(Code.UNIMPLEMENTED, "There is no stream on Host")

    ordinal = 0

    def allocate(self, size: int, alignment: int) -> int:
        """See Device."""
        place = ctypes.c_void_p()
        # powers of two, and no less than a pointer's size
        aligned = max(ctypes.sizeof(ctypes.c_void_p), alignment)
        if _c_library().posix_memalign(ctypes.byref(place), aligned, max(1, size)):
            raise Failure(Code.RESOURCE_EXHAUSTED, f"No memory of {size} bytes, aligned to {alignment}")
        return place.value or 0

    def free(self, address: int) -> None:
        """See Device."""
        _c_library().free(address)


HOST = Host()


@lru_cache(maxsize=1)
def _c_library() -> ctypes.CDLL:
    library = ctypes.CDLL(None)
    library.posix_memalign.argtypes = [ctypes.POINTER(ctypes.c_void_p), ctypes.c_size_t, ctypes.c_size_t]
    library.free.argtypes, library.free.restype = [ctypes.c_void_p], None
    return library
