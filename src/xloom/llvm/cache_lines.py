"""Lines of memory: written around the caches, and fetched ahead."""

from __future__ import annotations

from llvmlite import ir

from xloom.llvm.intrinsics import overloaded
from xloom.llvm.loop import VECTOR_ONLY, loop
from xloom.llvm.memory_copy import copy
from xloom.llvm.target_module import target_of
from xloom.llvm.types import I8, I32, I64

LINE = 64
"""Bytes of a line."""
CACHED = 1 / 8
"""Of the last cache, what an array takes that is likely to be there."""


def write_around(b: ir.IRBuilder, target: ir.Value, source: ir.Value, nbytes: ir.Value, align: int = LINE) -> None:
    """Copies from memory of that alignment: lines where `target` begins with one, and the rest in the ordinary way.

    What is written whole and around the caches need not be loaded first. Processors may show such lines to other
    threads late: a fence comes before whatever tells them.
    """
    address = b.ptrtoint(target, I64)
    aligned = b.icmp_unsigned("==", b.and_(address, I64(LINE - 1)), I64(0))
    lines = b.select(aligned, b.and_(nbytes, I64(-LINE)), I64(0))
    width = target_of(b).registers.nbytes
    kind = ir.VectorType(I8, width)
    with loop(b, 0, lines, LINE, name="line", hints=VECTOR_ONLY) as at:
        for k in range(0, LINE, width):
            here = b.add(at, I64(k))
            value = b.load(_at(b, source, here), typ=kind, align=min(align, width))
            stored = b.store(value, _at(b, target, here), align=width)
            stored.set_metadata("nontemporal", b.module.add_metadata([I32(1)]))
    left = b.sub(nbytes, lines)
    with b.if_then(b.icmp_signed(">", left, I64(0)), likely=False):
        copy(b, _at(b, target, lines), _at(b, source, lines), left)


def fetch(b: ir.IRBuilder, address: ir.Value, *, to_write: bool = False, near: bool = True) -> None:
    """Has a line brought into the caches, for use soon, the nearest one or not; `address` may be outside of arrays."""
    arguments = [address, I32(int(to_write)), I32(3 if near else 2), I32(1)]  # 1: data
    overloaded(b, "prefetch", [address.type], ir.VoidType(), arguments)


def _at(b: ir.IRBuilder, pointer: ir.Value, nbytes: ir.Value) -> ir.Value:
    return b.gep(pointer, [nbytes], inbounds=True, source_etype=I8)
