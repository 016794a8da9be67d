"""Loads libraries that were compiled against XLA's own custom_call_status.h, whose functions are external symbols."""

from __future__ import annotations

import ctypes
import tempfile
from pathlib import Path

from xloom.calls.c_compiler import link

# the same two functions as in our header, but with external linkage
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
"""

SYMBOL_PREFIX = "XlaCustomCallStatusSet"


def open_with_status_symbols(path: str) -> ctypes.CDLL:
    """The library, with its XlaCustomCallStatusSet... symbols bound to ours.

    Raises MissingCompilerError without a C compiler, OSError when other symbols are missing too.
    """
    with tempfile.TemporaryDirectory() as folder:
        companion = Path(folder) / "companion.so"
        # A library that has ours as a dependency, so that both are one scope. Were the symbols made global instead,
        # a copy of XLA loaded later would find them before its own.
        link(_SOURCE, companion, [Path(path)])
        ctypes.CDLL(str(companion))
    return ctypes.CDLL(path)  # loaded and bound by now
