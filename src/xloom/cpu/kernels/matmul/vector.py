"""A matrix times one vector, or a few, at the speed of memory: each element of the matrix is read once."""

from __future__ import annotations

from contextlib import nullcontext
from typing import NamedTuple

from llvmlite import ir

from xloom.cpu.kernel_modules.kernel import Kernel, PhaseBuilder
from xloom.cpu.kernels.matmul.arithmetic import Arithmetic, Parts, lanes_below
from xloom.cpu.kernels.matmul.axes import Axis, Product, count, digits, inner, offset
from xloom.cpu.kernels.matmul.fused_operands import LineBuffer
from xloom.cpu.kernels.matmul.operands import Array
from xloom.cpu.kernels.matmul.tile import Sums, Tile, at_most, needed_lanes, nest, rolled, share
from xloom.llvm.cache_lines import fetch
from xloom.llvm.loop import allocate
from xloom.llvm.symbolic_dimension import divides, greatest, least
from xloom.llvm.target import Caches
from xloom.llvm.types import POINTER, element_pointer, i64

_STREAMS = 8
"""Rows read side by side: as many as the hardware fetches ahead of use."""
_GRAIN_BYTES = 1 << 19
"""Of memory that is read in about 20 µs."""
_STRIP = 1024
"""Elements of the result in an item when its rows are adjacent: runs of 4 KiB of the matrix."""
_STRIPS = 4096
"""The same of all vectors together, so that they stay in the first-level cache."""
_RUN = 1024
"""Elements of a row that are made at once."""
_AT_ONCE = 8
"""Results that vectors of the matrix are added to while they are in registers."""
_FEW, _FEW_DOTS = 17, 9
"""Vectors that are few, as to strips or to sums along the depth: of these, more would not fit the registers."""
_LONG = 4
"""Places of an adjacent depth for the square of the number of columns: in shorter sums, most of the time goes into
adding lanes at the end, one column after another, and the packed product takes less."""
_LONG_NARROW = 32
"""The same for each column, of elements that the packed product multiplies several at once."""
_LARGE = 1
"""Of the second cache, what a matrix takes that fewer vectors than `_FEW` do not read often enough to be rearranged."""


def is_vector_product(product: Product) -> bool:
    """True when `multiply_vector` does it: a single column, and the rows or the depth adjacent."""
    row, depth = inner(product.rows), inner(product.depth)
    return count(product.columns) == 1 and ((depth.a == 1 and depth.b == 1) or (row.a == 1 and row.c == 1))


def is_few_vectors(product: Product, matrix: Array, caches: Caches) -> bool:
    """True when `multiply_vector` does it: a large matrix, its rows or a long depth adjacent, and a few columns."""
    row, depth, columns = inner(product.rows), inner(product.depth), product.columns
    if len(columns) != 1 or count(columns) >= (_FEW_DOTS if depth.a == depth.b == 1 else _FEW):
        return False
    is_long = depth.a == depth.b == 1 and _is_long(depth.size, count(columns), matrix)
    if not is_long and ((row.a, row.c) != (1, 1) or row.size < _STRIP):
        return False
    return row.size * count(product.depth) * matrix.dtype.bytes >= _LARGE * caches.second


def _is_long(depth: int, vectors: int, matrix: Array) -> bool:
    return depth >= vectors * (_LONG * vectors if matrix.dtype.bytes >= 4 else _LONG_NARROW)


def multiply_vector(
    kernel: Kernel, arithmetic: Arithmetic, product: Product, matrix: Array, vector: Array, result: Array
) -> None:
    """One phase; its items are tiles of rows, or strips of the result."""
    depth = inner(product.depth)
    strategy = _Dots if depth.a == depth.b == 1 else _Strips
    strategy(kernel, arithmetic, product, matrix, vector, result).emit()


class _Way:
    """What both strategies share: items along the innermost axis of the rows, where each has `height` of them."""

    height: int

    def __init__(
        self, kernel: Kernel, arithmetic: Arithmetic, product: Product, matrix: Array, vector: Array, result: Array
    ):
        self.kernel, self.arithmetic, self.product = kernel, arithmetic, product
        self.matrix, self.vector, self.result = matrix, vector, result
        self.row = inner(product.rows)

    def emit(self) -> None:
        outer = (*self.product.batch, *self.product.rows[:-1])
        items = (*outer, Axis(-(-self.row.size // self.height), 0, 0, 0))
        nbytes = self.height * count(self.product.depth) * self.matrix.dtype.bytes
        with self.kernel.phase(count(items), greatest(1, _GRAIN_BYTES // nbytes)) as phase:
            b = phase.b
            state = self.prepare(b)
            with rolled(b, phase.begin, phase.end, name="item") as item:
                position = digits(b, items, item)
                starts = {name: offset(b, outer, position[:-1], name) for name in "abc"}
                self.item(phase, starts, b.mul(position[-1], i64(self.height)), state)

    def prepare(self, b: ir.IRBuilder) -> object:
        raise NotImplementedError

    def item(self, phase: PhaseBuilder, starts: dict[str, ir.Value], first: ir.Value, state: object) -> None:
        raise NotImplementedError


class _Lines(NamedTuple):
    """Where rows of the matrix are: the first begins at element `first` from `pointer` on."""

    pointer: ir.Value
    first: ir.Value
    apart: int


class _Dots(_Way):
    """The depth is adjacent: sums in the lanes of a vector, added up at the end."""

    def prepare(self, b: ir.IRBuilder) -> Sums:
        self._line_buffer = LineBuffer(b, self.matrix, self.tile.rows, _RUN) if self.matrix.is_made else None
        return Sums(b, self.tile)

    def emit(self) -> None:
        depth, self.column = inner(self.product.depth).size, inner(self.product.columns)
        self.results = int(self.column.size)
        most = least(_STREAMS, greatest(1, self.arithmetic.most_sums // self.results)) // self.arithmetic.parts
        self.height = int(share(self.row.size, greatest(1, most)))
        lanes = needed_lanes(self.arithmetic, depth)
        self.vectors = int(greatest(1, least(_STREAMS // (self.height * self.results), depth // lanes)))
        self.tile = Tile(self.arithmetic, self.height, self.vectors * self.results, lanes)
        super().emit()

    def item(self, phase: PhaseBuilder, starts: dict[str, ir.Value], first: ir.Value, state: object) -> None:
        assert isinstance(state, Sums)
        b, tile, row = phase.b, self.tile, self.row
        first = at_most(b, first, row.size - tile.rows)
        start = b.add(starts["a"], b.mul(first, i64(row.a)))
        state.clear(b)
        outer = [(x.size, (x.a, x.b)) for x in self.product.depth[:-1]]
        nest(b, outer, [start, starts["b"]], lambda at: self._depth(phase, state, at))
        pointer, dtype = self.result.pointer(phase), self.result.dtype
        for r in range(tile.rows):
            at = b.add(starts["c"], b.mul(b.add(first, i64(r)), i64(row.c)))
            for j in range(self.results):
                total = state.get(b, r, j)
                for v in range(1, self.vectors):
                    total = self.arithmetic.add(b, total, state.get(b, r, v * self.results + j))
                index = b.add(at, i64(j * self.column.c)) if j else at
                self.arithmetic.store(b, pointer, dtype, index, self.arithmetic.reduced(b, total))

    def _depth(self, phase: PhaseBuilder, sums: Sums, at: list[ir.Value]) -> None:
        b, size = phase.b, inner(self.product.depth).size
        if self._line_buffer is None:
            self._lines(phase, sums, _Lines(self.matrix.pointer(phase), at[0], self.row.a), at[1], size)
            return
        with rolled(b, 0, size, _RUN, name="run") as k:
            length = at_most(b, b.sub(i64(size), k), _RUN)
            lines = i64(self.tile.rows)
            self._line_buffer.fill(b, self.matrix.pointer(phase), b.add(at[0], k), length, lines, i64(self.row.a))
            self._lines(phase, sums, _Lines(self._line_buffer.pointer, i64(0), _RUN), b.add(at[1], k), length)

    def _lines(self, phase: PhaseBuilder, sums: Sums, rows: _Lines, vector: ir.Value, size: int | ir.Value) -> None:
        b, tile, step = phase.b, self.tile, self.vectors * self.tile.lanes
        if isinstance(size, ir.Value):
            end, whole = size, b.sub(size, b.urem(size, i64(step)))
        else:
            end, whole = i64(size), size - size % step
        with rolled(b, 0, whole, step, name="k") as k:
            for v in range(self.vectors):
                self._multiply(phase, sums, v, rows, vector, b.add(k, i64(v * tile.lanes)), None)
        if not divides(step, size):
            with rolled(b, whole, end, tile.lanes, name="k") as k:
                mask = None if divides(tile.lanes, size) else lanes_below(b, tile.lanes, b.sub(end, k))
                self._multiply(phase, sums, 0, rows, vector, k, mask)

    def _multiply(
        self,
        phase: PhaseBuilder,
        sums: Sums,
        v: int,
        rows: _Lines,
        vector: ir.Value,
        k: ir.Value,
        mask: ir.Value | None,
    ) -> None:
        b, arithmetic, lanes = phase.b, self.arithmetic, self.tile.lanes
        pointer, dtype = self.vector.pointer(phase), self.vector.dtype
        indices = [b.add(b.add(rows.first, k), i64(r * rows.apart)) for r in range(self.tile.rows)]
        line = [arithmetic.load(b, rows.pointer, self.matrix.dtype, index, lanes, mask) for index in indices]
        for j in range(self.results):
            y = arithmetic.load(b, pointer, dtype, b.add(b.add(vector, k), i64(j * self.column.b)), lanes, mask)
            for r, x in enumerate(line):
                at = v * self.results + j
                sums.set(b, r, at, arithmetic.multiply_add(b, x, y, sums.get(b, r, at)))


class _Strips(_Way):
    """The rows are adjacent: multiples of several columns of the matrix are added to a strip of each result."""

    def emit(self) -> None:
        self.column = inner(self.product.columns)
        self.results = int(self.column.size)
        self.at_once = share(self.results, _AT_ONCE)
        self.padded_results = -(-self.results // self.at_once) * self.at_once
        self.stride = inner(self.product.depth).a
        self.streams = _STREAMS if self.results == 1 else _STREAMS // 2
        self.lanes = needed_lanes(self.arithmetic, self.row.size)
        self.rows_per_iteration = self.lanes * (1 if self.results <= _STREAMS // 2 else 2)
        self.most = min(_STRIP, _STRIPS // self.results // self.rows_per_iteration * self.rows_per_iteration)
        self.height = -(-share(self.row.size, self.most) // self.rows_per_iteration) * self.rows_per_iteration
        super().emit()

    def prepare(self, b: ir.IRBuilder) -> ir.Value:
        self._line_buffer = (
            LineBuffer(b, self.matrix, self.streams, self.most + self.rows_per_iteration)
            if self.matrix.is_made
            else None
        )
        vectors = self.arithmetic.parts * (self.most + self.rows_per_iteration) // self.lanes
        memory = allocate(b, self.arithmetic.kind(self.lanes), vectors * self.padded_results)
        memory.align, memory.type = 64, POINTER
        return memory

    def item(self, phase: PhaseBuilder, starts: dict[str, ir.Value], first: ir.Value, state: object) -> None:
        assert isinstance(state, ir.Value)
        b, arithmetic, lanes = phase.b, self.arithmetic, self.lanes
        size = at_most(b, b.sub(i64(self.row.size), first), self.height)
        with rolled(b, 0, size, lanes) as i, rolled(b, 0, self.padded_results) as number:
            self._put(b, state, i, number, arithmetic.zero(lanes))
        *outer, depth = self.product.depth or (Axis(1, 0, 0, 0),)
        loops = [(x.size, (x.a, x.b)) for x in outer]
        whole = depth.size - depth.size % self.streams

        def body(at: list[ir.Value]) -> None:
            for begin, end, streams in ((0, whole, self.streams), (whole, depth.size, 1)):
                if begin < end:
                    with rolled(b, begin, end, streams, name="k") as k:
                        spots = [b.add(k, i64(s)) for s in range(streams)]
                        rows = [b.add(at[0], b.mul(spot, i64(depth.a))) for spot in spots]
                        factors = [b.add(at[1], b.mul(spot, i64(depth.b))) for spot in spots]
                        self._add(phase, state, rows, factors, size)

        nest(b, loops, [b.add(starts["a"], first), starts["b"]], body)
        with rolled(b, 0, size, lanes) as i, rolled(b, 0, self.results) as number:
            at = b.add(b.add(starts["c"], first), b.add(i, b.mul(number, i64(self.column.c))))
            value = self._get(b, state, i, number)
            arithmetic.store(b, self.result.pointer(phase), self.result.dtype, at, value, self._mask(b, size, i))

    def _add(
        self, phase: PhaseBuilder, state: ir.Value, rows: list[ir.Value], factors: list[ir.Value], size: ir.Value
    ) -> None:
        b, arithmetic, lanes = phase.b, self.arithmetic, self.lanes
        vector, matrix = self.vector.pointer(phase), self.matrix.pointer(phase)

        def scalar(group: ir.Value, j: int, at: ir.Value) -> Parts:
            if self.padded_results > self.results:  # then the last ones are of no result
                index = b.add(at, b.mul(at_most(b, b.add(group, i64(j)), self.results - 1), i64(self.column.b)))
            else:
                index = b.add(b.add(at, b.mul(group, i64(self.column.b))), i64(j * self.column.b))
            return arithmetic.splat(b, arithmetic.load(b, vector, self.vector.dtype, index, 1), lanes)

        if self._line_buffer is not None:
            self._line_buffer.fill(b, matrix, rows[0], size, i64(len(rows)), i64(self.stride))
            matrix, rows = self._line_buffer.pointer, [i64(s * self._line_buffer.apart) for s in range(len(rows))]
        several = self.results > self.at_once
        groups = rolled(b, 0, self.results, self.at_once, name="group") if several else nullcontext(i64(0))
        with groups as group:
            scalars = [[scalar(group, j, at) for at in factors] for j in range(self.at_once)]
            with rolled(b, 0, size, self.rows_per_iteration) as first:
                vectors = [b.add(first, i64(at)) for at in range(0, self.rows_per_iteration, lanes)]
                masks = [self._mask(b, size, i) for i in vectors]
                # runs of several results are too short for the hardware to find out what comes next
                for row in rows if self.results > 1 and self._line_buffer is None else ():
                    for i in vectors:
                        prefetched = b.add(b.add(row, i), i64(self.streams * self.stride))
                        fetch(b, element_pointer(b, matrix, self.matrix.dtype, prefetched))
                line = [
                    [arithmetic.load(b, matrix, self.matrix.dtype, b.add(row, i), lanes, mask) for row in rows]
                    for i, mask in zip(vectors, masks, strict=True)
                ]
                for j, row in enumerate(scalars):
                    number = b.add(group, i64(j))
                    totals = [self._get(b, state, i, number) for i in vectors]
                    for s, y in enumerate(row):
                        totals = [arithmetic.multiply_add(b, x[s], y, t) for x, t in zip(line, totals, strict=True)]
                    for i, total in zip(vectors, totals, strict=True):
                        self._put(b, state, i, number, total)

    def _mask(self, b: ir.IRBuilder, size: ir.Value, i: ir.Value) -> ir.Value | None:
        return lanes_below(b, self.lanes, b.sub(size, i)) if self.row.size % self.rows_per_iteration else None

    def _pointers(self, b: ir.IRBuilder, state: ir.Value, i: ir.Value, number: ir.Value) -> list[ir.Value]:
        parts, element = self.arithmetic.parts, self.arithmetic.element
        at = b.add(b.mul(i, i64(parts * self.padded_results)), b.mul(number, i64(parts * self.lanes)))
        return [
            b.gep(state, [b.add(at, i64(p * self.lanes))], inbounds=True, source_etype=element) for p in range(parts)
        ]

    def _get(self, b: ir.IRBuilder, state: ir.Value, i: ir.Value, number: ir.Value) -> Parts:
        return [
            b.load(pointer, typ=self.arithmetic.kind(self.lanes)) for pointer in self._pointers(b, state, i, number)
        ]

    def _put(self, b: ir.IRBuilder, state: ir.Value, i: ir.Value, number: ir.Value, value: Parts) -> None:
        for part, pointer in zip(value, self._pointers(b, state, i, number), strict=True):
            b.store(part, pointer)
