"""The rows of an array along one dimension."""

from __future__ import annotations

import math
from dataclasses import dataclass

from llvmlite import ir

from xloom.hlo.shape import Shape
from xloom.llvm.strided_loops import plus, times
from xloom.llvm.symbolic_dimension import SymbolicDimension
from xloom.llvm.types import i64

INDEX_BITS = 32
"""Those of the number of an element in its row."""
_LEAST_CAPACITY, _CAPACITY_STEP = 64, 4
"""Elements of the least memory that serves rows of any size, and how many times as large the next is."""


@dataclass(frozen=True)
class Rows:
    """`count` rows of `size` elements, which lie `stride` apart; each may be a `SymbolicDimension`."""

    count: int
    size: int
    stride: int

    @classmethod
    def along(cls, shape: Shape, dimension: int) -> Rows:
        """The rows of a dense array along a dimension; of a scalar, one row of one element."""
        if not shape.rank:
            return cls(1, 1, 1)
        size = shape.dims[dimension]
        return cls(math.prod(shape.dims) // max(1, size), size, math.prod(shape.dims[dimension + 1 :]))

    def base(self, b: ir.IRBuilder, row: ir.Value) -> ir.Value:
        """The index in memory of a row's first element."""
        if self.stride == 1:
            return times(b, row, self.size)
        stride = i64(self.stride)
        return plus(b, times(b, b.udiv(row, stride), self.size * self.stride), b.urem(row, stride))

    def index_of(self, b: ir.IRBuilder, base: ir.Value, i: ir.Value) -> ir.Value:
        """The index in memory of element `i` of the row at `base`."""
        return plus(b, base, times(b, i, self.stride))


def capacity(size: int | SymbolicDimension) -> int:
    """Elements of memory for a row: as many as it has, or of any size, one of a few numbers."""
    if isinstance(size, int):
        return size
    power = _LEAST_CAPACITY
    while size > power:
        power *= _CAPACITY_STEP
    return power
