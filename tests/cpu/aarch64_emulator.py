"""Programs compiled for 64-bit Arm, run in an emulated processor (Unicorn), on one thread."""

from __future__ import annotations

import io
import math
import struct
from collections.abc import Sequence

import numpy as np
from elftools.elf.elffile import ELFFile
from elftools.elf.relocation import RelocationSection
from elftools.elf.sections import SymbolTableSection
from unicorn import UC_ARCH_ARM64, UC_MODE_ARM
from unicorn.arm64_const import (
    UC_ARM64_REG_CPACR_EL1,
    UC_ARM64_REG_LR,
    UC_ARM64_REG_SP,
    UC_ARM64_REG_X0,
    UC_ARM64_REG_X1,
    UC_ARM64_REG_X2,
    UC_ARM64_REG_X3,
    UC_ARM64_REG_X4,
    UC_CPU_ARM64_MAX,
)
from unicorn.unicorn import Uc

from xloom.codegen.buffer_values import leaf_shapes
from xloom.cpu.entry.main_function import MAIN
from xloom.cpu.machine_code import serialized
from xloom.cpu.runtime.threads.program_autotuning_ir import BEGIN_RUN, END_RUN
from xloom.hlo.module import Module
from xloom.llvm import jit
from xloom.llvm.pass_pipeline import PassPipeline
from xloom.llvm.target import Target

_BASE, _STACK, _END = 0x10000000, 0x70000000, 0x1000
_STACK_BYTES, _SPACE = 16 << 20, 256 << 20
_CALL26, _JUMP26, _ABS64, _PREL32 = 283, 282, 257, 261
_PAGE, _GOT_PAGE, _GOT_LOW, _LOW8 = 275, 311, 312, 286
_LOW = {277: 0, 278: 0, 284: 1, 285: 2, _LOW8: 3, 299: 4}
"""How many bits of the lower twelve an instruction counts in."""
_OUTSIDE = f"""
{jit._NO_TARGET}
define ptr @memcpy(ptr %to, ptr %from, i64 %n) {{
entry:
  br label %head
head:
  %i = phi i64 [0, %entry], [%next, %body]
  %more = icmp ult i64 %i, %n
  br i1 %more, label %body, label %end
body:
  %p = getelementptr i8, ptr %from, i64 %i
  %q = getelementptr i8, ptr %to, i64 %i
  %byte = load volatile i8, ptr %p
  store i8 %byte, ptr %q
  %next = add i64 %i, 1
  br label %head
end:
  ret ptr %to
}}
define i64 @{BEGIN_RUN}(ptr %main) {{
  ret i64 0
}}
define void @{END_RUN}(ptr %main, i64 %begun) {{
  ret void
}}
define void @xloom_parallel_for(ptr %task, ptr %buffers, i64 %count, i64 %grain) {{
  %some = icmp sgt i64 %count, 0
  br i1 %some, label %all, label %none
all:
  call void %task(ptr %buffers, i64 0, i64 %count)
  br label %none
none:
  ret void
}}
"""
"""What programs call: of the C library, and of the pool."""


class _Memory:
    """The emulated processor's memory, filled from its beginning."""

    def __init__(self) -> None:
        self.machine = Uc(UC_ARCH_ARM64, UC_MODE_ARM, UC_CPU_ARM64_MAX)
        self.offsets: dict[int, int] = {}
        """Where addresses lie that code reads from a table."""
        for begin, nbytes in ((_BASE, _SPACE), (_STACK, _STACK_BYTES), (_END, 0x1000)):
            self.machine.mem_map(begin, nbytes)
        self._next = _BASE

    def put(self, data: bytes, align: int = 64) -> int:
        """The address of a copy."""
        at = -(-self._next // align) * align
        self._next = at + max(1, len(data))
        self.machine.mem_write(at, data)
        return at


def emulated(module: Module, target: Target, arguments: Sequence[np.ndarray]) -> list[np.ndarray]:
    """The arrays of the result."""
    made, _ = serialized(module, target)
    memory = _Memory()
    symbols = _loaded(memory, [*made.objects, jit.object_code(_OUTSIDE, PassPipeline.CALLS, target)])
    results = leaf_shapes(module.entry.root.shape)
    places = [memory.put(bytes(s.nbytes)) for s in results]

    def table(addresses: Sequence[int]) -> int:
        return memory.put(struct.pack(f"<{len(addresses) + 1}Q", *addresses, 0))

    machine = memory.machine
    machine.reg_write(UC_ARM64_REG_CPACR_EL1, 3 << 20 | 3 << 16)  # vectors are allowed, of both kinds
    machine.reg_write(UC_ARM64_REG_SP, _STACK + _STACK_BYTES - 64)
    machine.reg_write(UC_ARM64_REG_LR, _END)
    inputs, constants = (table([memory.put(a.tobytes()) for a in arrays]) for arrays in (arguments, made.constants))
    given = inputs, table(places), constants, memory.put(bytes(made.memory.temporary_bytes)), 0
    registers = (UC_ARM64_REG_X0, UC_ARM64_REG_X1, UC_ARM64_REG_X2, UC_ARM64_REG_X3, UC_ARM64_REG_X4)
    for register, value in zip(registers, given, strict=True):
        machine.reg_write(register, value)
    machine.emu_start(symbols[MAIN], _END)
    assert machine.reg_read(UC_ARM64_REG_X0) & 0xFFFFFFFF == 0
    return [
        np.frombuffer(machine.mem_read(at, s.nbytes), s.dtype.numpy, math.prod(s.dims)).reshape(s.dims)
        for at, s in zip(places, results, strict=True)
    ]


def _loaded(memory: _Memory, objects: Sequence[bytes]) -> dict[str, int]:
    """Puts object files into memory and links them: the addresses of their functions."""
    files = [ELFFile(io.BytesIO(data)) for data in objects]
    places: list[dict[int, int]] = []
    symbols: dict[str, int] = {}
    for file in files:
        at = {
            number: memory.put(
                bytes(section["sh_size"]) if section["sh_type"] == "SHT_NOBITS" else section.data(),
                max(16, section["sh_addralign"]),
            )
            for number, section in enumerate(file.iter_sections())
            if section["sh_flags"] & 2  # which lies in memory
        }
        places.append(at)
        for symbol in _symbols(file).iter_symbols():
            if symbol["st_shndx"] in at and symbol.name and symbol["st_info"]["bind"] != "STB_LOCAL":
                symbols[symbol.name] = at[symbol["st_shndx"]] + symbol["st_value"]
    for file, at in zip(files, places, strict=True):
        table = _symbols(file)
        for section in file.iter_sections():
            if isinstance(section, RelocationSection) and section["sh_info"] in at:
                for entry in section.iter_relocations():
                    symbol = table.get_symbol(entry["r_info_sym"])
                    inside = symbol["st_shndx"] in at
                    value = at[symbol["st_shndx"]] + symbol["st_value"] if inside else symbols[symbol.name]
                    place = at[section["sh_info"]] + entry["r_offset"]
                    _relocate(memory, entry["r_info_type"], place, value + entry["r_addend"])
    return symbols


def _symbols(file: ELFFile) -> SymbolTableSection:
    found = file.get_section_by_name(".symtab")
    assert isinstance(found, SymbolTableSection)
    return found


def _relocate(memory: _Memory, kind: int, place: int, value: int) -> None:
    """Writes an address into an instruction or a number, as the ABI of ELF for 64-bit Arm has it."""
    if kind == _ABS64:
        memory.machine.mem_write(place, struct.pack("<Q", value))
        return
    if kind == _PREL32:
        memory.machine.mem_write(place, struct.pack("<i", value - place))
        return
    if kind in (_GOT_PAGE, _GOT_LOW):
        if value not in memory.offsets:
            memory.offsets[value] = memory.put(struct.pack("<Q", value))
        value, kind = memory.offsets[value], _PAGE if kind == _GOT_PAGE else _LOW8
    (word,) = struct.unpack("<I", memory.machine.mem_read(place, 4))
    if kind in (_CALL26, _JUMP26):
        word |= (value - place) // 4 & 0x3FFFFFF
    elif kind == _PAGE:
        pages = (value >> 12) - (place >> 12)
        word |= (pages & 3) << 29 | (pages >> 2 & 0x7FFFF) << 5
    elif kind in _LOW:
        word |= (value & 0xFFF) >> _LOW[kind] << 10
    else:
        raise NotImplementedError(f"relocation {kind} of 64-bit Arm")
    memory.machine.mem_write(place, struct.pack("<I", word))
