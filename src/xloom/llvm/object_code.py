"""LLVM IR to object code by LLVM's own functions: threads are in them side by side, and Python runs meanwhile.

llvmlite's wrappers of the same functions let one thread in at a time, and each gives Python away and has to wait for it
again. Here only the slow ones do. Threads must share neither contexts nor target machines.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from ctypes import POINTER, byref, c_bool, c_char_p, c_int, c_void_p
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any

import llvmlite.binding as llvm

from xloom.llvm.shared_setting import SharedSetting

_SLOW = {
    "LLVMPY_ParseAssembly": (c_void_p, [c_void_p, c_char_p, POINTER(c_void_p)]),
    "LLVMPY_RunNewModulePassManager": (None, [c_void_p] * 3),
    "LLVMPY_TargetMachineEmitToMemory": (c_void_p, [c_void_p, c_void_p, c_int, POINTER(c_void_p)]),
    "LLVMPY_ContextDispose": (None, [c_void_p]),
}
_QUICK = {
    "LLVMPY_ContextCreate": (c_void_p, []),
    "LLVMPY_DisposeModule": (None, [c_void_p]),
    "LLVMPY_CreatePipelineTuningOptions": (c_void_p, []),
    "LLVMPY_PTOSetLoopVectorization": (None, [c_void_p, c_bool]),
    "LLVMPY_PTOSetSLPVectorization": (None, [c_void_p, c_bool]),
    "LLVMPY_PTOSetLoopUnrolling": (None, [c_void_p, c_bool]),
    "LLVMPY_DisposePipelineTuningOptions": (None, [c_void_p]),
    "LLVMPY_CreatePassBuilder": (c_void_p, [c_void_p, c_void_p]),
    "LLVMPY_DisposePassBuilder": (None, [c_void_p]),
    "LLVMPY_buildPerModuleDefaultPipeline": (c_void_p, [c_void_p, c_int]),
    "LLVMPY_CreateNewModulePassManager": (c_void_p, []),
    "LLVMPY_DisposeNewModulePassManger": (None, [c_void_p]),
    "LLVMPY_GetBufferStart": (c_void_p, [c_void_p]),
    "LLVMPY_GetBufferSize": (ctypes.c_size_t, [c_void_p]),
    "LLVMPY_DisposeMemoryBuffer": (None, [c_void_p]),
    "LLVMPY_DisposeString": (None, [c_void_p]),
    "LLVMPY_module_AddAlwaysInlinerPass": (None, [c_void_p]),
    "LLVMPY_module_AddSROAPass": (None, [c_void_p]),
    "LLVMPY_module_AddSimplifyCFGPass": (None, [c_void_p]),
    "LLVMPY_module_AddInstCombinePass": (None, [c_void_p]),
    "LLVMPY_module_AddLoopRotatePass": (None, [c_void_p]),
    "LLVMPY_module_AddNewGVNPass": (None, [c_void_p]),
}


@dataclass(frozen=True)
class Passes:
    """What LLVM does to a module: its pipeline of a level, or none, and then the passes named."""

    level: int | None
    vectorise: bool = False
    unroll: bool = False
    named: tuple[str, ...] = ()


class _Library:
    """LLVM's functions by name."""

    def __init__(self, path: str):
        slow, quick = ctypes.CDLL(path), ctypes.PyDLL(path)
        for library, functions in ((slow, _SLOW), (quick, _QUICK)):
            for name, (result, arguments) in functions.items():
                function = getattr(library, name)
                function.restype, function.argtypes = result, arguments
                setattr(self, name.removeprefix("LLVMPY_"), function)

    def __getattr__(self, name: str) -> Callable[..., Any]:
        raise AttributeError(name)


_DEFAULTS = {"disable-lsr": "false", "unroll-threshold-aggressive": "300", "vectorizer-min-trip-count": "16"}
"""LLVM's options that we change: they are the process's, so only while one of our modules needs it."""


def _set_options(options: Mapping[str, str]) -> None:
    for name, value in options.items():
        llvm.set_option("xloom", f"-{name}={value}")


def _use_options(options: Mapping[str, str]) -> Callable[[], None]:
    _set_options(options)
    return partial(_set_options, {name: _DEFAULTS[name] for name in options})


_all_code, _vectors = SharedSetting(_use_options), SharedSetting(_use_options)
_OF_ALL_CODE = {"disable-lsr": "true", "unroll-threshold-aggressive": "150"}
"""To rewrite the addresses of loops would take a third of code generation, and rarely makes loops faster; nor are they
faster when they are unrolled to twice as much. Level 0 does neither, and to set them takes longer than its passes."""
_OF_NARROW_VECTORS = {"vectorizer-min-trip-count": "0"}
"""Loops of fewer steps than that number have what vectors leave masked.

Of narrowed elements of which such a mask has one, LLVM 22 stores with AVX-512 as many bytes as they had before, over
what comes next: modules that narrow anything have no such loops.
"""


@lru_cache(maxsize=1)
def _library() -> _Library:
    return _Library(llvm.ffi.lib._name)


def emitted(text: bytes, machine: llvm.TargetMachine, passes: Passes, as_object: bool = True) -> bytes:
    """The object file of LLVM IR `text`, or its assembly. Raises RuntimeError with what LLVM says is wrong with it."""
    lib = _library()
    context = lib.ContextCreate()
    try:
        error = c_void_p()
        module = lib.ParseAssembly(context, text, byref(error))
        if not module:
            raise RuntimeError(f"LLVM IR: {_taken(lib, error)}")
        try:
            with _all_code.of(_OF_ALL_CODE) if passes.level != 0 else nullcontext():
                with (
                    _vectors.of(_OF_NARROW_VECTORS if b"trunc " in text else {}) if passes.vectorise else nullcontext()
                ):
                    _optimise(lib, module, machine._ptr, passes)
                buffer = lib.TargetMachineEmitToMemory(machine._ptr, module, int(as_object), byref(error))
            if not buffer:
                raise RuntimeError(_taken(lib, error))
            data = ctypes.string_at(lib.GetBufferStart(buffer), lib.GetBufferSize(buffer))
            lib.DisposeMemoryBuffer(buffer)
            return data
        finally:
            lib.DisposeModule(module)
    finally:
        lib.ContextDispose(context)


def _taken(lib: _Library, error: c_void_p) -> str:
    """A message, whose memory is then free."""
    text = ctypes.string_at(error.value or 0).decode(errors="replace") if error.value else ""
    lib.DisposeString(error)
    return text


def _optimise(lib: _Library, module: int, machine: Any, passes: Passes) -> None:
    with _options(lib, passes) as options:
        builder = lib.CreatePassBuilder(machine, options)
        if passes.level is None:
            manager = lib.CreateNewModulePassManager()
        else:
            manager = lib.buildPerModuleDefaultPipeline(builder, passes.level)
        for name in passes.named:
            getattr(lib, f"module_Add{name}Pass")(manager)
        lib.RunNewModulePassManager(manager, module, builder)
        lib.DisposeNewModulePassManger(manager)
        lib.DisposePassBuilder(builder)


@contextmanager
def _options(lib: _Library, passes: Passes) -> Iterator[int]:
    options = lib.CreatePipelineTuningOptions()
    lib.PTOSetLoopVectorization(options, passes.vectorise)
    lib.PTOSetSLPVectorization(options, False)  # finds nothing in what is mostly loops
    lib.PTOSetLoopUnrolling(options, passes.unroll)
    yield options
    lib.DisposePipelineTuningOptions(options)
