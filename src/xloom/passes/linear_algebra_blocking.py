"""Large factorisations and triangular systems by blocks, so that most of the arithmetic is products of matrices."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from xloom.hlo.attributes import SliceDimension
from xloom.hlo.dtype import pred, s32
from xloom.hlo.instruction import Instruction
from xloom.hlo.module import Module
from xloom.hlo.shape import array_shape
from xloom.passes.base import Pass, register
from xloom.passes.op_expansion import expand_ops
from xloom.passes.rewrite import Rewriter, RuleTable

_MOST_BLOCKS = 32
"""Of a matrix: they are instructions of the program."""
_FEW_SIDES = 32
"""Right sides of a system that are solved by reading the matrix once, which takes the time."""


@register
@dataclass(frozen=True)
class LinearAlgebraBlocking(Pass):
    """Rewrites cholesky of more than `factored` rows and triangular-solve of more than `solved` by blocks of `block`.

    Smaller ones have kernels that leave less to be copied.
    """

    factored: int = 1024
    solved: int = 512
    block: int = 256

    name = "linear-algebra-blocking"
    opcodes = ("cholesky", "triangular-solve")

    def run(self, module: Module) -> bool:
        """See the class."""
        rules = RuleTable()
        rules("cholesky")(self._factor)
        rules("triangular-solve")(self._solution)
        return expand_ops(module, rules)

    # U[k, k:] = op(cholesky(B)) where B = A[k, k:] - U[:k, k]^H U[:k, k:]; L = U^H
    def _factor(self, i: Instruction, rw: Rewriter) -> Instruction | None:
        n = i.shape.dims[-1]
        if n <= self.factored or not i.shape.size:
            return None
        e, x = _Blocks(rw), i.operands[0]
        upper = rw.splat(i.shape, 0)
        for start, stop in self._blocks(n):
            if i["lower"]:
                strip = e.adjoint(e.part(x, (start, n), (start, stop)))
            else:
                strip = e.part(x, (start, stop), (start, n))
            if start:
                above = e.conjugate(e.part(upper, (0, start), (start, stop)))
                strip = e.minus(strip, e.product(above, e.part(upper, (0, start), (start, n)), -2, -2))
            size = stop - start
            corner = e.part(strip, (0, size), (0, size))
            corner = rw.make("cholesky", corner.shape, [corner], lower=False)
            upper = e.with_part(upper, corner, start, start)
            if stop < n:
                beside = e.part(strip, (0, size), (size, n - start))
                attributes = {"left_side": True, "lower": False, "unit_diagonal": False, "transpose_a": "ADJOINT"}
                solved = rw.make("triangular-solve", beside.shape, [corner, beside], **attributes)
                upper = e.with_part(upper, solved, start, stop)
        # every NaN reaches the last pivot
        upper = e.or_nan(upper, e.part(upper, (n - 1, n), (n - 1, n)))
        return e.adjoint(upper) if i["lower"] else upper

    # x[k] = op(a)[k, k]^-1 (b[k] - op(a)[k, known] x[known])
    def _solution(self, i: Instruction, rw: Rewriter) -> Instruction | None:
        (a, b), left = i.operands, i["left_side"]
        n, sides = b.shape.dims[-2:] if left else b.shape.dims[:-3:-1]
        if n <= self.solved or sides <= _FEW_SIDES or not b.shape.size:
            return None
        e, is_turned = _Blocks(rw), i["transpose_a"] in ("TRANSPOSE", "ADJOINT")
        # the first rows of op(a) x = b are known first if op(a) is lower, of x op(a) = b if it is upper
        forward = (i["lower"] != is_turned) == left
        blocks = list(self._blocks(n))
        x = rw.splat(b.shape, 0)
        for start, stop in blocks if forward else reversed(blocks):
            strip = e.along(b, (start, stop), left)
            known = (0, start) if forward else (stop, n)
            if known[0] < known[1]:
                here = ((start, stop), known) if left != is_turned else (known, (start, stop))
                factors = e.part(a, *here)
                if i["transpose_a"] == "ADJOINT":
                    factors = e.conjugate(factors)
                found = e.along(x, known, left)
                summed = -2 if left == is_turned else -1
                strip = e.minus(
                    strip, e.product(factors, found, summed, -2) if left else e.product(found, factors, -1, summed)
                )
            corner = e.part(a, (start, stop), (start, stop))
            solved = rw.make("triangular-solve", strip.shape, [corner, strip], **i.attrs)
            x = e.with_part(x, solved, *((start, 0) if left else (0, start)))
        return x

    def _blocks(self, n: int) -> Iterator[tuple[int, int]]:
        size = max(self.block, -(-n // _MOST_BLOCKS))
        return ((start, min(start + size, n)) for start in range(0, n, size))


Range = tuple[int, int]


@dataclass(frozen=True)
class _Blocks:
    """Instructions on the last two dimensions of arrays."""

    rw: Rewriter

    def part(self, x: Instruction, rows: Range, columns: Range) -> Instruction:
        """x[rows, columns]."""
        cuts = tuple(SliceDimension(*cut, 1) for cut in (*((0, n) for n in x.shape.dims[:-2]), rows, columns))
        return self.rw.make("slice", array_shape(x.shape.dtype, [c.limit - c.start for c in cuts]), [x], slice=cuts)

    def along(self, x: Instruction, places: Range, rows: bool) -> Instruction:
        """x[places] or x[:, places]."""
        all_rows, all_columns = ((0, n) for n in x.shape.dims[-2:])
        return self.part(x, *((places, all_columns) if rows else (all_rows, places)))

    def with_part(self, x: Instruction, part: Instruction, row: int, column: int) -> Instruction:
        """x with `part` in it from a row and column on."""
        index = array_shape(s32, ())
        starts = [self.rw.constant(index, k) for k in (*[0] * (x.shape.rank - 2), row, column)]
        return self.rw.make("dynamic-update-slice", x.shape, [x, part, *starts])

    def conjugate(self, x: Instruction) -> Instruction:
        """Itself where it is real."""
        if not x.shape.dtype.is_complex:
            return x
        parts = x.shape.with_dtype(x.shape.dtype.real)
        imag = self.rw.make("negate", parts, [self.rw.make("imag", parts, [x])])
        return self.rw.make("complex", x.shape, [self.rw.make("real", parts, [x]), imag])

    def adjoint(self, x: Instruction) -> Instruction:
        """x^H."""
        *batch, rows, columns = x.shape.dims
        rank = x.shape.rank
        shape = array_shape(x.shape.dtype, [*batch, columns, rows])
        turned = self.rw.make("transpose", shape, [x], dimensions=(*range(rank - 2), rank - 1, rank - 2))
        return self.conjugate(turned)

    def product(self, x: Instruction, y: Instruction, x_summed: int, y_summed: int) -> Instruction:
        """Their product, summed over those of the last two dimensions."""
        rank = x.shape.rank
        batch = tuple(range(rank - 2))
        dims = [*x.shape.dims[:-2], *(s.shape.dims[-3 - k] for s, k in ((x, x_summed), (y, y_summed)))]
        return self.rw.make(
            "dot",
            array_shape(x.shape.dtype, dims),
            [x, y],
            lhs_batch_dims=batch,
            rhs_batch_dims=batch,
            lhs_contracting_dims=(rank + x_summed,),
            rhs_contracting_dims=(rank + y_summed,),
        )

    def minus(self, x: Instruction, y: Instruction) -> Instruction:
        """x - y."""
        return self.rw.make("subtract", x.shape, [x, y])

    def or_nan(self, x: Instruction, pivot: Instruction) -> Instruction:
        """x, or NaN for a matrix whose `pivot`, an array of one element for each, is."""
        batch = x.shape.dims[:-2]
        kept = tuple(range(len(batch)))
        pivot = self.rw.make("reshape", array_shape(pivot.shape.dtype, batch), [pivot])
        bad = self.rw.make("compare", pivot.shape.with_dtype(pred), [pivot, pivot], direction="NE")
        bad = self.rw.make("broadcast", x.shape.with_dtype(pred), [bad], dimensions=kept)
        return self.rw.make("select", x.shape, [bad, self.rw.splat(x.shape, float("nan")), x])
