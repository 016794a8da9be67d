"""PJRT_Buffer handles: each is the address of a cell that native code reads, and stands for a `Buffer` of Python.

A buffer that native code has made is a `Buffer` from the moment that Python first sees it; one that Python has made
lends its array to native code when that has asked for it in vain. One that is to be donated goes back to native code
for good, as no `Buffer` would learn that it is gone.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable, Sequence
from functools import cache, partial
from sys import getrefcount
from typing import Any

import numpy as np

from xloom.hlo.shape import Layout, Shape, array_shape
from xloom.pjrt.buffer import Buffer
from xloom.pjrt.capi import native_library
from xloom.pjrt.capi.ctypes_structs import CArray
from xloom.pjrt.capi.element_types import NUMBER
from xloom.pjrt.capi.handles import intern_handle, objects
from xloom.pjrt.capi.layouts import layout_handle
from xloom.pjrt.capi.memories import memory_handle
from xloom.pjrt.capi.native_entries import FUNCTIONS, RELEASING
from xloom.pjrt.capi.native_structs import (
    BUFFER,
    CELL,
    DATA_OFFSET,
    DELETED,
    HAS_DATA,
    IN_PYTHON,
    OF_PYTHON,
    OWN,
    STORAGE,
)
from xloom.pjrt.client import Client
from xloom.pjrt.donation import has_own_memory
from xloom.pjrt.future import Future
from xloom.pjrt.host_memory import host_array
from xloom.pjrt.log import is_enabled
from xloom.pjrt.memory_space import MemorySpace
from xloom.reference_counts import ONE_VARIABLE

_KINDS = {"p": ctypes.c_void_p, "q": ctypes.c_int64, "v": None}


class _Record:
    """What native code tells of a buffer."""

    def __init__(self, shape: Shape, memory_space: MemorySpace):
        self.shape = shape
        self.memory_space = memory_space
        self._itemsize = shape.dtype.numpy.itemsize if shape.is_array else 0
        self._dims = CArray.int64(shape.dims)
        self._struct = BUFFER.new(
            device=intern_handle(memory_space.device),
            memory=memory_handle(memory_space),
            type=NUMBER[shape.dtype],
            dims=self._dims.address,
            num_dims=self._dims.size,
            nbytes=shape.nbytes,
            is_host=memory_space.is_host,
            itemsize=self._itemsize,
            layout=layout_handle(shape),
        )
        self.address = ctypes.addressof(self._struct)
        if self._is_of_the_hosts_arrays:
            native("remember_record")(self.address)

    @property
    def _is_of_the_hosts_arrays(self) -> bool:
        """Whether an array of the host is the contents of such a buffer as it is, and it is not watched."""
        if is_enabled() or not self.memory_space.is_host:
            return False
        if self.shape.is_permuted:
            return False
        is_plain = type(self.memory_space.device.client).buffer_from_host is Client.buffer_from_host
        return is_plain and self.shape.nbytes == self.shape.size * self._itemsize > 0


records: dict[tuple[Shape, int], _Record] = {}
_by_address: dict[int, _Record] = {}
_sharing = threading.RLock()  # what is collected meanwhile may ask for buffers too


@cache
def native(name: str) -> Callable[..., Any]:
    """A native function as Python calls it."""
    prototype = ctypes.CFUNCTYPE if name in RELEASING else ctypes.PYFUNCTYPE
    result, *arguments = (_KINDS[kind] for kind in {**FUNCTIONS, **RELEASING}[name])
    return prototype(result, *arguments)(native_library.address(name))


def record_address(shape: Shape, memory_space: MemorySpace) -> int:
    """The record of buffers of that shape in that memory; of the layout only the order of dimensions matters."""
    if shape.layout is not None and not shape.is_dynamic:
        layout = Layout(shape.layout.minor_to_major) if shape.is_permuted else None
        shape = array_shape(shape.dtype, shape.dims, layout=layout)
    key = (shape, memory_handle(memory_space))
    record = records.get(key)
    if record is None:
        record = records.setdefault(key, _Record(shape, memory_space))
        _by_address[record.address] = record
    return record.address


def record_of(buffer: Buffer) -> int:
    """The record of a buffer."""
    return record_address(buffer.shape, buffer.memory_space)


def buffer_handle(buffer: Buffer) -> int:
    """A handle of a buffer."""
    record, handle = ctypes.c_uint64(record_of(buffer)), ctypes.c_uint64()
    write_handles([buffer], ctypes.addressof(record), ctypes.addressof(handle))
    return handle.value


def write_handles(buffers: Sequence[Buffer], records: int, handles: int, event: int = 0) -> None:
    """Writes a handle for each buffer to memory, where the records are known, as a table.

    `event` is that of the run that makes the arrays, if it is under way."""
    native("new_cells")(records, len(buffers), handles, event)
    delete = native("delete_cell")
    for handle, buffer in zip((ctypes.c_uint64 * len(buffers)).from_address(handles), buffers, strict=True):
        objects[handle] = buffer
        buffer.on_delete = partial(delete, handle)


def share_with_native(handle: int, buffer: Buffer) -> None:
    """Lets native code use the array if it is there. The handle must not be dropped meanwhile."""
    ready = buffer.ready
    is_there = ready.is_ready and ready.error is None
    if is_there and buffer.memory_space.is_host and buffer.shape.is_array and not is_enabled():
        native("fill_cell")(handle, ready.value.__array_interface__["data"][0], id(ready.value))


def is_lent(handle: int, *, is_donated: bool) -> bool:
    """Whether native code may use the array, or have it."""
    state = _word(handle, CELL.offset("state"))
    return not state & IN_PYTHON if is_donated else bool(state & HAS_DATA)


def lend(handle: int, *, is_donated: bool) -> None:
    """Lets native code use the array, or makes the buffer one of native code's alone, unless others use it."""
    with _sharing:
        buffer = buffer_of(handle)
        share_with_native(handle, buffer)
        if not is_donated or buffer.is_shared or not native("take_back_cell")(handle):
            return
        drop_buffer(handle)
        array = buffer.ready.value
        del buffer
        if getrefcount(array) == ONE_VARIABLE + 1 and _may_be_given(array):  # the storage's
            native("give_array")(handle, id(array))


def _may_be_given(array: np.ndarray) -> bool:
    return has_own_memory(array) and array.__array_interface__["data"][0] % DATA_OFFSET == 0


def count_reference(handle: int, *, is_more: bool) -> None:
    """Has the buffer behind a handle know of one more reference from outside, or one less."""
    with _sharing:  # it is not given back meanwhile
        buffer = buffer_of(handle)
        buffer.acquire_external_reference() if is_more else buffer.release_external_reference()


def delete_buffer(handle: int) -> None:
    """Deletes the buffer behind a handle."""
    buffer_of(handle).delete()
    native("delete_cell")(handle)  # it may just have been given back


def buffer_of(handle: int) -> Buffer:
    """The buffer behind a handle."""
    return objects.get(handle) or _shared(handle)


def _shared(handle: int) -> Buffer:
    with _sharing:
        if handle in objects:
            return objects[handle]
        was = (ctypes.c_uint64 * (CELL.size // 8))()
        native("share_cell")(handle, ctypes.addressof(was))
        fields = dict(zip(CELL, was, strict=True))
        record = _by_address[_word(handle, CELL.offset("record"))]
        if fields["state"] & HAS_DATA:
            ready = Future.ready(_array(fields["storage"], fields["data"], record.shape.in_memory()))
        else:
            ready = Future()
        buffer = Buffer(record.shape, record.memory_space, ready)
        for _ in range(fields["external"]):
            buffer.acquire_external_reference()
        if fields["state"] & DELETED:
            buffer.delete()
        buffer.on_delete = partial(native("delete_cell"), handle)
        objects[handle] = buffer
        return buffer


def _array(storage: int, data: int, shape: Shape) -> np.ndarray:
    """The array in a storage, to which a reference is ended when the array is not needed any more."""
    release = partial(native("release_storage"), storage)
    if _word(storage, STORAGE.offset("kind")) >= OF_PYTHON:
        array = ctypes.cast(_word(storage, STORAGE.offset("owner")), ctypes.py_object).value
        ctypes.c_uint64.from_address(storage + STORAGE.offset("kind")).value = OF_PYTHON  # something refers to it again
        release()
        dtype = shape.dtype.numpy
        is_other = array.dtype != dtype or array.shape != shape.dims  # of a result in memory of an argument's
        return array.reshape(-1).view(dtype).reshape(shape.dims) if is_other else array
    return host_array(data, shape, (), release, partial(_is_alone, storage))


def _is_alone(storage: int) -> bool:
    """Whether one reference to a storage of native code's own is left."""
    return _word(storage, STORAGE.offset("references")) == 1 and _word(storage, STORAGE.offset("kind")) == OWN


def _word(address: int, offset: int) -> int:
    return ctypes.c_uint64.from_address(address + offset).value


def drain_destroyed() -> None:
    """Drops the handles of buffers that native code has destroyed without Python's lock."""
    first = each = native("take_destroyed")()
    while each:
        drop_buffer(each)
        each = _word(each, CELL.offset("next"))
    if first:
        native("free_cells")(first)


def drop_buffer(handle: int | None) -> None:
    """Forgets a handle, whose cell native code then frees; NULL is allowed."""
    buffer = objects.pop(handle or 0, None)
    if buffer is not None:
        buffer.on_delete = None
