"""Cholesky factors, by substitution with the factor as far as it is known.

Blocks of rows of the upper factor U (A = U* U) lie in scratch memory, padded to whole blocks. A block of rows is the
solution of a triangular system whose matrix is the columns above and in its diagonal block: the diagonal block is
factored first, then strips of the other columns are solved, which threads may share.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from llvmlite import ir

from xloom.cpu.kernel_modules.choices import chosen
from xloom.cpu.kernel_modules.kernel import Kernel, PhaseBuilder, kernel
from xloom.cpu.kernels.linalg.lanes import Lanes, load_scalar
from xloom.cpu.kernels.linalg.substitution import Substitution, widest
from xloom.cpu.kernels.linalg.tile_transpose import SquareTile
from xloom.hlo.instruction import Instruction
from xloom.llvm import element_access, types
from xloom.llvm.intrinsics import intrinsic
from xloom.llvm.loop import allocate, loop
from xloom.llvm.pass_pipeline import PassPipeline
from xloom.llvm.register_transpose import transposed
from xloom.llvm.types import I1, I8, I32, I64, POINTER, VOID, element_pointer

_FLOPS = 1_000_000
"""Of one thread in about 20 µs."""
_WHOLE = 192
"""Rows up to which one thread does a matrix."""
_STACK = 1 << 16
"""Bytes of a factor up to which it lies on the stack."""


@kernel("cholesky")
def cholesky(kernel: Kernel, instruction: Instruction) -> None:
    """One triangle is read, the other is 0 in the result; all is NaN if the matrix is not positive definite."""
    kernel.pipeline = PassPipeline.VECTORS
    shape = kernel.operands[0]
    if not shape.size:
        return
    work = _Work(kernel, instruction["lower"])
    if work.n <= _WHOLE or work.batch > 1:
        why = f"they have {_WHOLE} rows at most" if work.n <= _WHOLE else "there are several, which threads share"
        chosen("each matrix by one thread", why)
        work.whole_matrices()
    else:
        chosen(
            f"blocks of {work.block} rows: the diagonal block, then strips beside it, which threads share",
            f"it is a single matrix of more than {_WHOLE} rows",
        )
        work.blocks()


class _Work:
    """The kernel while it is made; its functions take the pointer of a matrix in scratch memory, the factor."""

    def __init__(self, kernel: Kernel, lower: bool):
        self.kernel, self.lower = kernel, lower
        shape = kernel.operands[0]
        self.dtype, self.n = shape.dtype, shape.dims[-1]
        self.batch = math.prod(shape.dims[:-2])
        self.lanes, vectors = widest(self.dtype, self.n, kernel.target)
        substitution = Substitution(self.lanes, vectors, conjugate=True, unit=False)
        self.block = substitution.columns
        self.vectors = vectors
        self.tile = SquareTile.of(self.dtype, self.n)
        self.size = -(-self.n // self.block) * self.block
        # rows of a power of two apart would share few places of the cache
        self.stride = self.size + (64 // self.dtype.bytes if self.size > self.block else 0)
        self.substitute = substitution.emit(kernel.module, f"{kernel.name}.substitute")
        self.factor = self._factor()

    def whole_matrices(self) -> None:
        """Adds one phase, whose items are matrices."""
        nbytes = self.size * self.stride * self.dtype.bytes
        is_small = nbytes <= _STACK
        scratch = None if is_small else self.kernel.add_scratch(self.batch * nbytes)
        with self.kernel.phase(self.batch, max(1, 3 * _FLOPS // self.size**3)) as p:
            b = p.b
            local = allocate(b, I8, nbytes) if is_small else None
            with loop(b, p.begin, p.end) as number:
                first = b.mul(number, I64(self.n * self.n))
                matrix = local
                if scratch is not None:
                    matrix = self._at(b, p.scratch(scratch), b.mul(number, I64(self.size * self.stride)))
                with self.tile.along(b, I64(0), self.n) as row:
                    self._read(b, self._at(b, p.operand(0), first), matrix, row)
                with loop(b, 0, self.size, self.block, "block") as block:
                    self._diagonal(b, matrix, block)
                    with loop(b, b.add(block, I64(self.block)), self.size, self.block, "strip") as strip:
                        self._strip(b, matrix, block, strip)
                with self.tile.along(b, I64(0), self.n) as row:
                    self._write(b, matrix, self._at(b, p.output(0), first), row)

    def blocks(self) -> None:
        """One matrix: phases alternate between a diagonal block and the strips beside it."""
        scratch = self.kernel.add_scratch(self.size * self.stride * self.dtype.bytes)
        self._bands(lambda p, first: self._read(p.b, p.operand(0), p.scratch(scratch), first))
        for block in range(0, self.size, self.block):
            self._block(scratch, block)
        self._bands(lambda p, first: self._write(p.b, p.scratch(scratch), p.output(0), first))

    def _bands(self, body: Callable[[PhaseBuilder, ir.Value], None]) -> None:
        size = self.tile.size
        grain = max(1, 40_000 // (size * self.n))
        with self.kernel.phase(-(-self.n // size), grain) as p, loop(p.b, p.begin, p.end) as band:
            body(p, self.tile.inside(p.b, p.b.mul(band, I64(size)), self.n))

    def _block(self, scratch: int, block: int) -> None:
        with self.kernel.phase() as p, loop(p.b, p.begin, p.end):
            self._diagonal(p.b, p.scratch(scratch), I64(block))
        strips = (self.size - block) // self.block - 1
        if not strips:
            return
        grain = max(1, _FLOPS // (self.block**2 * (block + self.block)))
        with self.kernel.phase(strips, grain) as p, loop(p.b, p.begin, p.end) as strip:
            column = p.b.add(p.b.mul(strip, I64(self.block)), I64(block + self.block))
            self._strip(p.b, p.scratch(scratch), I64(block), column)

    def _at(self, b: ir.IRBuilder, pointer: ir.Value, index: ir.Value) -> ir.Value:
        return element_pointer(b, pointer, self.dtype, index)

    def _diagonal(self, b: ir.IRBuilder, matrix: ir.Value, block: ir.Value) -> None:
        self._substitute(b, matrix, block, block, solve=False)
        corner = b.mul(block, I64(self.stride + 1))
        b.call(self.factor, [self._at(b, matrix, corner)])

    def _strip(self, b: ir.IRBuilder, matrix: ir.Value, block: ir.Value, column: ir.Value) -> None:
        self._substitute(b, matrix, block, column, solve=True)

    def _substitute(self, b: ir.IRBuilder, matrix: ir.Value, block: ir.Value, column: ir.Value, solve: bool) -> None:
        strip, stride = self._at(b, matrix, column), I64(self.stride)
        last = b.add(block, I64(self.block))
        b.call(self.substitute, [matrix, I64(1), stride, strip, stride, strip, stride, I1(solve), block, last])

    def _factor(self) -> ir.Function:
        """void(block): factors a diagonal block in place; what is below the diagonal means nothing."""
        function = ir.Function(self.kernel.module, ir.FunctionType(VOID, [POINTER]), f"{self.kernel.name}.factor")
        function.linkage = "internal"
        for attribute in ("noinline", "nounwind"):
            function.attributes.add(attribute)
        b = ir.IRBuilder(function.append_basic_block("entry"))
        (block,) = function.args
        lanes, dtype = self.lanes, self.dtype
        columns = [I64(v * lanes.count) for v in range(self.vectors)]
        with loop(b, 0, self.block, name="row") as row:
            row_start = b.mul(row, I64(self.stride))
            diagonal = b.add(row_start, row)
            pivot = load_scalar(b, block, dtype, diagonal)[0]
            kind = pivot.type
            positive = b.fcmp_ordered(">", pivot, ir.Constant(kind, 0.0))
            root = intrinsic(b, "sqrt", b.select(positive, pivot, ir.Constant(kind, float("nan"))))
            scale = (
                lanes.splat(b, [root])[0] if lanes.parts == 1 else Lanes(dtype.real, lanes.count).splat(b, [root])[0]
            )
            values = []
            for k in columns:
                x = lanes.load(b, block, b.add(row_start, k))
                values.append([b.fdiv(part, scale) for part in x])
                lanes.store(b, block, b.add(row_start, k), values[-1])
            self._store_real(b, block, diagonal, root)
            with loop(b, b.add(row, I64(1)), self.block, name="below") as below:
                factor = lanes.splat(b, load_scalar(b, block, dtype, b.add(row_start, below), conjugate=True))
                target = b.mul(below, I64(self.stride))
                for k, x in zip(columns, values, strict=True):
                    old = lanes.load(b, block, b.add(target, k))
                    lanes.store(b, block, b.add(target, k), lanes.minus_product(b, old, factor, x))
        b.ret_void()
        return function

    def _store_real(self, b: ir.IRBuilder, pointer: ir.Value, index: ir.Value, value: ir.Value) -> None:
        zero = ir.Constant(value.type, 0.0)
        element_access.store(
            b, pointer, self.dtype, index, types.Complex(value, zero) if self.dtype.is_complex else value
        )

    # -- in and out: `row` begins a band of rows of the factor or of the result ----------------------------------------

    def _read(self, b: ir.IRBuilder, source: ir.Value, matrix: ir.Value, row: ir.Value) -> None:
        """Copies what is right of the band's first diagonal element."""
        with self.tile.along(b, row, self.n) as column:
            self.tile.store(
                b,
                matrix,
                self._index(b, row, column, self.stride),
                self.stride,
                self._moved(b, source, self.n, row, column),
            )

    def _write(self, b: ir.IRBuilder, matrix: ir.Value, target: ir.Value, row: ir.Value) -> None:
        """Rows of the result: zeros on the other side of the diagonal, or NaN everywhere."""
        pivot = load_scalar(b, matrix, self.dtype, I64((self.n - 1) * (self.stride + 1)))[0]
        bad = b.fcmp_unordered("uno", pivot, pivot)  # every NaN reaches the last pivot
        tile = self.tile
        kind = ir.VectorType(tile.element, tile.size)
        numpy = np.array([np.nan], self.dtype.numpy)
        nan = ir.Constant(kind, [int.from_bytes(numpy.tobytes(), "little")] * tile.size)
        zero = ir.Constant(kind, [0] * tile.size)
        with tile.along(b, I64(0), self.n) as column:
            rows = self._moved(b, matrix, self.stride, row, column)
            for k, values in enumerate(rows):
                distance = b.sub(b.add(row, I64(k)), column)
                lanes = ir.VectorType(I64, tile.size)
                one = b.insert_element(ir.Constant(lanes, ir.Undefined), distance, I32(0))
                diagonal = b.shuffle_vector(one, one, ir.Constant(ir.VectorType(I32, tile.size), [0] * tile.size))
                inside = b.icmp_signed(
                    "<=" if self.lower else ">=", ir.Constant(lanes, list(range(tile.size))), diagonal
                )
                rows[k] = b.select(bad, nan, b.select(inside, values, zero))
            tile.store(b, target, self._index(b, row, column, self.n), self.n, rows)

    def _moved(self, b: ir.IRBuilder, source: ir.Value, stride: int, row: ir.Value, column: ir.Value) -> list[ir.Value]:
        """A tile of the factor from the given matrix, or the other way; for a lower factor, of the adjoint."""
        tile = self.tile
        if not self.lower:
            return tile.load(b, source, self._index(b, row, column, stride), stride)
        rows = transposed(b, tile.load(b, source, self._index(b, column, row, stride), stride))
        if not self.dtype.is_complex:
            return rows
        sign = ir.Constant(rows[0].type, [1 << (tile.element.width - 1)] * tile.size)
        return [b.xor(r, sign) for r in rows]

    def _index(self, b: ir.IRBuilder, row: ir.Value, column: ir.Value, stride: int) -> ir.Value:
        return b.add(b.mul(row, I64(stride)), column)
