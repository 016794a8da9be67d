"""What a tile multiplies and where its sums go."""

from __future__ import annotations

from dataclasses import dataclass

from llvmlite import ir

from xloom.cpu.emit.types import I64
from xloom.cpu.kernel import PhaseBuilder
from xloom.cpu.kernels.convolve.ways import Way
from xloom.cpu.kernels.matmul.arithmetic import Parts, first_lanes, shuffled
from xloom.cpu.kernels.matmul.operands import Array
from xloom.cpu.kernels.matmul.tile import Sums, rolled


@dataclass
class Operands:
    """The three arrays of a convolution in a phase; `packed` is the kernel's packed memory, if it has any."""

    phase: PhaseBuilder
    way: Way
    x: Array
    w: Array
    y: Array
    packed: int | None

    def multiply(self, sums: Sums, x: ir.Value, w: ir.Value) -> None:
        """Adds the products of one place of the window, at these offsets of input and kernel."""
        b, way = self.phase.b, self.way
        if way.name == "spatial":
            sums.multiply(
                b, lambda r: self._kernel(b.add(w, I64(r * way.rows.w))), lambda v: self._input(x, way.lefts[v])
            )
        elif way.name == "features":
            sums.multiply(b, lambda r: self._scalar(b.add(x, I64(r * way.rows.x))), lambda v: self._panel(w, v))
        else:
            self._lane_by_lane(sums, x, w)

    def _scalar(self, at: ir.Value) -> Parts:
        return self.way.tile.arithmetic.load(self.phase.b, self.x.pointer(self.phase), self.x.dtype, at, 1)

    def _kernel(self, at: ir.Value) -> Parts:
        return self.way.tile.arithmetic.load(self.phase.b, self.w.pointer(self.phase), self.w.dtype, at, 1)

    def _panel(self, at: ir.Value, vector: int) -> Parts:
        way = self.way
        assert way.packing is not None and self.packed is not None
        return way.packing.get(self.phase.b, self.phase.scratch(self.packed), at, way.lefts[vector], way.tile.lanes)

    def _input(self, at: ir.Value, left: int) -> Parts:
        tile, b = self.way.tile, self.phase.b
        pointer = self.x.pointer(self.phase)
        return tile.arithmetic.load(b, pointer, self.x.dtype, b.add(at, I64(left)), tile.lanes, self._mask())

    def _mask(self) -> ir.Value | None:
        lanes, size = self.way.tile.lanes, self.way.width
        return first_lanes(lanes, size) if size < lanes else None

    def _lane_by_lane(self, sums: Sums, x: ir.Value, w: ir.Value) -> None:
        b, way, tile = self.phase.b, self.way, self.way.tile
        each, features, arithmetic = way.unit, way.feature.size, tile.arithmetic
        span = tile.lanes // each * features
        valid = way.columns.most * features
        mask = first_lanes(span, valid) if valid < span else None
        pointer = self.x.pointer(self.phase)
        for v in range(tile.vectors):
            kernels = [self._panel(b.add(w, I64(f * way.feature.b)), v) for f in range(features)]
            for r in range(tile.rows):
                at = b.add(x, I64(r * way.rows.x + way.lefts[v] // each * features))
                loaded = arithmetic.load(b, pointer, self.x.dtype, at, span, mask)
                for f, kernel in enumerate(kernels):
                    lanes = [k // each * features + f for k in range(tile.lanes)]
                    value = loaded if each == features == 1 else [shuffled(b, part, lanes) for part in loaded]
                    sums.set(b, r, v, arithmetic.multiply_add(b, value, kernel, sums.get(b, r, v)))

    def store(self, sums: Sums, y: ir.Value) -> None:
        """Writes the sums to the output from offset `y` on."""
        b, way, tile = self.phase.b, self.way, self.way.tile
        if way.columns.y != way.unit:
            self._scatter(sums, y)
            return
        for r in range(tile.rows):
            for v, left in enumerate(way.lefts):
                at = b.add(y, I64(r * way.rows.y + left))
                value = sums.get(b, r, v)
                tile.arithmetic.store(b, self.y.pointer(self.phase), self.y.dtype, at, value, self._mask())

    def _scatter(self, sums: Sums, y: ir.Value) -> None:
        """Through memory, as the columns are not adjacent in the output."""
        b, way, tile = self.phase.b, self.way, self.way.tile
        get = sums.in_memory(b, way.lefts)
        with rolled(b, 0, min(tile.columns, way.columns.most), name="column") as column:
            for r in range(tile.rows):
                at = b.add(b.add(y, I64(r * way.rows.y)), b.mul(column, I64(way.columns.y)))
                value = get(I64(r), column, 1)
                tile.arithmetic.store(b, self.y.pointer(self.phase), self.y.dtype, at, value)
