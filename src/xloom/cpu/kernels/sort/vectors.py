"""Sorting by vectors: rows of elements that are their own keys, or of records of 64 bits.

Rows that fit the stack are an item each. Longer ones are split in a few segments, which then are the items.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import NamedTuple, Protocol

from llvmlite import ir

from xloom.cpu.kernel_modules.kernel import Kernel, PhaseBuilder
from xloom.cpu.kernels.sort.bitonic_sizes import MOST, padded_count
from xloom.cpu.kernels.sort.lanes import BYTES, lanes
from xloom.cpu.kernels.sort.records import RowPointers, row_of
from xloom.cpu.kernels.sort.routines import network, quicksort
from xloom.cpu.kernels.sort.rows import Rows, capacity
from xloom.cpu.kernels.sort.vector_rows import SEGMENTS, is_short, partitions
from xloom.llvm.loop import allocate, loop
from xloom.llvm.pass_pipeline import PassPipeline
from xloom.llvm.routine import read, write
from xloom.llvm.symbolic_dimension import greatest
from xloom.llvm.types import I1, I8, I64, i64

_TASK = 4_000
"""Elements sorted in about 20 µs."""


class Integers(Protocol):
    """What is sorted, as unsigned integers, no two of which may be told apart."""

    rows: Rows
    bits: int
    pipeline: PassPipeline
    """What `read` and `write` consist of."""
    in_output: bool
    """True when `write` makes elements in place, and the rows of the output have room for the integers."""

    def read(self, b: ir.IRBuilder, row: RowPointers, array: ir.Value, begin: ir.Value, end: ir.Value) -> ir.Value:
        """Makes integers of the elements [begin, end); true when elements that differ became the same."""
        ...

    def write(
        self, b: ir.IRBuilder, row: RowPointers, array: ir.Value, begin: ir.Value, end: ir.Value, changed: ir.Value
    ) -> None:
        """Makes elements [begin, end) of sorted integers, all others of which differ from these.

        `changed` is true when `read` was somewhere in the row.
        """
        ...

    def kept(self, b: ir.IRBuilder, row: RowPointers) -> RowPointers:
        """What elements are read of while others are written."""
        ...


def sort(kernel: Kernel, source: Integers) -> None:
    """Emits the phases that sort all rows."""
    kernel.pipeline = source.pipeline
    if is_short(source.rows, source.bits, in_output=source.in_output):
        _short_rows(kernel, source)
    else:
        _long_rows(kernel, source)


def _short_rows(kernel: Kernel, source: Integers) -> None:
    rows, bits, kind = source.rows, source.bits, ir.IntType(source.bits)
    whole = not partitions(bits, kernel.target) or rows.size <= MOST * lanes(bits)
    function = (network if whole else quicksort)(kernel, bits)
    with kernel.phase(rows.count, greatest(1, _TASK // rows.size)) as phase:
        b, begin, end = phase.b, I64(0), i64(rows.size)
        array = allocate(b, kind, padded_count(bits, capacity(rows.size)))
        array.align = BYTES
        with loop(b, phase.begin, phase.end, name="row") as number:
            row = source.kept(b, row_of(phase, rows, number))
            changed = source.read(b, row, array, begin, end)
            b.call(function, [array, end] if whole else [array, I64(0), end, I1(0), I1(0)])
            source.write(b, row, array, begin, end, changed)


def in_output(b: ir.IRBuilder, row: RowPointers, kind: ir.IntType) -> ir.Value:
    """Where a row of the only output lies."""
    return b.gep(row.outputs[0], [row.base], inbounds=True, source_etype=kind)


def _long_rows(kernel: Kernel, source: Integers) -> None:
    rows, kind, nbytes = source.rows, ir.IntType(source.bits), source.bits // 8
    own = None if source.in_output else kernel.add_scratch(rows.count * rows.size * nbytes)

    def array(phase: PhaseBuilder, row: RowPointers, number: ir.Value) -> Array:
        b = phase.b
        if own is None:
            return Array(in_output(b, row, kind), kind)
        first = b.mul(number, i64(rows.size))
        return Array(b.gep(phase.scratch(own), [first], inbounds=True, source_etype=kind), kind)

    segments = SegmentedRows(kernel, rows, quicksort(kernel, source.bits), array)
    flags = kernel.add_scratch(rows.count * SEGMENTS)
    with segments.equal() as segment:
        b = segment.phase.b
        changed = source.read(b, segment.row, segment.array.pointer, segment.begin, segment.end)
        write(b, segment.phase.scratch(flags), segment.item, b.zext(changed, I8))
    segments.split()
    with segments.sorted() as segment:
        phase, b = segment.phase, segment.phase.b
        flag = b.gep(phase.scratch(flags), [b.mul(segment.number, I64(SEGMENTS))], inbounds=True, source_etype=I8)
        together = ir.IntType(8 * SEGMENTS)
        changed = b.icmp_unsigned("!=", b.load(flag, typ=together, align=1), together(0))
        source.write(b, segment.row, segment.array.pointer, segment.begin, segment.end, changed)


class Array(NamedTuple):
    """A row's integers: where they lie, and the type of what lies there; `distance` as the sorting function has it."""

    pointer: ir.Value
    kind: ir.IntType
    distance: ir.Value = I64(0)

    def at(self, b: ir.IRBuilder, index: ir.Value) -> ir.Value:
        """Where integer number `index` lies."""
        return b.gep(self.pointer, [index], inbounds=True, source_etype=self.kind)


class RowSegment(NamedTuple):
    """Elements [begin, end) of row number `number`, as item `item` of a phase."""

    phase: PhaseBuilder
    item: ir.Value
    number: ir.Value
    row: RowPointers
    array: Array
    begin: ir.Value
    end: ir.Value


class SegmentedRows:
    """Long rows in segments: equal ones that are read, and then ones that hold the least, the next ... of a row."""

    def __init__(
        self,
        kernel: Kernel,
        rows: Rows,
        function: ir.Function,
        array: Callable[[PhaseBuilder, RowPointers, ir.Value], Array],
    ):
        self._kernel, self._rows, self._function, self._row_array = kernel, rows, function, array
        self._split = kernel.add_scratch(rows.count * (SEGMENTS + 1) * 8)

    def equal(self) -> AbstractContextManager[RowSegment]:
        """A phase over equal segments of all rows."""
        return self._each(equal=True)

    def split(self) -> None:
        """A phase that makes the segments by value: the lesser half to a row's front, and the same in each half."""
        with self._kernel.phase(self._rows.count) as phase, loop(phase.b, phase.begin, phase.end) as number:
            b = phase.b
            array = self._row_array(phase, row_of(phase, self._rows, number), number)
            bounds = self._bounds(phase, number)
            write(b, bounds, I64(0), I64(0))
            write(b, bounds, I64(SEGMENTS), i64(self._rows.size))
            # what is split is that from 0 to 4, from 0 to 2, from 2 to 4
            with loop(b, 0, 3) as step:
                whole, last = b.icmp_unsigned("==", step, I64(0)), b.icmp_unsigned("==", step, I64(2))
                low = b.select(last, I64(2), I64(0))
                half = b.select(whole, I64(2), I64(1))
                begin, end = (read(b, bounds, I64, k) for k in (low, b.add(low, b.shl(half, I64(1)))))
                lesser = self._sort(b, array, begin, end, once=True)
                write(b, bounds, b.add(low, half), b.add(begin, lesser))

    @contextmanager
    def sorted(self) -> Iterator[RowSegment]:
        """A phase over the segments that `split` has made, which sorts them first."""
        with self._each(equal=False) as segment:
            self._sort(segment.phase.b, segment.array, segment.begin, segment.end, once=False)
            yield segment

    def _sort(self, b: ir.IRBuilder, array: Array, begin: ir.Value, end: ir.Value, once: bool) -> ir.Value:
        count = b.sub(end, begin)
        return b.call(self._function, [array.at(b, begin), array.distance, count, I1(0), I1(once)])

    @contextmanager
    def _each(self, equal: bool) -> Iterator[RowSegment]:
        size, segments = self._rows.size, I64(SEGMENTS)
        with self._kernel.phase(self._rows.count * SEGMENTS) as phase, loop(phase.b, phase.begin, phase.end) as item:
            b = phase.b
            number, k = b.udiv(item, segments), b.urem(item, segments)
            ends = k, b.add(k, I64(1))
            if equal:
                begin, end = (b.udiv(b.mul(n, i64(size)), segments) for n in ends)
            else:
                begin, end = (read(b, self._bounds(phase, number), I64, n) for n in ends)
            row = row_of(phase, self._rows, number)
            yield RowSegment(phase, item, number, row, self._row_array(phase, row, number), begin, end)

    def _bounds(self, phase: PhaseBuilder, number: ir.Value) -> ir.Value:
        offset = phase.b.mul(number, I64(SEGMENTS + 1))
        return phase.b.gep(phase.scratch(self._split), [offset], inbounds=True, source_etype=I64)
