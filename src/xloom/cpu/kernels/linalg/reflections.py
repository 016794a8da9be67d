"""Householder's reflections I - tau v v*, as LAPACK keeps them, a panel of neighbouring ones at a time.

The vectors v of a panel are the columns of a matrix in rows of scratch memory, with zeros above a one each. What
all reflections of a panel do to a column c is c - V w, where w is found of V* c by substitution: the k-th of them sees
what is left of c, so w[k] = tau[k] ((V* c)[k] - sum of (V* V)[k, j] w[j] over those done before).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from llvmlite import ir

from xloom.cpu.kernels.linalg.lanes import Lanes, Number, load_scalar, selected
from xloom.cpu.kernels.linalg.padded_rows import PaddedRows
from xloom.hlo.dtype import DType
from xloom.llvm import element_access, types
from xloom.llvm.loop import allocate, loop
from xloom.llvm.masked_lanes import leading_lanes, masked_load
from xloom.llvm.target import Target
from xloom.llvm.types import I8, I32, I64, element_pointer
from xloom.llvm.vectors import constant_vector, splat, uniform

_NEAR = 1 << 18
"""Bytes of a matrix that may be read for each panel."""
_PANELS = 4
"""Of a block of a larger one."""
ROWS = 4
"""Done at once where sums of one row wait for those of the row before."""


@dataclass(frozen=True)
class Panels:
    """How many reflections are a panel, and how many columns they are done to at once."""

    dtype: DType
    width: int
    columns: Lanes
    vectors: int
    block: int
    """Panels that are done to the columns behind them together: these are then read seldom."""

    @classmethod
    def of(cls, dtype: DType, rows: int, columns: int, target: Target) -> Panels:
        """For matrices of so many rows and columns, with the sums of a strip in registers."""
        lanes, sums = _limits(dtype, target)
        width = sums if lanes >= sums else max(lanes, sums // 2)
        while width > 2 and width // 2 >= columns:
            width //= 2
        return cls._with(dtype, width, rows, columns, target)

    @classmethod
    def for_products(cls, dtype: DType, count: int, rows: int, columns: int, target: Target) -> Panels:
        """For so many reflections of matrices of other columns."""
        width = cls.of(dtype, rows, count, target).width
        return cls._with(dtype, width, rows, columns, target)

    @classmethod
    def _with(cls, dtype: DType, width: int, rows: int, columns: int, target: Target) -> Panels:
        lanes, sums = _limits(dtype, target)
        while lanes > 2 and lanes // 2 >= columns:
            lanes //= 2
        vectors = max(1, min(sums // width, -(-columns // lanes)))
        is_large = rows * columns * dtype.bytes > _NEAR
        return cls(dtype, width, Lanes(dtype, lanes), vectors, _PANELS if is_large else 1)

    @property
    def row(self) -> Lanes:
        """The vectors' elements of a row."""
        return Lanes(self.dtype, self.width)

    @property
    def strip(self) -> int:
        """Columns that are changed at once."""
        return self.columns.count * self.vectors

    def padded(self, columns: int) -> int:
        """Elements from a row to the next where the last strip may begin in any column.

        Rows some large power of two apart would share few places of the cache.
        """
        lanes = self.columns.count
        size = -(-(columns + self.strip - 1) // lanes) * lanes
        return size + (lanes if size * self.dtype.bytes % 512 == 0 else 0)

    def rows(self, columns: int) -> PaddedRows:
        """A matrix in scratch memory: where it is no wider than a panel, the panel's."""
        if columns <= self.width:
            return PaddedRows(self.row, columns, self.width)
        return PaddedRows(self.columns, columns, self.padded(columns))

    def parts(self, rows: int) -> tuple[int, int, int]:
        """Bytes of a panel's vectors, which rows of zeros follow, of their products with each other, and of tau."""
        heights = (max(rows, self.width) + ROWS, self.width, 1)
        vectors, inner, taus = (-(-h * self.width * self.dtype.bytes // 64) * 64 for h in heights)
        return vectors, inner, taus

    def nbytes(self, rows: int) -> int:
        """Of a block."""
        return self.block * sum(self.parts(rows))


def _limits(dtype: DType, target: Target) -> tuple[int, int]:
    """Numbers whose parts fill a register, and of how many vectors registers hold sums."""
    parts, registers = 2 if dtype.is_complex else 1, target.registers
    return registers.nbytes // (dtype.real.bits // 8), (16 if registers.count == 32 else 8) // parts


class Reflections:
    """Emits what is done with the panels of a block, of matrices of `rows` rows, in scratch memory."""

    def __init__(self, panels: Panels, b: ir.IRBuilder, memory: ir.Value, rows: int):
        self.panels, self.b, self._memory, self._rows = panels, b, memory, rows
        self.dtype, self.width, self.row = panels.dtype, panels.width, panels.row
        self._lanes = constant_vector(list(range(self.width)))
        self._first: ir.Value = I64(0)
        self.select(I64(0))

    def begin(self, first: ir.Value) -> None:
        """From now on the block is the one that begins with that reflection."""
        self._first = first

    def select(self, start: ir.Value) -> None:
        """From now on the panel is the one that begins with that reflection."""
        b = self.b
        vectors, inner, taus = self.panels.parts(self._rows)
        number = b.udiv(b.sub(start, self._first), I64(self.width))
        place = b.mul(number, I64(vectors + inner + taus))
        self.vectors, self._inner, self.taus = (
            b.gep(self._memory, [b.add(place, I64(offset))], inbounds=True, source_etype=I8)
            for offset in (0, vectors, vectors + inner)
        )

    def at(self, row: Any, column: Any = 0) -> ir.Value:
        """The number of an element of the vectors."""
        b = self.b
        return b.add(b.mul(row, I64(self.width)), column if isinstance(column, ir.Value) else I64(column))

    def lanes_where(self, comparison: str, number: ir.Value) -> ir.Value:
        """Which of a row's elements have such numbers."""
        return self.b.icmp_signed(comparison, self._lanes, splat(self.b, self.b.trunc(number, I32), self.width))

    @property
    def zero(self) -> Number:
        """Of a row."""
        return [uniform(self.row.kind, 0.0)] * self.row.parts

    @property
    def one(self) -> Number:
        """Of a row."""
        return [uniform(self.row.kind, 1.0), *self.zero[1:]]

    # -- the vectors
    def load(self, matrix: ir.Value, first: ir.Value, stride: int, rows: ir.Value) -> None:
        """Copies a panel that begins with element `first`; zeros follow."""
        b = self.b
        with loop(b, 0, rows, name="row") as r:
            value = self.row.load(b, matrix, b.add(first, b.mul(r, I64(stride))))
            self.row.store(b, self.vectors, self.at(r), value)
        self.end(rows)

    def load_some(self, source: ir.Value, first: ir.Value, stride: int, rows: ir.Value, count: ir.Value) -> None:
        """Copies the first `count` columns of a panel, behind which are zeros."""
        b, parts = self.b, self.row.parts
        kind = ir.VectorType(ir.IntType(self.dtype.real.bits), self.width * parts)
        mask, align = leading_lanes(b, kind.count, b.mul(count, I64(parts))), self.dtype.bytes // parts
        with loop(b, 0, rows, name="row") as r:
            address = element_pointer(b, source, self.dtype, b.add(first, b.mul(r, I64(stride))))
            words = masked_load(b, address, mask, uniform(kind, 0), align)
            b.store(words, element_pointer(b, self.vectors, self.dtype, self.at(r)), align=align)

    def end(self, rows: ir.Value) -> None:
        """Makes the rows of zeros after so many."""
        for k in range(ROWS):
            self.row.store(self.b, self.vectors, self.at(self.b.add(rows, I64(k))), self.zero)

    def store(self, matrix: ir.Value, first: ir.Value, stride: int, rows: ir.Value) -> None:
        """Copies it back."""
        b = self.b
        with loop(b, 0, rows, name="row") as r:
            value = self.row.load(b, self.vectors, self.at(r))
            self.row.store(b, matrix, b.add(first, b.mul(r, I64(stride))), value)

    def load_taus(self, source: ir.Value, first: ir.Value, count: ir.Value) -> None:
        """Copies `count` numbers tau; zeros follow."""
        b = self.b
        self.row.store(b, self.taus, I64(0), self.zero)
        with loop(b, 0, count, name="tau") as k:
            value = load_scalar(b, source, self.dtype, b.add(first, k))
            store_scalar(b, self.taus, self.dtype, k, value)

    def complete(self, rows: ir.Value) -> None:
        """Puts zeros above the ones that LAPACK leaves out, and finds V* V."""
        b, row = self.b, self.row
        with loop(b, 0, self.width, name="row") as r:
            kept = b.select(b.icmp_signed("<", r, rows), r, I64(0))
            below = selected(b, self.lanes_where("<", kept), row.load(b, self.vectors, self.at(r)), self.zero)
            row.store(b, self.vectors, self.at(r), selected(b, self.lanes_where("==", r), self.one, below))
        sums = Sums(b, row, self.width)
        with loop(b, 0, rows, name="row") as r:
            value = row.load(b, self.vectors, self.at(r))
            for k in range(self.width):
                sums.add_product(k, self._element(r, k, conjugate=True), value)
        for k in range(self.width):
            row.store(b, self._inner, I64(k * self.width), sums.get(k))

    def _element(self, r: ir.Value, k: int, conjugate: bool = False) -> Number:
        return load_scalar(self.b, self.vectors, self.dtype, self.at(r, k), conjugate)

    # -- what they do
    def apply(self, matrix: ir.Value, stride: int, columns: tuple[Any, Any], panels: tuple[ir.Value, ir.Value], *,
              is_adjoint: bool, is_narrow: bool = False) -> None:  # fmt: skip
        """Does panels, from the first reflection of one on, up to another, to columns of a matrix.

        Some columns behind these are changed, too, unless the strips are narrow.
        """
        b, width = self.b, self.width
        lanes, vectors = self.panels.columns, self.panels.vectors
        if is_narrow:
            lanes, vectors = Lanes(self.dtype, min(lanes.count, width)), 1
        first, end = panels
        last = b.add(first, b.mul(b.udiv(b.sub(b.sub(end, first), I64(1)), I64(width)), I64(width)))
        with loop(b, *columns, lanes.count * vectors, "column") as column, loop(b, first, end, width, "panel") as k:
            start = k if is_adjoint else b.sub(b.add(first, last), k)
            self.select(start)
            corner = b.add(b.mul(start, I64(stride)), column)
            self._apply_to_strip(b.sub(I64(self._rows), start), matrix, corner, stride, (lanes, vectors), is_adjoint)

    def _apply_to_strip(
        self,
        rows: ir.Value,
        matrix: ir.Value,
        first: ir.Value,
        stride: int,
        strip: tuple[Lanes, int],
        is_adjoint: bool,
    ) -> None:
        b, width, (lanes, vectors) = self.b, self.width, strip

        def places(r: ir.Value) -> list[ir.Value]:
            here = b.add(first, b.mul(r, I64(stride)))
            return [b.add(here, I64(v * lanes.count)) for v in range(vectors)]

        sums = Sums(b, lanes, width * vectors)
        with loop(b, 0, rows, name="row") as r:
            values = [lanes.load(b, matrix, place) for place in places(r)]
            for k in range(width):
                factor = lanes.splat(b, self._element(r, k, conjugate=True))
                for v, value in enumerate(values):
                    sums.add_vectors(k * vectors + v, factor, value)
        found = [[sums.get(k * vectors + v) for v in range(vectors)] for k in range(width)]
        self._substitute(found, lanes, is_adjoint=is_adjoint)
        with loop(b, 0, rows, name="row") as r:
            values = [lanes.load(b, matrix, place) for place in places(r)]
            for k in range(width):
                factor = lanes.splat(b, self._element(r, k))
                values = [lanes.minus_product(b, x, factor, y) for x, y in zip(values, found[k], strict=True)]
            for place, value in zip(places(r), values, strict=True):
                lanes.store(b, matrix, place, value)

    def own_columns(self, rows: ir.Value, store: Callable[[ir.Value, Number], None]) -> None:
        """What the product of the reflections has in the columns of their ones, row by row."""
        b, row, width = self.b, self.row, self.width
        numbers = [I64(k) for k in range(width)]
        found: list[list[Number]] = []
        for k in range(width):
            # (V* E)[k]: of those before the k-th all is zero, whatever its elements are
            value = self.zero
            for r in range(k, width):
                element = row.splat(b, self._element(I64(r), k, conjugate=True))
                value = selected(b, self.lanes_where("==", numbers[r]), element, value)
            found.append([value])
        self._substitute(found, row, is_adjoint=False, masks=[self.lanes_where(">=", k) for k in numbers])
        with loop(b, 0, rows, name="row") as r:
            value = selected(b, self.lanes_where("==", r), self.one, self.zero)
            for k in range(width):
                taken = row.minus_product(b, value, row.splat(b, self._element(r, k)), found[k][0])
                value = selected(b, self.lanes_where(">=", numbers[k]), taken, value)
            store(r, value)

    def _substitute(
        self, found: list[list[Number]], lanes: Lanes, *, is_adjoint: bool, masks: list[ir.Value] | None = None
    ) -> None:
        """Makes w of V* c. Of reflections that change nothing it is zero, even where there is NaN."""
        b = self.b
        order = list(range(self.width)) if is_adjoint else list(reversed(range(self.width)))
        for place, k in enumerate(order):
            for j in order[:place]:
                inner = lanes.splat(b, load_scalar(b, self._inner, self.dtype, I64(k * self.width + j)))
                for v, x in enumerate(found[k]):
                    rest = lanes.minus_product(b, x, inner, found[j][v])
                    found[k][v] = rest if masks is None else selected(b, masks[j], rest, x)
            tau = load_scalar(b, self.taus, self.dtype, I64(k), conjugate=is_adjoint)
            is_nothing = b.fcmp_ordered("==", tau[0], tau[0].type(0.0))
            for part in tau[1:]:
                is_nothing = b.and_(is_nothing, b.fcmp_ordered("==", part, part.type(0.0)))
            nothing = [uniform(lanes.kind, 0.0)] * lanes.parts
            factor = lanes.splat(b, tau)
            found[k] = [selected(b, is_nothing, nothing, lanes.product(b, factor, x)) for x in found[k]]


class Sums:
    """Vectors that loops add to, in registers."""

    def __init__(self, b: ir.IRBuilder, lanes: Lanes, count: int):
        self._b, self._lanes = b, lanes
        self._pointers = [[allocate(b, lanes.kind) for _ in range(lanes.parts)] for _ in range(count)]
        for k in range(count):
            self.set(k, [uniform(lanes.kind, 0.0)] * lanes.parts)

    def get(self, number: int) -> Number:
        """A sum so far."""
        return [self._b.load(p, typ=self._lanes.kind) for p in self._pointers[number]]

    def set(self, number: int, value: Number) -> None:
        """Makes a sum another number."""
        for pointer, part in zip(self._pointers[number], value, strict=True):
            self._b.store(part, pointer)

    def add_vectors(self, number: int, x: Number, y: Number) -> None:
        """Adds x y."""
        self.set(number, self._lanes.plus_product(self._b, self.get(number), x, y))

    def add_product(self, number: int, scalar: Number, y: Number) -> None:
        """Adds a scalar times y."""
        self.add_vectors(number, self._lanes.splat(self._b, scalar), y)

    def total(self) -> Number:
        """The sum of all of them."""
        values = [self.get(k) for k in range(len(self._pointers))]
        while len(values) > 1:
            values = [
                [self._b.fadd(x, y) for x, y in zip(*pair, strict=True)]
                for pair in zip(values[::2], values[1::2], strict=True)
            ]
        return values[0]


def store_scalar(b: ir.IRBuilder, pointer: ir.Value, dtype: DType, index: Any, value: Number) -> None:
    """Writes an element of an array."""
    element_access.store(b, pointer, dtype, index, types.Complex(*value) if dtype.is_complex else value[0])
