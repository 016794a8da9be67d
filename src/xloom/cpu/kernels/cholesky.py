"""Cholesky factors, by substitution with the factor as far as it is known.

Blocks of rows of the upper factor U (A = U* U) lie in scratch memory, padded to whole blocks. A block of rows is the
solution of a triangular system whose matrix is the columns above and in its diagonal block: the diagonal block is
factored first, then strips of the other columns are solved, which threads may share.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from llvmlite import ir

from xloom.cpu.emit import types
from xloom.cpu.emit.elementwise import choose
from xloom.cpu.emit.intrinsics import intrinsic
from xloom.cpu.emit.loop import allocate, loop
from xloom.cpu.emit.types import I1, I8, I64, POINTER, VOID, element_pointer
from xloom.cpu.kernel import Kernel, PhaseBuilder, kernel
from xloom.cpu.kernels.linear.lanes import Lanes, load_scalar
from xloom.cpu.kernels.linear.substitution import Substitution, widest
from xloom.hlo.module import Instruction

_FLOPS = 1_000_000
"""Of one thread in about 20 µs."""
_WHOLE = 192
"""Rows up to which one thread does a matrix."""
_STACK = 1 << 16
"""Bytes of a factor up to which it lies on the stack."""
_TILE = 16


@kernel("cholesky")
def cholesky(kernel: Kernel, instruction: Instruction) -> None:
    """One triangle is read, the other is 0 in the result; all is NaN if the matrix is not positive definite."""
    shape = kernel.operands[0]
    if not shape.size:
        return
    work = _Work(kernel, instruction["lower"])
    if work.n <= _WHOLE or work.batch > 1:
        work.whole_matrices()
    else:
        work.blocks()


class _Work:
    """The kernel while it is made; its functions take the pointer of a matrix in scratch memory, the factor."""

    def __init__(self, kernel: Kernel, lower: bool):
        self.kernel, self.lower = kernel, lower
        shape = kernel.operands[0]
        self.dtype, self.n = shape.dtype, shape.dims[-1]
        self.batch = math.prod(shape.dims[:-2])
        self.lanes, vectors = widest(self.dtype, self.n)
        substitution = Substitution(self.lanes, vectors, conjugate=True, unit=False)
        self.block = substitution.columns
        self.vectors = vectors
        self.size = -(-self.n // self.block) * self.block
        # rows of a power of two apart would share few places of the cache
        self.step = self.size + (64 // self.dtype.bytes if self.size > self.block else 0)
        self.substitute = substitution.emit(kernel.module, f"{kernel.name}.substitute")
        self.factor = self._factor()

    def whole_matrices(self) -> None:
        """One phase, whose items are matrices."""
        nbytes = self.size * self.step * self.dtype.bytes
        is_small = nbytes <= _STACK
        scratch = None if is_small else self.kernel.add_scratch(self.batch * nbytes)
        with self.kernel.phase(self.batch, max(1, 3 * _FLOPS // self.size**3)) as p:
            b = p.b
            local = allocate(b, I8, nbytes) if is_small else None
            with loop(b, p.begin, p.end) as number:
                first = b.mul(number, I64(self.n * self.n))
                matrix = local
                if scratch is not None:
                    matrix = self._at(b, p.scratch(scratch), b.mul(number, I64(self.size * self.step)))
                with loop(b, 0, self.n, _TILE, "tile") as tile:
                    self._read(b, self._at(b, p.operand(0), first), matrix, tile)
                with loop(b, 0, self.size, self.block, "block") as block:
                    self._diagonal(b, matrix, block)
                    with loop(b, b.add(block, I64(self.block)), self.size, self.block, "strip") as strip:
                        self._strip(b, matrix, block, strip)
                with loop(b, 0, self.n, _TILE, "tile") as tile:
                    self._write(b, matrix, self._at(b, p.output(0), first), tile)

    def blocks(self) -> None:
        """One matrix: phases alternate between a diagonal block and the strips beside it."""
        scratch = self.kernel.add_scratch(self.size * self.step * self.dtype.bytes)
        self._tiles(lambda p, first: self._read(p.b, p.operand(0), p.scratch(scratch), first))
        for block in range(0, self.size, self.block):
            self._block(scratch, block)
        self._tiles(lambda p, first: self._write(p.b, p.scratch(scratch), p.output(0), first))

    def _tiles(self, body: Callable[[PhaseBuilder, ir.Value], None]) -> None:
        grain = max(1, 40_000 // (_TILE * self.n))
        with self.kernel.phase(-(-self.n // _TILE), grain) as p, loop(p.b, p.begin, p.end) as tile:
            body(p, p.b.mul(tile, I64(_TILE)))

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
        corner = b.mul(block, I64(self.step + 1))
        b.call(self.factor, [self._at(b, matrix, corner)])

    def _strip(self, b: ir.IRBuilder, matrix: ir.Value, block: ir.Value, column: ir.Value) -> None:
        self._substitute(b, matrix, block, column, solve=True)

    def _substitute(self, b: ir.IRBuilder, matrix: ir.Value, block: ir.Value, column: ir.Value, solve: bool) -> None:
        strip, step = self._at(b, matrix, column), I64(self.step)
        last = b.add(block, I64(self.block))
        b.call(self.substitute, [matrix, I64(1), step, strip, step, strip, step, I1(solve), block, last])

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
            place = b.mul(row, I64(self.step))
            diagonal = b.add(place, row)
            pivot = load_scalar(b, block, dtype, diagonal)[0]
            kind = pivot.type
            positive = b.fcmp_ordered(">", pivot, ir.Constant(kind, 0.0))
            root = intrinsic(b, "sqrt", b.select(positive, pivot, ir.Constant(kind, float("nan"))))
            scale = (
                lanes.splat(b, [root])[0] if lanes.parts == 1 else Lanes(dtype.real, lanes.count).splat(b, [root])[0]
            )
            values = []
            for k in columns:
                x = lanes.load(b, block, b.add(place, k))
                values.append([b.fdiv(part, scale) for part in x])
                lanes.store(b, block, b.add(place, k), values[-1])
            self._store_real(b, block, diagonal, root)
            with loop(b, b.add(row, I64(1)), self.block, name="below") as below:
                factor = lanes.splat(b, load_scalar(b, block, dtype, b.add(place, below), conjugate=True))
                target = b.mul(below, I64(self.step))
                for k, x in zip(columns, values, strict=True):
                    old = lanes.load(b, block, b.add(target, k))
                    lanes.store(b, block, b.add(target, k), lanes.minus_product(b, old, factor, x))
        b.ret_void()
        return function

    def _store_real(self, b: ir.IRBuilder, pointer: ir.Value, index: ir.Value, value: ir.Value) -> None:
        zero = ir.Constant(value.type, 0.0)
        types.store(b, pointer, self.dtype, index, types.Complex(value, zero) if self.dtype.is_complex else value)

    # -- in and out: `first` begins a tile of rows of the factor in scratch memory ------------------------------------

    def _read(self, b: ir.IRBuilder, source: ir.Value, matrix: ir.Value, first: ir.Value) -> None:
        """Copies what is right of a tile's first column."""
        with self._tile(b, first, first) as (row, column):
            given = self._place(b, column, row, self.n) if self.lower else self._place(b, row, column, self.n)
            value = types.load(b, source, self.dtype, given)
            types.store(b, matrix, self.dtype, self._place(b, row, column, self.step), self._conjugated(b, value))

    def _write(self, b: ir.IRBuilder, matrix: ir.Value, target: ir.Value, first: ir.Value) -> None:
        """Rows of the result: zeros on the other side of the diagonal, or NaN everywhere."""
        pivot = load_scalar(b, matrix, self.dtype, I64((self.n - 1) * (self.step + 1)))[0]
        bad = b.fcmp_unordered("uno", pivot, pivot)  # every NaN reaches the last pivot
        zero, nan = types.constant(0, self.dtype), types.constant(float("nan"), self.dtype)
        with self._tile(b, first, I64(0)) as (row, column):
            known = self._place(b, column, row, self.step) if self.lower else self._place(b, row, column, self.step)
            value = self._conjugated(b, types.load(b, matrix, self.dtype, known))
            inside = b.icmp_signed("<=" if self.lower else ">=", column, row)
            value = choose(b, bad, nan, choose(b, inside, value, zero))
            types.store(b, target, self.dtype, self._place(b, row, column, self.n), value)

    @contextmanager
    def _tile(self, b: ir.IRBuilder, first: ir.Value, left: ir.Value) -> Iterator[tuple[ir.Value, ir.Value]]:
        """Loops over rows and columns from `left`, in the order of the memory that is read."""
        end = b.add(first, I64(_TILE))
        rows = (first, b.select(b.icmp_signed("<", end, I64(self.n)), end, I64(self.n)))
        outer, inner = ((left, I64(self.n)), rows) if self.lower else (rows, (left, I64(self.n)))
        with loop(b, *outer) as i, loop(b, *inner) as j:
            yield (j, i) if self.lower else (i, j)

    def _place(self, b: ir.IRBuilder, row: ir.Value, column: ir.Value, step: int) -> ir.Value:
        return b.add(b.mul(row, I64(step)), column)

    def _conjugated(self, b: ir.IRBuilder, value: types.Value) -> types.Value:
        if not self.dtype.is_complex or not self.lower:
            return value
        return types.Complex(value.real, b.fneg(value.imag))
