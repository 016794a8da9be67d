"""Buffers whose bytes the host brings in parts, through the C API."""

import ctypes

import numpy as np
import pytest

from xloom.pjrt.capi import errors
from xloom.pjrt.capi.api import api
from xloom.pjrt.capi.buffer_handles import buffer_of
from xloom.pjrt.capi.ctypes_structs import new, struct, text_at
from xloom.pjrt.capi.element_types import DTYPE
from xloom.pjrt.capi.memories import memory_handle
from xloom.pjrt.client import Client
from xloom.pjrt.error import PjrtError
from xloom.status_code import Code

F32 = next(number for number, dtype in DTYPE.items() if dtype.numpy == np.float32)
MANAGER = "PJRT_AsyncHostToDeviceTransferManager"


def call(name, **values):
    args = new(f"{name}_Args", **values)
    function = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)(getattr(api(), name))
    error = function(ctypes.addressof(args))
    if error:
        text = errors.message(error)
        message = text_at(text.address, text.size)
        errors.destroy(error)
        raise PjrtError(Code.UNKNOWN, message)
    return args


def buffers(*shapes):
    """A manager, and its buffers."""
    client = Client.cpu()
    dims = [(ctypes.c_int64 * len(shape))(*shape) for shape in shapes]
    specs = [new("PJRT_ShapeSpec", dims=ctypes.addressof(d), num_dims=len(d), element_type=F32) for d in dims]
    row = (struct("PJRT_ShapeSpec") * len(specs))(*specs)
    made = call(
        "PJRT_Client_CreateBuffersForAsyncHostToDevice",
        shape_specs=ctypes.addressof(row),
        num_shape_specs=len(specs),
        memory=memory_handle(client.memory_spaces[0]),
    )
    manager = made.transfer_manager
    got = [call(f"{MANAGER}_RetrieveBuffer", transfer_manager=manager, buffer_index=k) for k in range(len(specs))]
    return manager, [buffer_of(args.buffer_out) for args in got]


def send(manager, array, number, first, last, is_last):
    call(
        f"{MANAGER}_TransferData",
        transfer_manager=manager,
        buffer_index=number,
        data=array.ctypes.data + first,
        offset=first,
        transfer_size=last - first,
        is_last_transfer=is_last,
    )


def test_bytes_come_in_parts():
    manager, (first, second) = buffers((3, 4), (2,))
    assert call(f"{MANAGER}_BufferCount", transfer_manager=manager).buffer_count == 2
    assert call(f"{MANAGER}_BufferSize", transfer_manager=manager, buffer_index=0).buffer_size == 48
    a, b = np.arange(12, dtype=np.float32).reshape(3, 4), np.array([5, 6], np.float32)
    send(manager, a, 0, 16, 48, False)
    assert not first.ready.is_ready
    send(manager, a, 0, 0, 16, True)
    call(f"{MANAGER}_TransferLiteral", transfer_manager=manager, buffer_index=1, data=b.ctypes.data)
    call(f"{MANAGER}_Destroy", transfer_manager=manager)
    np.testing.assert_array_equal(np.asarray(first), a)
    np.testing.assert_array_equal(np.asarray(second), b)


def test_what_never_comes_is_an_error():
    manager, (first, second) = buffers((2,), (2,))
    with pytest.raises(PjrtError, match="the array has 8 bytes, not 4 to 12"):
        send(manager, np.zeros(3, np.float32), 0, 4, 12, True)
    text = ctypes.create_string_buffer(b"no line")
    call(
        f"{MANAGER}_SetBufferError",
        transfer_manager=manager,
        buffer_index=0,
        error_code=14,
        error_message=ctypes.addressof(text),
        error_message_size=7,
    )
    call(f"{MANAGER}_Destroy", transfer_manager=manager)
    with pytest.raises(PjrtError, match="no line"):
        first.block_until_ready()
    with pytest.raises(PjrtError, match="has given up"):
        second.block_until_ready()
