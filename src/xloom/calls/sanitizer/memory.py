"""Memory that notices what should not happen to it: red zones around the data, and beyond them guard pages.

    | guard pages | red zone | data | red zone | guard pages |

A red zone holds a pattern that must still be there after the call; guard pages cannot be accessed at all. The memory
is shared with child processes.
"""

from __future__ import annotations

import ctypes
import errno
import mmap
import os

import numpy as np

from xloom.calls.buffers import ALIGNMENT

_PATTERN = 0x7FC5
"""A NaN of bf16, f16 and f32, so that what is computed from a red zone is noticed too; not what outputs start with."""
_NO_ACCESS = 0
_LEAST_GUARD = 1 << 20
_libc = ctypes.CDLL(None, use_errno=True)
_libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]


class Region:
    """`nbytes` bytes with guards around them; `data` is an array of them, aligned as all buffers are.

    With `edge` "begin" or "end" there is no red zone on that side, and at the end no alignment.
    """

    def __init__(self, nbytes: int, edge: str = ""):
        page = mmap.PAGESIZE
        body = -(-(nbytes + 3 * ALIGNMENT) // page) * page
        guard = max(_LEAST_GUARD, body)  # a wrong stride leads far; what is never accessed takes no memory
        self._memory = np.frombuffer(mmap.mmap(-1, body + 2 * guard), np.uint8)
        self.nbytes = nbytes
        # as far behind as alignment lets it: some elements too many are in the red zone, more in the guard
        place = (body - ALIGNMENT - nbytes) // ALIGNMENT * ALIGNMENT
        self._offset = guard + {"begin": 0, "end": body - nbytes}.get(edge, place)
        self._body = slice(guard, guard + body)
        self.data = self._memory[self._offset : self._offset + nbytes]
        self._memory[self._body] = self._usual = self._expected = np.full(body // 2, _PATTERN, "<u2").view(np.uint8)
        self._access = mmap.PROT_READ | mmap.PROT_WRITE
        self._protect(slice(0, guard), _NO_ACCESS)
        self._protect(slice(guard + body, body + 2 * guard), _NO_ACCESS)

    @property
    def address(self) -> int:
        """Of the data."""
        return self._memory.ctypes.data + self._offset

    def protect(self) -> None:
        """From now on, whoever writes to the data or around it gets a fault."""
        self._access = mmap.PROT_READ
        self._protect(self._body, self._access)

    @property
    def zones(self) -> tuple[int, int]:
        """The bytes of the red zones before the data and behind it."""
        before = self._offset - self._body.start
        return before, self._body.stop - self._body.start - before - self.nbytes

    def fill_zones(self, value: int, before: int, behind: int) -> None:
        """Makes the red zones' nearest bytes, so many `before` the data and `behind` it, `value`; others as ever."""
        begin = self._offset - self._body.start
        end = begin + self.nbytes
        self._protect(self._body, mmap.PROT_READ | mmap.PROT_WRITE)
        self._expected = self._usual.copy()
        self._expected[begin - before : begin] = self._expected[end : end + behind] = value
        body = self._memory[self._body]
        body[:begin], body[end:] = self._expected[:begin], self._expected[end:]
        self._protect(self._body, self._access)

    def damage(self) -> list[int]:
        """Where the red zones have been written: the nearest such byte before the data, and after it.

        Bytes are counted from the data's begin.
        """
        begin = self._offset - self._body.start
        end = begin + self.nbytes
        body = self._memory[self._body]
        before = np.flatnonzero(body[:begin] != self._expected[:begin])
        after = np.flatnonzero(body[end:] != self._expected[end:])
        places = [int(before[-1]) - begin] if before.size else []
        return places + ([self.nbytes + int(after[0])] if after.size else [])

    def offset_of(self, address: int) -> int | None:
        """`address` as bytes from the data's begin; None when it is neither in the data nor in what guards it."""
        inside = 0 <= address - self._memory.ctypes.data < self._memory.size
        return address - self.address if inside else None

    def _protect(self, part: slice, access: int) -> None:
        address = self._memory.ctypes.data + part.start
        if _libc.mprotect(address, part.stop - part.start, access):
            number = ctypes.get_errno()
            raise OSError(number, f"mprotect: {os.strerror(number)} ({errno.errorcode.get(number)})")
