"""Python functions as C calls them at any moment, even while an exception is on its way through the caller.

jaxlib destroys objects while it raises: Python code that runs then would find the exception pending, fail at once, and
lose it. So native code puts it aside before Python runs, and back afterwards.
"""

from __future__ import annotations

import ctypes
import time
from functools import cache
from typing import Any

from xloom.cpu import jit
from xloom.pjrt.capi import getters, native_entries
from xloom.pjrt.capi.storage_ir import RETIRED, RUNNING
from xloom.pjrt.capi.words import PREFIX

_BODY = "xloom_python_"
NOTHING = "nothing"
"""The name of a function that returns NULL, without Python."""

_PATIENCE = 2.0

_functions: dict[str, Any] = {}


def register(name: str, function: Any) -> None:
    """Takes a ctypes callback of up to four pointers or integers."""
    assert name not in _functions, name
    _functions[name] = function


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
    native = (*getters.native_names(), *native_entries.native_names())
    names = [f"{PREFIX}{name}" for name in (NOTHING, *_functions, *native)]
    calls = jit.object_code(_ir(list(_functions)), jit.Content.CALLS)
    return jit.Library([calls, jit.object_code(native_entries.native_text())], names, bodies)


def retire() -> None:
    """From now on no function calls Python, but returns NULL at once; waits for those that do.

    jaxlib's own threads call while Python ends, and a thread that then asks for Python's lock would be killed, and the
    process with it.
    """
    ctypes.c_int64.from_address(address(RETIRED)).value = 1
    running, end = ctypes.c_int64.from_address(address(RUNNING)), time.monotonic() + _PATIENCE
    while running.value and time.monotonic() < end:
        time.sleep(0.001)


_DECLARATIONS = f"""
declare i32 @PyGILState_Ensure()
declare void @PyGILState_Release(i32)
declare void @PyErr_Fetch(ptr, ptr, ptr)
declare void @PyErr_Restore(ptr, ptr, ptr)
@{PREFIX}{RUNNING} = external global i64
@{PREFIX}{RETIRED} = external global i64
define ptr @{PREFIX}{NOTHING}() {{
  ret ptr null
}}
"""

# calls with more arguments than the callee has are harmless in C's calling conventions
_GUARD = """
declare ptr @{body}(ptr, ptr, ptr, ptr)
define ptr @{name}(ptr %a, ptr %b, ptr %c, ptr %d) {{
  %before = atomicrmw add ptr @{running}, i64 1 seq_cst
  %flag = load atomic i64, ptr @{retired} seq_cst, align 8
  %is_retired = icmp ne i64 %flag, 0
  br i1 %is_retired, label %nothing, label %python
nothing:
  %less = atomicrmw sub ptr @{running}, i64 1 seq_cst
  ret ptr null
python:
  %kind = alloca ptr
  %value = alloca ptr
  %trace = alloca ptr
  %state = call i32 @PyGILState_Ensure()
  call void @PyErr_Fetch(ptr %kind, ptr %value, ptr %trace)
  %result = call ptr @{body}(ptr %a, ptr %b, ptr %c, ptr %d)
  %k = load ptr, ptr %kind
  %v = load ptr, ptr %value
  %t = load ptr, ptr %trace
  call void @PyErr_Restore(ptr %k, ptr %v, ptr %t)
  call void @PyGILState_Release(i32 %state)
  %after = atomicrmw sub ptr @{running}, i64 1 seq_cst
  ret ptr %result
}}
"""


def _ir(names: list[str]) -> str:
    symbols = {"running": f"{PREFIX}{RUNNING}", "retired": f"{PREFIX}{RETIRED}"}
    guards = [_GUARD.format(name=f"{PREFIX}{name}", body=f"{_BODY}{name}", **symbols) for name in names]
    return "".join([jit._NO_TARGET, _DECLARATIONS, *guards, getters.native_ir(PREFIX)])
