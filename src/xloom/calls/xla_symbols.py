"""Loads libraries that were compiled against XLA's own headers, whose functions are external symbols."""

from __future__ import annotations

import ctypes
import tempfile
from pathlib import Path

from xloom.calls.c_compiler import link
from xloom.calls.typed_ffi.api import api

# the functions of custom_call_status.h, which our header has too but with internal linkage; and those of c_api.h and
# ffi.h (the second one is C++'s) that give the table of the typed interface
_SOURCE = """
#define XlaCustomCallStatusSetSuccess xloom_set_success
#define XlaCustomCallStatusSetFailure xloom_set_failure
#include <xloom/custom_call.h>
#undef XlaCustomCallStatusSetSuccess
#undef XlaCustomCallStatusSetFailure
void XlaCustomCallStatusSetSuccess(XlaCustomCallStatus* status) { xloom_set_success(status); }
void XlaCustomCallStatusSetFailure(XlaCustomCallStatus* status, const char* message, size_t message_len) {
  xloom_set_failure(status, message, message_len);
}
const void* XLA_FFI_GetApi(void) { return (const void*)%d; }
const void* _ZN3xla3ffi12GetXlaFfiApiEv(void) { return (const void*)%d; }
"""

SYMBOLS = ("XlaCustomCallStatusSet", "XLA_FFI_GetApi", "GetXlaFfiApi")
"""What is in the name of each of the symbols."""


def open_with_xla_symbols(path: str) -> ctypes.CDLL:
    """The library, with its symbols of XLA bound to ours.

    Raises MissingCompilerError without a C compiler, OSError when other symbols are missing too.
    """
    table = ctypes.addressof(api())
    with tempfile.TemporaryDirectory() as folder:
        companion = Path(folder) / "companion.so"
        # A library that has ours as a dependency, so that both are one scope. Were the symbols made global instead,
        # a copy of XLA loaded later would find them before its own.
        link(_SOURCE % (table, table), companion, [Path(path)])
        ctypes.CDLL(str(companion))
    return ctypes.CDLL(path)  # loaded and bound by now
