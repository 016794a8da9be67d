"""The chain of extensions."""

from __future__ import annotations

import ctypes
from typing import Any

from xloom.pjrt.capi import (
    cross_host_transfers,
    custom_partitioner,
    ffi,
    layouts,
    memory_descriptions,
    native_library,
    profiler,
    shardings,
)
from xloom.pjrt.capi.ctypes_structs import struct
from xloom.pjrt.capi.structs import EXTENSION_TYPES

_ALL = {
    "Layouts": layouts.ENTRIES,
    "MemoryDescriptions": memory_descriptions.ENTRIES,
    "FFI": ffi.ENTRIES,
    "Shardings": shardings.ENTRIES,
    "Custom_Partitioner": custom_partitioner.ENTRIES,
    "CrossHostTransfers": cross_host_transfers.ENTRIES,
}

_NUMBERS = {name: number for number, name in enumerate(EXTENSION_TYPES.split())}


def entries() -> list[str]:
    """The names of all functions of all extensions."""
    return [name for names in _ALL.values() for name in names]


def chain() -> list[Any]:
    """The extensions as structures, the first of which is the chain's start."""
    profiling = profiler.extension()
    profiling.base.struct_size, profiling.base.type = ctypes.sizeof(profiling), _NUMBERS["Profiler"]
    found: list[Any] = [profiling]
    for name, functions in _ALL.items():
        kind = type(
            f"PJRT_{name}_Extension",
            (ctypes.Structure,),
            {"_fields_": [("base", struct("PJRT_Extension_Base")), *((entry, ctypes.c_void_p) for entry in functions)]},
        )
        made = kind()
        made.base.struct_size, made.base.type = ctypes.sizeof(kind), _NUMBERS[name]
        for entry in functions:
            setattr(made, entry, native_library.address(entry))
        found[-1].base.next = ctypes.addressof(made)
        found.append(made)
    return found
