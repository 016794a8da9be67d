"""What a tile multiplies and where its sums go."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from llvmlite import ir

from xloom.cpu.kernel_modules.kernel import PhaseBuilder
from xloom.cpu.kernels.convolution.tiling import Tiling
from xloom.cpu.kernels.convolution.window_pointers import SHORT, Loops, WindowPointer, walk_window
from xloom.cpu.kernels.matmul.arithmetic import Parts
from xloom.cpu.kernels.matmul.operands import Array
from xloom.cpu.kernels.matmul.packing import transposed
from xloom.cpu.kernels.matmul.tile import Sums, rolled, spaced
from xloom.llvm.cache_lines import fetch
from xloom.llvm.types import I8, I32, I64, element_pointer, i64
from xloom.llvm.vectors import first_lanes, shuffled

_TRANSPOSED = 4
"""Rows that are worth it."""


@dataclass
class Operands:
    """The three arrays of a convolution in a phase; `packed` is the kernel's packed memory, if it has any."""

    phase: PhaseBuilder
    tiling: Tiling
    x: Array
    w: Array
    y: Array
    packed: int | None
    ahead: ir.Value | None = None
    """How many bytes after what is multiplied lies a line of the kernel that is needed soon: each tap fetches one."""

    def pointers(self, origin: ir.Value, x: ir.Value, w: ir.Value) -> tuple[WindowPointer, WindowPointer]:
        """Where a window begins in the input, at element `x` from `origin` on, and in the kernel, at element `w`."""
        b, array = self.phase.b, self.w
        source = WindowPointer(element_pointer(b, origin, self.x.dtype, x), self.x.dtype.bytes)
        if self.packed is None:
            kernel = element_pointer(b, array.pointer(self.phase), array.dtype, w)
            return source, WindowPointer(kernel, array.dtype.bytes)
        element = self.tiling.tile.arithmetic.element
        panel = b.gep(self.phase.scratch(self.packed), [w], inbounds=True, source_etype=element)
        return source, WindowPointer(panel, self.tiling.tile.arithmetic.dtype.real.bytes)

    def walk(self, sums: Sums, loops: Loops, pointers: Sequence[WindowPointer]) -> None:
        """Adds the products of all taps of a window."""
        tiling, stride = self.tiling, loops[-1][1][0] if loops else 0
        tile = tiling.tile
        shared = (
            tiling.name == "features"
            and tiling.rows.x > 0
            and 0 < stride < tiling.rows.x * tile.rows
            and stride % tiling.rows.x == 0
        )
        # of places that rows share, LLVM loads each scalar once, and of taps side by side in rows that lie apart the
        # vectors of all taps before the first product: where there are no registers for all, it spills sums
        apart = tiling.name == "features" and stride == 1 and tiling.rows.x > 1
        sums_held, registers = tile.rows * tile.vectors, tile.arithmetic.target.registers.count
        more = tile.rows + tile.vectors + SHORT if shared else 2 * tile.vectors + 1
        spills = (shared or apart) and (sums_held + more) * tile.arithmetic.parts > registers
        walk_window(self.phase.b, loops, pointers, lambda p: self.multiply(sums, *p), 1 if spills else SHORT)

    def multiply(self, sums: Sums, pointer: ir.Value, kernel: ir.Value) -> None:
        """Adds the products of a tap: of the input at `pointer`, and of the kernel at `kernel`."""
        b, tiling = self.phase.b, self.tiling
        # a pointer, and constant distances from it: processors add these as they load
        if tiling.name == "spatial":
            scalars = spaced(b, kernel, self.w.dtype, tiling.rows.w)
            sums.multiply(
                b, lambda r: self._scalar(self.w, scalars(r)), lambda v: self._input(pointer, tiling.lefts[v])
            )
        elif tiling.name == "features":
            if self.ahead is not None:
                fetch(b, b.gep(kernel, [self.ahead], source_etype=I8), near=False)
            scalars = spaced(b, pointer, self.x.dtype, tiling.rows.x)
            sums.multiply(b, lambda r: self._scalar(self.x, scalars(r)), lambda v: self._vector(kernel, v))
        elif tiling.name == "dots":
            features, lines = (
                spaced(b, kernel, self.w.dtype, tiling.columns.w),
                spaced(b, pointer, self.x.dtype, tiling.rows.x),
            )
            vectors = [self._along(self.w, features(v)) for v in range(tiling.tile.vectors)]
            for r in range(tiling.tile.rows):
                value = self._along(self.x, lines(r))
                for v, vector in enumerate(vectors):
                    total = tiling.tile.arithmetic.multiply_add(b, value, vector, sums.get(b, r, v))
                    sums.set(b, r, v, total)
        else:
            self._lane_by_lane(sums, pointer, kernel)

    def _along(self, array: Array, pointer: ir.Value) -> Parts:
        tile = self.tiling.tile
        return tile.arithmetic.load(self.phase.b, pointer, array.dtype, i64(0), tile.lanes)

    def _scalar(self, array: Array, pointer: ir.Value) -> Parts:
        return self.tiling.tile.arithmetic.adjacent(self.phase.b, pointer, array.dtype, I64(0), 1)

    def _vector(self, panel: ir.Value, vector: int) -> Parts:
        tiling = self.tiling
        if tiling.packing is None:
            return tiling.tile.arithmetic.load(
                self.phase.b, panel, self.w.dtype, i64(tiling.lefts[vector]), tiling.tile.lanes
            )
        return tiling.packing.get(self.phase.b, panel, tiling.lefts[vector], tiling.tile.lanes)

    def _input(self, pointer: ir.Value, left: int) -> Parts:
        tile, b = self.tiling.tile, self.phase.b
        return tile.arithmetic.load(b, pointer, self.x.dtype, i64(left), tile.lanes, self._mask())

    def _mask(self) -> ir.Value | None:
        lanes, size = self.tiling.tile.lanes, self.tiling.width
        return first_lanes(lanes, size) if size < lanes else None

    def _lane_by_lane(self, sums: Sums, pointer: ir.Value, kernel: ir.Value) -> None:
        b, tiling, tile = self.phase.b, self.tiling, self.tiling.tile
        each, features, arithmetic = tiling.unit, tiling.feature.size, tile.arithmetic
        span = tile.lanes // each * features
        valid = tiling.columns.most * features
        mask = first_lanes(span, valid) if valid < span else None
        panels = [
            b.gep(kernel, [i64(f * tiling.feature.b)], inbounds=True, source_etype=arithmetic.element)
            for f in range(features)
        ]
        lines = spaced(b, pointer, self.x.dtype, tiling.rows.x)
        for v in range(tile.vectors):
            kernels = [self._vector(panel, v) for panel in panels]
            for r in range(tile.rows):
                loaded = arithmetic.load(b, lines(r), self.x.dtype, i64(tiling.lefts[v] // each * features), span, mask)
                for f, kernel in enumerate(kernels):
                    lanes = [k // each * features + f for k in range(tile.lanes)]
                    value = loaded if each == features == 1 else [shuffled(b, part, lanes) for part in loaded]
                    sums.set(b, r, v, arithmetic.multiply_add(b, value, kernel, sums.get(b, r, v)))

    def store(self, sums: Sums, y: ir.Value) -> None:
        """Writes the sums to the output from offset `y` on."""
        b, tiling, tile = self.phase.b, self.tiling, self.tiling.tile
        if tiling.name == "dots":
            self._store_dots(sums, y)
            return
        if tiling.columns.y != tiling.unit:
            transposes = tiling.rows.y == 1 and tile.arithmetic.parts == 1 and tile.rows >= _TRANSPOSED
            (self._transpose if transposes else self._scatter)(sums, y)
            return
        pointer = element_pointer(b, self.y.pointer(self.phase), self.y.dtype, y)
        lines = spaced(b, pointer, self.y.dtype, tiling.rows.y)
        for r in range(tile.rows):
            line = lines(r)
            for v, left in enumerate(tiling.lefts):
                tile.arithmetic.store(b, line, self.y.dtype, i64(left), sums.get(b, r, v), self._mask())

    def _store_dots(self, sums: Sums, y: ir.Value) -> None:
        """The sum over the lanes of each."""
        b, tiling, tile, array = self.phase.b, self.tiling, self.tiling.tile, self.y
        places = [(r, v) for r in range(tile.rows) for v in range(tile.vectors)]
        pointer = element_pointer(b, array.pointer(self.phase), array.dtype, y)
        lines = spaced(b, pointer, array.dtype, tiling.rows.y)
        for first in range(0, len(places), tile.lanes):
            some = places[first : first + tile.lanes]
            totals = tile.arithmetic.totals(b, [sums.get(b, r, v) for r, v in some])
            for (r, v), total in zip(some, totals, strict=True):
                tile.arithmetic.store(b, lines(r), array.dtype, i64(v * tiling.columns.y), total)

    def _transpose(self, sums: Sums, y: ir.Value) -> None:
        """Transposed in registers, as the rows are adjacent in the output and not the columns."""
        b, tiling, tile = self.phase.b, self.tiling, self.tiling.tile
        lanes, pointer = tile.lanes, self.y.pointer(self.phase)
        for first in range(0, tile.rows, lanes):
            some = min(lanes, tile.rows - first)
            mask = first_lanes(lanes, some) if some < lanes else None
            for v, left in enumerate(tiling.lefts):
                rows = [sums.get(b, first + min(r, some - 1), v)[0] for r in range(lanes)]
                for c, column in enumerate(transposed(b, rows)):
                    if left + c < tiling.columns.most:
                        at = b.add(y, i64(first + (left + c) * tiling.columns.y))
                        # LLVM writes too much of a single lane under a mask that is narrowed as it is stored
                        value = b.extract_element(column, I32(0)) if some == 1 < lanes else column
                        tile.arithmetic.store(b, pointer, self.y.dtype, at, [value], None if some == 1 else mask)

    def _scatter(self, sums: Sums, y: ir.Value) -> None:
        """Through memory, as the columns are not adjacent in the output."""
        b, tiling, tile = self.phase.b, self.tiling, self.tiling.tile
        get = sums.in_memory(b, tiling.lefts)
        with rolled(b, 0, min(tile.columns, tiling.columns.most), name="column") as column:
            for r in range(tile.rows):
                at = b.add(b.add(y, i64(r * tiling.rows.y)), b.mul(column, i64(tiling.columns.y)))
                value = get(i64(r), column, 1)
                tile.arithmetic.store(b, self.y.pointer(self.phase), self.y.dtype, at, value)
