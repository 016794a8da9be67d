"""The interface's table of functions that handlers call, each of them in Python."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import lru_cache
from typing import Any

from xloom.calls.registry import Registration, add
from xloom.calls.typed_ffi import c_api, context, errors, futures, types
from xloom.calls.typed_ffi.errors import Failure
from xloom.calls.typed_ffi.threads import thread_pool
from xloom.status_code import Code
from xloom.thread_count import thread_count

_FUNCTION = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)
_TASK = ctypes.CFUNCTYPE(None, ctypes.c_void_p)

_functions: dict[str, Any] = {}


def _offers(name: str, kind: type[c_api.Sized]) -> Callable[[Callable[[Any], int | None]], Callable[[Any], int | None]]:
    """Puts a function into the table. It gets its argument struct, and returns an error object or None."""

    def register(function: Callable[[Any], int | None]) -> Callable[[Any], int | None]:
        def call(arguments: int) -> int | None:
            try:
                return function(kind.from_address(arguments))
            except Failure as failure:
                return errors.create(failure.code, str(failure).encode())
            except Exception as error:  # native code is above
                return errors.create(Code.INTERNAL, f"{type(error).__name__}: {error}".encode())

        _functions[name] = _FUNCTION(call)
        return function

    return register


@lru_cache(maxsize=1)
def api() -> c_api.Api:
    """The table."""
    pointers = {name: ctypes.cast(_functions[name], ctypes.c_void_p).value for name in c_api.FUNCTIONS}
    version = c_api.Version(ctypes.sizeof(c_api.Version), None, c_api.MAJOR, c_api.MINOR)
    return c_api.Api(struct_size=ctypes.sizeof(c_api.Api), version=version, **pointers)


# -- errors
@_offers("Error_Create", c_api.ErrorCreate)
def _error_create(a: c_api.ErrorCreate) -> int:
    return errors.create(a.code, a.message or b"")


@_offers("Error_GetMessage", c_api.ErrorGetMessage)
def _error_get_message(a: c_api.ErrorGetMessage) -> None:
    a.message = a.error


@_offers("Error_Destroy", c_api.ErrorDestroy)
def _error_destroy(a: c_api.ErrorDestroy) -> None:
    errors.destroy(a.error)


# -- registration
@_offers("Handler_Register", c_api.HandlerRegister)
def _handler_register(a: c_api.HandlerRegister) -> None:
    *stages, execute = (pointer or 0 for pointer in a.stages)
    name, platform = _text(a.name), _text(a.platform)
    if not execute:
        raise Failure(
            Code.INVALID_ARGUMENT,
            f"FFI handler for {name} on a platform {platform} must provide an execute implementation",
        )
    platform = "Host" if platform.lower() in ("host", "cpu") else platform
    add(
        Registration(
            name, platform, address=execute, abi="typed-ffi", answer="", stages=tuple(stages), source="its library"
        )
    )


@_offers("Type_Register", c_api.TypeRegister)
def _type_register(a: c_api.TypeRegister) -> None:
    type_id = ctypes.c_int64.from_address(a.type_id)
    info = c_api.TypeInfo.from_address(a.type_info) if a.type_info else None
    type_id.value = types.register(_text(a.name), type_id.value, info.deleter if info else None)


# -- the execution
@_offers("Stream_Get", c_api.StreamGet)
def _stream_get(a: c_api.StreamGet) -> None:
    a.stream = context.execution(context.at(a.ctx)).device.stream


@_offers("ExecutionContext_Get", c_api.ContextGet)
def _context_get(a: c_api.ContextGet) -> None:
    a.data = context.user_data(_type_id(a.type_id))


@_offers("State_Set", c_api.StateAccess)
def _state_set(a: c_api.StateAccess) -> None:
    context.set_state(context.at(a.ctx), a.stage, _type_id(a.type_id), a.state)


@_offers("State_Get", c_api.StateAccess)
def _state_get(a: c_api.StateAccess) -> None:
    a.state = context.state(context.at(a.ctx), a.stage, _type_id(a.type_id))


@_offers("RunId_Get", c_api.RunIdGet)
def _run_id_get(a: c_api.RunIdGet) -> None:
    a.run_id = context.execution(context.at(a.ctx)).run_id


@_offers("DeviceOrdinal_Get", c_api.DeviceOrdinalGet)
def _device_ordinal_get(a: c_api.DeviceOrdinalGet) -> None:
    a.device_ordinal = context.execution(context.at(a.ctx)).device.ordinal


# -- memory
@_offers("DeviceMemory_Allocate", c_api.MemoryAllocate)
def _memory_allocate(a: c_api.MemoryAllocate) -> None:
    a.data = context.execution(context.at(a.ctx)).device.allocate(a.size, a.alignment)


@_offers("DeviceMemory_Free", c_api.MemoryFree)
def _memory_free(a: c_api.MemoryFree) -> None:
    context.execution(context.at(a.ctx)).device.free(a.data)


# -- threads
@_offers("ThreadPool_Schedule", c_api.ThreadPoolSchedule)
def _thread_pool_schedule(a: c_api.ThreadPoolSchedule) -> None:
    thread_pool().submit(_TASK(a.task), a.data)


@_offers("ThreadPool_NumThreads", c_api.ThreadPoolNumThreads)
def _thread_pool_num_threads(a: c_api.ThreadPoolNumThreads) -> None:
    ctypes.c_int64.from_address(a.num_threads).value = thread_count()


@_offers("Future_Create", c_api.FutureCreate)
def _future_create(a: c_api.FutureCreate) -> None:
    a.future = futures.create()


@_offers("Future_SetAvailable", c_api.FutureSetAvailable)
def _future_set_available(a: c_api.FutureSetAvailable) -> None:
    futures.complete(a.future)


@_offers("Future_SetError", c_api.FutureSetError)
def _future_set_error(a: c_api.FutureSetError) -> None:
    futures.complete(a.future, a.error)


def _text(span: c_api.ByteSpan) -> str:
    return ctypes.string_at(span.ptr, span.len).decode("utf-8", "replace")


def _type_id(address: int) -> int:
    return ctypes.c_int64.from_address(address).value
