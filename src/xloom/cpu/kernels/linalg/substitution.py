"""Forward substitution on a strip of columns, in groups of rows that stay in registers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from llvmlite import ir

from xloom.cpu.kernels.linalg.lanes import Lanes, Number, load_scalar
from xloom.hlo.dtype import DType
from xloom.llvm.loop import allocate, loop
from xloom.llvm.symbolic_dimension import SymbolicDimension
from xloom.llvm.target import Target
from xloom.llvm.types import I1, I64, POINTER, VOID, element_pointer

_ROWS = (4, 1)
"""Sizes of groups of rows: the first leaves registers for a row of T and one of x, the others do what is left."""


def widest(dtype: DType, columns: int | SymbolicDimension, target: Target) -> tuple[Lanes, int]:
    """Lanes and vectors of a strip that has at most `columns` (and some) columns."""
    lanes = target.registers.nbytes // (dtype.real.bits // 8)
    while columns < lanes:
        lanes //= 2
    vectors = (4 if target.registers.count == 32 else 2) // (2 if dtype.is_complex else 1)
    while columns < vectors * lanes:
        vectors -= 1
    return Lanes(dtype, lanes), vectors


@dataclass(frozen=True)
class Substitution:
    """T x = y for a lower triangular T, whose element (r, k) is at `r * row_step + k * column_step`.

    Transposes and reversals (an upper T) are steps too.
    """

    lanes: Lanes
    vectors: int
    conjugate: bool
    unit: bool

    @property
    def columns(self) -> int:
        """Columns of a strip: the lanes of its vectors."""
        return self.lanes.count * self.vectors

    def emit(self, module: ir.Module, name: str) -> ir.Function:
        """void(T, row_step, column_step, y, y_step, x, x_step, solve, first, last): rows [first, last) of x.

        The rows before are known; y may be x. Unless i1 `solve`, the known rows are subtracted, and that is all.
        """
        kinds = [POINTER, I64, I64, POINTER, I64, POINTER, I64, I1, I64, I64]
        function = ir.Function(module, ir.FunctionType(VOID, kinds), name)
        function.linkage = "internal"
        function.attributes.add("noinline")
        function.attributes.add("noduplicate")  # no copies for constant arguments
        function.attributes.add("nounwind")
        b = ir.IRBuilder(function.append_basic_block("entry"))
        start = b.append_basic_block("start")
        b.position_at_end(start)
        row, last = function.args[-2:]
        for count in _ROWS:
            whole = b.mul(b.sdiv(b.sub(last, row), I64(count)), I64(count))
            end = b.add(row, whole)
            with loop(b, row, end, count, "row") as r:
                self._group(b, function.args, r, count)
            row = end
        b.ret_void()
        b.position_at_end(function.entry_basic_block)
        b.branch(start)
        return function

    def _group(self, b: ir.IRBuilder, args: Sequence[ir.Value], first: ir.Value, count: int) -> None:
        matrix, row_stride, column_stride, rhs, rhs_stride, found, solution_stride, solve, start, _ = args
        lanes, dtype = self.lanes, self.lanes.dtype
        numbers = [b.add(first, I64(i)) for i in range(count)]
        rows = [element_pointer(b, matrix, dtype, b.mul(r, row_stride)) for r in numbers]
        sums = _Sums(b, lanes, count, self.vectors)
        for i, r in enumerate(numbers):
            for v, x in enumerate(self._row(b, rhs, r, rhs_stride)):
                sums.set(b, i, v, x)
        with loop(b, 0, b.select(solve, first, start), name="k") as k:
            known, offset = self._row(b, found, k, solution_stride), b.mul(k, column_stride)
            for i in range(count):
                factor = lanes.splat(b, load_scalar(b, rows[i], dtype, offset, self.conjugate))
                for v, x in enumerate(known):
                    sums.set(b, i, v, lanes.minus_product(b, sums.get(b, i, v), factor, x))
        with b.if_then(solve):
            self._triangle(b, args, numbers, rows, sums)
        for i, r in enumerate(numbers):
            for v in range(self.vectors):
                lanes.store(b, found, b.add(b.mul(r, solution_stride), I64(v * lanes.count)), sums.get(b, i, v))

    def _triangle(
        self, b: ir.IRBuilder, args: Sequence[ir.Value], numbers: list[ir.Value], rows: list[ir.Value], sums: _Sums
    ) -> None:
        """Solves for the rows of a group among themselves."""
        lanes, dtype = self.lanes, self.lanes.dtype
        offsets = [b.mul(r, args[2]) for r in numbers]
        out = [[sums.get(b, i, v) for v in range(self.vectors)] for i in range(len(rows))]
        for i, row in enumerate(rows):
            for k in range(i):
                factor = lanes.splat(b, load_scalar(b, row, dtype, offsets[k], self.conjugate))
                out[i] = [lanes.minus_product(b, x, factor, y) for x, y in zip(out[i], out[k], strict=True)]
            if not self.unit:
                pivot = load_scalar(b, row, dtype, offsets[i], self.conjugate)
                out[i] = [lanes.quotient(b, x, pivot) for x in out[i]]
            for v, x in enumerate(out[i]):
                sums.set(b, i, v, x)

    def _row(self, b: ir.IRBuilder, pointer: ir.Value, row: ir.Value, solution_stride: ir.Value) -> list[Number]:
        first = b.mul(row, solution_stride)
        return [self.lanes.load(b, pointer, b.add(first, I64(v * self.lanes.count))) for v in range(self.vectors)]


class _Sums:
    """The rows of a group while known rows are subtracted."""

    def __init__(self, b: ir.IRBuilder, lanes: Lanes, rows: int, vectors: int):
        self._pointers = [
            [[allocate(b, lanes.kind) for _ in range(lanes.parts)] for _ in range(vectors)] for _ in range(rows)
        ]

    def get(self, b: ir.IRBuilder, row: int, vector: int) -> Number:
        return [b.load(p) for p in self._pointers[row][vector]]

    def set(self, b: ir.IRBuilder, row: int, vector: int, value: Number) -> None:
        for pointer, part in zip(self._pointers[row][vector], value, strict=True):
            b.store(part, pointer)
