"""AMX's tile registers: 16 rows of 64 bytes, of sums, or of what is multiplied.

A product of two tiles adds to each of 16 x 16 sums (f32 or s32) the products of 16 packed elements of a row of the left
tile and of a column of the right one; a packed element is two bf16 or four bytes. Source: Intel's manual of the
instruction set, chapter 18.
"""

from __future__ import annotations

from llvmlite import ir

from xloom.hlo.dtype import DType, bf16, f32, s32
from xloom.llvm.constant_table import constant_table
from xloom.llvm.intrinsics import overloaded
from xloom.llvm.loop import allocate
from xloom.llvm.types import I8, POINTER, VOID, i64

ROWS = 16
"""Rows of a tile, and packed elements in one."""
ROW_BYTES = 64
TILE_BYTES = ROWS * ROW_BYTES
_REGISTERS = 8
_PRODUCTS = {
    ("bf16", "bf16"): "tdpbf16ps",
    ("s8", "s8"): "tdpbssd",
    ("s8", "u8"): "tdpbsud",
    ("u8", "s8"): "tdpbusd",
    ("u8", "u8"): "tdpbuud",
}
"""Instructions by what the tiles have."""


def has_tile_product(a: DType, b: DType, sums: DType) -> bool:
    """True when there are products of tiles of such elements that are added up in such sums."""
    return (a.name, b.name) in _PRODUCTS and sums is (f32 if a is bf16 else s32)


class TileRegisters:
    """The tile registers, by number, while `begin` has made them tiles and `end` has not given them back."""

    def __init__(self, b: ir.IRBuilder, a: DType, b_: DType):
        self._b = b
        self._product = _PRODUCTS[a.name, b_.name]

    def begin(self) -> None:
        """Makes all registers tiles of full size."""
        # a palette; its rows' bytes (16 bits each) from byte 16 on, its rows from byte 48 on
        numbers = [1, *[0] * 15, *[ROW_BYTES, 0] * _REGISTERS, *[0] * 16, *[ROWS] * _REGISTERS, *[0] * 8]
        module = self._b.module
        self._call("ldtilecfg", constant_table(module, module.get_unique_name("tiles"), I8, numbers))

    def end(self) -> None:
        """Leaves the registers as they were: the system then need not keep them."""
        self._call("tilerelease")

    def clear(self, tile: int) -> None:
        """Sets a tile to zeros."""
        self._call("tilezero", I8(tile))

    def load(self, tile: int, pointer: ir.Value, stride: ir.Value) -> None:
        """Loads a tile whose rows lie so many bytes (i64) apart."""
        self._call("tileloadd64", I8(tile), pointer, stride)

    def store(self, tile: int, pointer: ir.Value, stride: ir.Value) -> None:
        """Stores a tile to rows that lie so many bytes (i64) apart."""
        self._call("tilestored64", I8(tile), pointer, stride)

    def multiply_add(self, sums: int, left: int, right: int) -> None:
        """sums += left * right."""
        self._call(self._product, I8(sums), I8(left), I8(right))

    def _call(self, name: str, *args: ir.Value) -> None:
        overloaded(self._b, f"x86.{name}", [], VOID, args)


def moved(b: ir.IRBuilder, pointer: ir.Value, number: ir.Value, nbytes: int) -> ir.Value:
    """Where the `number`-th piece of so many bytes lies."""
    return b.gep(pointer, [b.mul(number, i64(nbytes))], inbounds=True, source_etype=I8)


def stack_memory(b: ir.IRBuilder, nbytes: int) -> ir.Value:
    """Memory on the stack for tiles."""
    memory = allocate(b, I8, nbytes)
    memory.align, memory.type = 64, POINTER
    return memory
