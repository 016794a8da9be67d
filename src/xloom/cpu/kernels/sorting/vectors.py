"""Sorting by vectors: rows of elements that are their own keys, or of records of 64 bits.

Rows that fit the stack are an item each. Longer ones are split in a few parts, which then are the items.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple, Protocol

from llvmlite import ir

from xloom.cpu.content import Content
from xloom.cpu.emit.copy import copy
from xloom.cpu.emit.loop import allocate, loop
from xloom.cpu.emit.routine import read, write
from xloom.cpu.emit.types import I1, I8, I64
from xloom.cpu.kernel import Kernel, PhaseBuilder
from xloom.cpu.kernels.sorting.quicksort import SORT, quicksort, sort_symbol
from xloom.cpu.kernels.sorting.records import Row, row_of
from xloom.cpu.kernels.sorting.rows import Rows

_STACK_BYTES = 1 << 16
"""The greatest array on the stack."""
_PARTS = 4
"""Of a long row, for threads to share."""
_TASK = 4_000
"""Elements sorted in about 20 µs."""


class Integers(Protocol):
    """What is sorted, as unsigned integers, no two of which may be told apart."""

    rows: Rows
    bits: int
    content: Content
    """What `read` and `write` consist of."""
    in_output: bool
    """True when `write` makes elements in place, and the rows of the output have room for the integers."""

    def read(self, b: ir.IRBuilder, row: Row, array: ir.Value, begin: ir.Value, end: ir.Value) -> ir.Value:
        """Makes integers of the elements [begin, end); true when elements that differ became the same."""
        ...

    def write(
        self, b: ir.IRBuilder, row: Row, array: ir.Value, begin: ir.Value, end: ir.Value, changed: ir.Value
    ) -> None:
        """Makes elements [begin, end) of sorted integers, all others of which differ from these.

        `changed` is true when `read` was somewhere in the row.
        """
        ...


def sort(kernel: Kernel, source: Integers) -> None:
    """Emits the phases that sort all rows."""
    kernel.content = source.content
    kernel.need(quicksort(source.bits), Content.ROUTINES)
    if is_short(source.rows.size * source.bits // 8):
        _short_rows(kernel, source)
    else:
        _LongRows(kernel, source).emit()


def is_short(nbytes: int) -> bool:
    """True for rows of integers that are sorted on the stack."""
    return nbytes <= _STACK_BYTES


def _sort_function(kernel: Kernel, bits: int) -> ir.Function:
    return ir.Function(kernel.module, SORT, sort_symbol(bits))


def _short_rows(kernel: Kernel, source: Integers) -> None:
    rows, kind = source.rows, ir.IntType(source.bits)
    function = _sort_function(kernel, source.bits)
    with kernel.phase(rows.count, max(1, _TASK // rows.size)) as phase:
        b = phase.b
        array = allocate(b, kind, rows.size)
        begin, end = I64(0), I64(rows.size)
        with loop(b, phase.begin, phase.end, name="row") as number:
            row = row_of(phase, rows, number)
            changed = source.read(b, row, array, begin, end)
            b.call(function, [array, end, I1(0), I1(0)])
            source.write(b, row, array, begin, end, changed)
            if source.in_output:
                copy(b, _in_output(b, row, kind), array, rows.size * source.bits // 8)


def _in_output(b: ir.IRBuilder, row: Row, kind: ir.IntType) -> ir.Value:
    return b.gep(row.outputs[0], [row.base], inbounds=True, source_etype=kind)


class _Part(NamedTuple):
    """Elements [begin, end) of row number `number`, as item `item` of a phase."""

    phase: PhaseBuilder
    item: ir.Value
    number: ir.Value
    row: Row
    array: ir.Value
    begin: ir.Value
    end: ir.Value


class _LongRows:
    """Rows in parts: equal ones that are read, and then parts that hold the least, the next ... of a row."""

    def __init__(self, kernel: Kernel, source: Integers):
        self.kernel, self.source, self.rows = kernel, source, source.rows
        self.kind, nbytes = ir.IntType(source.bits), source.bits // 8
        self.own = None if source.in_output else kernel.add_scratch(self.rows.count * self.rows.size * nbytes)
        self.bounds = kernel.add_scratch(self.rows.count * (_PARTS + 1) * 8)
        self.changed = kernel.add_scratch(self.rows.count * _PARTS)

    def emit(self) -> None:
        """All the phases."""
        kernel, source = self.kernel, self.source
        with self._each_part(equal=True) as (phase, item, _, row, array, begin, end):
            b = phase.b
            changed = source.read(b, row, array, begin, end)
            write(b, phase.scratch(self.changed), item, b.zext(changed, I8))
        function = _sort_function(kernel, source.bits)
        with kernel.phase(self.rows.count) as phase, loop(phase.b, phase.begin, phase.end) as number:
            self._split(phase, number, function)
        with self._each_part(equal=False) as (phase, _, number, row, array, begin, end):
            b = phase.b
            b.call(function, [self._at(b, array, begin), b.sub(end, begin), I1(0), I1(0)])
            source.write(b, row, array, begin, end, self._changed(phase, number))

    def _split(self, phase: PhaseBuilder, number: ir.Value, function: ir.Function) -> None:
        """Brings the lesser half of a row to its front, and the same with each half."""
        b = phase.b
        array, bounds = self._array(phase, row_of(phase, self.rows, number), number), self._bounds(phase, number)
        write(b, bounds, I64(0), I64(0))
        write(b, bounds, I64(_PARTS), I64(self.rows.size))
        # what is split is that from 0 to 4, from 0 to 2, from 2 to 4
        with loop(b, 0, 3) as step:
            whole, last = b.icmp_unsigned("==", step, I64(0)), b.icmp_unsigned("==", step, I64(2))
            low = b.select(last, I64(2), I64(0))
            half = b.select(whole, I64(2), I64(1))
            begin, end = (read(b, bounds, I64, k) for k in (low, b.add(low, b.shl(half, I64(1)))))
            lesser = b.call(function, [self._at(b, array, begin), b.sub(end, begin), I1(0), I1(1)])
            write(b, bounds, b.add(low, half), b.add(begin, lesser))

    def _changed(self, phase: PhaseBuilder, number: ir.Value) -> ir.Value:
        """True when elements of a row were not told apart."""
        b = phase.b
        flags = b.gep(phase.scratch(self.changed), [b.mul(number, I64(_PARTS))], inbounds=True, source_etype=I8)
        together = ir.IntType(8 * _PARTS)
        return b.icmp_unsigned("!=", b.load(flags, typ=together, align=1), together(0))

    @contextmanager
    def _each_part(self, equal: bool) -> Iterator[_Part]:
        """A phase over all parts of all rows: equal ones, or those that `_split` has made."""
        size, parts = self.rows.size, I64(_PARTS)
        with self.kernel.phase(self.rows.count * _PARTS) as phase, loop(phase.b, phase.begin, phase.end) as item:
            b = phase.b
            number, k = b.udiv(item, parts), b.urem(item, parts)
            ends = k, b.add(k, I64(1))
            if equal:
                begin, end = (b.udiv(b.mul(n, I64(size)), parts) for n in ends)
            else:
                begin, end = (read(b, self._bounds(phase, number), I64, n) for n in ends)
            row = row_of(phase, self.rows, number)
            yield _Part(phase, item, number, row, self._array(phase, row, number), begin, end)

    def _array(self, phase: PhaseBuilder, row: Row, number: ir.Value) -> ir.Value:
        if self.own is None:
            return _in_output(phase.b, row, self.kind)
        return self._at(phase.b, phase.scratch(self.own), phase.b.mul(number, I64(self.rows.size)))

    def _bounds(self, phase: PhaseBuilder, number: ir.Value) -> ir.Value:
        place = phase.b.mul(number, I64(_PARTS + 1))
        return phase.b.gep(phase.scratch(self.bounds), [place], inbounds=True, source_etype=I64)

    def _at(self, b: ir.IRBuilder, pointer: ir.Value, place: ir.Value) -> ir.Value:
        return b.gep(pointer, [place], inbounds=True, source_etype=self.kind)
