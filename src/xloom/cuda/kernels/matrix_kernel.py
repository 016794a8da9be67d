"""A kernel on matrices while it is made: where their elements are in memory, and numbers in registers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from llvmlite import ir

from xloom.codegen.buffers.allocation import BufferAllocation
from xloom.cpu.kernels.linalg.lanes import Lanes, Number, inverse
from xloom.cuda.kernel import DeviceKernel, KernelBuilder, strided
from xloom.cuda.lowering import ThunkLowering
from xloom.hlo.dtype import DType
from xloom.llvm.intrinsics import intrinsic
from xloom.llvm.loop import allocate
from xloom.llvm.power_of_two import scaling
from xloom.llvm.types import I32, I64


@dataclass(frozen=True)
class Place:
    """Where a matrix has element (i, j): at first + i row + j column, conjugated if asked; those of a batch are
    `matrix` apart."""

    row: int
    column: int
    matrix: int
    first: int = 0
    is_conjugate: bool = False

    @property
    def adjoint(self) -> Place:
        """The same memory, transposed and conjugated."""
        return Place(self.column, self.row, self.matrix, self.first, not self.is_conjugate)


@dataclass
class Matrix:
    """A matrix of a batch, while code is emitted that reads or writes it."""

    b: ir.IRBuilder
    pointer: ir.Value
    lanes: Lanes
    place: Place
    number: ir.Value
    """Of the matrix in its batch (i64)."""

    def get(self, i: ir.Value, j: ir.Value) -> Number:
        """An element."""
        return self._turned(self.lanes.load(self.b, self.pointer, self._at(i, j)))

    def put(self, i: ir.Value, j: ir.Value, value: Number) -> None:
        """Writes an element."""
        self.lanes.store(self.b, self.pointer, self._at(i, j), self._turned(value))

    @property
    def has_rows(self) -> bool:
        """Whether neighbours in memory are of one row."""
        return abs(self.place.column) == 1

    def _turned(self, value: Number) -> Number:
        if len(value) == 1 or not self.place.is_conjugate:
            return value
        return [value[0], self.b.fneg(value[1])]

    def _at(self, i: ir.Value, j: ir.Value) -> ir.Value:
        b, place = self.b, self.place
        inside = b.add(b.mul(i, I64(place.row)), b.mul(j, I64(place.column)))
        return b.add(b.add(b.mul(self.number, I64(place.matrix)), I64(place.first)), inside)


@dataclass
class Tile:
    """A small matrix in shared memory, in rows of `pitch` elements."""

    b: ir.IRBuilder
    pointer: ir.Value
    lanes: Lanes
    pitch: int

    def get(self, i: ir.Value, j: ir.Value) -> Number:
        """An element."""
        return self.lanes.load(self.b, self.pointer, self._at(i, j))

    def put(self, i: ir.Value, j: ir.Value, value: Number) -> None:
        """Writes an element."""
        self.lanes.store(self.b, self.pointer, self._at(i, j), value)

    def _at(self, i: ir.Value, j: ir.Value) -> ir.Value:
        return self.b.add(self.b.mul(i, I64(self.pitch)), j)


@dataclass
class Variable:
    """A number in registers."""

    b: ir.IRBuilder
    lanes: Lanes
    slots: list[ir.Value] = field(init=False)

    def __post_init__(self) -> None:
        self.slots = [allocate(self.b, self.lanes.kind) for _ in range(self.lanes.parts)]

    def get(self) -> Number:
        """Its value."""
        return [self.b.load(slot, typ=self.lanes.kind) for slot in self.slots]

    def set(self, value: Number) -> None:
        """Gives it another one."""
        for slot, part in zip(self.slots, value, strict=True):
            self.b.store(part, slot)


class MatrixKernel:
    """A kernel of one type's numbers, while it is made."""

    def __init__(self, lowering: ThunkLowering, dtype: DType, arrays: Sequence[BufferAllocation], threads: int):
        """`arrays` are its arguments, the step's number the last where there is one."""
        self.arguments = list(dict.fromkeys(arrays))
        self.kernel = KernelBuilder(lowering.target, len(self.arguments), threads)
        self.b, self.dtype, self.lanes = self.kernel.b, dtype, Lanes(dtype, 1)
        self.pointers = [self.kernel.pointers[self.arguments.index(a)] for a in arrays]

    def tile(self, rows: int, columns: int) -> Tile:
        """A matrix in shared memory."""
        pitch = columns + 1  # so that neighbours in a column are in different banks
        return Tile(self.b, self.kernel.shared(rows * pitch * self.dtype.bytes), self.lanes, pitch)

    def number(self, pointer: int) -> ir.Value:
        """An i64 in memory."""
        return self.b.load(self.pointers[pointer], typ=I64, align=8)

    @contextmanager
    def each(self, count: int) -> Iterator[ir.Value]:
        """Numbers up to `count`, which the threads of a block share."""
        with strided(self.b, self.kernel.thread, I64(count), self.kernel.threads) as item:
            yield item

    def fill(self, tile: Tile, rows: int, columns: int, source: Matrix, at: Sequence[ir.Value], ends: Sequence) -> None:
        """Copies a part of a matrix that begins at `at`, with zeros for what is not before `ends`."""
        b = self.b
        with self.each(rows * columns) as item:
            i, j = self.split(item, rows, columns, by_rows=source.has_rows)
            row, column = b.add(at[0], i), b.add(at[1], j)
            inside = b.and_(b.icmp_signed("<", row, ends[0]), b.icmp_signed("<", column, ends[1]))
            value = Variable(b, self.lanes)
            value.set(self.zero)
            with b.if_then(inside):
                value.set(source.get(row, column))
            tile.put(i, j, value.get())

    def split(self, item: ir.Value, rows: int, columns: int, *, by_rows: bool) -> tuple[ir.Value, ir.Value]:
        """The row and the column of a thread, of which neighbours are in one row, or in one column."""
        b = self.b
        if by_rows:
            return b.udiv(item, I64(columns)), b.urem(item, I64(columns))
        return b.urem(item, I64(rows)), b.udiv(item, I64(rows))

    @property
    def zero(self) -> Number:
        """0."""
        return [ir.Constant(self.lanes.kind, [0.0])] * self.lanes.parts

    def real(self, value: ir.Value) -> ir.Value:
        """The one lane of a vector."""
        return self.b.extract_element(value, I32(0))

    def vector(self, value: ir.Value) -> ir.Value:
        """A scalar as one lane."""
        return self.lanes.splat(self.b, [value])[0]

    def reciprocal(self, x: Number) -> Number:
        """1 / x."""
        if len(x) == 1:
            return [self.b.fdiv(ir.Constant(self.lanes.kind, [1.0]), x[0])]
        return [self.vector(part) for part in inverse(self.b, [self.real(part) for part in x])]

    def quotient(self, x: Number, y: Number) -> Number:
        """x / y."""
        b = self.b
        if len(x) == 1:
            return [b.fdiv(x[0], y[0])]
        scale, _ = scaling(b, intrinsic(b, "maximum", *(intrinsic(b, "fabs", self.real(part)) for part in y)))
        x, y = ([b.fmul(part, self.vector(scale)) for part in each] for each in (x, y))
        return self.lanes.product(b, x, self.reciprocal(y))

    def root(self, x: ir.Value) -> ir.Value:
        """The square root of a positive scalar, else NaN."""
        positive = self.b.fcmp_ordered(">", x, ir.Constant(x.type, 0.0))
        return intrinsic(self.b, "sqrt", self.b.select(positive, x, ir.Constant(x.type, float("nan"))))

    def finished(self, strategy: str) -> DeviceKernel:
        """The kernel."""
        self.kernel.strategy = strategy
        return self.kernel.finished()
