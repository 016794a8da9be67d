"""Products of an emulated warpgroup (wgmma): each thread computes what it has of the output, out of shared memory.

Operands are where descriptors say, in rows of 128 bytes that are swizzled. Whether all bytes are there, and no thread
writes to them, is looked up once for each warpgroup, a share by each thread.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from llvmlite import ir

from xloom.cuda.emulator import thread_context as at
from xloom.cuda.emulator.memory_checks import field, word
from xloom.cuda.emulator.thread_context import Access, Fault
from xloom.llvm.loop import allocate, loop
from xloom.llvm.types import FLOAT, HALF, I8, I16, I32, I64, POINTER

_GROUP, _LINES = 128, 64
_ADDRESSES = (1 << 18) - 1
"""Of shared memory, as descriptors have them."""
_PIECE = 16
"""Bytes that swizzling moves together."""


class _Memory(NamedTuple):
    """Shared memory from a descriptor's address on (all i64)."""

    start: ir.Value
    begin: ir.Value
    """Of the whole array."""
    size: ir.Value
    leading: ir.Value
    stride: ir.Value
    is_turned: ir.Value
    """Whether neighbours are of neighbouring lines (i1)."""


def multiply(b: ir.IRBuilder, arguments: Sequence[ir.Value], kind: str) -> None:
    """wgmma(context, sums, left, right, columns, left_turned, right_turned, site): adds to the thread's sums (f32)."""
    context, sums, left, right, columns, left_turned, right_turned, site = arguments
    operands = [
        _memory(b, context, descriptor, turned) for descriptor, turned in ((left, left_turned), (right, right_turned))
    ]
    missing = [b.icmp_signed("==", operand.start, I64(0)) for operand in operands]
    with b.if_then(b.or_(*missing)):
        record = b.module.globals["xloom_fault"]
        b.call(record, [context, I32(Fault.OUT_OF_BOUNDS), site, I64(0), I32(-1)])
        b.ret_void()
    depth, nbytes = (8, 4) if kind == "tf32" else (16, 2)
    lines = [I64(_LINES), b.zext(columns, I64)]
    for operand, count in zip(operands, lines, strict=True):
        _check(b, context, operand, count, depth, nbytes, site)
    thread = b.zext(word(b, context, at.THREAD), I64)
    lane = b.and_(thread, I64(31))
    row = b.add(b.mul(b.and_(b.lshr(thread, I64(5)), I64(3)), I64(16)), b.lshr(lane, I64(2)))
    column = b.mul(b.and_(lane, I64(3)), I64(2))
    with loop(b, I64(0), b.lshr(lines[1], I64(1))) as number:
        at_row = b.add(row, b.mul(b.and_(b.lshr(number, I64(1)), I64(1)), I64(8)))
        at_column = b.add(b.add(column, b.and_(number, I64(1))), b.mul(b.lshr(number, I64(2)), I64(8)))
        slot = b.gep(sums, [number], source_etype=FLOAT)
        with loop(b, I64(0), I64(depth)) as k:
            x = _element(b, operands[0], at_row, k, kind, nbytes)
            y = _element(b, operands[1], at_column, k, kind, nbytes)
            b.store(b.fadd(b.load(slot, typ=FLOAT), b.fmul(x, y)), slot)


def show(b: ir.IRBuilder, arguments: Sequence[ir.Value]) -> None:
    """show(context): products see what the thread has written (fence.proxy.async)."""
    b.store(I32(0), field(b, arguments[0], at.UNFENCED))


def _memory(b: ir.IRBuilder, context: ir.Value, descriptor: ir.Value, turned: ir.Value) -> _Memory:
    """Where a descriptor's address is in the array of shared memory that has it; 0 for the start where none has."""
    launch = b.load(field(b, context, at.LAUNCH), typ=POINTER)
    ranges = b.load(field(b, launch, at.RANGES), typ=POINTER)
    start, begin, size = (allocate(b, I64) for _ in range(3))
    b.store(I64(0), start)
    address = b.shl(b.and_(descriptor, I64(0x3FFF)), I64(4))
    with loop(b, I64(0), b.zext(word(b, launch, at.RANGE_COUNT), I64)) as k:
        entry = b.gep(ranges, [b.mul(k, I64(at.RANGE_BYTES))], source_etype=I8)
        first, end, is_shared = (b.load(field(b, entry, o), typ=I64) for o in (0, 8, 24))
        distance = b.and_(b.sub(address, first), I64(_ADDRESSES))
        inside = b.icmp_unsigned("<", distance, b.sub(end, first))
        with b.if_then(b.and_(inside, b.icmp_signed("!=", is_shared, I64(0)))):
            b.store(b.add(first, distance), start)
            b.store(first, begin)
            b.store(b.sub(end, first), size)
    leading, stride = (b.shl(b.and_(b.lshr(descriptor, I64(bit)), I64(0x3FFF)), I64(4)) for bit in (16, 32))
    is_turned = b.icmp_signed("!=", turned, I32(0))
    return _Memory(b.load(start, typ=I64), b.load(begin, typ=I64), b.load(size, typ=I64), leading, stride, is_turned)


def _check(
    b: ir.IRBuilder,
    context: ir.Value,
    operand: _Memory,
    lines: ir.Value,
    depth: int,
    nbytes: int,
    site: ir.Value,
) -> None:
    """The share of a thread of all pieces of 16 bytes: two of each line, or one of eight lines at each k."""
    width = _PIECE // nbytes
    thread = b.and_(b.zext(word(b, context, at.THREAD), I64), I64(_GROUP - 1))
    access = b.module.globals["xloom_access"]
    with loop(b, I64(0), b.lshr(b.mul(lines, I64(2)), I64(7))) as round_:
        piece = b.add(b.mul(round_, I64(_GROUP)), thread)
        plain = b.lshr(piece, I64(1)), b.mul(b.and_(piece, I64(1)), I64(width))
        turned = b.mul(b.udiv(piece, I64(depth)), I64(width)), b.urem(piece, I64(depth))
        line, k = (b.select(operand.is_turned, y, x) for x, y in zip(plain, turned, strict=True))
        address = b.inttoptr(_place(b, operand, line, k, nbytes), POINTER)
        b.call(
            access, [context, address, I64(_PIECE), I64(_PIECE), I32(Access.PRODUCT), site, ir.Constant(POINTER, None)]
        )


def _place(b: ir.IRBuilder, operand: _Memory, line: ir.Value, k: ir.Value, nbytes: int) -> ir.Value:
    """The address of an element."""

    def rows(eights: ir.Value, row: ir.Value, inner: ir.Value) -> ir.Value:
        whole = b.add(b.mul(b.lshr(eights, I64(3)), operand.stride), b.mul(b.and_(row, I64(7)), I64(128)))
        return b.add(whole, b.mul(inner, I64(nbytes)))

    plain = rows(line, line, k)
    turned = rows(k, k, b.and_(line, I64(63)))
    turned = b.add(turned, b.mul(b.lshr(line, I64(6)), operand.leading))
    address = b.add(operand.start, b.select(operand.is_turned, turned, plain))
    return b.xor(address, b.shl(b.and_(b.lshr(address, I64(7)), I64(7)), I64(4)))


def _element(b: ir.IRBuilder, operand: _Memory, line: ir.Value, k: ir.Value, kind: str, nbytes: int) -> ir.Value:
    """An element as f32; any other one of the array where it is outside, which was told before."""
    address = _place(b, operand, line, k, nbytes)
    inside = b.icmp_unsigned("<=", b.sub(address, operand.begin), b.sub(operand.size, I64(nbytes)))
    pointer = b.inttoptr(b.select(inside, address, operand.begin), POINTER)
    if kind == "tf32":
        return b.bitcast(b.and_(b.load(pointer, typ=I32), I32(-0x2000)), FLOAT)
    bits = b.load(pointer, typ=I16)
    if kind == "bf16":
        return b.bitcast(b.shl(b.zext(bits, I32), I32(16)), FLOAT)
    return b.fpext(b.bitcast(bits, HALF), FLOAT)
