"""An operand rearranged into panels: `width` rows (or columns) side by side, for each index of the depth.

Elements of a panel lie as [depth][part][width], in the accumulator's type. Rows past the end of a last panel repeat
the last row: what they are multiplied to is not stored.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product
from math import gcd, prod
from typing import NamedTuple

from llvmlite import ir

from xloom.cpu.kernels.matmul.arithmetic import Arithmetic, Parts
from xloom.cpu.kernels.matmul.axes import Axes, Axis, count, digits, inner, linear_offset, row_major
from xloom.cpu.kernels.matmul.fused_operands import LineBuffer
from xloom.cpu.kernels.matmul.operands import Array
from xloom.cpu.kernels.matmul.tile import at_most, nest, rolled
from xloom.hlo.dtype import f32
from xloom.llvm.cache_lines import CACHED, LINE, fetch
from xloom.llvm.intrinsics import intrinsic
from xloom.llvm.loop import allocate
from xloom.llvm.symbolic_dimension import divides, greatest
from xloom.llvm.types import POINTER, element_pointer, i64
from xloom.llvm.vectors import lanes_below, shuffled

_SHARE, _MOST_BYTES = 2, 1 << 18
"""Of the second cache, what is packed at once takes one of so many parts, and so many bytes at most."""
DEPTH_BYTES = 1 << 10
"""Of a row of f32 in a panel: 32 columns of 256 fill most of a first-level cache of 48 KiB."""
_PLAIN_FLOATS = 2
"""Times as many of both for floats, which leave registers for tall tiles: panels come from the second cache then, and
what is worth it is that the result is added to half as often."""
BLOCK = 8
"""Rows and elements of the depth that are transposed in registers at once; what is packed begins at multiples of it."""


def depth_bytes(arithmetic: Arithmetic) -> int:
    """Bytes of a row in a panel. Of f64 a panel has half as many columns as of f32, and as much of the depth."""
    return DEPTH_BYTES * max(1, arithmetic.dtype.real.bytes // f32.bytes) * _times(arithmetic)


def block_bytes(arithmetic: Arithmetic) -> int:
    """Bytes of what is packed at once."""
    return min(arithmetic.target.caches.second // _SHARE, _MOST_BYTES * _times(arithmetic))


def _times(arithmetic: Arithmetic) -> int:
    return _PLAIN_FLOATS if arithmetic.has_plain_floats else 1


_SHORT_RUN = 9
"""Elements that are taken apart with a shuffle each, a vector."""


class PackingTask(NamedTuple):
    """What is packed at once: `panels` panels from row `first` on, `size` elements of the depth from `begin` on."""

    pointer: ir.Value
    base: ir.Value
    """Where row 0 lies, in elements from `pointer` on."""
    first: ir.Value
    begin: ir.Value
    size: ir.Value
    panel: ir.Value
    """Where the first panel goes; the others follow it."""
    panels: ir.Value = i64(1)


class _Depth(NamedTuple):
    """An axis of the depth: its size, its stride in memory, its direction, and its stride in a panel."""

    size: int
    stride: int
    backwards: bool
    panel_stride: int


_Distances = list[tuple[ir.Value, ir.Value | None]]
"""Distances in elements, and with each, unless None, whether there is an element (i1)."""


@dataclass(frozen=True)
class Packing:
    """How panels are made of operand "a" or "b": its array, its rows and its depth, and the width of a panel."""

    arithmetic: Arithmetic
    source: Array
    operand: str
    rows: Axes
    depth: Axes
    width: int

    @property
    def length(self) -> int:
        """The depth in packed elements."""
        return -(-count(self.depth) // self.arithmetic.pack_factor)

    @property
    def panels(self) -> int:
        """How many panels the operand has."""
        return -(-count(self.rows) // self.width)

    def panel_size(self, depth: int) -> int:
        """Elements of the accumulator's parts in a panel."""
        return depth * self.arithmetic.parts * self.width

    @property
    def is_copied(self) -> bool:
        """True when rows are adjacent, so that vectors of them are loaded and stored."""
        row = inner(self.rows)
        return row.stride(self.operand) == 1 and (len(self.rows) == 1 or row.size % self.width == 0)

    @property
    def lies_in_panels(self) -> bool:
        """True when panels are in memory what they would be packed to."""
        arithmetic, source = self.arithmetic, self.source
        if source.is_made or source.dtype is not arithmetic.dtype or arithmetic.pack_factor * arithmetic.parts > 1:
            return False
        if len(self.rows) != 2 or len(self.depth) != 1:
            return False
        row, depth = inner(self.rows), inner(self.depth)
        return row.size == self.width == depth.stride(self.operand) and row.stride(self.operand) == 1

    def ready_panel(
        self, b: ir.IRBuilder, pointer: ir.Value, base: ir.Value, number: ir.Value, begin: ir.Value
    ) -> ir.Value:
        """Where a panel of an operand that lies in them is, from element `begin` of the depth on."""
        at = b.add(b.mul(number, i64(self.rows[0].stride(self.operand))), b.mul(begin, i64(self.width)))
        return element_pointer(b, pointer, self.source.dtype, b.add(base, at))

    def emit(self, b: ir.IRBuilder, task: PackingTask) -> None:
        """Packs the panels of a part of the operand."""
        depth_axis, block = inner(self.depth), BLOCK * self.arithmetic.pack_factor
        if self.is_copied:
            self._copy(b, task)
            return
        if self.source.is_made:
            self._make(b, task)
            return
        with rolled(b, 0, task.panels, name="panel") as number:
            panel, first = self._panel(b, task, number)
            if depth_axis.stride(self.operand) == 1 and (len(self.depth) == 1 or depth_axis.size % block == 0):
                self._transpose(b, task, panel, first)
            else:
                self._elements(b, task, panel, first, i64(0))

    def _make(self, b: ir.IRBuilder, task: PackingTask) -> None:
        """Makes the rows of each panel, which are adjacent along the depth, and packs them."""
        pack_factor = self.arithmetic.pack_factor
        longest = depth_bytes(self.arithmetic) // self.arithmetic.dtype.bytes * pack_factor
        source, buffer = replace(self.source, is_made=False), LineBuffer(b, self.source, self.width, longest)
        axes = [Axis(n, s, s, 0) for n, s in ((self.width, longest), (longest, 1))]
        made = Packing(self.arithmetic, source, self.operand, (axes[0],), (axes[1],), self.width)
        stride = i64(inner(self.rows).stride(self.operand))
        begin = b.mul(task.begin, i64(pack_factor))
        length = intrinsic(b, "smin", b.mul(task.size, i64(pack_factor)), b.sub(i64(count(self.depth)), begin))
        with rolled(b, 0, task.panels, name="panel") as number:
            panel, first = self._panel(b, task, number)
            rows = intrinsic(b, "smin", b.sub(i64(count(self.rows)), first), i64(self.width))
            start = b.add(b.add(task.base, begin), b.mul(first, stride))
            buffer.fill(b, task.pointer, start, length, rows, stride)
            if pack_factor > 1:  # past the end of the depth are zeros
                with rolled(b, 0, rows, name="row") as row:
                    buffer.clear(b, b.add(b.mul(row, i64(longest)), length))
            made.emit(b, PackingTask(buffer.pointer, i64(0), i64(0), i64(0), task.size, panel))

    def emit_whole(self, b: ir.IRBuilder, task: PackingTask) -> None:
        """Packs a panel of all of the depth, in whichever order the operand lies in memory."""
        axes = [
            _Depth(x.size, greatest(x.stride(self.operand), -x.stride(self.operand)), x.stride(self.operand) < 0, step)
            for x, step in zip(self.depth, row_major([x.size for x in self.depth]), strict=True)
        ]
        axes.sort(key=lambda x: -x.stride)
        run: list[_Depth] = []  # what lies together
        while axes and axes[-1].stride == prod(x.size for x in run):
            run.insert(0, axes.pop())
        length = prod(x.size for x in run)
        if (
            not self.is_moved
            or self.arithmetic.pack_factor > 1
            or (length < BLOCK and not self._has_short_runs(length))
        ):
            self.emit(b, task)
            return
        # a run that the depth goes through backwards begins with its last element
        begin = -sum((x.size - 1) * x.stride for x in run if x.backwards)

        def blocks(at: list[ir.Value]) -> None:
            with rolled(b, 0, length, BLOCK, name="k") as k, rolled(b, 0, self.width, BLOCK, name="group") as step:
                first, group = at_most(b, k, length - BLOCK), at_most(b, step, max(0, self.width - BLOCK))
                rows = [self._row(b, at[0], b.add(b.add(task.first, group), i64(r))) for r in range(BLOCK)]
                columns = self._columns(b, task, [b.add(row, first) for row in rows])
                for j, column in enumerate(columns):
                    index = at[1]
                    position = digits(b, [Axis(x.size, 0, 0, 0) for x in run], b.add(first, i64(j)))
                    for x, digit in zip(run, position, strict=True):
                        digit = b.sub(i64(x.size - 1), digit) if x.backwards else digit
                        index = b.add(index, b.mul(digit, i64(x.panel_stride)))
                    self._put(b, task.panel, index, group, column)

        def runs(at: list[ir.Value]) -> None:
            targets = [at[1] for _ in range(length)]
            for j, position in enumerate(product(*(range(x.size) for x in run))):
                distances = [
                    x.panel_stride * (x.size - 1 - k if x.backwards else k) for k, x in zip(position, run, strict=True)
                ]
                targets[j] = b.add(at[1], i64(sum(distances)))
            self._runs(b, task, b.add(at[0], b.mul(task.first, i64(length))), targets)

        outer = [(x.size, (-x.stride if x.backwards else x.stride, x.panel_stride)) for x in axes]
        body = runs if self._has_short_runs(length) else blocks
        nest(b, outer, [b.add(task.base, i64(begin)), i64(0)], body)

    @property
    def is_moved(self) -> bool:
        """True when neither rows nor so many elements of the depth are adjacent that squares of them are transposed."""
        depth_axis, row = inner(self.depth), inner(self.rows)
        whole = len(self.depth) == 1 or depth_axis.size % (BLOCK * self.arithmetic.pack_factor) == 0
        return row.stride(self.operand) != 1 and not (depth_axis.stride(self.operand) == 1 and whole)

    def _has_short_runs(self, length: int) -> bool:
        """True when few elements of the depth lie together, and those of the next row follow them."""
        row = inner(self.rows)
        follows = len(self.rows) == 1 and row.stride(self.operand) == length
        return 1 < length <= _SHORT_RUN and follows and row.size >= self.width

    def _runs(self, b: ir.IRBuilder, task: PackingTask, start: ir.Value, targets: list[ir.Value]) -> None:
        """Takes runs apart, some rows at a time: first elements go to the first of `targets`, and so on."""
        arithmetic, length = self.arithmetic, len(targets)
        lanes = gcd(self.width, arithmetic.lanes)
        for group in range(0, self.width, lanes):
            loaded = [
                arithmetic.load(
                    b, task.pointer, self.source.dtype, b.add(start, i64(group * length + k * lanes)), lanes
                )
                for k in range(length)
            ]
            for j, target in enumerate(targets):
                self._put(
                    b, task.panel, target, i64(group), [_every(b, x, length, j) for x in zip(*loaded, strict=True)]
                )

    def _columns(self, b: ir.IRBuilder, task: PackingTask, rows: list[ir.Value]) -> list[Parts]:
        """The columns of a square whose rows begin at these elements, as far as the panel has them."""
        lines = [self.arithmetic.adjacent(b, task.pointer, self.source.dtype, at, BLOCK) for at in rows]
        parts = [transposed(b, [line[p] for line in lines]) for p in range(self.arithmetic.parts)]
        columns = [[part[j] for part in parts] for j in range(BLOCK)]
        if self.width >= BLOCK:
            return columns
        return [[shuffled(b, part, range(self.width)) for part in column] for column in columns]

    def _panel(self, b: ir.IRBuilder, task: PackingTask, number: ir.Value) -> tuple[ir.Value, ir.Value]:
        """Where a panel is and its first row."""
        at = b.mul(number, b.mul(task.size, i64(self.panel_size(1))))
        panel = b.gep(task.panel, [at], inbounds=True, source_etype=self.arithmetic.element)
        return panel, b.add(task.first, b.mul(number, i64(self.width)))

    def _row(self, b: ir.IRBuilder, base: ir.Value, index: ir.Value) -> ir.Value:
        index = at_most(b, index, count(self.rows) - 1)
        return b.add(base, linear_offset(b, self.rows, index, self.operand))

    def _copy(self, b: ir.IRBuilder, task: PackingTask) -> None:
        """Rows are adjacent: vectors of them, across all panels, so that memory is read in long runs."""
        lanes, width, total = self.arithmetic.lanes, self.width, count(self.rows)
        walk, step = allocate(b, POINTER), b.mul(task.size, i64(self.panel_size(1)))
        longest = max(width, block_bytes(self.arithmetic) // BLOCK // self.arithmetic.dtype.bytes)
        buffer = LineBuffer(b, self.source, self.arithmetic.pack_factor, longest) if self.source.is_made else None
        pointer = buffer.pointer if buffer else task.pointer
        # runs are as short as a block is wide: the hardware would find out anew in each row what comes next
        nbytes = count(self.rows) * count(self.depth) * self.source.dtype.bytes
        is_far = self.source.kind == "operand" and nbytes > CACHED * self.arithmetic.target.caches.last
        next_row = inner(self.depth).stride(self.operand) * self.arithmetic.pack_factor
        with rolled(b, 0, task.size, name="k") as k:
            distances = self._distances(b, b.add(task.begin, k))
            if buffer:
                length = intrinsic(b, "smin", b.mul(task.panels, i64(width)), b.sub(i64(total), task.first))
                for p, (distance, inside) in enumerate(distances):
                    first = b.add(b.add(task.base, distance), task.first)
                    buffer.fill(b, task.pointer, first, length, number=p)
                    distances[p] = i64(p * buffer.apart), inside
            element = self.arithmetic.element
            line = b.mul(k, i64(self.panel_size(1)))
            b.store(b.gep(task.panel, [line], inbounds=True, source_etype=element), walk)
            with rolled(b, 0, task.panels, name="panel") as number:
                here = b.mul(number, i64(width))
                first = b.add(task.first, here)
                start = here if buffer else b.add(task.base, linear_offset(b, self.rows, first, self.operand))
                panel = b.load(walk, typ=POINTER)
                b.store(b.gep(panel, [step], inbounds=True, source_etype=element), walk)
                vectors = [(at, min(lanes, width - at)) for at in range(0, width, lanes)]

                if is_far and buffer is None:
                    for distance, _ in distances:
                        ahead = b.add(b.add(start, distance), i64(next_row))
                        for at in range(0, width, max(1, LINE // self.source.dtype.bytes)):
                            fetch(b, element_pointer(b, pointer, self.source.dtype, b.add(ahead, i64(at))))

                def put(at: int, some: int, offset: ir.Value, mask: ir.Value | None) -> None:
                    value = self._load(b, pointer, b.add(start, offset), distances, some, mask)
                    self._put(b, panel, i64(0), i64(at), value)

                def copy() -> None:
                    for at, some in vectors:
                        put(at, some, i64(at), None)

                def copy_edge() -> None:
                    last = b.sub(i64(total - 1), first)
                    for at, some in vectors:
                        if some == 1:  # no vector, and so without a mask: the last row once more
                            put(at, 1, at_most(b, last, at), None)
                        else:
                            put(at, some, i64(at), lanes_below(b, some, b.sub(last, i64(at - 1))))

                if divides(width, total):
                    copy()
                else:
                    with b.if_else(b.icmp_signed("<=", first, i64(total - width)), likely=True) as (inside, edge):
                        with inside:
                            copy()
                        with edge:
                            copy_edge()

    def _transpose(self, b: ir.IRBuilder, task: PackingTask, panel: ir.Value, first: ir.Value) -> None:
        """Places of the depth are adjacent: square blocks of rows and depth, transposed in registers."""
        arithmetic, size = self.arithmetic, task.size
        if count(self.depth) % arithmetic.pack_factor:  # the last element is not whole
            size = b.select(b.icmp_signed("==", b.add(task.begin, size), i64(self.length)), b.sub(size, i64(1)), size)
        whole = b.and_(size, i64(-BLOCK))
        with rolled(b, 0, self.width, BLOCK, name="group") as step:
            group = at_most(b, step, max(0, self.width - BLOCK))
            at = [self._row(b, task.base, b.add(b.add(first, group), i64(r))) for r in range(BLOCK)]
            with rolled(b, 0, whole, BLOCK, name="k") as k:
                line = self._distance(b, b.mul(b.add(task.begin, k), i64(arithmetic.pack_factor)))
                for j, column in enumerate(self._columns(b, task, [b.add(x, line) for x in at])):
                    self._put(b, panel, b.add(k, i64(j)), group, column)
        self._elements(b, task, panel, first, whole)

    def _elements(self, b: ir.IRBuilder, task: PackingTask, panel: ir.Value, first: ir.Value, low: ir.Value) -> None:
        """One element after the other, from `low` on."""
        with rolled(b, 0, self.width, name="row") as r:
            start = self._row(b, task.base, b.add(first, r))
            with rolled(b, low, task.size, name="k") as k:
                distances = self._distances(b, b.add(task.begin, k))
                self._put(b, panel, k, r, self._load(b, task.pointer, start, distances, 1))

    def _distance(self, b: ir.IRBuilder, k: ir.Value) -> ir.Value:
        return linear_offset(b, self.depth, k, self.operand)

    def _distances(self, b: ir.IRBuilder, k: ir.Value) -> _Distances:
        """How far the elements of packed element `k` of a row lie from the row's first."""
        pack_factor = self.arithmetic.pack_factor
        if pack_factor == 1:
            return [(self._distance(b, k), None)]
        found: _Distances = []
        is_whole = divides(pack_factor, count(self.depth))
        for p in range(pack_factor):
            index = b.add(b.mul(k, i64(pack_factor)), i64(p))
            if is_whole:
                found.append((self._distance(b, index), None))
                continue
            inside = b.icmp_signed("<", index, i64(count(self.depth)))
            found.append((self._distance(b, at_most(b, index, count(self.depth) - 1)), inside))
        return found

    def _load(
        self,
        b: ir.IRBuilder,
        pointer: ir.Value,
        start: ir.Value,
        distances: _Distances,
        lanes: int,
        mask: ir.Value | None = None,
    ) -> Parts:
        """Packed elements of adjacent rows, of which the first begins at `start`; 0 past the end of the depth."""
        arithmetic, values = self.arithmetic, []
        for distance, inside in distances:
            value = arithmetic.load(b, pointer, self.source.dtype, b.add(start, distance), lanes, mask)
            zero = arithmetic.zero(lanes)
            values.append(
                value if inside is None else [b.select(inside, x, y) for x, y in zip(value, zero, strict=True)]
            )
        return values[0] if len(values) == 1 else arithmetic.joined(b, *values)

    def _put(self, b: ir.IRBuilder, panel: ir.Value, k: ir.Value, at: ir.Value, value: Parts) -> None:
        for p, task in enumerate(value):
            index = b.add(b.mul(b.add(b.mul(k, i64(len(value))), i64(p)), i64(self.width)), at)
            align = self.arithmetic.dtype.real.bytes
            b.store(task, b.gep(panel, [index], inbounds=True, source_etype=self.arithmetic.element), align=align)

    def get(self, b: ir.IRBuilder, panel: ir.Value, row: int, lanes: int) -> Parts:
        """`lanes` rows from `row` on, at the index of the depth whose part of a panel begins at `panel`."""
        kind, element = self.arithmetic.kind(lanes), self.arithmetic.element
        align = self.arithmetic.dtype.real.bytes
        return [
            b.load(
                b.gep(panel, [i64(p * self.width + row)], inbounds=True, source_etype=element), typ=kind, align=align
            )
            for p in range(self.arithmetic.parts)
        ]


def _every(b: ir.IRBuilder, vectors: Sequence[ir.Value], step: int, first: int) -> ir.Value:
    """Every `step`-th lane of so many vectors one after the other, from lane `first` on."""
    lanes = vectors[0].type.count if isinstance(vectors[0].type, ir.VectorType) else 1
    if lanes == 1:
        return vectors[first]
    wanted = [first + k * step for k in range(lanes)]
    total = vectors[0]
    for number, vector in enumerate(vectors):
        picks = [k if n // lanes != number else lanes + n % lanes for k, n in enumerate(wanted)]
        total = shuffled(b, total, [n if n // lanes == 0 else 0 for n in wanted] if number == 0 else picks, vector)
    return total


def transposed(b: ir.IRBuilder, rows: list[ir.Value]) -> list[ir.Value]:
    """The columns of a square block of 2**n rows: each step exchanges quarters of ever larger blocks."""
    size = len(rows)
    step = 1
    while step < size:
        out = list(rows)
        for k in range(size):
            if k & step:
                continue
            low = [j if not j & step else size + j - step for j in range(size)]
            high = [j + step if not j & step else size + j for j in range(size)]
            out[k] = shuffled(b, rows[k], low, rows[k + step])
            out[k + step] = shuffled(b, rows[k], high, rows[k + step])
        rows, step = out, 2 * step
    return rows
