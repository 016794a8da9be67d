"""Radix sort: one stable pass for every 8 bits of the keys, the lowest first.

Passes in which all keys have the same digit move nothing. Rows that fit the stack are an item each. Longer ones are
cut in pieces, which are the items: in each pass the pieces are counted, then a row's counts are summed to the places
where each piece's digits go, then the pieces are moved.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from enum import IntEnum
from typing import NamedTuple

from llvmlite import ir

from xloom.cpu.kernel_modules.kernel import Kernel, PhaseBuilder
from xloom.cpu.kernels.sort.records import PackedRecords, Records, resized, row_of
from xloom.llvm.loop import allocate, loop
from xloom.llvm.pass_pipeline import PassPipeline
from xloom.llvm.routine import function, optimize_for_size, read, write
from xloom.llvm.types import I1, I32, I64, POINTER

_DIGITS = 256
_STACK_BYTES = 1 << 18
"""The greatest array of records on the stack, of which there are two."""
_PIECE = 1 << 14
_OPERAND, _SCRATCH, _OUTPUT = range(3)
_TASK = 2_000
"""Elements sorted in about 20 µs."""


def sort(kernel: Kernel, records: Records) -> None:
    """Emits the phases that sort all rows by the records' keys."""
    kernel.pipeline = PassPipeline.VECTORS
    if is_short(records):
        _short_rows(kernel, records)
    else:
        _Long(kernel, records).emit()


def is_short(records: Records) -> bool:
    """True for rows that are read as a whole before they are written."""
    return records.rows.size * _record_bytes(records) <= _STACK_BYTES


def _record_bytes(records: Records) -> int:
    return records.type.width // 8


def _counting(module: ir.Module, records: Records) -> ir.Function:
    """`count(records, begin, end, shift, counts)`: how often each digit occurs."""
    kinds = [POINTER, I64, I64, I64, POINTER]
    with function(module, "count", kinds, distinct=(0, 4)) as (b, out):
        optimize_for_size(b)
        source, begin, end, shift, counts = out.args
        with loop(b, 0, _DIGITS) as d:
            write(b, counts, d, I32(0))
        with loop(b, begin, end) as i:
            d = _digit(b, records, read(b, source, records.type, i), shift)
            write(b, counts, d, b.add(read(b, counts, I32, d), I32(1)))
    return out


def _moving(module: ir.Module, records: Records) -> ir.Function:
    """`move(source, target, begin, end, shift, offsets)`: each record to its digit's next offset."""
    kinds = [POINTER, POINTER, I64, I64, I64, POINTER]
    with function(module, "move", kinds, distinct=(0, 1, 5)) as (b, out):
        optimize_for_size(b)
        source, target, begin, end, shift, offsets = out.args
        with loop(b, begin, end) as i:
            record = read(b, source, records.type, i)
            d = _digit(b, records, record, shift)
            index = read(b, offsets, I32, d)
            write(b, offsets, d, b.add(index, I32(1)))
            write(b, target, b.zext(index, I64), record)
    return out


def _digit(b: ir.IRBuilder, records: Records, record: ir.Value, shift: ir.Value) -> ir.Value:
    key = records.key(b, record)
    # wide enough to hold the shift, which for the narrowest keys is none
    return b.and_(resized(b, b.lshr(key, resized(b, shift, key.type)), I64), I64(_DIGITS - 1))


def _short_rows(kernel: Kernel, records: Records) -> None:
    rows, kind = records.rows, records.type
    count, move = _counting(kernel.module, records), _moving(kernel.module, records)
    with kernel.phase(rows.count, max(1, _TASK // rows.size)) as phase:
        b = phase.b
        optimize_for_size(b)
        buffers = [allocate(b, kind, rows.size) for _ in range(2)]
        counts = allocate(b, I32, _DIGITS)
        current, other = allocate(b, POINTER), allocate(b, POINTER)
        size = I64(rows.size)
        with loop(b, phase.begin, phase.end, name="row") as number:
            row = records.kept(b, row_of(phase, rows, number))
            with loop(b, 0, size) as i:
                write(b, buffers[0], i, records.read(b, row, i))
            b.store(buffers[0], current)
            b.store(buffers[1], other)
            with loop(b, 0, records.key_bits, 8, name="shift") as shift:
                source, target = b.load(current, typ=POINTER), b.load(other, typ=POINTER)
                b.call(count, [source, I64(0), size, shift, counts])
                first = _digit(b, records, read(b, source, kind, I64(0)), shift)
                with b.if_then(b.icmp_unsigned("!=", read(b, counts, I32, first), I32(rows.size))):
                    _sum(b, counts)
                    b.call(move, [source, target, I64(0), size, shift, counts])
                    b.store(target, current)
                    b.store(source, other)
            source = b.load(current, typ=POINTER)
            with loop(b, 0, size) as i:
                records.write(b, row, i, read(b, source, kind, i))


def _sum(b: ir.IRBuilder, counts: ir.Value) -> None:
    """Counts to offsets: the sum of those before."""
    total = allocate(b, I32)
    b.store(I32(0), total)
    with loop(b, 0, _DIGITS) as d:
        before = b.load(total, typ=I32)
        b.store(b.add(before, read(b, counts, I32, d)), total)
        write(b, counts, d, before)


class _Piece(NamedTuple):
    """Elements [begin, end) of a row, as item number `item` of a phase."""

    phase: PhaseBuilder
    item: ir.Value
    row: ir.Value
    begin: ir.Value
    end: ir.Value


class _State(IntEnum):
    """The state of a row between phases, i64 each."""

    COUNTED = 0  # shift of the digit that is counted next
    MOVED = 1  # shift of the digit that is moved next
    HERE = 2  # the array that the records are moved from
    THERE = 3  # the array that they are moved to: the same when there is nothing to move


class _Long:
    """Rows in pieces. The phases of a pass are the same code each time, and find the pass in the rows' states."""

    def __init__(self, kernel: Kernel, records: Records):
        self.kernel, self.records, self.rows = kernel, records, records.rows
        self.passes = -(-records.key_bits // 8)
        self.pieces = max(1, min(64, self.rows.size // _PIECE))
        nbytes = self.rows.count * self.rows.size * _record_bytes(records)
        # elements that are records need not be copied first, and are sorted to and fro between scratch and output
        self.direct = isinstance(records, PackedRecords) and records.is_element and self.rows.stride == 1
        self.arrays = [kernel.add_scratch(nbytes) for _ in range(1 if self.direct else 2)]
        self.counts = kernel.add_scratch(self.rows.count * self.pieces * _DIGITS * 4)
        self.states = kernel.add_scratch(self.rows.count * len(_State) * 8)

    def emit(self) -> None:
        """Adds all phases: records are read, sorted digit by digit, and written."""
        count, move = _counting(self.kernel.module, self.records), _moving(self.kernel.module, self.records)
        with self._each_row() as (phase, row):
            for field in _State:
                self._set(phase, row, field, I64(0))
        if not self.direct:
            with self._each_piece() as piece:
                self._read(piece)
        before = len(self.kernel.phases)
        with self._each_piece() as (phase, item, row, begin, end):
            source = self._array(phase, row, self._get(phase, row, _State.THERE))
            shift = self._get(phase, row, _State.COUNTED)
            phase.b.call(count, [source, begin, end, shift, self._counts(phase, item)])
        with self._each_row() as (phase, row):
            self._sum(phase, row)
        with self._each_piece() as (phase, item, row, begin, end):
            here, there = (self._get(phase, row, field) for field in (_State.HERE, _State.THERE))
            with phase.b.if_then(phase.b.icmp_unsigned("!=", here, there)):
                arrays, shift = (self._array(phase, row, k) for k in (here, there)), self._get(phase, row, _State.MOVED)
                phase.b.call(move, [*arrays, begin, end, shift, self._counts(phase, item)])
        self.kernel.phases += self.kernel.phases[before:] * (self.passes - 1)
        with self._each_piece() as piece:
            self._write(piece)

    @contextmanager
    def _each_row(self) -> Iterator[tuple[PhaseBuilder, ir.Value]]:
        """A phase over all rows."""
        with self.kernel.phase(self.rows.count) as phase, loop(phase.b, phase.begin, phase.end, name="row") as row:
            optimize_for_size(phase.b)
            yield phase, row

    @contextmanager
    def _each_piece(self) -> Iterator[_Piece]:
        """A phase over all pieces of all rows."""
        rows, pieces = self.rows, I64(self.pieces)
        grain = max(1, _PIECE * self.pieces // rows.size)
        with self.kernel.phase(rows.count * self.pieces, grain) as phase, loop(phase.b, phase.begin, phase.end) as item:
            b = phase.b
            optimize_for_size(b)
            row, k = b.udiv(item, pieces), b.urem(item, pieces)
            begin, end = (b.udiv(b.mul(n, I64(rows.size)), pieces) for n in (k, b.add(k, I64(1))))
            yield _Piece(phase, item, row, begin, end)

    def _read(self, piece: _Piece) -> None:
        b = piece.phase.b
        row = row_of(piece.phase, self.rows, piece.row)
        target = self._array(piece.phase, piece.row, I64(0))
        with loop(b, piece.begin, piece.end) as i:
            write(b, target, i, self.records.read(b, row, i))

    def _write(self, piece: _Piece) -> None:
        b = piece.phase.b
        row, here = row_of(piece.phase, self.rows, piece.row), self._get(piece.phase, piece.row, _State.THERE)
        moved = b.icmp_unsigned("==", here, I64(_OUTPUT)) if self.direct else I1(0)
        with b.if_then(b.not_(moved)):
            source = self._array(piece.phase, piece.row, here)
            with loop(b, piece.begin, piece.end) as i:
                self.records.write(b, row, i, read(b, source, self.records.type, i))

    def _sum(self, phase: PhaseBuilder, row: ir.Value) -> None:
        """Turns a row's counts into offsets, and decides where the records go in this pass."""
        b = phase.b
        counts = self._counts(phase, b.mul(row, I64(self.pieces)))
        total, same = allocate(b, I32), allocate(b, I1)
        b.store(I32(0), total)
        b.store(I1(0), same)
        with loop(b, 0, _DIGITS) as d:
            first = b.load(total, typ=I32)
            with loop(b, 0, self.pieces) as piece:
                index = b.add(b.mul(piece, I64(_DIGITS)), d)
                before = b.load(total, typ=I32)
                b.store(b.add(before, read(b, counts, I32, index)), total)
                write(b, counts, index, before)
            here = b.sub(b.load(total, typ=I32), first)
            b.store(b.or_(b.load(same, typ=I1), b.icmp_unsigned("==", here, I32(self.rows.size))), same)
        array, shift = self._get(phase, row, _State.THERE), self._get(phase, row, _State.COUNTED)
        self._set(phase, row, _State.HERE, array)
        self._set(phase, row, _State.THERE, b.select(b.load(same, typ=I1), array, self._following(b, array)))
        self._set(phase, row, _State.MOVED, shift)
        self._set(phase, row, _State.COUNTED, b.add(shift, I64(8)))

    def _following(self, b: ir.IRBuilder, array: ir.Value) -> ir.Value:
        """Where records of an array are moved to."""
        if not self.direct:
            return b.xor(array, I64(1))
        # so that with no pass left out the last one ends in the output
        first = _SCRATCH if self.passes % 2 == 0 else _OUTPUT
        later = b.select(b.icmp_unsigned("==", array, I64(_SCRATCH)), I64(_OUTPUT), I64(_SCRATCH))
        return b.select(b.icmp_unsigned("==", array, I64(_OPERAND)), I64(first), later)

    def _array(self, phase: PhaseBuilder, row: ir.Value, number: ir.Value) -> ir.Value:
        """The row's records in an array."""
        b = phase.b
        scratch = [phase.scratch(k) for k in self.arrays]
        arrays = [phase.operand(0), *scratch, phase.output(0)] if self.direct else scratch
        array = arrays[0]
        for k, other in enumerate(arrays[1:], 1):
            array = b.select(b.icmp_unsigned("==", number, I64(k)), other, array)
        return b.gep(array, [b.mul(row, I64(self.rows.size))], inbounds=True, source_etype=self.records.type)

    def _counts(self, phase: PhaseBuilder, item: ir.Value) -> ir.Value:
        offset = phase.b.mul(item, I64(_DIGITS))
        return phase.b.gep(phase.scratch(self.counts), [offset], inbounds=True, source_etype=I32)

    def _get(self, phase: PhaseBuilder, row: ir.Value, field: _State) -> ir.Value:
        return read(phase.b, phase.scratch(self.states), I64, self._field(phase, row, field))

    def _set(self, phase: PhaseBuilder, row: ir.Value, field: _State, value: ir.Value) -> None:
        write(phase.b, phase.scratch(self.states), self._field(phase, row, field), value)

    def _field(self, phase: PhaseBuilder, row: ir.Value, field: _State) -> ir.Value:
        return phase.b.add(phase.b.mul(row, I64(len(_State))), I64(field))
