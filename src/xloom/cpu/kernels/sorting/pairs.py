"""Long rows by keys of 32 bits, sorted by vectors in the memory of the outputs: keys in one array, numbers in another.

Of several keys the last comes first: rows in its order are then sorted by the one before, whose equal keys stay in
order, as their places in the row are a part of what is sorted.
"""

from __future__ import annotations

from collections.abc import Sequence

from llvmlite import ir

from xloom.cpu.content import Content
from xloom.cpu.emit.bits import move
from xloom.cpu.emit.loop import loop
from xloom.cpu.emit.nest import plus
from xloom.cpu.emit.routine import read, write
from xloom.cpu.emit.types import I32, I64, POINTER, VOID
from xloom.cpu.kernel import Kernel, PhaseBuilder
from xloom.cpu.kernels.sorting.element_keys import ElementKey, pair_function
from xloom.cpu.kernels.sorting.keys import Key
from xloom.cpu.kernels.sorting.quicksort import SORT, quicksort, sort_symbol
from xloom.cpu.kernels.sorting.records import Indexed, Row, resized
from xloom.cpu.kernels.sorting.rows import Rows
from xloom.cpu.kernels.sorting.vectors import Array, Part, Parts
from xloom.hlo.dtype import DType

KEY_BITS = 32
_PAIR = ir.FunctionType(VOID, [POINTER, POINTER, POINTER, I64, I64])


def sort(kernel: Kernel, rows: Rows, dtypes: Sequence[DType], keys: Sequence[Key], numbers: Sequence[int]) -> None:
    """Emits the phases that sort all rows, which are contiguous. The operands `numbers` hold each element's number."""
    _Sort(kernel, rows, dtypes, numbers).emit(groups(keys))


def groups(keys: Sequence[Key]) -> list[list[Key]]:
    """Keys side by side in 32 bits, as many as fit; the last ones first."""
    out: list[list[Key]] = []
    for key in reversed(keys):
        if out and sum(k.bits for k in out[-1]) + key.bits <= KEY_BITS:
            out[-1].insert(0, key)
        else:
            out.append([key])
    return out


class _Sort:
    def __init__(self, kernel: Kernel, rows: Rows, dtypes: Sequence[DType], numbers: Sequence[int]):
        self.kernel, self.rows, self.dtypes, self.given = kernel, rows, dtypes, frozenset(numbers)
        self.wanted = [k for k in range(len(dtypes)) if k not in kernel.unread]
        # a number that is wanted is there when the rest is, and of others each is the last that needs it
        hosts = sorted((k for k in self.wanted if dtypes[k].bytes == 4), key=lambda k: (k not in self.given, -k))
        self.host = hosts[0] if hosts else None
        self._outputs = [("output", k) for k in hosts]

    def emit(self, passes: Sequence[Sequence[Key]]) -> None:
        """All the phases."""
        kernel = self.kernel
        kernel.content = Content.ROUTINES
        kernel.need(quicksort(64, apart=True), Content.ROUTINES)
        function = ir.Function(kernel.module, SORT, sort_symbol(64, apart=True))
        self.numbers, self.keys = self._array(), self._array()
        self.order = self._array() if len(passes) > 1 else None
        parts = Parts(kernel, self.rows, function, self._pairs)
        for k, keys in enumerate(passes):
            with parts.equal() as part:
                self._read(part, keys, None if k == 0 else self.order)
            parts.split()
            with parts.sorted() as part:
                if k:
                    self._follow(part)
                if len(passes) == 1:
                    self._finish(part)
        if len(passes) > 1:  # the order is read everywhere until the last part is sorted
            with parts.equal() as part:
                self._finish(part)

    def _array(self) -> tuple[str, int]:
        """Memory for 32 bits of each element: an output, as long as there is one."""
        if self._outputs:
            return self._outputs.pop(0)
        return "scratch", self.kernel.add_scratch(4 * self.rows.count * self.rows.size)

    def _pointer(self, phase: PhaseBuilder, row: Row, array: tuple[str, int]) -> ir.Value:
        whole = phase.output(array[1]) if array[0] == "output" else phase.scratch(array[1])
        return phase.b.gep(whole, [row.base], inbounds=True, source_etype=I32)

    def _pairs(self, phase: PhaseBuilder, row: Row, number: ir.Value) -> Array:
        b = phase.b
        keys, numbers = (self._pointer(phase, row, array) for array in (self.keys, self.numbers))
        return Array(keys, I32, b.sub(b.ptrtoint(numbers, I64), b.ptrtoint(keys, I64)))

    def _read(self, part: Part, keys: Sequence[Key], order: tuple[str, int] | None) -> None:
        """Makes keys and numbers of the elements, which are gone through in the order that there is from before."""
        phase, row, b = part.phase, part.row, part.phase.b
        found, numbers = (self._pointer(phase, row, array) for array in (self.keys, self.numbers))
        element = ElementKey.of(keys[0]) if len(keys) == 1 else None
        plain = element is not None and element.dtype.bits == KEY_BITS
        source = b.gep(row.operands[keys[0].operand], [row.base], inbounds=True, source_etype=I32) if plain else None
        if order is not None:
            before = self._pointer(phase, row, order)
            with loop(b, part.begin, part.end) as i:
                number = read(b, numbers, I32, i)
                write(b, before, i, number)
                if source is not None:
                    write(b, found, i, read(b, source, I32, b.zext(number, I64)))
        if source is not None:
            assert element is not None
            elements = source if order is None else found
            b.call(self._pair_function(element), [elements, found, numbers, part.begin, part.end])
            return
        records = Indexed(self.rows, self.dtypes, keys)
        with loop(b, part.begin, part.end) as i:
            at = i if order is None else b.zext(read(b, numbers, I32, i), I64)
            write(b, found, i, resized(b, records.key_of(b, row, at), I32))
            write(b, numbers, i, b.trunc(i, I32))

    def _pair_function(self, key: ElementKey) -> ir.Function:
        self.kernel.need(pair_function(key), Content.ROUTINES)
        known = self.kernel.module.globals.get(key.pair_symbol)
        return known or ir.Function(self.kernel.module, _PAIR, key.pair_symbol)

    def _follow(self, part: Part) -> None:
        """Makes places in the order from before numbers of elements."""
        assert self.order is not None
        b, row = part.phase.b, part.row
        numbers, before = (self._pointer(part.phase, row, array) for array in (self.numbers, self.order))
        with loop(b, part.begin, part.end) as i:
            write(b, numbers, i, read(b, before, I32, b.zext(read(b, numbers, I32, i), I64)))

    def _finish(self, part: Part) -> None:
        """Writes the elements; where the numbers lie, last."""
        b, row = part.phase.b, part.row
        numbers = self._pointer(part.phase, row, self.numbers)
        rest = [k for k in self.wanted if k != self.host]
        if self.host is not None and self.host not in self.given:
            rest.append(self.host)
        if not rest:
            return
        with loop(b, part.begin, part.end) as i:
            number, target = b.zext(read(b, numbers, I32, i), I64), plus(b, row.base, i)
            for k in rest:
                output = row.outputs[k]
                assert output is not None
                if k in self.given:
                    write(b, output, target, b.trunc(number, I32))
                else:
                    move(b, row.operands[k], plus(b, row.base, number), output, target, self.dtypes[k])
