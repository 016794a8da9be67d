"""Memory for results and temporaries, used again once nobody looks at it: fresh pages cost more than most kernels."""

from __future__ import annotations

import sys
import threading
import weakref
from collections import defaultdict, deque
from collections.abc import Callable
from functools import cache, partial
from typing import Any

import numpy as np

ALIGNMENT = 64
KEPT_BYTES = 1 << 15
"""Arrays smaller than this are NumPy's own: malloc gives such memory again at once, and with its pages."""
_HEAP_BYTES = 1 << 24
"""How large the memory is that malloc is taught to keep."""
LOOKS = 8
"""How many blocks are looked at, the longest unused first, before there is a new one."""


class Block:
    """Bytes at an aligned address."""

    __slots__ = ("__weakref__", "address", "array", "raw")

    def __init__(self, nbytes: int):
        self.raw = np.empty(nbytes + ALIGNMENT, np.uint8)
        skip = -self.raw.__array_interface__["data"][0] % ALIGNMENT
        self.array = self.raw[skip : skip + nbytes]
        self.address = self.array.__array_interface__["data"][0]
        _of_pools[id(self.raw)] = self


_of_pools: weakref.WeakValueDictionary[int, Block] = weakref.WeakValueDictionary()


def is_pooled(owner: np.ndarray) -> bool:
    """True for the memory of a block that still exists."""
    block = _of_pools.get(id(owner))
    return block is not None and block.raw is owner


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
def keep_heap() -> None:
    """Has malloc keep what small arrays leave: else a call's many results could all be given back to the system.

    glibc gives back the end of its heap from 128 KiB on, or from twice the size of the largest mapping that it was ever
    given back: so it gets one, whose pages nobody has touched. Other allocators do not mind.
    """
    np.empty(_HEAP_BYTES, np.uint8)


class Pool:
    """Blocks by size. One is free when only the pool refers to it and to its memory."""

    def __init__(self) -> None:
        keep_heap()
        self._blocks: dict[int, deque[Block]] = defaultdict(deque)
        self._lock = threading.Lock()

    def take(self, nbytes: int) -> Block:
        """A block that nobody else uses as long as the caller refers to it, or to an array that is a view of it."""
        with self._lock:
            blocks = self._blocks[nbytes]
            for _ in range(min(LOOKS, len(blocks))):
                block = blocks[0]
                blocks.rotate(-1)
                # the queue and `block`; the block, its aligned view: and each time the question itself
                if sys.getrefcount(block) == 3 and sys.getrefcount(block.raw) == 3:
                    return block
            block = Block(nbytes)
            blocks.append(block)
            return block

    def taker(self, nbytes: int) -> Callable[[], Block]:
        """What takes blocks of so many bytes; of none, always the same."""
        return partial(self.take, nbytes) if nbytes else lambda: _EMPTY

    def maker(self, dims: tuple[int, ...], dtype: Any, nbytes: int, *, aligned: bool) -> Callable[[], np.ndarray]:
        """What makes arrays with undefined contents, whose memory is free again when they and their views are gone."""
        if nbytes >= KEPT_BYTES:
            return lambda: self.take(nbytes).array.view(dtype).reshape(dims)
        return partial(_aligned_array, dims, dtype, nbytes) if aligned else partial(np.empty, dims, dtype)


def _aligned_array(dims: tuple[int, ...], dtype: Any, nbytes: int) -> np.ndarray:
    raw = np.empty(nbytes + ALIGNMENT, np.uint8)
    return np.ndarray(dims, dtype, raw, -raw.__array_interface__["data"][0] % ALIGNMENT)


_EMPTY = Block(0)
