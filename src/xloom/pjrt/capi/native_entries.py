"""The entries that native code answers where it can, and Python where it must: their names and their code."""

from __future__ import annotations

import sys
from functools import cache

import llvmlite

from xloom.compilation_cache.cache import Cache, key_of
from xloom.pjrt.capi import buffer_ir, execute_ir, host_buffer_ir, storage_cache_ir, storage_ir
from xloom.pjrt.capi.native_module import NativeModule

NAMES = frozenset([*buffer_ir.ENTRIES, host_buffer_ir.NAME, execute_ir.NAME])
WORDS = (storage_ir.RETIRED, storage_ir.RUNNING, host_buffer_ir.PYTHON_ONLY)
"""Words that Python reads or writes."""
FUNCTIONS = {
    "new_cells": "vpqpp",
    "new_event": "p",
    "take_destroyed": "p",
    "share_cell": "vpp",
    "fill_cell": "vppp",
    "give_array": "vpp",
    "take_back_cell": "qp",
    "remember_record": "vp",
}
"""What Python calls, and the kinds of its result and arguments."""
RELEASING = {
    "delete_cell": "vp",
    "release_storage": "vp",
    "release_event": "vp",
    "fire_event": "vp",
    "free_cells": "vp",
    execute_ir.ATTEMPT: "pp",
}
"""The same of functions that take time, or may tell the host that its array is not used any more: they, or it, may want
Python's lock."""

_texts = Cache(1 << 20)


@cache
def native_text() -> str:
    """The LLVM IR of all native entries and of what they call, which is kept: to write it is a tenth of JAX's start."""
    key = key_of(b"native entries", sys.version.encode(), llvmlite.__version__.encode())
    text = _texts.get(key)
    if text is None:
        text = written_text().encode()
        _texts.put(key, text)
    return text.decode()


def written_text() -> str:
    """The same, written anew."""
    native = NativeModule()
    for part in (storage_cache_ir, storage_ir, buffer_ir, host_buffer_ir, execute_ir):
        part.define(native)
    return str(native)


def native_names() -> list[str]:
    """What others use of it."""
    return [*NAMES, *WORDS, *FUNCTIONS, *RELEASING]
