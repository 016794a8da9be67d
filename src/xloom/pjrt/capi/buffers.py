"""PJRT_Buffer_* and what creates one."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from xloom.hlo.shape import Layout, Shape, array_shape
from xloom.pjrt.buffer import Buffer, HostBufferSemantics, deleted, logical
from xloom.pjrt.capi import errors
from xloom.pjrt.capi.buffer_handles import (
    buffer_handle,
    buffer_of,
    count_reference,
    delete_buffer,
    drain_destroyed,
    drop_buffer,
    share_with_native,
)
from xloom.pjrt.capi.ctypes_structs import CArray, int64s_at, struct, text_at
from xloom.pjrt.capi.element_types import DTYPE
from xloom.pjrt.capi.entry_points import entry_point
from xloom.pjrt.capi.events import event_handle
from xloom.pjrt.capi.handles import objects
from xloom.pjrt.capi.memories import memory_of
from xloom.pjrt.enqueued import Enqueued
from xloom.pjrt.error import PjrtError, invalid
from xloom.pjrt.future import Future
from xloom.pjrt.host_memory import host_array
from xloom.pjrt.memory_space import MemorySpace
from xloom.status_code import Code
from xloom.trace import span

_ON_DELETE = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)
_STRIDES = 1  # PJRT_Buffer_MemoryLayout_Type


def _space(args: Any) -> MemorySpace:
    return memory_of(args.memory) if args.memory else objects[args.device].default_memory


def _shape(args: Any) -> Shape:
    dims = int64s_at(args.shape_dims, args.shape_num_dims)
    return array_shape(DTYPE[args.shape_element_type], dims, layout=layout_at(args.shape_layout, len(dims)))


@entry_point("PJRT_Client_BufferFromHostBuffer")
def from_host_buffer(args: Any) -> None:
    """A copy of the host's array, or where it may be that array itself."""
    shape = array_shape(DTYPE[args.type], int64s_at(args.dims, args.num_dims))
    strides = int64s_at(args.byte_strides, args.num_byte_strides)
    done = Future()
    array = host_array(args.data or 0, shape, strides, done.set)
    client = objects[args.client].client
    semantics, layout = HostBufferSemantics(args.host_buffer_semantics), layout_at(args.device_layout, shape.rank)
    buffer = client.buffer_from_host(array, _space(args), semantics, layout)
    args.buffer = buffer_handle(buffer)
    args.done_with_host_buffer = event_handle(done)


@entry_point("PJRT_Client_CreateViewOfDeviceBuffer")
def view_of_device_buffer(args: Any) -> None:
    """Memory of the caller's as a buffer."""
    dims = int64s_at(args.dims, args.num_dims)
    shape = array_shape(DTYPE[args.element_type], dims, layout=layout_at(args.layout, len(dims)))
    pointer, user_arg, space = args.device_buffer_ptr, args.on_delete_callback_arg, _space(args)
    function = _ON_DELETE(args.on_delete_callback or 0)

    def done() -> None:
        if function:
            function(pointer, user_arg)

    if not space.is_host:
        compiler, stream = space.device.client.compiler, args.stream or None
        lent = _Lent(done)
        try:
            value = compiler.view(pointer or 0, shape, space.device.id, stream, lent)
        except BaseException:
            lent.done = None  # whose memory it was keeps it
            raise
        args.buffer = buffer_handle(Buffer(shape, space, Enqueued.of(value)))
        return
    array = host_array(pointer or 0, shape.in_memory(), (), done)
    args.buffer = buffer_handle(Buffer(shape, space, Future.ready(array)))


class _Lent:
    """Memory of others, who are told when nothing refers to it any more."""

    def __init__(self, done: Callable[[], None]):
        self.done: Callable[[], None] | None = done

    def __del__(self) -> None:
        if self.done is not None:
            self.done()


@entry_point("PJRT_Client_CreateUninitializedBuffer")
def uninitialized(args: Any) -> None:
    """A buffer with undefined contents."""
    shape = _shape(args)
    array = np.empty(shape.in_memory().dims, shape.dtype.numpy)
    space = _space(args)
    args.buffer = buffer_handle(Buffer(shape, space, Enqueued.of(space.put(array))))


@entry_point("PJRT_Client_CreateErrorBuffer")
def error_buffer(args: Any) -> None:
    """A buffer whose array never comes, but an error."""
    error = PjrtError(Code(args.error_code), text_at(args.error_message, args.error_message_size))
    args.buffer = buffer_handle(Buffer(_shape(args), memory_of(args.memory), Future.failed(error)))


@entry_point("PJRT_Buffer_Destroy")
def destroy(args: Any) -> None:
    """Frees a buffer's handle, and those that native code has destroyed before."""
    drain_destroyed()
    drop_buffer(args.buffer)


@cache
def minor_to_major(major_to_minor: tuple[int, ...]) -> CArray:
    """The numbers of dimensions as PJRT lists them."""
    return CArray.int64(reversed(major_to_minor))


@entry_point("PJRT_Buffer_GetMemoryLayout")
def get_memory_layout(args: Any) -> None:
    """The order of a buffer's dimensions in memory, minor to major."""
    shape = buffer_of(args.buffer).shape
    layout = minor_to_major(shape.major_to_minor if shape.is_permuted else tuple(range(shape.rank)))
    args.layout.type = 0
    args.layout.tiled.minor_to_major, args.layout.tiled.minor_to_major_size = layout.address, layout.size
    args.layout.tiled.num_tiles = 0


@entry_point("PJRT_Buffer_Delete")
def delete(args: Any) -> None:
    """Gives up a buffer's array; its handle stays."""
    delete_buffer(args.buffer)


@entry_point("PJRT_Buffer_IsDeleted")
def is_deleted(args: Any) -> None:
    """Whether a buffer was deleted, or donated to a program."""
    args.is_deleted = buffer_of(args.buffer).is_deleted


@entry_point("PJRT_Buffer_ReadyEvent")
def ready_event(args: Any) -> None:
    """An event for when a buffer's array is there."""
    buffer = buffer_of(args.buffer)
    share_with_native(args.buffer, buffer)
    buffer.ready.on_ready(errors.tell)
    args.event = event_handle(buffer.ready)


@entry_point("PJRT_Buffer_CopyToDevice")
def copy_to_device(args: Any) -> None:
    """A copy of a buffer in another device's default memory."""
    args.dst_buffer = buffer_handle(buffer_of(args.buffer).copy_to(objects[args.dst_device].default_memory))


@entry_point("PJRT_Buffer_CopyToMemory")
def copy_to_memory(args: Any) -> None:
    """A copy of a buffer in another memory."""
    args.dst_buffer = buffer_handle(buffer_of(args.buffer).copy_to(memory_of(args.dst_memory)))


@entry_point("PJRT_Buffer_ToHostBuffer")
def to_host_buffer(args: Any) -> None:
    """A copy for the host, in the layout that it wants; without a place for it, how large it is."""
    buffer = buffer_of(args.src)
    if not args.dst:
        args.dst_size = buffer.nbytes
        return
    if args.dst_size < buffer.nbytes:
        raise invalid(
            f"the array has {buffer.nbytes} bytes, and there is room for {args.dst_size}",
            "ask for the size first, by a call without memory",
        )
    order = _order(args.host_layout, buffer.shape.rank)
    args.event = event_handle(_copied(buffer, args.dst, lambda array: logical(array, buffer.shape).transpose(order)))


@entry_point("PJRT_Buffer_CopyRawToHost")
def copy_raw_to_host(args: Any) -> None:
    """A copy of some of its bytes."""
    first, last = args.offset, args.offset + args.transfer_size
    buffer = buffer_of(args.buffer)
    if first < 0 or last > buffer.nbytes:
        raise invalid(f"the array has {buffer.nbytes} bytes, not {first} to {last}", "copy a part that lies within it")
    args.event = event_handle(_copied(buffer, args.dst, lambda array: array.reshape(-1).view(np.uint8)[first:last]))


def _order(address: int | None, rank: int) -> tuple[int, ...]:
    """The dimensions from the largest stride to the smallest."""
    natural = tuple(range(rank))
    if not address:
        return natural
    layout = struct("PJRT_Buffer_MemoryLayout").from_address(address)
    if layout.type == _STRIDES:
        strides = int64s_at(layout.tiled.minor_to_major, layout.tiled.minor_to_major_size)
        return tuple(sorted(natural, key=lambda d: -strides[d]))
    return int64s_at(layout.tiled.minor_to_major, layout.tiled.minor_to_major_size)[::-1]


def layout_at(address: int | None, rank: int) -> Layout | None:
    """The layout that is at an address; none at NULL."""
    return Layout(_order(address, rank)[::-1]) if address else None


def _copied(buffer: Buffer, address: int, view: Any) -> Future:
    """Copies what `view` takes of the array to an address, once it is there."""
    if buffer.is_deleted:
        raise deleted()
    done = Future()

    def copy(source: Future) -> None:
        if source.error is not None:
            errors.tell(source)
            done.fail(source.error)
            return
        try:
            with span("device to host", "transfer", bytes=buffer.nbytes):
                data = np.ascontiguousarray(view(buffer.on_host(source.value)))
                ctypes.memmove(address, data.__array_interface__["data"][0], data.nbytes)
        except Exception as error:  # a backend's, or that it gave another array
            done.fail(error)
        else:
            done.set()

    buffer.ready.on_ready(copy)
    return done


def _address(args: Any) -> int:
    buffer = buffer_of(args.buffer)
    array, space = buffer.ready.result(), buffer.memory_space
    if not space.is_host:
        return space.device.client.compiler.address(array)
    share_with_native(args.buffer, buffer)
    return array.__array_interface__["data"][0]


@entry_point("PJRT_Buffer_UnsafePointer")
def unsafe_pointer(args: Any) -> None:
    """Where the array is; waits for it."""
    args.buffer_pointer = _address(args)


@entry_point("PJRT_Buffer_OpaqueDeviceMemoryDataPointer")
def opaque_pointer(args: Any) -> None:
    """Where the array is, as `unsafe_pointer` says; waits for it."""
    args.device_memory_ptr = _address(args)


@entry_point("PJRT_Buffer_IncreaseExternalReferenceCount")
def increase_references(args: Any) -> None:
    """A buffer's memory is used outside from now on."""
    count_reference(args.buffer, is_more=True)


@entry_point("PJRT_Buffer_DecreaseExternalReferenceCount")
def decrease_references(args: Any) -> None:
    """A buffer's memory is used outside once less."""
    count_reference(args.buffer, is_more=False)


@entry_point("PJRT_Buffer_Bitcast")
def bitcast(args: Any) -> None:
    """The bytes of a buffer as an array of another type and dimensions."""
    buffer = buffer_of(args.buffer)
    shape = array_shape(DTYPE[args.element_type], int64s_at(args.dims, args.num_dims))
    if shape.nbytes != buffer.nbytes:
        raise invalid(
            f"{buffer.shape} has {buffer.nbytes} bytes, and {shape} has {shape.nbytes}",
            "a bitcast keeps the number of bytes",
        )
    space = buffer.memory_space
    array = buffer.on_host(buffer.ready.result())
    array = array.reshape(-1).view(np.uint8).view(shape.dtype.numpy).reshape(shape.dims)
    args.out_buffer = buffer_handle(Buffer(shape, space, Enqueued.of(space.put(array))))
