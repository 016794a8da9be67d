"""Products of Householder's reflections (LAPACK's orgqr), and products with them (ormqr), each matrix by one thread."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from llvmlite import ir

from xloom.calls.typed_ffi.attributes import parse_attributes
from xloom.cpu.kernel_modules.choices import chosen
from xloom.cpu.kernel_modules.kernel import Kernel
from xloom.cpu.kernels.linalg.lanes import Number
from xloom.cpu.kernels.linalg.matrix_scratch import each_matrix
from xloom.cpu.kernels.linalg.padded_rows import PaddedRows
from xloom.cpu.kernels.linalg.reflections import Panels, Reflections, store_scalar
from xloom.hlo.instruction import Instruction
from xloom.llvm.intrinsics import intrinsic
from xloom.llvm.loop import loop
from xloom.llvm.pass_pipeline import PassPipeline
from xloom.llvm.types import I64, element_pointer


def unitary(kernel: Kernel, instruction: Instruction) -> None:
    """The first columns of the product of all reflections, whose vectors are below the diagonal of a matrix."""
    kernel.pipeline = PassPipeline.VECTORS
    shape, count = kernel.operands[0], kernel.operands[1].dims[-1]
    if not shape.size:
        return
    dtype, (m, n) = shape.dtype, shape.dims[-2:]
    panels = Panels.of(dtype, m, n, kernel.target)
    width, is_one = panels.width, n <= panels.width
    chosen(f"panels of {width} reflections, each matrix by one thread", "there is no other")
    padded = panels.rows(n)
    stride, matrix_bytes = padded.stride, 0 if is_one else m * padded.stride * dtype.bytes
    batch, flops = math.prod(shape.dims[:-2]), m * n * max(1, count)
    with each_matrix(kernel, batch, flops, [matrix_bytes, panels.nbytes(m)]) as (p, number, (matrix, memory)):
        b = p.b
        first = b.mul(number, I64(m * n))
        source, target = (element_pointer(b, x, dtype, first) for x in (p.operand(0), p.output(0)))
        taus = element_pointer(b, p.operand(1), dtype, b.mul(number, I64(count)))
        work = _Block(panels, b, memory, m, source, n, taus, count)
        if is_one:
            work.read(I64(0), I64(1))
            work.own_columns(I64(m), lambda r, value: work.row.store(b, work.vectors, work.at(r), value))
            padded.write(b, work.vectors, target, m)
            return
        padded.clear(b, matrix, 0, m * stride)
        last = max(0, count - 1) // width * width
        one = [ir.Constant(part.type.element, k == 0) for k, part in enumerate(work.one)]
        with loop(b, last + width, n, name="diagonal") as k:
            store_scalar(b, matrix, dtype, b.mul(k, I64(stride + 1)), one)
        with _blocks(b, count, width * panels.block, is_forward=False) as (block, end):
            work.read(block, end)
            behind = b.add(block, I64(width * panels.block))
            work.apply(matrix, stride, (behind, I64(n)), (block, end), is_adjoint=False)
            edge, highest = intrinsic(b, "smin", behind, I64(n)), b.sub(b.sub(end, I64(1)), block)
            highest = b.add(block, b.mul(b.udiv(highest, I64(width)), I64(width)))
            with loop(b, block, end, width, "panel") as k:
                start = b.sub(b.add(block, highest), k)
                if panels.block > 1:
                    columns, own = (b.add(start, I64(width)), edge), (start, b.add(start, I64(1)))
                    work.apply(matrix, stride, columns, own, is_adjoint=False, is_narrow=True)
                work.select(start)
                corner = b.mul(start, I64(stride + 1))

                def store(r: ir.Value, value: Number, corner: ir.Value = corner) -> None:
                    work.row.store(b, matrix, b.add(corner, b.mul(r, I64(stride))), value)

                work.own_columns(b.sub(I64(m), start), store)
        padded.write(b, matrix, target, m)


def product(kernel: Kernel, instruction: Instruction) -> None:
    """A matrix, from the left, times the product of all reflections, or its adjoint."""
    kernel.pipeline = PassPipeline.VECTORS
    shape, other, count = kernel.operands[0], kernel.operands[2], kernel.operands[1].dims[-1]
    if not other.size:
        return
    dtype, (m, n), columns = shape.dtype, shape.dims[-2:], other.dims[-1]
    given: dict[str, Any] = parse_attributes(instruction.backend_config)
    is_adjoint = bool(given["transpose"])
    panels = Panels.for_products(dtype, count, m, columns, kernel.target)
    chosen(f"panels of {panels.width} reflections, each matrix by one thread", "there is no other")
    stride = panels.padded(columns)
    padded = PaddedRows(panels.columns, columns, stride)
    batch, flops = math.prod(shape.dims[:-2]), 2 * m * columns * max(1, count)
    sizes = [m * stride * dtype.bytes, panels.nbytes(m)]
    with each_matrix(kernel, batch, flops, sizes) as (p, number, (matrix, memory)):
        b = p.b
        source = element_pointer(b, p.operand(0), dtype, b.mul(number, I64(m * n)))
        taus = element_pointer(b, p.operand(1), dtype, b.mul(number, I64(count)))
        first = b.mul(number, I64(m * columns))
        padded.read(b, element_pointer(b, p.operand(2), dtype, first), matrix, m)
        work = _Block(panels, b, memory, m, source, n, taus, count)
        with _blocks(b, count, panels.width * panels.block, is_forward=is_adjoint) as (block, end):
            work.read(block, end)
            work.apply(matrix, stride, (0, columns), (block, end), is_adjoint=is_adjoint)
        padded.write(b, matrix, element_pointer(b, p.output(0), dtype, first), m)


class _Block(Reflections):
    """Panels that are read from what geqrf gives: a matrix in rows of `stride` elements, and `count` numbers tau."""

    def __init__(
        self,
        panels: Panels,
        b: ir.IRBuilder,
        memory: ir.Value,
        rows: int,
        source: ir.Value,
        stride: int,
        taus: ir.Value,
        count: int,
    ):
        super().__init__(panels, b, memory, rows)
        self._source, self._stride, self._given_taus, self._count = source, stride, taus, count

    def read(self, block: ir.Value, end: ir.Value) -> None:
        """Takes the block that begins with a reflection, up to another."""
        b = self.b
        self.begin(block)
        with loop(b, block, end, self.width, "panel") as start:
            self.select(start)
            left = b.sub(I64(self._rows), start)
            some = intrinsic(b, "smin", I64(self.width), b.sub(I64(self._count), start))
            self.load_some(self._source, b.mul(start, I64(self._stride + 1)), self._stride, left, some)
            self.load_taus(self._given_taus, start, some)
            self.complete(left)
        self.select(block)


@contextmanager
def _blocks(b: ir.IRBuilder, count: int, size: int, *, is_forward: bool) -> Iterator[tuple[ir.Value, ir.Value]]:
    """Loops over blocks of reflections: the first one, and where it ends."""
    last = max(0, count - 1) // size * size
    with loop(b, 0, last + 1, size, "block") as k:
        block = k if is_forward else b.sub(I64(last), k)
        yield block, intrinsic(b, "smin", b.add(block, I64(size)), I64(max(1, count)))
