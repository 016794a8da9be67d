"""Call frames: all that a handler gets, in one block of memory of which each run has a copy."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from xloom.calls.typed_ffi import c_api
from xloom.calls.typed_ffi.api import api
from xloom.calls.typed_ffi.attributes import AttributeMemory
from xloom.calls.typed_ffi.c_api import Stage
from xloom.calls.typed_ffi.context import Context
from xloom.hlo.shape import Shape


@lru_cache(maxsize=64)
def _block_type(count: int) -> Any:
    class Block(ctypes.Structure):
        _fields_ = [
            ("call", c_api.CallFrame),
            ("context", Context),
            ("buffers", c_api.Buffer * count),
            ("pointers", ctypes.c_void_p * count),
        ]

    return Block


class FrameTemplate:
    """The frame of a call before it is known where its arrays are.

    `arguments` and `results` are shapes of arrays and tokens. A copy of the `nbytes` at `address` becomes a frame when
    each word at the first number of `relocations` is set to the address of the byte at the second one; the address of
    array number k, arguments first, goes to `data[k]`. What is the same in all copies is here, and kept by this object.
    """

    stage = c_api.CallFrame.stage.offset
    future = c_api.CallFrame.future.offset

    def __init__(self, arguments: Sequence[Shape], results: Sequence[Shape], attributes: AttributeMemory):
        shapes = [*arguments, *results]
        count = len(shapes)
        kind = _block_type(count)
        self.block = block = kind()
        self.nbytes = ctypes.sizeof(kind)
        self.address = ctypes.addressof(block)
        self._kinds = (ctypes.c_int32 * max(1, count))(*[c_api.BUFFER] * count)
        self._dims = [(ctypes.c_int64 * max(1, s.rank))(*s.dims) for s in shapes]
        kinds, width = ctypes.addressof(self._kinds), ctypes.sizeof(ctypes.c_int32)
        block.call = c_api.CallFrame(
            struct_size=c_api.CALL_FRAME_SIZE,
            api=ctypes.addressof(api()),
            stage=Stage.EXECUTE,
            args=_list(len(arguments), kinds),
            rets=_list(len(results), kinds + len(arguments) * width),
            attrs=attributes.struct,
        )
        for k, (shape, dims) in enumerate(zip(shapes, self._dims, strict=True)):
            size = ctypes.sizeof(c_api.Buffer)
            block.buffers[k] = c_api.Buffer(size, None, shape.dtype.value, None, shape.rank, ctypes.addressof(dims))
        buffers = [kind.buffers.offset + k * ctypes.sizeof(c_api.Buffer) for k in range(count)]
        pointers = [kind.pointers.offset + k * ctypes.sizeof(ctypes.c_void_p) for k in range(count + 1)]
        self.data = [place + c_api.Buffer.data.offset for place in buffers]
        of_list = c_api.Buffers.pointers.offset
        self.relocations = [
            (c_api.CallFrame.ctx.offset, kind.context.offset),
            (c_api.CallFrame.args.offset + of_list, pointers[0]),
            (c_api.CallFrame.rets.offset + of_list, pointers[len(arguments)]),
            *zip(pointers, buffers, strict=False),
        ]
        self.owner = kind.context.offset + Context.owner.offset
        self.prepared = kind.context.offset + Context.prepared.offset
        self._attributes = attributes

    def copy(self) -> Any:
        """A frame; set its `context.owner` and the `data` of its `buffers`."""
        block = type(self.block).from_buffer_copy(self.block)
        start = ctypes.addressof(block)
        for place, target in self.relocations:
            ctypes.c_uint64.from_address(start + place).value = start + target
        return block


def _list(count: int, kinds: int) -> c_api.Buffers:
    return c_api.Buffers(ctypes.sizeof(c_api.Buffers), None, count, kinds, None)
