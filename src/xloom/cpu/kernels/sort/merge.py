"""Merge sort, for any comparator.

Rows are sorted in blocks, and the blocks merged two by two. A merge is done in pieces, each of which finds where it
begins in the two inputs by bisection, so that a long row is shared by threads to the end.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from llvmlite import ir

from xloom.cpu.kernel_modules.kernel import Kernel, PhaseBuilder
from xloom.cpu.kernels.sort.records import Records, RowPointers, row_of
from xloom.cpu.kernels.sort.rows import Rows
from xloom.hlo.computation import Computation
from xloom.llvm.loop import allocate, loop
from xloom.llvm.pass_pipeline import PassPipeline
from xloom.llvm.routine import function, least, optimize_for_size, read, repeat, write
from xloom.llvm.scalar.scalar_computation import apply
from xloom.llvm.types import I64, POINTER

_RUN = 8
"""Elements sorted by insertion."""
_BLOCK = 1 << 11
_TASK = 500
"""Elements sorted in about 20 µs."""


def sort(kernel: Kernel, records: Records, comparator: Computation) -> None:
    """Emits one phase for short rows; for long ones one of blocks, one a level of merges, and one that writes."""
    kernel.pipeline = PassPipeline.VECTORS
    merges = _Merges(kernel, records, comparator)
    if is_short(records.rows):
        _short_rows(kernel, records, merges)
    else:
        _long_rows(kernel, records, merges)


def is_short(rows: Rows) -> bool:
    """True for rows that are read as a whole before they are written."""
    return rows.size <= _BLOCK


def _short_rows(kernel: Kernel, records: Records, merges: _Merges) -> None:
    rows, kind = records.rows, records.type
    with kernel.phase(rows.count, max(1, _TASK // rows.size)) as phase:
        b = phase.b
        optimize_for_size(b)
        first, second = (allocate(b, kind, rows.size) for _ in range(2))
        with loop(b, phase.begin, phase.end, name="row") as number:
            row = records.kept(b, row_of(phase, rows, number))
            with loop(b, 0, rows.size) as i:
                write(b, first, i, records.read(b, row, i))
            source = merges.sort_block(b, row, first, second, I64(rows.size), rows.size)
            with loop(b, 0, rows.size) as i:
                records.write(b, row, i, read(b, source, kind, i))


def _long_rows(kernel: Kernel, records: Records, merges: _Merges) -> None:
    rows, kind = records.rows, records.type
    scratch = [kernel.add_scratch(rows.count * rows.size * kind.width // 8) for _ in range(2)]
    state = kernel.add_scratch(16)  # the width that is merged, and the number of the array to merge from
    first, levels = len(_levels(_RUN, _BLOCK)) % 2, len(_levels(_BLOCK, rows.size))
    with kernel.phase() as phase, loop(phase.b, phase.begin, phase.end):
        write(phase.b, phase.scratch(state), I64(0), I64(_BLOCK // 2))
        write(phase.b, phase.scratch(state), I64(1), I64(1 - first))
    with _each_piece(kernel, records, scratch, _BLOCK) as (phase, row, begin, end, arrays):
        b = phase.b
        with loop(b, begin, end) as i:
            write(b, arrays[0], i, records.read(b, row, i))
        block = [b.gep(a, [begin], inbounds=True, source_etype=kind) for a in arrays]
        merges.sort_block(b, row, block[0], block[1], b.sub(end, begin), _BLOCK)
    # all levels are the same code, which finds its level in the state
    before = len(kernel.phases)
    with kernel.phase() as phase, loop(phase.b, phase.begin, phase.end):
        b, flags = phase.b, phase.scratch(state)
        write(b, flags, I64(0), b.shl(read(b, flags, I64, I64(0)), I64(1)))
        write(b, flags, I64(1), b.xor(read(b, flags, I64, I64(1)), I64(1)))
    with _each_piece(kernel, records, scratch, 2 * _BLOCK) as (phase, row, begin, end, arrays):
        b = phase.b
        width, source = (read(b, phase.scratch(state), I64, I64(k)) for k in range(2))
        double, swapped = b.shl(width, I64(1)), b.icmp_unsigned("==", source, I64(1))
        order = b.select(swapped, arrays[1], arrays[0]), b.select(swapped, arrays[0], arrays[1])
        merges.merge(b, row, order, b.mul(b.udiv(begin, double), double), width, I64(rows.size), (begin, end))
    kernel.phases += kernel.phases[before:] * (levels - 1)
    last = (first + levels) % 2
    with (
        _each_piece(kernel, records, scratch, 2 * _BLOCK) as (phase, row, begin, end, arrays),
        loop(phase.b, begin, end) as i,
    ):
        records.write(phase.b, row, i, read(phase.b, arrays[last], kind, i))


def _levels(width: int, size: int) -> list[int]:
    """The widths that are merged, two and two, until one piece has `size` elements."""
    out = []
    while width < size:
        out.append(width)
        width *= 2
    return out


class _Piece(NamedTuple):
    phase: PhaseBuilder
    row: RowPointers
    begin: ir.Value
    end: ir.Value
    arrays: list[ir.Value]


@contextmanager
def _each_piece(kernel: Kernel, records: Records, scratch: list[int], size: int) -> Iterator[_Piece]:
    """A phase over pieces of `size` elements [begin, end) of all rows, with the row's two arrays of records."""
    rows = records.rows
    pieces = -(-rows.size // size)
    with kernel.phase(rows.count * pieces, max(1, _TASK * 8 // size)) as phase:
        b = phase.b
        optimize_for_size(b)
        with loop(b, phase.begin, phase.end, name="piece") as item:
            number = b.udiv(item, I64(pieces))
            begin = b.mul(b.urem(item, I64(pieces)), I64(size))
            end = least(b, b.add(begin, I64(size)), I64(rows.size))
            offset = [b.mul(number, I64(rows.size))]
            arrays = [b.gep(phase.scratch(k), offset, inbounds=True, source_etype=records.type) for k in scratch]
            yield _Piece(phase, row_of(phase, rows, number), begin, end, arrays)


class _Merges:
    """The functions that the phases call."""

    def __init__(self, kernel: Kernel, records: Records, comparator: Computation):
        self.records, self.comparator, self.operands = records, comparator, len(kernel.operands)
        self._insertion, self._merge = self._insertion_function(kernel.module), self._merge_function(kernel.module)

    def merge(
        self,
        b: ir.IRBuilder,
        row: RowPointers,
        arrays: tuple[ir.Value, ir.Value],
        start: ir.Value,
        width: ir.Value,
        size: ir.Value,
        piece: tuple[ir.Value, ir.Value],
    ) -> None:
        """Elements [begin, end), the piece, of the second array: of the merge of two `width` from `start` on."""
        middle = least(b, b.add(start, width), size)
        end = least(b, b.add(middle, width), size)
        b.call(self._merge, [*arrays, start, middle, end, *piece, row.base, *row.operands])

    def sort_block(
        self, b: ir.IRBuilder, row: RowPointers, first: ir.Value, second: ir.Value, size: ir.Value, limit: int
    ) -> ir.Value:
        """Sorts `size` records of `first`; the array where they end is the same for every size up to `limit`."""
        source, target, width = allocate(b, POINTER), allocate(b, POINTER), allocate(b, I64)
        b.store(first, source)
        b.store(second, target)
        b.store(I64(_RUN), width)
        b.call(self._insertion, [first, size, row.base, *row.operands])
        with repeat(b, lambda: b.icmp_signed("<", b.load(width, typ=I64), I64(limit))):
            arrays, w = (b.load(source, typ=POINTER), b.load(target, typ=POINTER)), b.load(width, typ=I64)
            double = b.shl(w, I64(1))
            start = allocate(b, I64)
            b.store(I64(0), start)
            with repeat(b, lambda: b.icmp_signed("<", b.load(start, typ=I64), size)):
                s = b.load(start, typ=I64)
                following = b.add(s, double)
                self.merge(b, row, arrays, s, w, size, (s, least(b, following, size)))
                b.store(following, start)
            b.store(arrays[1], source)
            b.store(arrays[0], target)
            b.store(double, width)
        return b.load(source, typ=POINTER)

    def _before(self, b: ir.IRBuilder, row: RowPointers, x: ir.Value, y: ir.Value) -> ir.Value:
        """True when record x stands strictly before record y."""
        elements = zip(self.records.elements(b, row, x), self.records.elements(b, row, y), strict=True)
        return apply(b, self.comparator, [value for pair in elements for value in pair])[0]

    def _insertion_function(self, module: ir.Module) -> ir.Function:
        """`insertion(records, size, base, operands...)`: sorts runs of `_RUN` elements."""
        kinds = [POINTER, I64, I64, *[POINTER] * self.operands]
        with function(module, "insertion", kinds, distinct=[0]) as (b, out):
            optimize_for_size(b)
            records, size, base, *operands = out.args
            row, kind = RowPointers(operands, [], base), self.records.type
            position = allocate(b, I64)
            with loop(b, 0, size) as i:
                start = b.and_(i, I64(-_RUN))
                record = read(b, records, kind, i)
                b.store(i, position)

                def moves() -> ir.Value:
                    j = b.load(position, typ=I64)
                    inside = b.icmp_signed(">", j, start)
                    previous = read(b, records, kind, b.select(inside, b.sub(j, I64(1)), start))
                    return b.and_(inside, self._before(b, row, record, previous))

                with repeat(b, moves):
                    j = b.load(position, typ=I64)
                    previous = b.sub(j, I64(1))
                    write(b, records, j, read(b, records, kind, previous))
                    b.store(previous, position)
                write(b, records, b.load(position, typ=I64), record)
        return out

    def _merge_function(self, module: ir.Module) -> ir.Function:
        """`merge(source, target, start, middle, end, begin, stop, base, operands...)`.

        Elements [begin, stop) of the target, of the merge of [start, middle) and [middle, end) of the source.
        """
        kinds = [POINTER, POINTER, *[I64] * 6, *[POINTER] * self.operands]
        with function(module, "merge", kinds, distinct=[1]) as (b, out):
            optimize_for_size(b)
            source, target, _, middle, end, begin, stop, base, *operands = out.args
            row, kind = RowPointers(operands, [], base), self.records.type
            left, right = allocate(b, I64), allocate(b, I64)
            self._split(b, row, out.args, left)
            b.store(b.add(middle, b.sub(begin, b.load(left, typ=I64))), right)
            next_index = allocate(b, I64)
            b.store(begin, next_index)

            def both() -> ir.Value:
                i, j, k = (b.load(v, typ=I64) for v in (left, right, next_index))
                some = b.and_(b.icmp_signed("<", i, middle), b.icmp_signed("<", j, end))
                return b.and_(some, b.icmp_signed("<", k, stop))

            with repeat(b, both):
                i, j, k = (b.load(v, typ=I64) for v in (left, right, next_index))
                x, y = read(b, source, kind, i), read(b, source, kind, j)
                later = self._before(b, row, y, x)
                write(b, target, k, b.select(later, y, x))
                step = b.zext(later, I64)
                b.store(b.add(j, step), right)
                b.store(b.add(i, b.sub(I64(1), step)), left)
                b.store(b.add(k, I64(1)), next_index)
            for side, limit in ((left, middle), (right, end)):
                i, k = b.load(side, typ=I64), b.load(next_index, typ=I64)
                count = least(b, b.sub(limit, i), b.sub(stop, k))
                with loop(b, 0, count) as n:
                    write(b, target, b.add(k, n), read(b, source, kind, b.add(i, n)))
                b.store(b.add(k, count), next_index)
        return out

    def _split(self, b: ir.IRBuilder, row: RowPointers, arguments: tuple[ir.Value, ...], left: ir.Value) -> None:
        """Stores in `left` the first element of [start, middle) that is not among those before `begin`."""
        source, _, start, middle, end, begin = arguments[:6]
        kind = self.records.type
        before = b.sub(begin, start)
        low, high = left, allocate(b, I64)
        least_left = b.sub(middle, b.sub(end, begin))  # when all of the right side comes first
        b.store(b.select(b.icmp_signed(">", least_left, start), least_left, start), low)
        b.store(least(b, b.add(start, before), middle), high)
        with repeat(b, lambda: b.icmp_signed("<", b.load(low, typ=I64), b.load(high, typ=I64))):
            i = b.lshr(b.add(b.load(low, typ=I64), b.load(high, typ=I64)), I64(1))
            j = b.add(middle, b.sub(b.sub(before, I64(1)), b.sub(i, start)))
            first = b.not_(self._before(b, row, read(b, source, kind, j), read(b, source, kind, i)))
            b.store(b.select(first, b.add(i, I64(1)), b.load(low, typ=I64)), low)
            b.store(b.select(first, b.load(high, typ=I64), i), high)
