"""PJRT_AsyncHostToDeviceTransferManager_*: buffers whose bytes the host brings by and by."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

from xloom.hlo.shape import Shape, array_shape
from xloom.pjrt.buffer import Buffer
from xloom.pjrt.capi.buffer_handles import buffer_handle
from xloom.pjrt.capi.buffers import layout_at
from xloom.pjrt.capi.ctypes_structs import int64s_at, struct, text_at
from xloom.pjrt.capi.element_types import DTYPE
from xloom.pjrt.capi.entry_points import entry_point
from xloom.pjrt.capi.events import event_handle
from xloom.pjrt.capi.handles import drop, intern_handle, objects, put
from xloom.pjrt.capi.memories import memory_of
from xloom.pjrt.enqueued import Enqueued
from xloom.pjrt.error import PjrtError, invalid
from xloom.pjrt.future import Future
from xloom.pjrt.memory_space import MemorySpace
from xloom.status_code import Code


class Transfer:
    """A buffer, and the host's array that fills until its last bytes have come."""

    def __init__(self, shape: Shape, space: MemorySpace):
        self._space = space
        self.array = np.empty(shape.in_memory().dims, shape.dtype.numpy)
        self.buffer = Buffer(shape, space, Enqueued())
        self._ready = self.buffer.ready

    def write(self, source: int, offset: int, nbytes: int) -> None:
        """Copies bytes of the host's to their place in the array."""
        if not 0 <= offset <= offset + nbytes <= self.array.nbytes:
            raise invalid(
                f"the array has {self.array.nbytes} bytes, not {offset} to {offset + nbytes}",
                "send parts that lie within it",
            )
        if nbytes:
            ctypes.memmove(self.array.__array_interface__["data"][0] + offset, source, nbytes)

    def end(self) -> None:
        """The array is complete."""
        try:
            value = self._space.put(self.array)
        except Exception as error:  # such as memory that is full
            self._ready.fail(error)
        else:
            self._ready.set(value)

    def fail(self, error: PjrtError) -> None:
        """It will never be."""
        if not self._ready.is_ready:
            self._ready.fail(error)


@entry_point("PJRT_Client_CreateBuffersForAsyncHostToDevice")
def create(args: Any) -> None:
    """A manager of as many buffers as there are shapes, in one memory."""
    specs = (struct("PJRT_ShapeSpec") * args.num_shape_specs).from_address(args.shape_specs)
    layouts = int64s_at(args.device_layouts, args.num_device_layouts) or (0,) * len(specs)
    space, transfers = memory_of(args.memory), []
    for spec, layout in zip(specs, layouts, strict=True):
        dims = int64s_at(spec.dims, spec.num_dims)
        shape = array_shape(DTYPE[spec.element_type], dims, layout=layout_at(layout, len(dims)))
        transfers.append(Transfer(shape, space))
    args.transfer_manager = put((space, transfers))


def _transfer(args: Any) -> Transfer:
    return objects[args.transfer_manager][1][args.buffer_index]


@entry_point("PJRT_AsyncHostToDeviceTransferManager_Destroy")
def destroy(args: Any) -> None:
    """Buffers that are not complete fail, as nothing comes any more."""
    for transfer in objects[args.transfer_manager][1]:
        transfer.fail(
            PjrtError(
                Code.ABORTED,
                "who was to bring the array's bytes has given up",
                hint="the transfer manager was destroyed before the last transfer: send it first",
            )
        )
    drop(args.transfer_manager)


@entry_point("PJRT_AsyncHostToDeviceTransferManager_TransferData")
def transfer_data(args: Any) -> None:
    """Some bytes of a buffer, which may be the last ones."""
    transfer = _transfer(args)
    transfer.write(args.data, args.offset, args.transfer_size)
    if args.is_last_transfer:
        transfer.end()
    args.done_with_h2d_transfer = event_handle(Future.ready())


@entry_point("PJRT_AsyncHostToDeviceTransferManager_TransferLiteral")
def transfer_literal(args: Any) -> None:
    """All of a buffer, row-major."""
    transfer = _transfer(args)
    transfer.write(args.data, 0, transfer.array.nbytes)
    transfer.end()
    args.done_with_h2d_transfer = event_handle(Future.ready())


@entry_point("PJRT_AsyncHostToDeviceTransferManager_RetrieveBuffer")
def retrieve_buffer(args: Any) -> None:
    """A buffer, which the caller may use before its bytes are there."""
    args.buffer_out = buffer_handle(_transfer(args).buffer)


@entry_point("PJRT_AsyncHostToDeviceTransferManager_Device")
def device(args: Any) -> None:
    """The device whose memory the buffers are in."""
    args.device_out = intern_handle(objects[args.transfer_manager][0].device)


@entry_point("PJRT_AsyncHostToDeviceTransferManager_BufferCount")
def buffer_count(args: Any) -> None:
    """How many buffers there are."""
    args.buffer_count = len(objects[args.transfer_manager][1])


@entry_point("PJRT_AsyncHostToDeviceTransferManager_BufferSize")
def buffer_size(args: Any) -> None:
    """The bytes of a buffer."""
    args.buffer_size = _transfer(args).array.nbytes


@entry_point("PJRT_AsyncHostToDeviceTransferManager_SetBufferError")
def set_buffer_error(args: Any) -> None:
    """A buffer fails, as the caller says."""
    _transfer(args).fail(PjrtError(Code(args.error_code), text_at(args.error_message, args.error_message_size)))


@entry_point("PJRT_AsyncHostToDeviceTransferManager_AddMetadata")
def add_metadata(args: Any) -> None:
    """Nothing to do: there is nobody to tell."""
