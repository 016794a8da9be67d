"""Handles of buffers: words in C memory that are used again, each a pointer to the record of its kind of array."""

from __future__ import annotations

import ctypes

from xloom.hlo.shape import Shape
from xloom.pjrt.buffer import Buffer
from xloom.pjrt.capi.element_types import NUMBER
from xloom.pjrt.capi.getters import BUFFER
from xloom.pjrt.capi.handles import lasting, objects
from xloom.pjrt.capi.memories import memory_handle
from xloom.pjrt.capi.memory import Row
from xloom.pjrt.memory_space import MemorySpace

_CELLS = 1024
_STEP = 16  # handles look like what malloc returns


class _Record:
    """What native code tells of a buffer."""

    def __init__(self, shape: Shape, memory_space: MemorySpace):
        self._dims = Row.int64(shape.dims)
        self._words = (ctypes.c_uint64 * len(BUFFER))(
            lasting(memory_space.device),
            memory_handle(memory_space),
            NUMBER[shape.dtype],
            self._dims.address,
            self._dims.size,
            shape.nbytes,
            memory_space.is_host,
        )
        self.address = ctypes.addressof(self._words)


records: dict[tuple[Shape, int], _Record] = {}
blocks: list[ctypes.Array[ctypes.c_char]] = []
_free: list[int] = []
_store = ctypes.c_uint64.from_address


def record_address(shape: Shape, memory_space: MemorySpace) -> int:
    """The record of buffers of that shape in that memory."""
    key = (shape, memory_handle(memory_space))
    record = records.get(key)
    if record is None:
        record = records.setdefault(key, _Record(shape, memory_space))
    return record.address


def record_of(buffer: Buffer) -> int:
    """The record of a buffer."""
    return record_address(buffer.shape, buffer.memory_space)


def buffer_handle(buffer: Buffer, record: int | None = None) -> int:
    """A handle of a buffer, whose record may be known."""
    try:
        handle = _free.pop()
    except IndexError:
        handle = _more()
    _store(handle).value = record or record_of(buffer)
    objects[handle] = buffer
    return handle


def drop_buffer(handle: int | None) -> None:
    """Forgets a handle; NULL is allowed."""
    if handle and objects.pop(handle, None) is not None:
        _free.append(handle)


def _more() -> int:
    block = ctypes.create_string_buffer(_CELLS * _STEP + _STEP)
    blocks.append(block)
    first = -(-ctypes.addressof(block) // _STEP) * _STEP
    _free.extend(range(first + _STEP, first + _CELLS * _STEP, _STEP))
    return first
