"""Struct layouts and numbers of XLA's FFI, version 0.3, as its `xla/ffi/api/c_api.h` defines them."""

from __future__ import annotations

import ctypes
from ctypes import Structure, c_char_p, c_int32, c_int64, c_size_t, c_uint32, c_void_p
from enum import IntEnum

MAJOR, MINOR = 0, 3


class Stage(IntEnum):
    """When a handler is called."""

    INSTANTIATE = 0
    PREPARE = 1
    INITIALIZE = 2
    EXECUTE = 3


class AttributeKind(IntEnum):
    """What an attribute's pointer points to."""

    ARRAY = 1
    DICTIONARY = 2
    SCALAR = 3
    STRING = 4


BUFFER = 1
"""The only kind of argument and of result."""
METADATA_EXTENSION = 1


class Sized(Structure):
    """Every struct of the interface starts with its size, and a list of extensions."""

    _fields_ = [("struct_size", c_size_t), ("extension_start", c_void_p)]


class ByteSpan(Structure):
    """Bytes, without a NUL at the end."""

    _fields_ = [("ptr", c_void_p), ("len", c_size_t)]


class Version(Sized):
    """`XLA_FFI_Api_Version`."""

    _fields_ = [("major", c_int32), ("minor", c_int32)]


# -- a call
class Buffer(Sized):
    """An argument or a result."""

    _fields_ = [("dtype", c_int32), ("data", c_void_p), ("rank", c_int64), ("dims", c_void_p)]


class Buffers(Sized):
    """`XLA_FFI_Args`, and `XLA_FFI_Rets`, which is the same."""

    _fields_ = [("size", c_int64), ("types", c_void_p), ("pointers", c_void_p)]


class Attributes(Sized):
    """A dictionary, sorted by name."""

    _fields_ = [("size", c_int64), ("types", c_void_p), ("names", c_void_p), ("pointers", c_void_p)]


class Scalar(Structure):
    """An attribute that is a number."""

    _fields_ = [("dtype", c_int32), ("value", c_void_p)]


class Array(Structure):
    """An attribute that is a list of numbers."""

    _fields_ = [("dtype", c_int32), ("size", c_size_t), ("data", c_void_p)]


class CallFrame(Sized):
    """What a handler gets. Its `struct_size` does not count `future`."""

    _fields_ = [
        ("api", c_void_p),
        ("ctx", c_void_p),
        ("stage", c_int32),
        ("args", Buffers),
        ("rets", Buffers),
        ("attrs", Attributes),
        ("future", c_void_p),
    ]


CALL_FRAME_SIZE = CallFrame.future.offset

Handler = ctypes.CFUNCTYPE(c_void_p, c_void_p)
"""`XLA_FFI_Error* handler(XLA_FFI_CallFrame*)`."""


class Metadata(Structure):
    """What a handler says of itself."""

    _fields_ = [
        ("struct_size", c_size_t),
        ("api_version", Version),
        ("traits", c_uint32),
        ("state_type_id", c_int64),
    ]


class MetadataExtension(Structure):
    """Put into a call frame, it asks for metadata instead of a call."""

    _fields_ = [("struct_size", c_size_t), ("type", c_int32), ("next", c_void_p), ("metadata", c_void_p)]


# -- arguments of the interface's functions
class ErrorCreate(Sized):
    """`XLA_FFI_Error_Create_Args`."""

    _fields_ = [("message", c_char_p), ("code", c_int32)]


class ErrorGetMessage(Sized):
    """`XLA_FFI_Error_GetMessage_Args`."""

    _fields_ = [("error", c_void_p), ("message", c_void_p)]


class ErrorDestroy(Sized):
    """`XLA_FFI_Error_Destroy_Args`."""

    _fields_ = [("error", c_void_p)]


class HandlerRegister(Sized):
    """`XLA_FFI_Handler_Register_Args`; `stages` is the bundle, in the order of `Stage`."""

    _fields_ = [("name", ByteSpan), ("platform", ByteSpan), ("stages", c_void_p * 4), ("traits", c_uint32)]


class TypeInfo(Sized):
    """How values of a type are destroyed."""

    _fields_ = [("deleter", c_void_p)]


class TypeRegister(Sized):
    """`XLA_FFI_Type_Register_Args`."""

    _fields_ = [("name", ByteSpan), ("type_id", c_void_p), ("type_info", c_void_p)]


class StreamGet(Sized):
    """`XLA_FFI_Stream_Get_Args`."""

    _fields_ = [("ctx", c_void_p), ("stream", c_void_p)]


class ContextGet(Sized):
    """`XLA_FFI_ExecutionContext_Get_Args`."""

    _fields_ = [("ctx", c_void_p), ("type_id", c_void_p), ("data", c_void_p)]


class StateAccess(Sized):
    """`XLA_FFI_State_Set_Args`, and `XLA_FFI_State_Get_Args`, which is the same."""

    _fields_ = [("ctx", c_void_p), ("stage", c_int32), ("type_id", c_void_p), ("state", c_void_p)]


class MemoryAllocate(Sized):
    """`XLA_FFI_DeviceMemory_Allocate_Args`."""

    _fields_ = [("ctx", c_void_p), ("size", c_size_t), ("alignment", c_size_t), ("data", c_void_p)]


class MemoryFree(Sized):
    """`XLA_FFI_DeviceMemory_Free_Args`."""

    _fields_ = [("ctx", c_void_p), ("size", c_size_t), ("data", c_void_p)]


class ThreadPoolSchedule(Sized):
    """`XLA_FFI_ThreadPool_Schedule_Args`."""

    _fields_ = [("ctx", c_void_p), ("task", c_void_p), ("data", c_void_p)]


class ThreadPoolNumThreads(Sized):
    """`XLA_FFI_ThreadPool_NumThreads_Args`."""

    _fields_ = [("ctx", c_void_p), ("num_threads", c_void_p)]


class FutureCreate(Sized):
    """`XLA_FFI_Future_Create_Args`."""

    _fields_ = [("future", c_void_p)]


class FutureSetAvailable(Sized):
    """`XLA_FFI_Future_SetAvailable_Args`."""

    _fields_ = [("future", c_void_p)]


class FutureSetError(Sized):
    """`XLA_FFI_Future_SetError_Args`."""

    _fields_ = [("future", c_void_p), ("error", c_void_p)]


class RunIdGet(Sized):
    """`XLA_FFI_RunId_Get_Args`."""

    _fields_ = [("ctx", c_void_p), ("run_id", c_int64)]


class DeviceOrdinalGet(Sized):
    """`XLA_FFI_DeviceOrdinal_Get_Args`."""

    _fields_ = [("ctx", c_void_p), ("device_ordinal", c_int32)]


FUNCTIONS = (
    "Error_Create",
    "Error_GetMessage",
    "Error_Destroy",
    "Handler_Register",
    "Stream_Get",
    "Type_Register",
    "ExecutionContext_Get",
    "State_Set",
    "State_Get",
    "DeviceMemory_Allocate",
    "DeviceMemory_Free",
    "ThreadPool_Schedule",
    "ThreadPool_NumThreads",
    "Future_Create",
    "Future_SetAvailable",
    "Future_SetError",
    "RunId_Get",
    "DeviceOrdinal_Get",
)
"""The slots of the interface's table, in order, without `XLA_FFI_`."""


class Api(Sized):
    """`XLA_FFI_Api`."""

    _fields_ = [
        ("version", Version),
        ("internal_api", c_void_p),
        *[(name, c_void_p) for name in FUNCTIONS],
    ]
