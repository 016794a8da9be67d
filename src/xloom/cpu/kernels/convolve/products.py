"""What a tile multiplies and where its sums go."""

from __future__ import annotations

from dataclasses import dataclass

from llvmlite import ir

from xloom.cpu.emit.types import I64, element_pointer
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
        # a pointer, and constant distances from it: processors add these as they load
        place = element_pointer(b, self.x.pointer(self.phase), self.x.dtype, x)
        if way.name == "spatial":
            kernel = element_pointer(b, self.w.pointer(self.phase), self.w.dtype, w)
            sums.multiply(
                b, lambda r: self._scalar(self.w, kernel, r * way.rows.w), lambda v: self._input(place, way.lefts[v])
            )
        elif way.name == "features":
            panel = self._panel(w)
            sums.multiply(b, lambda r: self._scalar(self.x, place, r * way.rows.x), lambda v: self._vector(panel, v))
        else:
            self._lane_by_lane(sums, place, w)

    def _scalar(self, array: Array, place: ir.Value, distance: int) -> Parts:
        return self.way.tile.arithmetic.load(self.phase.b, place, array.dtype, I64(distance), 1)

    def _panel(self, at: ir.Value) -> ir.Value:
        assert self.packed is not None
        b, element = self.phase.b, self.way.tile.arithmetic.element
        return b.gep(self.phase.scratch(self.packed), [at], inbounds=True, source_etype=element)

    def _vector(self, panel: ir.Value, vector: int) -> Parts:
        way = self.way
        assert way.packing is not None
        return way.packing.get(self.phase.b, panel, way.lefts[vector], way.tile.lanes)

    def _input(self, place: ir.Value, left: int) -> Parts:
        tile, b = self.way.tile, self.phase.b
        return tile.arithmetic.load(b, place, self.x.dtype, I64(left), tile.lanes, self._mask())

    def _mask(self) -> ir.Value | None:
        lanes, size = self.way.tile.lanes, self.way.width
        return first_lanes(lanes, size) if size < lanes else None

    def _lane_by_lane(self, sums: Sums, place: ir.Value, w: ir.Value) -> None:
        b, way, tile = self.phase.b, self.way, self.way.tile
        each, features, arithmetic = way.unit, way.feature.size, tile.arithmetic
        span = tile.lanes // each * features
        valid = way.columns.most * features
        mask = first_lanes(span, valid) if valid < span else None
        panels = [self._panel(b.add(w, I64(f * way.feature.b))) for f in range(features)]
        for v in range(tile.vectors):
            kernels = [self._vector(panel, v) for panel in panels]
            for r in range(tile.rows):
                at = I64(r * way.rows.x + way.lefts[v] // each * features)
                loaded = arithmetic.load(b, place, self.x.dtype, at, span, mask)
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
        place = element_pointer(b, self.y.pointer(self.phase), self.y.dtype, y)
        for r in range(tile.rows):
            for v, left in enumerate(way.lefts):
                distance = I64(r * way.rows.y + left)
                tile.arithmetic.store(b, place, self.y.dtype, distance, sums.get(b, r, v), self._mask())

    def _scatter(self, sums: Sums, y: ir.Value) -> None:
        """Through memory, as the columns are not adjacent in the output."""
        b, way, tile = self.phase.b, self.way, self.way.tile
        get = sums.in_memory(b, way.lefts)
        with rolled(b, 0, min(tile.columns, way.columns.most), name="column") as column:
            for r in range(tile.rows):
                at = b.add(b.add(y, I64(r * way.rows.y)), b.mul(column, I64(way.columns.y)))
                value = get(I64(r), column, 1)
                tile.arithmetic.store(b, self.y.pointer(self.phase), self.y.dtype, at, value)
