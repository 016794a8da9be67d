"""The plugin's native functions: entry points, and wrappers by which C may call Python at any moment.

jaxlib destroys objects while it raises an exception: Python code that runs then would find the exception pending, fail
at once, and lose it. So native code puts it aside before Python runs, and back afterwards. Nor may a signal that came
in C++ be heard at the function's first line, which would not run: it is heard before, and comes again when Python is
left.
"""

from __future__ import annotations

import ctypes
import sys
import threading
import time
from functools import cache
from typing import Any

from xloom.llvm import jit
from xloom.pjrt.capi import getters, native_entries
from xloom.pjrt.capi.native_structs import PREFIX
from xloom.pjrt.capi.storage_ir import RETIRED, RUNNING

_BODY = "xloom_python_"
NOTHING = "nothing"
"""The name of a function that returns NULL, without Python."""

_PATIENCE = 2.0
_INTERRUPTED = "xloom_interrupted"
_interrupted = ctypes.c_int64(0)

_functions: dict[str, Any] = {}


def register(name: str, function: Any) -> None:
    """Takes a ctypes callback of up to four pointers or integers."""
    assert name not in _functions, name
    _functions[name] = function


def interrupt_caller() -> None:
    """Interrupts the main thread again when it is out of here, as C++ makes another error of the first time."""
    if threading.current_thread() is threading.main_thread():
        _interrupted.value = 1


@cache
def address(name: str) -> int:
    """The native function that calls a registered one."""
    return library().address(f"{PREFIX}{name}")


@cache
def library() -> jit.Library:
    """The native functions for all that is registered by now."""
    bodies = {
        f"{_BODY}{name}": ctypes.cast(function, ctypes.c_void_p).value or 0 for name, function in _functions.items()
    }
    bodies[_INTERRUPTED] = ctypes.addressof(_interrupted)
    native = (*getters.native_names(), *native_entries.native_names())
    names = [f"{PREFIX}{name}" for name in (NOTHING, *_functions, *native)]
    texts = _ir(list(_functions)), native_entries.native_text()  # the same in all processes: their code is kept
    # optimised, the entries take as long, and LLVM fifteen times as long: a third of JAX's start without a cache
    return jit.Library([jit.process_code(text, jit.PassPipeline.CALLERS) for text in texts], names, bodies)


def retire() -> None:
    """From now on no function calls Python, but returns NULL at once; waits for those that do.

    jaxlib's own threads call while Python ends, and a thread that then asks for Python's lock would be killed, and the
    process with it.
    """
    ctypes.c_int64.from_address(address(RETIRED)).value = 1
    running, end = ctypes.c_int64.from_address(address(RUNNING)), time.monotonic() + _PATIENCE
    while running.value and time.monotonic() < end:
        time.sleep(0.001)


def resume() -> bool:
    """Has functions call Python again; False where they do."""
    retired = ctypes.c_int64.from_address(address(RETIRED))
    if not retired.value:
        return False
    retired.value = 0
    return True


_IS_FINALIZING = "Py_IsFinalizing" if sys.version_info >= (3, 13) else "_Py_IsFinalizing"
"""Python's modules go then: who went on after the exit functions is not told by another one."""
_DECLARATIONS = f"""
declare i32 @{_IS_FINALIZING}()
declare i32 @PyGILState_Ensure()
declare void @PyGILState_Release(i32)
declare void @PyErr_Fetch(ptr, ptr, ptr)
declare void @PyErr_Restore(ptr, ptr, ptr)
declare void @PyErr_SetInterrupt()
declare i32 @PyErr_CheckSignals()
declare i32 @PyErr_ExceptionMatches(ptr)
declare void @PyErr_WriteUnraisable(ptr)
declare void @PyErr_Clear()
@PyExc_KeyboardInterrupt = external global ptr
@{_INTERRUPTED} = external global i64
@{PREFIX}{RUNNING} = external global i64
@{PREFIX}{RETIRED} = external global i64
define ptr @{PREFIX}{NOTHING}() {{
  ret ptr null
}}
"""

_GUARDED = f"""
define internal ptr @guarded(ptr %body, ptr %a, ptr %b, ptr %c, ptr %d) noinline {{
  %before = atomicrmw add ptr @{PREFIX}{RUNNING}, i64 1 seq_cst
  %flag = load atomic i64, ptr @{PREFIX}{RETIRED} seq_cst, align 8
  %is_retired = icmp ne i64 %flag, 0
  br i1 %is_retired, label %nothing, label %go_on
go_on:
  %ending = call i32 @{_IS_FINALIZING}()
  %is_ending = icmp ne i32 %ending, 0
  br i1 %is_ending, label %nothing, label %python
nothing:
  %less = atomicrmw sub ptr @{PREFIX}{RUNNING}, i64 1 seq_cst
  ret ptr null
python:
  %kind = alloca ptr
  %value = alloca ptr
  %trace = alloca ptr
  %state = call i32 @PyGILState_Ensure()
  call void @PyErr_Fetch(ptr %kind, ptr %value, ptr %trace)
  %raised = call i32 @PyErr_CheckSignals()
  %has_raised = icmp ne i32 %raised, 0
  br i1 %has_raised, label %put_off, label %run
put_off:
  %class = load ptr, ptr @PyExc_KeyboardInterrupt
  %matches = call i32 @PyErr_ExceptionMatches(ptr %class)
  %is_interrupt = icmp ne i32 %matches, 0
  br i1 %is_interrupt, label %clear, label %write
clear:
  call void @PyErr_Clear()
  br label %run
write:
  call void @PyErr_WriteUnraisable(ptr null)
  br label %run
run:
  %is_late = phi i1 [false, %python], [true, %clear], [false, %write]
  %result = call ptr %body(ptr %a, ptr %b, ptr %c, ptr %d)
  %k = load ptr, ptr %kind
  %v = load ptr, ptr %value
  %t = load ptr, ptr %trace
  call void @PyErr_Restore(ptr %k, ptr %v, ptr %t)
  call void @PyGILState_Release(i32 %state)
  %signal = load i64, ptr @{_INTERRUPTED}
  %is_asked = icmp ne i64 %signal, 0
  %is_interrupted = or i1 %is_asked, %is_late
  br i1 %is_interrupted, label %again, label %done
again:
  store i64 0, ptr @{_INTERRUPTED}
  call void @PyErr_SetInterrupt()
  br label %done
done:
  %after = atomicrmw sub ptr @{PREFIX}{RUNNING}, i64 1 seq_cst
  ret ptr %result
}}
"""
"""What all of them do around the function in Python."""

# calls with more arguments than the callee has are harmless in C's calling conventions
_GUARD = """
declare ptr @{body}(ptr, ptr, ptr, ptr)
define ptr @{name}(ptr %a, ptr %b, ptr %c, ptr %d) {{
  %result = call ptr @guarded(ptr @{body}, ptr %a, ptr %b, ptr %c, ptr %d)
  ret ptr %result
}}
"""


def _ir(names: list[str]) -> str:
    guards = [_GUARD.format(name=f"{PREFIX}{name}", body=f"{_BODY}{name}") for name in names]
    return "".join([jit._NO_TARGET, _DECLARATIONS, _GUARDED, *guards, getters.native_ir(PREFIX)])
