"""Memory for results and temporaries, used again once it is unreferenced: fresh pages cost more than most kernels."""

from __future__ import annotations

import threading
import weakref
from collections import defaultdict, deque
from collections.abc import Callable
from functools import cache, partial
from sys import getrefcount
from typing import Any

import numpy as np

from xloom.calls.buffers import ALIGNMENT
from xloom.codegen.thresholds import POOLED
from xloom.errors import OutOfMemoryError
from xloom.reference_counts import ONE_VARIABLE

_HEAP_BYTES = 1 << 24
"""How large the memory is that malloc is taught to keep."""
HUGE_BYTES = 1 << 22
"""From so many on NumPy asks for huge pages, without which a processor forgets where most of an array's pages are."""
LOOKS = range(8)
"""How many blocks are looked at, the longest unused first, before there is a new one."""


class Block:
    """Bytes at an aligned address."""

    __slots__ = ("address", "array", "raw")

    def __init__(self, nbytes: int, raw: np.ndarray | None = None):
        """In `raw`, which has `ALIGNMENT` bytes more."""
        try:
            self.raw = np.empty(nbytes + ALIGNMENT, np.uint8) if raw is None else raw
        except (MemoryError, ValueError) as error:
            hint = "`xloom info --memory` says what a program needs, and for which arrays"
            # words that programs look for, to try again with less: those of XLA
            raise OutOfMemoryError(f"Out of memory allocating {nbytes} bytes", hint=hint) from error
        skip = -self.raw.__array_interface__["data"][0] % ALIGNMENT
        self.array = self.raw[skip : skip + nbytes]
        self.address = self.array.__array_interface__["data"][0]


_of_pools: weakref.WeakValueDictionary[int, np.ndarray] = weakref.WeakValueDictionary()


def is_pooled(owner: np.ndarray) -> bool:
    """True for the memory of an array that a pool keeps."""
    return _of_pools.get(id(owner)) is owner


def aligned(value: Any) -> np.ndarray:
    """A row-major copy at an aligned address, or the array itself if it lies so."""
    array = np.asarray(value, order="C")
    return array if array.__array_interface__["data"][0] % ALIGNMENT == 0 else aligned_copy(array, array.dtype)


def aligned_copy(array: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """A row-major copy at an aligned address."""
    copy = Block(array.size * dtype.itemsize).array.view(dtype).reshape(array.shape)
    copy[...] = array
    return copy


@cache
def raise_trim_threshold() -> None:
    """Has malloc keep what small arrays leave: else a call's many results could all be given back to the system.

    glibc gives back the end of its heap from 128 KiB on, or from twice the size of the largest mapping that it was ever
    given back: so it gets one, whose pages are untouched. Other allocators do not mind.
    """
    np.empty(_HEAP_BYTES, np.uint8)


class MemoryPool:
    """Memory that is free again when only the pool refers to it.

    What is taken from a queue belongs to the taker until it is put back, and that is when its taker refers to it.
    """

    def __init__(self, needed_for: Callable[[int], str] = lambda _: "") -> None:
        """`needed_for` says what so many bytes are of, where there is no memory for them."""
        raise_trim_threshold()
        self._needed_for = needed_for
        self._arrays: dict[Any, deque[np.ndarray]] = defaultdict(deque)
        self._together = 0
        """Bytes of one array of each maker, without those that have huge pages of their own."""
        self._rest = memoryview(b"")
        """What is left of the memory for such arrays."""
        self._lock = threading.Lock()

    def taker(self, nbytes: int) -> Callable[[], Block]:
        """What takes blocks of so many bytes, each the caller's as long as something refers to it or to its array."""
        if not nbytes:
            return lambda: _EMPTY
        blocks: deque[Block] = deque()

        def take() -> Block:
            try:
                for _ in LOOKS:
                    block = blocks.popleft()
                    # the variable; the block, its array and the question itself
                    is_free = getrefcount(block) == ONE_VARIABLE and getrefcount(block.raw) == 3
                    blocks.append(block)
                    if is_free:
                        return block
            except IndexError:
                pass  # there is none, or others look at them
            block = self._made(nbytes)
            blocks.append(block)
            return block

        return take

    def maker(self, dims: tuple[int, ...], dtype: Any, nbytes: int, *, aligned: bool) -> Callable[[], np.ndarray]:
        """What makes arrays with undefined contents, whose memory is free again when they and their views are gone."""
        if nbytes < POOLED and not aligned:
            return partial(np.empty, dims, dtype)
        arrays = self._arrays[dims, dtype]
        if nbytes < HUGE_BYTES:
            self._together += nbytes + ALIGNMENT

        def make() -> np.ndarray:
            try:
                for _ in LOOKS:
                    array = arrays.popleft()
                    # views refer to the memory itself, as the array that is kept does, and the question
                    view = array.view() if getrefcount(array.base) == 2 else None
                    arrays.append(array)
                    if view is not None:
                        return view
            except IndexError:
                pass
            block = self._block(nbytes)
            _of_pools[id(block.raw)] = block.raw
            array = block.array.view(dtype).reshape(dims)
            view = array.view()
            arrays.append(array)
            return view

        return make

    def _block(self, nbytes: int) -> Block:
        """New memory; of arrays that are made together, on pages that are theirs together."""
        if nbytes >= HUGE_BYTES or self._together < HUGE_BYTES:
            return self._made(nbytes)
        size = nbytes + ALIGNMENT
        with self._lock:
            if len(self._rest) < size:
                self._rest = np.empty(self._together, np.uint8).data
            part, self._rest = self._rest[:size], self._rest[size:]
        return Block(nbytes, np.frombuffer(part, np.uint8))

    def _made(self, nbytes: int) -> Block:
        try:
            return Block(nbytes)
        except OutOfMemoryError as error:
            error.where = error.where or self._needed_for(nbytes)
            raise


_EMPTY = Block(0)
