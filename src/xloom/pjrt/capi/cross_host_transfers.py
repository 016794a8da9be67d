"""The CrossHostTransfers extension: buffers that go to devices of other processes, by keys that both agree on."""

from __future__ import annotations

import ctypes
from typing import Any

from xloom.hlo.shape import array_shape
from xloom.pjrt.capi import errors
from xloom.pjrt.capi.buffer_handles import buffer_handle, buffer_of
from xloom.pjrt.capi.buffers import layout_at
from xloom.pjrt.capi.ctypes_structs import int64s_at
from xloom.pjrt.capi.element_types import DTYPE
from xloom.pjrt.capi.entry_points import entry_point
from xloom.pjrt.capi.events import event_handle
from xloom.pjrt.capi.handles import objects

ENTRIES = [
    "PJRT_Transfers_PJRT_Client_MakeCrossHostReceiveBuffers",
    "PJRT_Transfers_PJRT_Buffer_CopyToRemoteDevice",
    "PJRT_Transfers_PJRT_Client_CrossHostReceiveBuffers",
    "PJRT_Transfers_PJRT_Client_CrossHostSendBuffers",
]
_ON_DONE = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_bool, ctypes.c_void_p)


def _row(kind: Any, address: int, count: int) -> list[Any]:
    return list((kind * count).from_address(address)) if count else []


@entry_point("PJRT_Transfers_PJRT_Client_CrossHostSendBuffers")
def send_buffers(args: Any) -> None:
    """Sends each buffer to a device; an event tells when that is done."""
    client, count = objects[args.client].client, args.num_buffers
    events = (ctypes.c_void_p * count).from_address(args.send_events) if count else []
    targets = _row(ctypes.c_int32, args.dst_global_device_ids, count)
    keys, buffers = _row(ctypes.c_int64, args.transfer_keys, count), _row(ctypes.c_void_p, args.buffers, count)
    for k, (buffer, target, key) in enumerate(zip(buffers, targets, keys, strict=True)):
        sent = client.cross_host.send(buffer_of(buffer), client.lookup_device(target), key)
        events[k] = event_handle(sent)


@entry_point("PJRT_Transfers_PJRT_Client_CrossHostReceiveBuffers")
def receive_buffers(args: Any) -> None:
    """Buffers on a device, each of which another device sends."""
    client, count = objects[args.client].client, args.num_shapes
    found = (ctypes.c_void_p * count).from_address(args.buffers) if count else []
    ranks, dims = _row(ctypes.c_size_t, args.shape_num_dims, count), _row(ctypes.c_void_p, args.num_dims, count)
    types, layouts = _row(ctypes.c_int32, args.element_types, count), _row(ctypes.c_void_p, args.layouts, count)
    sources = _row(ctypes.c_int32, args.src_global_device_ids, count)
    keys = _row(ctypes.c_int64, args.transfer_keys, count)
    rows = zip(types, dims, ranks, layouts, sources, keys, strict=True)
    for k, (element_type, place, rank, layout, source, key) in enumerate(rows):
        shape = array_shape(DTYPE[element_type], int64s_at(place, rank), layout=layout_at(layout, rank))
        buffer = client.cross_host.receive(shape, objects[args.device], client.lookup_device(source), key)
        found[k] = buffer_handle(buffer)


@entry_point("PJRT_Transfers_PJRT_Buffer_CopyToRemoteDevice")
def copy_to_remote_device(args: Any) -> None:
    """Tells the caller, who gets no error from this entry, that there are keys instead of descriptors."""
    error = errors.unimplemented("PJRT_Transfers_PJRT_Buffer_CopyToRemoteDevice")
    _ON_DONE(args.on_done.on_done)(error, False, args.on_done.user_arg)
