"""QR factors by Householder's reflections (LAPACK's geqrf), each matrix by one thread.

A panel of columns lies in scratch memory row by row. One loop over its rows does a reflection to the columns behind,
and finds the products of the next one with them: a vector is a row of the panel. Then the panel's reflections are done
to what is right of it.
"""

from __future__ import annotations

import math

from llvmlite import ir

from xloom.cpu.kernel_modules.choices import chosen
from xloom.cpu.kernel_modules.kernel import Kernel
from xloom.cpu.kernels.linalg.lanes import Number, load_scalar, selected
from xloom.cpu.kernels.linalg.matrix_scratch import each_matrix
from xloom.cpu.kernels.linalg.reflections import ROWS, Panels, Reflections, Sums, store_scalar
from xloom.hlo.instruction import Instruction
from xloom.llvm.intrinsics import intrinsic
from xloom.llvm.loop import allocate, loop
from xloom.llvm.pass_pipeline import PassPipeline
from xloom.llvm.power_of_two import scaling
from xloom.llvm.types import I8, I64, POINTER, VOID, element_pointer

_EXACT = {"float": (-60, 40), "double": (-500, 300)}
"""Powers of two between which sums of squares are as exact as any."""


def qr(kernel: Kernel, instruction: Instruction) -> None:
    """R, below it the vectors v, whose first elements are 1, and tau of each."""
    kernel.pipeline = PassPipeline.VECTORS
    shape = kernel.operands[0]
    if not shape.size:
        return
    dtype, (m, n) = shape.dtype, shape.dims[-2:]
    count = min(m, n)
    panels = Panels.of(dtype, m, n, kernel.target)
    width, is_one = panels.width, n <= panels.width
    chosen(f"panels of {width} reflections, each matrix by one thread", "there is no other")
    padded = panels.rows(n)
    stride, matrix_bytes = padded.stride, 0 if is_one else m * padded.stride * dtype.bytes
    products = _products(kernel, panels)
    batch, flops = math.prod(shape.dims[:-2]), m * n * count
    with each_matrix(kernel, batch, flops, [matrix_bytes, panels.nbytes(m)]) as (p, number, (matrix, memory)):
        b = p.b
        first = b.mul(number, I64(m * n))
        source, target = (element_pointer(b, x, dtype, first) for x in (p.operand(0), p.output(0)))
        taus = element_pointer(b, p.output(1), dtype, b.mul(number, I64(count)))
        work = _Factorisation(Reflections(panels, b, memory, m), products)
        rows = work.reflections
        if is_one:
            padded.read(b, source, rows.vectors, m)
            rows.end(I64(m))
            work.factor(I64(m), I64(count), taus)
            padded.write(b, rows.vectors, target, m)
            return
        padded.read(b, source, matrix, m)
        with loop(b, 0, count, width * panels.block, "block") as block:
            rows.begin(block)
            behind = b.add(block, I64(width * panels.block))
            end, edge = (intrinsic(b, "smin", behind, I64(most)) for most in (count, n))
            with loop(b, block, end, width, "panel") as start:
                rows.select(start)
                left, corner = b.sub(I64(m), start), b.mul(start, I64(stride + 1))
                rows.load(matrix, corner, stride, left)
                steps = intrinsic(b, "smin", I64(width), b.sub(I64(count), start))
                work.factor(left, steps, element_pointer(b, taus, dtype, start))
                rows.store(matrix, corner, stride, left)
                following = b.add(start, I64(width))
                with b.if_then(b.icmp_signed("<", following, I64(n))):
                    rows.complete(left)
                    if panels.block > 1:
                        own = (start, b.add(start, I64(1)))
                        rows.apply(matrix, stride, (following, edge), own, is_adjoint=True, is_narrow=True)
            rows.apply(matrix, stride, (behind, I64(n)), (block, end), is_adjoint=True)
        padded.write(b, matrix, target, m)


def _products(kernel: Kernel, panels: Panels) -> ir.Function:
    """void(vectors, rows, k, found): the products of column k below its diagonal with all columns there."""
    function = ir.Function(
        kernel.module, ir.FunctionType(VOID, [POINTER, I64, I64, POINTER]), f"{kernel.name}.products"
    )
    function.linkage = "internal"
    for attribute in ("noinline", "nounwind"):
        function.attributes.add(attribute)
    b = ir.IRBuilder(function.append_basic_block("entry"))
    start = b.append_basic_block("start")
    b.position_at_end(start)
    vectors, rows, k, found = function.args
    row, dtype = panels.row, panels.dtype
    sums = Sums(b, row, ROWS)
    with loop(b, b.add(k, I64(1)), rows, ROWS, "rows") as r:
        for i in range(ROWS):
            index = b.mul(b.add(r, I64(i)), I64(panels.width))
            x = load_scalar(b, vectors, dtype, b.add(index, k), conjugate=True)
            sums.add_product(i, x, row.load(b, vectors, index))
    row.store(b, found, I64(0), sums.total())
    b.ret_void()
    b.position_at_end(function.entry_basic_block)
    b.branch(start)
    return function


class _Factorisation:
    """Makes reflections of a panel's columns."""

    def __init__(self, reflections: Reflections, products: ir.Function):
        self.reflections, self._products = reflections, products
        b = self.b = reflections.b
        self.dtype, self.row = reflections.dtype, reflections.row
        numbers = ir.ArrayType(ir.VectorType(I8, reflections.width * self.dtype.bytes), 1)
        self._found, self._taken = allocate(b, numbers), allocate(b, numbers)
        self.real = self.row.kind.element
        self._unit, self._scale, self._back = (allocate(b, self.real) for _ in range(3))

    def factor(self, left: ir.Value, steps: ir.Value, taus: ir.Value) -> None:
        """`steps` reflections, of `left` rows; their numbers tau are written, and are those of the panel."""
        b, panel, row = self.b, self.reflections, self.row
        row.store(b, panel.taus, I64(0), panel.zero)
        self._multiply(left, I64(0))
        with loop(b, 0, steps, name="step") as k:
            beta, tau, factor = self._reflection(left, k)
            for place in (taus, panel.taus):
                store_scalar(b, place, self.dtype, k, tau)
            behind, here = panel.lanes_where(">", k), panel.lanes_where("==", k)
            own = row.load(b, panel.vectors, panel.at(k))
            taken = self._product_of_row(own, tau, factor)
            taken = selected(b, behind, taken, panel.zero)
            changed = [b.fsub(x, y) for x, y in zip(own, taken, strict=True)]
            diagonal = [*row.splat(b, [beta])[:1], *panel.zero[1:]]
            row.store(b, panel.vectors, panel.at(k), selected(b, here, diagonal, changed))
            row.store(b, self._taken, I64(0), taken)
            self._reflect(left, k, factor, taken)

    def _product_of_row(self, own: Number, tau: Number, factor: Number) -> Number:
        """What is subtracted: conj(tau) (v* x), where v is 1 and then what was multiplied times a factor."""
        b, row = self.b, self.row
        found = row.load(b, self._found, I64(0))
        total = row.plus_product(b, own, row.splat(b, _conjugate(b, factor)), found)
        taken = row.product(b, row.splat(b, _conjugate(b, tau)), total)
        is_nothing = b.fcmp_ordered("==", factor[0], self.real(0.0))
        for part in factor[1:]:
            is_nothing = b.and_(is_nothing, b.fcmp_ordered("==", part, self.real(0.0)))
        for part in tau:
            is_nothing = b.and_(is_nothing, b.fcmp_ordered("==", part, self.real(0.0)))
        return selected(b, is_nothing, self.reflections.zero, taken)

    def _reflect(self, left: ir.Value, k: ir.Value, factor: Number, taken: Number) -> None:
        """Does the reflection below row k, and multiplies the next column by those behind."""
        b, panel, row = self.b, self.reflections, self.row
        behind, here = panel.lanes_where(">", k), panel.lanes_where("==", k)
        following = intrinsic(b, "smin", b.add(k, I64(1)), I64(panel.width - 1))
        scale = row.splat(b, factor)
        first = row.splat(b, load_scalar(b, self._taken, self.dtype, following))
        sums = Sums(b, row, ROWS)

        def below(r: ir.Value, i: int, is_counted: bool) -> None:
            index = panel.at(b.add(r, I64(i)))
            x = row.splat(b, load_scalar(b, panel.vectors, self.dtype, b.add(index, k)))
            v = row.product(b, x, scale)
            y = row.splat(b, load_scalar(b, panel.vectors, self.dtype, b.add(index, following)))
            old = row.load(b, panel.vectors, index)
            new = selected(b, behind, row.minus_product(b, old, v, taken), selected(b, here, v, old))
            row.store(b, panel.vectors, index, new)
            if is_counted:
                next_one = row.minus_product(b, y, v, first)
                sums.add_vectors(i, _conjugate(b, next_one), new)

        # the first of them has no part in the next products
        row_after = b.add(k, I64(1))
        with b.if_then(b.icmp_signed("<", row_after, left)):
            below(row_after, 0, False)
        with loop(b, b.add(k, I64(2)), left, ROWS, "rows") as r:
            for i in range(ROWS):
                below(r, i, True)
        row.store(b, self._found, I64(0), sums.total())

    def _multiply(self, left: ir.Value, k: ir.Value) -> None:
        self.b.call(self._products, [self.reflections.vectors, left, k, self._found])

    # -- a reflection
    def _reflection(self, left: ir.Value, k: ir.Value) -> tuple[ir.Value, Number, Number]:
        """beta, which the column becomes, tau, and what the numbers below times which are v."""
        b, panel, zero, one = self.b, self.reflections, self.real(0.0), self.real(1.0)
        alpha = load_scalar(b, panel.vectors, self.dtype, panel.at(k, k))
        for place in (self._unit, self._scale, self._back):
            b.store(one, place)
        with b.if_then(self._is_inexact(alpha, left, k), likely=False):
            self._rescale(alpha, left, k)
        unit, scale, back = (b.load(x, typ=self.real) for x in (self._unit, self._scale, self._back))
        below = self._square_below(k)
        parts = [b.fmul(part, scale) for part in alpha]
        square = b.fmul(below, b.fmul(unit, unit))
        for part in parts:
            square = intrinsic(b, "fma", part, part, square)
        beta = intrinsic(b, "copysign", intrinsic(b, "sqrt", square), b.fneg(parts[0]))
        is_nothing = b.fcmp_ordered("==", below, zero)
        for part in alpha[1:]:
            is_nothing = b.and_(is_nothing, b.fcmp_ordered("==", part, zero))
        tau = [b.fdiv(x, beta) for x in (b.fsub(beta, parts[0]), *(b.fneg(part) for part in parts[1:]))]
        difference = [b.fsub(parts[0], beta), *parts[1:]]
        if len(parts) == 1:
            factor = [b.fdiv(unit, difference[0])]
        else:
            size = b.fadd(*(b.fmul(part, part) for part in difference))
            factor = [b.fmul(unit, b.fdiv(part, size)) for part in _conjugate(b, difference)]
        tau, factor = ([b.select(is_nothing, zero, part) for part in x] for x in (tau, factor))
        return b.select(is_nothing, alpha[0], b.fmul(beta, back)), tau, factor

    def _square_below(self, k: ir.Value) -> ir.Value:
        return load_scalar(self.b, self._found, self.dtype, k)[0]

    def _is_inexact(self, alpha: Number, left: ir.Value, k: ir.Value) -> ir.Value:
        """Whether squares overflow, or vanish; nothing is below the last row."""
        b, below = self.b, self._square_below(k)
        least, most = (self.real(2.0**power) for power in _EXACT[str(self.real)])
        square = below
        for part in alpha:
            square = intrinsic(b, "fma", part, part, square)
        is_last = b.icmp_signed("==", b.add(k, I64(1)), left)
        is_large = b.or_(b.fcmp_ordered(">=", below, least), is_last)
        is_exact = b.and_(is_large, b.fcmp_ordered("<=", square, most))
        return b.not_(b.and_(is_exact, b.fcmp_ordered(">=", square, least)))

    def _rescale(self, alpha: Number, left: ir.Value, k: ir.Value) -> None:
        """Brings the column near to one, and says of which unit it is now, and by what all is to be scaled."""
        b, panel = self.b, self.reflections
        greatest = allocate(b, self.real)
        b.store(self.real(0.0), greatest)
        with loop(b, b.add(k, I64(1)), left, name="row") as r:
            for part in load_scalar(b, panel.vectors, self.dtype, panel.at(r, k)):
                size = intrinsic(b, "fabs", part)
                b.store(intrinsic(b, "maxnum", b.load(greatest, typ=self.real), size), greatest)
        size = b.load(greatest, typ=self.real)
        scale, unit = scaling(b, size)
        with loop(b, b.add(k, I64(1)), left, name="row") as r:
            index = panel.at(r, k)
            value = load_scalar(b, panel.vectors, self.dtype, index)
            store_scalar(b, panel.vectors, self.dtype, index, [b.fmul(part, scale) for part in value])
        self._multiply(left, k)
        for part in alpha:
            size = intrinsic(b, "maxnum", size, intrinsic(b, "fabs", part))
        scale, back = scaling(b, size)
        b.store(b.fmul(unit, scale), self._unit)
        b.store(scale, self._scale)
        b.store(back, self._back)


def _conjugate(b: ir.IRBuilder, x: Number) -> Number:
    return [x[0], *(b.fneg(part) for part in x[1:])]
