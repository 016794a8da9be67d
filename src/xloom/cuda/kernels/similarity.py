"""Similar matrices: those that reflections I - tau v v* of two or three rows make, done to rows and to columns."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from llvmlite import ir

from xloom.cpu.kernels.linalg.lanes import Number
from xloom.cuda.kernel import strided
from xloom.cuda.kernels.matrix_kernel import Matrix, MatrixKernel
from xloom.llvm.intrinsics import intrinsic
from xloom.llvm.power_of_two import scaling
from xloom.llvm.types import I1, I64


class Reflection(NamedTuple):
    """Of rows k, k + 1, ...: tau, the elements of v after its first, which is 1, and what becomes of x: (beta, 0, 0).

    As in LAPACK, it is the adjoint that does this to x.
    """

    tau: Number
    vector: list[Number]
    beta: ir.Value


class Pair(NamedTuple):
    """The eigenvalues of a real matrix of two rows: what they are more than its last element."""

    half: ir.Value
    """Of what both are together, less than the last element twice."""
    root: ir.Value
    """What they differ from `half` by: a real or an imaginary number."""
    is_real: ir.Value


class SimilarityKernel(MatrixKernel):
    """A kernel with a block of threads for each matrix, all of which know what the reflections are."""

    @property
    def kind(self) -> ir.Type:
        """The type of scalars."""
        return self.lanes.kind.element

    @property
    def is_first(self) -> ir.Value:
        """Whether the thread is the one that writes what all know."""
        return self.b.icmp_signed("==", self.kernel.thread, I64(0))

    def constant(self, value: float) -> ir.Constant:
        """A scalar."""
        return ir.Constant(self.kind, float(value))

    def number_of(self, *parts: ir.Value) -> Number:
        """A number of scalars, the rest zeros."""
        return [*(self.vector(part) for part in parts), *self.zero[len(parts) :]]

    def conjugate(self, x: Number) -> Number:
        """The complex conjugate."""
        return [x[0], *(self.b.fneg(part) for part in x[1:])]

    def sum(self, x: Number, y: Number) -> Number:
        """x + y."""
        return [self.b.fadd(u, v) for u, v in zip(x, y, strict=True)]

    def difference(self, x: Number, y: Number) -> Number:
        """x - y."""
        return [self.b.fsub(u, v) for u, v in zip(x, y, strict=True)]

    def size(self, x: Number) -> ir.Value:
        """The sum of the parts' absolute values."""
        first, *others = (intrinsic(self.b, "fabs", self.real(part)) for part in x)
        return self.b.fadd(first, others[0]) if others else first

    def either(self, condition: ir.Value, x: Number, y: Number) -> Number:
        """x where the condition holds, else y."""
        return [self.b.select(condition, u, v) for u, v in zip(x, y, strict=True)]

    def pair(self, a: ir.Value, b: ir.Value, c: ir.Value, d: ir.Value) -> Pair:
        """The eigenvalues of ((a, b), (c, d))."""
        e = self.b
        half = e.fmul(self.constant(0.5), e.fsub(a, d))
        square = intrinsic(e, "fma", half, half, e.fmul(b, c))
        root = intrinsic(e, "sqrt", intrinsic(e, "fabs", square))
        return Pair(half, root, e.fcmp_ordered(">=", square, self.constant(0)))

    def reflection(self, x: Sequence[Number]) -> Reflection:
        """What makes zeros of all of x but its first element, and that real."""
        b, zero, one = self.b, self.constant(0), self.constant(1)
        parts = [[self.real(part) for part in each] for each in x]
        greatest = zero
        for part in (part for each in parts for part in each):
            greatest = intrinsic(b, "maximum", greatest, intrinsic(b, "fabs", part))
        scale, back = scaling(b, greatest)
        (alpha, *others) = [[b.fmul(part, scale) for part in each] for each in parts]
        square, rest = zero, zero
        for part in (part for each in others for part in each):
            rest = intrinsic(b, "maximum", rest, intrinsic(b, "fabs", part))
        for part in (part for each in (alpha, *others) for part in each):
            square = intrinsic(b, "fma", part, part, square)
        is_real = b.fcmp_ordered("==", alpha[1], zero) if len(alpha) == 2 else I1(1)
        is_nothing = b.and_(b.fcmp_ordered("==", rest, zero), is_real)
        length = intrinsic(b, "sqrt", square)
        beta = b.select(b.fcmp_ordered(">=", alpha[0], zero), b.fneg(length), length)
        safe = b.select(is_nothing, one, beta)
        tau = [b.fsub(beta, alpha[0]), *(b.fneg(part) for part in alpha[1:])]
        tau = [self.vector(b.select(is_nothing, zero, b.fdiv(part, safe))) for part in tau]
        divisor = [b.select(is_nothing, one, b.fsub(alpha[0], beta)), *alpha[1:]]
        over = self.reciprocal([self.vector(part) for part in divisor])
        vector = [self.lanes.product(b, [self.vector(part) for part in each], over) for each in others]
        return Reflection(tau, vector, b.select(is_nothing, parts[0][0], b.fmul(beta, back)))

    def turn_rows(
        self, a: Matrix, r: Reflection, rows: Sequence[ir.Value], begin: ir.Value, end: int, has_last: ir.Value
    ) -> None:
        """The adjoint of the reflection times columns from `begin` on; the last row may be none."""
        b, k = self.b, self.kernel
        factor = self.conjugate(r.tau)
        with strided(b, b.add(begin, k.thread), I64(end), k.threads) as j:
            old = [a.get(i, j) for i in rows]
            total = self._weighed(old, [self.conjugate(v) for v in r.vector], factor)
            self._less(r.vector, total, old, has_last, lambda n, x: a.put(rows[n], j, x))

    def turn_columns(
        self, a: Matrix, r: Reflection, columns: Sequence[ir.Value], end: ir.Value, has_last: ir.Value
    ) -> None:
        """Rows before `end` times the reflection; the last column may be none."""
        b, k = self.b, self.kernel
        with strided(b, k.thread, end, k.threads) as i:
            old = [a.get(i, j) for j in columns]
            total = self._weighed(old, r.vector, r.tau)
            weights = [self.conjugate(v) for v in r.vector]
            self._less(weights, total, old, has_last, lambda n, x: a.put(i, columns[n], x))

    def _weighed(self, old: list[Number], weights: list[Number], factor: Number) -> Number:
        total, b = old[0], self.b
        for x, weight in zip(old[1:], weights, strict=True):
            total = self.lanes.minus_product(b, total, x, [b.fneg(part) for part in weight])
        return self.lanes.product(b, total, factor)

    def _less(
        self,
        vector: list[Number],
        total: Number,
        old: list[Number],
        has_last: ir.Value,
        put: Callable[[int, Number], None],
    ) -> None:
        b = self.b
        put(0, self.difference(old[0], total))
        for n, (x, v) in enumerate(zip(old[1:], vector, strict=True), 1):
            value = self.lanes.minus_product(b, x, v, total)
            with b.if_then(has_last if n == len(vector) else I1(1)):
                put(n, value)
