"""Long rows by keys of 32 bits, sorted by vectors in the memory of the outputs: keys in one array, numbers in another.

Of several keys the last comes first: rows in its order are then sorted by the one before, whose equal keys stay in
order, as their places in the row are a part of what is sorted.
"""

from __future__ import annotations

from collections.abc import Sequence

from llvmlite import ir

from xloom.cpu.kernel_modules.kernel import Kernel, PhaseBuilder
from xloom.cpu.kernels.sort.element_keys import ElementKey
from xloom.cpu.kernels.sort.key_groups import BITS, KeyPart, groups, is_short
from xloom.cpu.kernels.sort.keys import Key
from xloom.cpu.kernels.sort.records import IndexedRecords, RowPointers, joined, resized, row_of
from xloom.cpu.kernels.sort.routines import pair, quicksort
from xloom.cpu.kernels.sort.rows import Rows, capacity
from xloom.cpu.kernels.sort.vectors import Array, RowSegment, SegmentedRows
from xloom.hlo.dtype import DType
from xloom.llvm.element_bits import bits_type, move
from xloom.llvm.loop import allocate, loop
from xloom.llvm.pass_pipeline import PassPipeline
from xloom.llvm.routine import read, write
from xloom.llvm.strided_loops import plus
from xloom.llvm.symbolic_dimension import greatest
from xloom.llvm.types import I1, I32, I64, i64

Memory = tuple[int | None, int] | ir.Value
"""An output, or None for scratch, and which half of the one or which of the other; or where a row's lies."""
_TASK = 2_000
"""Elements sorted in about 20 µs."""


def sort(
    kernel: Kernel,
    rows: Rows,
    dtypes: Sequence[DType],
    keys: Sequence[Key],
    numbers: frozenset[int],
    overwritable: frozenset[int],
    lent: tuple[int, int] | None,
) -> None:
    """Emits the phases that sort all rows, which are contiguous. The operands `numbers` hold each element's number.

    Outputs of short rows may have the memory of the operands `overwritable`. Of others, the first of `lent` is an
    output whose memory may have the other, an operand.
    """
    _Sort(kernel, rows, dtypes, numbers, overwritable, groups(keys), None if lent is None else lent[0]).emit()


class _Sort:
    def __init__(
        self,
        kernel: Kernel,
        rows: Rows,
        dtypes: Sequence[DType],
        numbers: frozenset[int],
        overwritten: frozenset[int],
        passes: Sequence[Sequence[KeyPart]],
        last: int | None,
    ):
        self.kernel, self.rows, self.dtypes, self.overwritable, self.passes = kernel, rows, dtypes, numbers, passes
        self.overwritten = overwritten
        self.wanted = [k for k in range(len(dtypes)) if k not in kernel.unread]
        self.last = last if last in self.wanted else None
        free = [k for k in self.wanted if k != self.last]
        # a number that is wanted is there when the rest is, and of others each is the last that needs it
        hosts = sorted((k for k in free if dtypes[k].bytes == 4), key=lambda k: (k not in self.overwritable, -k))
        self.is_short = is_short(rows)
        self.host = hosts[0] if hosts and self.last is None and not self.is_short else None
        self._outputs = [(k, 0) for k in hosts]
        if len(passes) > 1:  # none is written before the last segment is sorted
            self._outputs += [(k, half) for k in free if dtypes[k].bytes == 8 for half in range(2)]

    def emit(self) -> None:
        """Adds all phases: keys are made, sorted, and the operands put in their order."""
        kernel = self.kernel
        kernel.pipeline = PassPipeline.ROUTINES
        function = quicksort(kernel, 64, apart=True)
        if self.is_short:
            self._short_rows(function)
        else:
            self._long_rows(function)

    def _short_rows(self, function: ir.Function) -> None:
        rows, kernel = self.rows, self.kernel
        with kernel.phase(rows.count, greatest(1, _TASK // (rows.size * len(self.passes)))) as phase:
            b, begin, end = phase.b, I64(0), i64(rows.size)
            self.keys, self.numbers, self.order = (allocate(b, I32, capacity(rows.size)) for _ in range(3))
            with loop(b, phase.begin, phase.end, name="row") as number:
                records = IndexedRecords(rows, self.dtypes, overwritable=self.overwritten)
                row = records.kept(b, row_of(phase, rows, number))
                segment = RowSegment(phase, number, number, row, self._pairs(phase, row, number), begin, end)
                for k, keys in enumerate(self.passes):
                    self._read(segment, keys, None if k == 0 else self.order)
                    b.call(function, [segment.array.pointer, segment.array.distance, end, I1(0), I1(0)])
                    if k:
                        self._follow(segment)
                self._finish(segment)

    def _long_rows(self, function: ir.Function) -> None:
        kernel = self.kernel
        self.numbers = self._array(may_be_output=self.host is not None)
        self.keys = self._array()
        self.order = self._array() if len(self.passes) > 1 else None
        rows = SegmentedRows(kernel, self.rows, function, self._pairs)
        for k, keys in enumerate(self.passes):
            with rows.equal() as segment:
                self._read(segment, keys, None if k == 0 else self.order)
            rows.split()
            with rows.sorted() as segment:
                if k:
                    self._follow(segment)
                if len(self.passes) == 1:
                    self._finish(segment)
        if len(self.passes) > 1:  # the order is read everywhere until the last segment is sorted
            with rows.equal() as segment:
                self._finish(segment)
        if self.last is not None:
            with rows.equal() as segment:
                self._write(segment, [self.last])

    def _array(self, *, may_be_output: bool = True) -> tuple[int | None, int]:
        """Memory for 32 bits of each element: an output or half of one, as long as there is one, or else scratch."""
        if self._outputs and may_be_output:
            return self._outputs.pop(0)
        return None, self.kernel.add_scratch(4 * self.rows.count * self.rows.size)

    def _pointer(self, phase: PhaseBuilder, row: RowPointers, array: Memory) -> ir.Value:
        if isinstance(array, ir.Value):
            return array
        b, (output, number) = phase.b, array
        if output is None:
            return b.gep(phase.scratch(number), [row.base], inbounds=True, source_etype=I32)
        offset = plus(b, row.base, number * self.rows.count * self.rows.size)
        return b.gep(phase.output(output), [offset], inbounds=True, source_etype=I32)

    def _pairs(self, phase: PhaseBuilder, row: RowPointers, number: ir.Value) -> Array:
        b = phase.b
        keys, numbers = (self._pointer(phase, row, array) for array in (self.keys, self.numbers))
        return Array(keys, I32, b.sub(b.ptrtoint(numbers, I64), b.ptrtoint(keys, I64)))

    def _read(self, segment: RowSegment, keys: Sequence[KeyPart], order: Memory | None) -> None:
        """Makes keys and numbers of the elements, which are gone through in the order that there is from before."""
        phase, row, b = segment.phase, segment.row, segment.phase.b
        found, numbers = (self._pointer(phase, row, array) for array in (self.keys, self.numbers))
        key = keys[0].key
        element = ElementKey.of(key) if len(keys) == 1 else None
        plain = element is not None and element.dtype.bits == BITS
        source = b.gep(row.operands[key.operand], [row.base], inbounds=True, source_etype=I32) if plain else None
        if order is not None:
            before = self._pointer(phase, row, order)
            with loop(b, segment.begin, segment.end) as i:
                number = read(b, numbers, I32, i)
                write(b, before, i, number)
                if source is not None:
                    write(b, found, i, read(b, source, I32, b.zext(number, I64)))
        if source is not None:
            assert element is not None
            elements = source if order is None else found
            b.call(pair(self.kernel, element), [elements, found, numbers, segment.begin, segment.end])
            return
        records = IndexedRecords(self.rows, self.dtypes)
        with loop(b, segment.begin, segment.end) as i:
            at = i if order is None else b.zext(read(b, numbers, I32, i), I64)
            elements = records.elements(b, row, at)
            bits = [b.lshr(x, x.type(k.shift)) for k in keys for x in [k.key.integer(b, elements)]]
            parts = [resized(b, x, ir.IntType(k.bits)) for k, x in zip(keys, bits, strict=True)]
            write(b, found, i, joined(b, parts[::-1], I32))
            write(b, numbers, i, b.trunc(i, I32))

    def _follow(self, segment: RowSegment) -> None:
        """Makes indices in the order from before numbers of elements."""
        assert self.order is not None
        b, row = segment.phase.b, segment.row
        numbers, before = (self._pointer(segment.phase, row, array) for array in (self.numbers, self.order))
        with loop(b, segment.begin, segment.end) as i:
            write(b, numbers, i, read(b, before, I32, b.zext(read(b, numbers, I32, i), I64)))

    def _finish(self, segment: RowSegment) -> None:
        """Writes the elements of all outputs but the last; where the numbers lie, behind the others."""
        rest = [k for k in self.wanted if k not in (self.host, self.last)]
        if self.host is not None and self.host not in self.overwritable:
            rest.append(self.host)
        if rest:
            self._write(segment, rest)

    def _write(self, segment: RowSegment, outputs: Sequence[int]) -> None:
        b, row = segment.phase.b, segment.row
        numbers = self._pointer(segment.phase, row, self.numbers)
        with loop(b, segment.begin, segment.end) as i:
            number, target = b.zext(read(b, numbers, I32, i), I64), plus(b, row.base, i)
            for k in outputs:
                output = row.outputs[k]
                assert output is not None
                if k in self.overwritable:
                    write(b, output, target, resized(b, number, bits_type(self.dtypes[k])))
                else:
                    move(b, row.operands[k], plus(b, row.base, number), output, target, self.dtypes[k])
