"""A box of a convolution's input, a group of features per lane: [position][lane], zeros where there is no element."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from math import prod
from typing import Any, NamedTuple

from llvmlite import ir

from xloom.cpu.kernels.matmul.arithmetic import Arithmetic
from xloom.cpu.kernels.matmul.axes import row_major
from xloom.cpu.kernels.matmul.operands import Array
from xloom.cpu.kernels.matmul.packing import transposed
from xloom.cpu.kernels.matmul.tile import rolled, spaced
from xloom.llvm.loop import allocate
from xloom.llvm.routine import within
from xloom.llvm.types import I1, I8, POINTER, element_pointer, i64
from xloom.llvm.vectors import lanes_below

_FEW = 8
"""Places of a line for which half a vector of lanes at a time is enough."""


BOX_BYTES = 1 << 18
"""Of all vectors' boxes."""
MOST_VECTORS = 4
"""Of lanes side by side: with the filter and the input, their sums fill the registers of AVX-512."""


class VectorRun(NamedTuple):
    """Vectors that are copied side by side: how many, from which element of an array on."""

    pointer: ir.Value
    origin: ir.Value
    count: ir.Value = i64(1)
    last: ir.Value = i64(0)
    """How far from the first the last one begins, at most; it may overlap the one before."""

    def left(self, b: ir.IRBuilder, vector: ir.Value, lanes: int) -> ir.Value:
        """How far from the first a vector begins."""
        at = b.mul(vector, i64(lanes))
        return b.select(b.icmp_signed("<", at, self.last), at, self.last)


@dataclass(frozen=True)
class BoxDimension:
    """A dimension of a box: its length, and of the input the size, the stride and how far its elements are spread."""

    length: Any
    size: Any
    stride: Any
    dilation: int = 1


@dataclass(frozen=True)
class Box:
    """What is copied at a time. Either lanes are adjacent in the input, or positions along the last dimension."""

    arithmetic: Arithmetic
    source: Array
    dims: tuple[BoxDimension, ...]
    lane: Any
    """How far apart lanes lie in the input."""
    vectors: Any = 1
    """Where lanes are adjacent, as many are copied side by side, each to a box of its own: memory is read in runs."""

    @property
    def lanes(self) -> int:
        """How many a vector has."""
        return self.arithmetic.lanes

    @property
    def positions(self) -> Any:
        """How many the box has."""
        return prod(s.length for s in self.dims)

    @property
    def size(self) -> Any:
        """Elements from a vector's box to the next one's, which begins where no line of this one can end."""
        return (self.positions + self._slack) * self.lanes

    @property
    def strides(self) -> list[Any]:
        """Elements of the box from a position to the next, by dimension."""
        return [n * self.lanes for n in row_major([s.length for s in self.dims])]

    def fill(self, b: ir.IRBuilder, run: VectorRun, first: Sequence[ir.Value], target: ir.Value) -> None:
        """Copies the boxes that begin at position `first` of the dilated input, to `target` on.

        What a line writes past its end, the next one overwrites.
        """
        present: ir.Value = I1(1)
        origin, at = run.origin, i64(0)
        with ExitStack() as loops:
            for k, dim in enumerate(self.dims[:-1]):
                index = loops.enter_context(rolled(b, 0, dim.length, name="line"))
                inside, element = _element(b, dim, b.add(first[k], index))
                present = b.and_(present, inside)
                origin = b.add(origin, b.mul(element, i64(dim.stride)))
                at = b.add(at, b.mul(index, i64(self.strides[k])))
            self._line(b, run._replace(origin=origin), present, first[-1], self._pointer(b, target, at))

    def _line(self, b: ir.IRBuilder, run: VectorRun, present: ir.Value, first: ir.Value, line: ir.Value) -> None:
        dim = self.dims[-1]
        length = i64(dim.length)
        before = within(b, b.neg(first), i64(0), length)
        if dim.dilation == 1:
            count = within(b, b.sub(b.sub(i64(dim.size), first), before), i64(0), b.sub(length, before))
            skipped = b.add(first, before)
        else:  # it begins at the first element or in the padding before it
            most = b.udiv(b.add(b.sub(length, before), i64(dim.dilation - 1)), i64(dim.dilation))
            count, skipped = within(b, i64(dim.size), i64(0), most), i64(0)
        count, before = (b.select(present, n, i64(0)) for n in (count, before))
        run = run._replace(origin=b.add(run.origin, b.mul(skipped, i64(dim.stride))))
        self._zeros(b, run, line, i64(0), before if dim.dilation == 1 else length)
        copy = self._across if self.lane != 1 else self._along
        copy(b, run, count, self._pointer(b, line, b.mul(before, i64(self.lanes))))
        if dim.dilation == 1:
            self._zeros(b, run, line, b.add(before, count), length)

    def _pointer(self, b: ir.IRBuilder, target: ir.Value, element: ir.Value) -> ir.Value:
        return b.gep(target, [element], inbounds=True, source_etype=self.arithmetic.element)

    def _zeros(self, b: ir.IRBuilder, run: VectorRun, line: ir.Value, begin: ir.Value, end: ir.Value) -> None:
        with rolled(b, 0, run.count, name="vector") as vector, rolled(b, begin, end, name="zero") as position:
            at = b.add(b.mul(vector, i64(self.size)), b.mul(position, i64(self.lanes)))
            b.store(self.arithmetic.zero(self.lanes)[0], self._pointer(b, line, at), align=self.arithmetic.dtype.bytes)

    def _along(self, b: ir.IRBuilder, run: VectorRun, count: ir.Value, line: ir.Value) -> None:
        """Vectors of lanes, as they lie."""
        dim, lanes, arithmetic = self.dims[-1], self.lanes, self.arithmetic
        with rolled(b, 0, count, name="place") as position, rolled(b, 0, run.count, name="vector") as vector:
            element = b.add(b.add(run.origin, b.mul(position, i64(dim.stride))), run.left(b, vector, lanes))
            [value] = arithmetic.load(b, run.pointer, self.source.dtype, element, lanes)
            at = b.add(b.mul(vector, i64(self.size)), b.mul(position, i64(lanes * dim.dilation)))
            b.store(value, self._pointer(b, line, at), align=arithmetic.dtype.bytes)

    def _across(self, b: ir.IRBuilder, run: VectorRun, count: ir.Value, line: ir.Value) -> None:
        """Squares of positions and lanes, transposed in registers; of one vector."""
        arithmetic, dim = self.arithmetic, self.dims[-1]
        square = self.lanes // 2 if dim.size <= _FEW < self.lanes else self.lanes
        dtype = self.source.dtype
        with rolled(b, 0, count, square, name="places") as position:
            mask = lanes_below(b, square, b.sub(count, position))
            for half in range(0, self.lanes, square):
                element = b.add(b.add(run.origin, position), b.mul(i64(half), i64(self.lane)))
                rows = spaced(b, element_pointer(b, run.pointer, dtype, element), dtype, self.lane)
                loaded = [arithmetic.load(b, rows(r), dtype, i64(0), square, mask)[0] for r in range(square)]
                for k, column in enumerate(transposed(b, loaded)):
                    offset = b.mul(b.add(position, i64(k)), i64(self.lanes * dim.dilation))
                    at = self._pointer(b, line, b.add(offset, i64(half)))
                    b.store(column, at, align=arithmetic.dtype.bytes)

    def memory(self, b: ir.IRBuilder) -> ir.Value:
        """Memory for `BOX_BYTES` of positions, and for what lines write past their end."""
        box = allocate(b, I8, BOX_BYTES + MOST_VECTORS * self._slack * self.lanes * self.arithmetic.dtype.bytes)
        box.align, box.type = 64, POINTER
        return box

    @property
    def _slack(self) -> int:
        return self.lanes * self.dims[-1].dilation


def put_across(
    b: ir.IRBuilder, arithmetic: Arithmetic, box: ir.Value, count: Any, target: tuple[Array, ir.Value, ir.Value, Any]
) -> None:
    """Writes `count` positions of a box to adjacent elements of an array, whose lanes lie a distance apart."""
    array, pointer, first, lane = target
    lanes = arithmetic.lanes
    with rolled(b, 0, count, lanes, name="places") as position:
        mask = lanes_below(b, lanes, b.sub(i64(count), position))
        at = b.gep(box, [b.mul(position, i64(lanes))], inbounds=True, source_etype=arithmetic.element)
        rows = [arithmetic.load(b, at, arithmetic.dtype, i64(r * lanes), lanes)[0] for r in range(lanes)]
        lines = spaced(b, element_pointer(b, pointer, array.dtype, b.add(first, position)), array.dtype, lane)
        for r, column in enumerate(transposed(b, rows)):
            arithmetic.store(b, lines(r), array.dtype, i64(0), [column], mask)


def _element(b: ir.IRBuilder, dim: BoxDimension, position: ir.Value) -> tuple[ir.Value, ir.Value]:
    """Whether there is an element at a position of the dilated input, and its number."""
    if dim.dilation == 1:
        return b.icmp_unsigned("<", position, i64(dim.size)), position
    element = b.udiv(position, i64(dim.dilation))
    whole = b.icmp_unsigned("==", b.mul(element, i64(dim.dilation)), position)
    return b.and_(whole, b.icmp_unsigned("<", element, i64(dim.size))), element
