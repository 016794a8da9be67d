"""Batcher's merge exchange network, for short rows: eight rows at a time, one in each lane of a vector."""

from __future__ import annotations

from collections.abc import Iterator

from llvmlite import ir

from xloom.cpu.kernel_modules.kernel import Kernel
from xloom.cpu.kernels.sort.records import IndexedRecords, RowPointers, row_of
from xloom.cpu.kernels.sort.rows import capacity
from xloom.llvm.element_bits import bits_type, move
from xloom.llvm.loop import allocate, loop
from xloom.llvm.pass_pipeline import PassPipeline
from xloom.llvm.routine import function, least, optimize_for_size, read, repeat, write
from xloom.llvm.symbolic_dimension import greatest
from xloom.llvm.types import I1, I64, POINTER, i64

_LANES = 8
_VECTOR = ir.VectorType(I64, _LANES)
_TASK = 8_000
"""Elements sorted in about 20 µs."""


def sort(kernel: Kernel, records: IndexedRecords) -> None:
    """Emits the phase that sorts all rows by 64-bit records; these hold the element's number, so it is stable."""
    kernel.pipeline = PassPipeline.VECTORS
    rows = records.rows
    exchange = exchange_function(kernel.module, _VECTOR)
    groups = -(-rows.count // _LANES)
    with kernel.phase(groups, greatest(1, _TASK // (rows.size * _LANES))) as phase:
        b, size, most = phase.b, i64(rows.size), capacity(rows.size)
        optimize_for_size(b)
        memory, bases = allocate(b, _VECTOR, most), allocate(b, I64, _LANES)
        whole = row_of(phase, rows, I64(0))
        apart = {k: bits_type(records.dtypes[k]) for k in records.overwritable} if rows.stride > 1 else {}
        copies = {k: allocate(b, kind, most * _LANES) for k, kind in apart.items()}
        with loop(b, phase.begin, phase.end, name="group") as group:
            first = b.mul(group, I64(_LANES))
            valid = least(b, b.sub(i64(rows.count), first), I64(_LANES))
            with loop(b, 0, valid) as lane:
                write(b, bases, lane, rows.base(b, b.add(first, lane)))
            kept = whole._replace(copies=copies)
            if rows.stride == 1:
                row = RowPointers(whole.operands, whole.outputs, b.mul(first, size))
                kept = records.kept(b, row, _LANES, b.mul(valid, size))
            for row, i, index in _each_element(b, records, whole, bases, valid):
                write(b, memory, index, records.read(b, row, i))
                for k, copy in copies.items():
                    move(b, row.operands[k], rows.index_of(b, row.base, i), copy, index, records.dtypes[k])
            if rows.size > 1:
                _merge_exchange(b, size, exchange, memory)
            for row, i, index in _each_element(b, records, kept, bases, valid):
                records.write(b, row, i, read(b, memory, I64, index))


def _merge_exchange(b: ir.IRBuilder, size: ir.Value, exchange: ir.Function, memory: ir.Value) -> None:
    """Batcher's exchanges, as `exchanges.merge_exchange` names them, for rows of `size`, more than 1."""
    top = b.shl(I64(1), b.sub(I64(63), b.ctlz(b.sub(size, I64(1)), I1(1))))
    span, following, distance, rest = (allocate(b, I64) for _ in range(4))
    b.store(top, span)
    with repeat(b, lambda: b.icmp_unsigned("!=", b.load(span, typ=I64), I64(0))):
        p = b.load(span, typ=I64)
        for value, slot in ((top, following), (p, distance), (I64(0), rest)):
            b.store(value, slot)
        with repeat(b, lambda: b.icmp_unsigned("!=", b.load(following, typ=I64), I64(0))):
            q, d, r = (b.load(slot, typ=I64) for slot in (following, distance, rest))
            b.call(exchange, [memory, b.sub(size, d), d, p, r])
            b.store(b.sub(q, p), distance)
            b.store(b.select(b.icmp_unsigned("==", q, p), I64(0), b.lshr(q, I64(1))), following)
            b.store(p, rest)
        b.store(b.lshr(p, I64(1)), span)


def _each_element(
    b: ir.IRBuilder, records: IndexedRecords, whole: RowPointers, bases: ir.Value, valid: ir.Value
) -> Iterator[tuple[RowPointers, ir.Value, ir.Value]]:
    """Once: loops over lanes and elements, in the order in which these lie in memory; with the place in the vectors."""
    size = i64(records.rows.size)
    dense = records.rows.stride == 1
    with loop(b, 0, valid if dense else size) as outer, loop(b, 0, size if dense else valid) as inner:
        lane, i = (outer, inner) if dense else (inner, outer)
        kinds = {k: bits_type(records.dtypes[k]) for k in whole.copies}
        copies = {k: b.gep(c, [lane], inbounds=True, source_etype=kinds[k]) for k, c in whole.copies.items()}
        row = RowPointers(whole.operands, whole.outputs, read(b, bases, I64, lane), copies, _LANES)
        yield row, i, b.add(b.mul(i, I64(_LANES)), lane)


def exchange_function(module: ir.Module, kind: ir.Type) -> ir.Function:
    """`exchange(array, count, d, p, r)`: i and i + d are brought in order, for all i < count for which i & p is r."""
    with function(module, "exchange", [POINTER, *[I64] * 4]) as (b, out):
        array, count, distance, span, rest = out.args
        step = b.shl(span, I64(1))
        with loop(b, 0, b.udiv(b.add(count, b.sub(step, I64(1))), step)) as block:
            begin = b.add(b.mul(block, step), rest)
            with loop(b, begin, least(b, b.add(begin, span), count)) as i:
                j = b.add(i, distance)
                x, y = read(b, array, kind, i), read(b, array, kind, j)
                ordered = b.icmp_unsigned("<", x, y)
                write(b, array, i, b.select(ordered, x, y))
                write(b, array, j, b.select(ordered, y, x))
    return out
