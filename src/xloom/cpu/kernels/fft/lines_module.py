"""The function that gathers lines of an array into the lanes of vectors, transforms them, and scatters them."""

from __future__ import annotations

from llvmlite import ir

from xloom.cpu.kernels.fft.half_spectrum import separate, unite, united
from xloom.cpu.kernels.fft.line_memory import LineMemory, at, numbers
from xloom.cpu.kernels.fft.signatures import (
    PHASE,
    STACK,
    TRANSFORM,
    LinesCode,
    LinesNumbers,
    LineTransform,
    transform_symbol,
)
from xloom.cpu.kernels.linalg.lanes import Lanes, Number, load_scalar
from xloom.cpu.kernels.linalg.tile_transpose import SquareTile
from xloom.llvm.loop import allocate, loop
from xloom.llvm.module_text import module_text
from xloom.llvm.register_transpose import transposed
from xloom.llvm.routine import exported_function
from xloom.llvm.types import I8, I32, I64


def lines_module(code: LinesCode) -> str:
    """The module that has the function."""
    module = ir.Module()
    transform = ir.Function(module, TRANSFORM, transform_symbol(code.dtype, code.lanes))
    out = exported_function(module, PHASE, code.symbol)
    _Lines(ir.IRBuilder(out.append_basic_block("entry")), code, out, transform).emit()
    return module_text(module)


class _Lines:
    def __init__(self, b: ir.IRBuilder, code: LinesCode, function: ir.Function, transform: ir.Function):
        self._b, self._code, self._transform = b, code, transform
        self._lanes = Lanes(code.dtype, code.lanes)
        self._memory = LineMemory(self._lanes, code.backward)
        self._source, self._target, self._tables, self._scratch, self._numbers, self._begin, self._end = function.args
        self._n = numbers(b, self._numbers, LineTransform).n
        self._by = numbers(b, self._numbers, LinesNumbers, len(LineTransform._fields))

    def emit(self) -> None:
        """Items are vectors of lines."""
        b, by, code = self._b, self._by, self._code
        local = self._scratch
        if code.on_stack:
            local = allocate(b, I8, STACK)
            local.align = 64
        with loop(b, self._begin, self._end, name="lines") as item:
            group = b.udiv(item, by.blocks)
            # the last vector may do some lines of the one before again
            own = b.mul(b.sub(item, b.mul(group, by.blocks)), I64(code.lanes))
            first = b.select(b.icmp_signed("<", own, by.last), own, by.last)
            data = local if code.on_stack else at(b, local, b.mul(item, b.shl(by.half_bytes, I64(1))))
            spare = b.gep(data, [by.half_bytes], inbounds=True, source_etype=I8)
            begin = b.mul(group, by.source_group), b.mul(first, by.source_line)
            self._gather(b.add(*begin), data, first)
            halves = at(b, self._tables, by.halves)
            if code.halves and code.backward:
                unite(b, self._memory, data, self._n, halves)
            result = b.call(self._transform, [data, spare, self._tables, self._numbers])
            if code.halves and not code.backward:
                separate(b, self._memory, result, self._n, halves)
            begin = b.mul(group, by.target_group), b.mul(first, by.target_line)
            # the lines before its own may have been written by then
            self._scatter(b.add(*begin), result, b.sub(own, first) if code.masked else None)
        b.ret_void()

    def _gather(self, first: ir.Value, data: ir.Value, line: ir.Value) -> None:
        """Fills the memory; `line` is the number of the first line, `first` its first element."""
        b, lanes, by = self._b, self._lanes, self._by
        if not self._code.source_tile:
            with loop(b, 0, by.source_points, name="point") as point:
                if self._code.united:
                    value = self._united(b.sub(first, line), point, line)
                else:
                    value = lanes.load(b, self._source, b.add(first, b.mul(point, by.source_point)))
                if self._code.twiddled:
                    value = lanes.product(b, value, self._twiddles(point, line))
                self._memory.put(b, data, point, [self._scaled(x) for x in value])
            return
        tile, stride = SquareTile(lanes.dtype, self._code.source_tile), by.source_line
        with tile.along(b, I64(0), by.source_points) as point, loop(b, 0, lanes.count, tile.size, "lane") as k:
            index = b.add(b.add(first, point), b.mul(k, stride))
            rows = transposed(b, tile.load(b, self._source, index, stride))
            for i, row in enumerate(rows):
                parts = b.bitcast(row, ir.VectorType(lanes.kind.element, 2 * tile.size))
                for part in range(2):
                    x = self._scaled(_picked(b, parts, parts, [2 * m + part for m in range(tile.size)]))
                    address = self._memory.part(b, data, b.add(point, I64(i)), part, k)
                    b.store(x, address, align=lanes.dtype.real.bytes)

    def _scatter(self, first: ir.Value, data: ir.Value, own: ir.Value | None) -> None:
        """Writes the memory's points to the lines that begin at element `first`; of vectors from lane `own` on."""
        b, lanes, by = self._b, self._lanes, self._by
        if not self._code.target_tile:
            with loop(b, 0, by.target_points, name="point") as point:
                value = self._memory.get(b, data, point)
                lanes.store(b, self._target, b.add(first, b.mul(point, by.target_point)), value, own)
            return
        tile, stride = SquareTile(lanes.dtype, self._code.target_tile), by.target_line
        kind = ir.VectorType(lanes.kind.element, tile.size)
        with tile.along(b, I64(0), by.target_points) as point, loop(b, 0, lanes.count, tile.size, "lane") as k:
            columns = []
            for i in range(tile.size):
                places = [self._memory.part(b, data, b.add(point, I64(i)), part, k) for part in range(2)]
                real, imag = (b.load(place, typ=kind, align=lanes.dtype.real.bytes) for place in places)
                pairs = _picked(b, real, imag, [m // 2 + tile.size * (m % 2) for m in range(2 * tile.size)])
                columns.append(b.bitcast(pairs, ir.VectorType(tile.element, tile.size)))
            index = b.add(b.add(first, point), b.mul(k, stride))
            tile.store(b, self._target, index, stride, transposed(b, columns))

    def _scaled(self, x: ir.Value) -> ir.Value:
        if not self._code.scaled:
            return x
        b, lanes = self._b, Lanes(self._code.dtype.real, x.type.count)
        (scale,) = load_scalar(b, at(b, self._tables, self._by.scale), lanes.dtype, I64(0))
        return b.fmul(x, lanes.splat(b, [scale])[0])

    def _united(self, group: ir.Value, point: ir.Value, line: ir.Value) -> Number:
        """A point of lines that are columns of what a spectrum is united to."""
        b, lanes, by = self._b, self._lanes, self._by
        index = b.add(b.mul(point, by.source_point), line)
        near = lanes.load(b, self._source, b.add(group, index))
        far = lanes.load(b, self._source, b.add(group, b.sub(b.add(by.united, I64(1 - lanes.count)), index)))
        back = list(range(lanes.count))[::-1]
        far = [_picked(b, x, x, back) for x in far]
        # the first and the last point of a spectrum are real, whatever is there
        is_first, zero = b.icmp_signed("==", index, I64(0)), lanes.kind.element(0.0)
        for x in (near, far):
            x[1] = b.select(is_first, b.insert_element(x[1], zero, I32(0)), x[1])
        columns, rows = (at(b, self._tables, place) for place in (by.columns, by.rows))
        row = self._memory.root(b, rows, point)
        return united(b, near, far, lanes.product(b, lanes.load(b, columns, line), row))[0]

    def _twiddles(self, point: ir.Value, line: ir.Value) -> Number:
        b, lanes, by = self._b, self._lanes, self._by
        angle = b.mul(point, line)
        high = b.lshr(angle, by.bits)
        low = b.sub(angle, b.shl(high, by.bits))
        base = [self._memory.root(b, at(b, self._tables, table), k) for table, k in ((by.low, low), (by.high, high))]
        near = LineMemory(lanes).get(b, at(b, self._tables, by.near), point)
        return lanes.product(b, lanes.product(b, *base), near)


def _picked(b: ir.IRBuilder, x: ir.Value, y: ir.Value, lane_numbers: list[int]) -> ir.Value:
    return b.shuffle_vector(x, y, ir.Constant(ir.VectorType(I32, len(lane_numbers)), lane_numbers))
