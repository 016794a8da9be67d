"""LLVM IR to machine code in this process."""

from __future__ import annotations

import ctypes
import itertools
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any

import llvmlite.binding as llvm

from xloom.cpu.cache import Cache, key_of
from xloom.cpu.support import SYMBOLS, support_ir

object_cache = Cache()


@lru_cache(maxsize=1)
def target_machine() -> llvm.TargetMachine:
    """The host: its CPU with all its features."""
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    target = llvm.Target.from_default_triple()
    return target.create_target_machine(
        cpu=llvm.get_host_cpu_name(),
        features=llvm.get_host_cpu_features().flatten(),
        opt=3,
        reloc="pic",
        codemodel="small",
    )


@lru_cache(maxsize=1)
def target_header() -> str:
    """The lines of a module's text that name the target."""
    machine = target_machine()
    return f'target triple = "{machine.triple}"\ntarget datalayout = "{machine.target_data}"\n'


@lru_cache(maxsize=1)
def target_key() -> str:
    """What machine code depends on besides its IR: LLVM's version, the CPU and its features."""
    version = ".".join(map(str, llvm.llvm_version_info))
    return f"{version} {llvm.get_host_cpu_name()} {llvm.get_host_cpu_features().flatten()}"


def optimised(text: str, speed_level: int = 3) -> llvm.ModuleRef:
    """The module of LLVM IR `text` after LLVM's passes."""
    machine = target_machine()
    module = llvm.parse_assembly(target_header() + text)
    options = llvm.create_pipeline_tuning_options(speed_level=speed_level)
    options.loop_vectorization = speed_level > 1
    options.slp_vectorization = speed_level > 1
    builder = llvm.create_pass_builder(machine, options)
    builder.getModulePassManager().run(module, builder)
    return module


def object_code(text: str, speed_level: int = 3) -> bytes:
    """The relocatable object file of LLVM IR `text`, which is made once."""
    key = key_of(target_key().encode(), f"O{speed_level}".encode(), text.encode())
    data = object_cache.get(key)
    if data is None:
        data = target_machine().emit_object(optimised(text, speed_level))
        object_cache.put(key, data)
    return data


def assembly(text: str, speed_level: int = 3) -> str:
    """The assembly of LLVM IR `text`."""
    return target_machine().emit_assembly(optimised(text, speed_level))


@lru_cache(maxsize=1)
def _jit() -> Any:
    target_machine()
    return llvm.create_lljit_compiler(target_machine(), use_jit_link=True, suppress_errors=False)


_serial = itertools.count()


class Library:
    """Object files linked into the process. It must live as long as its code may run."""

    def __init__(self, objects: Iterable[bytes], exports: Iterable[str], imports: Mapping[str, int] | None = None):
        builder = llvm.JITLibraryBuilder()
        objects = list(objects)
        if any(name.encode() in data for data in objects for name in SYMBOLS):
            objects.append(object_code(support_ir()))
        for data in objects:
            builder.add_object_img(data)
        for name, address in (imports or {}).items():
            builder.import_symbol(name, address)
        for name in exports:
            builder.export_symbol(name)
        builder.add_current_process()
        self._tracker = builder.link(_jit(), f"xloom.{next(_serial)}")

    def address(self, symbol: str) -> int:
        """The address of an exported symbol."""
        return self._tracker[symbol]

    def function(self, symbol: str, prototype: Any) -> Any:
        """An exported function, as ctypes calls it."""
        return prototype(self.address(symbol))


TASK = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)
"""ctypes' type of a kernel's phase."""
