"""PJRT_LoadedExecutable_Execute and PJRT_ExecuteContext_*."""

from __future__ import annotations

import ctypes
import time
from collections.abc import Sequence
from functools import cache
from typing import Any

from xloom.pjrt.capi import errors, native_library
from xloom.pjrt.capi.buffer_handles import buffer_of, drain_destroyed, is_lent, lend, native, record_of, write_handles
from xloom.pjrt.capi.ctypes_structs import CArray, int64s_at, struct
from xloom.pjrt.capi.entry_points import entry_point
from xloom.pjrt.capi.events import event_handle, run_event
from xloom.pjrt.capi.executables import LoadedView
from xloom.pjrt.capi.execute_ir import ATTEMPT, FAILED
from xloom.pjrt.capi.handles import drop, objects, put
from xloom.pjrt.capi.host_buffer_ir import PYTHON_ONLY
from xloom.pjrt.capi.native_module import REFUSED
from xloom.pjrt.capi.native_structs import NATIVE_EVENT
from xloom.pjrt.error import PjrtError
from xloom.pjrt.executable import Results
from xloom.pjrt.future import Future
from xloom.pjrt.queue import Queue
from xloom.pjrt.run_lengths import LONG
from xloom.status_code import Code

_options = struct("PJRT_ExecuteOptions").from_address
_arguments = struct("PJRT_LoadedExecutable_Execute_Args").from_address


@cache
def _word_array(count: int) -> type[ctypes.Array[ctypes.c_size_t]]:
    return ctypes.c_size_t * count


@entry_point("PJRT_LoadedExecutable_Execute")
def execute(args: Any) -> int | None:
    """Runs a program on its devices: that is left to native code after all if only Python's arrays were in its way."""
    drain_destroyed()
    view = objects[args.executable]
    loaded = view.loaded
    options = _options(args.options)
    count, devices = args.num_args, args.num_devices
    if options.num_send_ops or options.num_recv_ops:
        hint = "jax.pure_callback and io_callback call Python"
        raise PjrtError(Code.UNIMPLEMENTED, "send and receive callbacks are not implemented by xloom", hint=hint)
    if not devices:  # all are in other processes
        return None
    kept = int64s_at(options.non_donatable_input_indices, options.num_non_donatable_input_indices)
    rows = _word_array(devices).from_address(args.argument_lists)
    handles = [_word_array(count).from_address(row) if count else () for row in rows]
    view.plan.follow_runs()
    is_short = view.plan.is_native
    device = objects[args.execute_device] if args.execute_device else None
    may_be_native = is_short and device is None and not (kept and view.donated) and not _python_sees_all()
    if may_be_native and _lend(view, handles):
        outcome = native(ATTEMPT)(ctypes.addressof(args))
        if outcome != REFUSED:
            return outcome
    arguments = [list(map(buffer_of, row)) for row in handles]
    results = loaded.launch(arguments, not_donated=kept, device=device, is_short=is_short)
    records = view.records if device is None else [CArray.pointers(map(record_of, row)) for row, _ in results]
    _write_results(args, results, records)
    return None


def _python_sees_all() -> bool:
    return bool(ctypes.c_int64.from_address(native_library.address(PYTHON_ONLY)).value)


def _lend(view: LoadedView, handles: Sequence[Any]) -> bool:
    """Lets native code use the arguments, and has it take those that are donated, as soon as short runs have made the
    last of them; whether it had not asked for one of them before."""
    end, is_new = time.monotonic() + LONG, False
    for row, device in zip(handles, view.loaded.devices, strict=False):
        for number, handle in enumerate(row):
            is_donated = number in view.donated
            if not is_lent(handle, is_donated=is_donated):
                is_new = True
                if not _waits(buffer_of(handle).ready, device.queue, end):
                    return False
                lend(handle, is_donated=is_donated)
    return is_new


def _waits(ready: Future, queue: Queue, end: float) -> bool:
    """Whether an array is there, or comes after short runs alone, before a time."""
    if ready.is_ready:
        return True
    return queue.is_nearly_done and not queue.is_own_thread and ready.wait(max(0.0, end - time.monotonic()))


def _write_results(args: Any, results: Sequence[Results], records: Sequence[CArray]) -> None:
    """Hands the caller what a run gives, a device."""
    devices = len(results)
    outputs = _word_array(devices).from_address(args.output_lists)
    events = [run_event(done) for _, done in results]
    for handles_address, (row, _), known, event in zip(outputs, results, records, events, strict=True):
        if row:
            write_handles(row, known.address, handles_address, event)
    if args.device_complete_events:
        completed = _word_array(devices).from_address(args.device_complete_events)
        both = zip(events, results, strict=True)
        completed[:] = [event + NATIVE_EVENT if event else event_handle(done) for event, (_, done) in both]
    else:
        for event in filter(None, events):
            native("release_event")(event)


def _failed(plan: int, args: int, number: int) -> int:
    """Ends a run that native code has begun and that has failed. Its results say so, and not the call, as those of a
    run by the device's thread do: JAX makes an error of another class of what a call says."""
    try:
        view = objects[plan]
        _write_results(_arguments(args), view.loaded.failed(view.plan.failed(number)), view.records)
    except BaseException as error:  # the caller is C
        return errors.new_error(error)
    return 0


native_library.register(
    FAILED, ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64)(_failed)
)


@entry_point("PJRT_ExecuteContext_Create")
def create_context(args: Any) -> None:
    """A context of executions, which holds user data of FFI handlers by type id."""
    args.context = put({})


@entry_point("PJRT_ExecuteContext_Destroy")
def destroy_context(args: Any) -> None:
    """Frees an execution's context."""
    drop(args.context)
