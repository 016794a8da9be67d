"""PJRT_Event_*: futures."""

from __future__ import annotations

import ctypes
from typing import Any

from xloom.pjrt.capi import errors, native_library
from xloom.pjrt.capi.buffer_handles import native
from xloom.pjrt.capi.ctypes_structs import text_at
from xloom.pjrt.capi.entry_points import FUNCTION, entry_point
from xloom.pjrt.capi.handles import drop, objects, put
from xloom.pjrt.capi.native_structs import EVENT, READY
from xloom.pjrt.capi.storage_ir import DROP_ERROR, NEW_ERROR
from xloom.pjrt.error import PjrtError
from xloom.pjrt.future import Future
from xloom.pjrt.log import is_enabled
from xloom.status_code import Code

_CALLBACK = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)
_NEW_ERROR = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint64)


def event_handle(future: Future) -> int:
    """A handle of a future."""
    return READY if future.is_ready and future.error is None else put(future)


def run_event(done: Future) -> int:
    """A native event for the end of a run, for its results and whoever else asks; 0 where a future does for it."""
    if done.is_ready or is_enabled():
        return 0
    event = native("new_event")()

    def fire(future: Future) -> None:
        if future.error is not None:
            ctypes.c_uint64.from_address(event + EVENT.offset("error")).value = put(future.error)
        native("fire_event")(event)

    done.on_ready(fire)
    return event


def _new_error(handle: int, is_asked: int) -> int:
    return (errors.new_error if is_asked else errors.noted_error)(objects[handle])


def _drop_error(handle: int) -> None:
    drop(handle)


native_library.register(NEW_ERROR, _NEW_ERROR(_new_error))
native_library.register(DROP_ERROR, FUNCTION(_drop_error))


@entry_point("PJRT_Event_Create")
def create(args: Any) -> None:
    """An event that the caller sets."""
    args.event = put(Future())


@entry_point("PJRT_Event_Set")
def set_event(args: Any) -> None:
    """Ends an event of the caller's, with an error or without."""
    future = objects[args.event]
    if args.error_code:
        future.fail(PjrtError(Code(args.error_code), text_at(args.error_message, args.error_message_size)))
    else:
        future.set()


@entry_point("PJRT_Event_Destroy")
def destroy(args: Any) -> None:
    """Forgets the handle; the work goes on."""
    drop(args.event)


@entry_point("PJRT_Event_IsReady")
def is_ready(args: Any) -> None:
    """Whether an event has ended, with an error or without."""
    args.is_ready = objects[args.event].is_ready


@entry_point("PJRT_Event_Error")
def error(args: Any) -> None:
    """Raises the error of an event that has ended with one."""
    future = objects[args.event]
    if future.error is not None:
        raise future.error


@entry_point("PJRT_Event_Await")
def wait(args: Any) -> None:
    """Waits for an event. Raises its error."""
    objects[args.event].result()


@entry_point("PJRT_Event_OnReady")
def on_ready(args: Any) -> None:
    """Calls back, with an error that the callback destroys."""
    callback, user_arg = _CALLBACK(args.callback), args.user_arg

    def call(future: Future) -> None:
        callback(None if future.error is None else errors.noted_error(future.error), user_arg)

    objects[args.event].on_ready(call)
