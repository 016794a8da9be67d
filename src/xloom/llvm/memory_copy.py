"""Copies of bytes."""

from __future__ import annotations

from llvmlite import ir

from xloom.llvm.intrinsics import declared, intrinsic
from xloom.llvm.loop import PLAIN, loop
from xloom.llvm.types import I1, I8, I64, POINTER, VOID

FEW_ELEMENTS = 9
"""As the states of small systems have them, which programs compute element by element."""
_PAGE = 4096
_BEHIND = 16
_PIECE = 2048
"""Bytes that the C library copies by vectors. More it has processors copy by one instruction, and that takes some of
them ten times as long where the target is less than `_BEHIND` bytes behind the source, counted within pages."""


def copy(b: ir.IRBuilder, target: ir.Value, source: ir.Value, nbytes: ir.Value | int) -> None:
    """Copies so many bytes, which are not the same."""
    function = declared(b.module, "memcpy", [POINTER, POINTER, I64], VOID, [POINTER, POINTER, I64, I1])
    b.call(function, [target, source, I64(nbytes) if isinstance(nbytes, int) else nbytes, I1(0)])


def copy_elements(b: ir.IRBuilder, target: ir.Value, source: ir.Value, count: int, nbytes: int) -> None:
    """Copies `FEW_ELEMENTS` elements or fewer, of so many bytes each, one by one.

    A load of several that were stored one by one just before would wait until they are in the cache, and LLVM would not
    keep them in registers.
    """
    kind = ir.IntType(8 * nbytes)
    align = max(1, nbytes // 2)  # callers' complex numbers lie as their parts do, not as integers of their width
    places = [[b.gep(p, [I64(k)], inbounds=True, source_etype=kind) for k in range(count)] for p in (source, target)]
    values = [b.load(place, typ=kind, align=align) for place in places[0]]
    for value, place in zip(values, places[1], strict=True):
        b.store(value, place, align=align)


def copy_part(b: ir.IRBuilder, target: ir.Value, source: ir.Value, nbytes: ir.Value) -> None:
    """Copies so many bytes between places that may be anywhere in their arrays, which are not the same."""
    if isinstance(nbytes, ir.Constant) and nbytes.constant <= _PIECE:
        copy(b, target, source, nbytes)
        return
    behind = b.sub(b.ptrtoint(target, I64), b.ptrtoint(source, I64))
    is_slow = b.icmp_unsigned("<", b.and_(b.sub(behind, I64(1)), I64(_PAGE - 1)), I64(_BEHIND - 1))
    piece = b.select(is_slow, I64(_PIECE), nbytes)
    with loop(b, 0, nbytes, piece, name="piece", hints=PLAIN) as at:
        there, here = (b.gep(p, [at], inbounds=True, source_etype=I8) for p in (target, source))
        copy(b, there, here, intrinsic(b, "smin", piece, b.sub(nbytes, at)))


def fill(b: ir.IRBuilder, target: ir.Value, byte: int, nbytes: ir.Value) -> None:
    """Sets so many bytes to a number."""
    function = declared(b.module, "memset", [POINTER, I64], VOID, [POINTER, I8, I64, I1])
    b.call(function, [target, I8(byte), nbytes, I1(0)])
