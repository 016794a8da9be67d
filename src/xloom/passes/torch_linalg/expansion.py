"""What PyTorch's linear algebra is made of: calls of LAPACK, and the operators round them."""

from __future__ import annotations

from collections.abc import Sequence

from xloom.calls.registry import ABIS
from xloom.hlo.attributes import SliceDimension
from xloom.hlo.dtype import pred, s32
from xloom.hlo.instruction import Instruction
from xloom.hlo.shape import Layout, Shape, array_shape, tuple_shape
from xloom.passes.rewrite import Rewriter

Values = Sequence[Instruction]
LETTERS = {"f32": "s", "f64": "d", "c64": "c", "c128": "z"}
"""What LAPACK calls a type."""


class Expansion:
    """Makes what a call is replaced by."""

    def __init__(self, call: Instruction, rw: Rewriter):
        self.rw, self.call = rw, call
        self.shapes: Sequence[Shape] = call.shape.elements if call.shape.is_tuple else (call.shape,)
        """Of the call's results."""
        self.dtype = call.operands[0].shape.dtype

    # -- calls
    def lapack(self, routine: str, operands: Values, results: Sequence[Shape], **options: str | bool) -> Values:
        """The results of a routine; options are letters, or yes or no."""
        shape = results[0] if len(results) == 1 else tuple_shape(results)
        target = f"lapack_{LETTERS[self.dtype.name]}{routine}_ffi"
        call = self.rw.make("custom-call", shape, operands, custom_call_target=target, api_version=ABIS["typed-ffi"])
        texts = {k: f"{ord(v)} : ui8" if isinstance(v, str) else str(v).lower() for k, v in options.items()}
        given = ", ".join(f"{name} = {text}" for name, text in texts.items())
        call.backend_config = f"{{{given}}}"
        if len(results) == 1:
            return [call]
        return [self.rw.make("get-tuple-element", each, [call], index=k) for k, each in enumerate(results)]

    def lapack_in_columns(
        self, routine: str, operands: Values, results: Sequence[Shape], **options: str | bool
    ) -> Values:
        """The same of matrices that lie in columns, as kernels of processors know them."""
        rank = operands[0].shape.rank

        def laid(shape: Shape) -> Shape:
            return (
                shape.with_layout(Layout((rank - 2, rank - 1, *reversed(range(rank - 2)))))
                if shape.rank == rank
                else shape
            )

        found = self.lapack(routine, operands, [*map(laid, results)], **options)
        call = found[0] if len(results) == 1 else found[0].operands[0]
        call.attrs["operand_layout_constraints"] = tuple(laid(x.shape) for x in operands)
        return found

    def lu(self, a: Instruction) -> Values:
        """getrf: both factors, pivots and info."""
        *batch, m, n = a.shape.dims
        shapes = [a.shape, array_shape(s32, (*batch, min(m, n))), array_shape(s32, batch)]
        return self.lapack_in_columns("getrf", [a], shapes)

    def solved(self, a: Instruction, right: Instruction) -> tuple[Instruction, Values]:
        """x of a x = right, and what `lu` gives of a: elimination goes on in the columns behind those of a."""
        *batch, n, m = right.shape.dims
        whole = self.rw.make(
            "concatenate", array_shape(self.dtype, (*batch, n, n + m)), [a, right], dimensions=(len(batch) + 1,)
        )
        both, pivots, info = self.lu(whole)
        factors = self.columns(both, 0, n)
        x = self.triangular(factors, self.columns(both, n, n + m), lower=False, unit=False)
        return x, [factors, pivots, info]

    # -- arrays
    def slice(self, x: Instruction, dimension: int, first: int, end: int) -> Instruction:
        """A part of one dimension."""
        cut = [SliceDimension(0, size) for size in x.shape.dims]
        cut[dimension] = SliceDimension(first, end)
        dims = tuple(d.limit - d.start for d in cut)
        return (
            x if dims == x.shape.dims else self.rw.make("slice", array_shape(self.dtype, dims), [x], slice=tuple(cut))
        )

    def columns(self, x: Instruction, first: int, end: int) -> Instruction:
        """Some columns of each matrix."""
        return self.slice(x, x.shape.rank - 1, first, end)

    def turned(self, x: Instruction) -> Instruction:
        """The transpose of each matrix."""
        order = [*range(x.shape.rank)]
        order[-2:] = order[:-3:-1]
        dims = tuple(x.shape.dims[k] for k in order)
        return self.rw.make("transpose", array_shape(x.shape.dtype, dims), [x], dimensions=tuple(order))

    def numbers(self, dims: Sequence[int], dimension: int) -> Instruction:
        """The number of each row, or column (s32)."""
        return self.rw.make("iota", array_shape(s32, dims), iota_dimension=len(dims) + dimension)

    def adjoint(self, x: Instruction) -> Instruction:
        """The conjugate transpose of each matrix."""
        turned = self.turned(x)
        if not self.dtype.is_complex:
            return turned
        real, imag = (self.rw.make(p, turned.shape.with_dtype(self.dtype.real), [turned]) for p in ("real", "imag"))
        return self.rw.make("complex", turned.shape, [real, self.rw.make("negate", imag.shape, [imag])])

    def product(self, x: Instruction, y: Instruction) -> Instruction:
        """Of two matrices."""
        batch = tuple(range(x.shape.rank - 2))
        return self.rw.make(
            "dot", array_shape(self.dtype, (*x.shape.dims[:-1], y.shape.dims[-1])), [x, y],
            lhs_batch_dims=batch, rhs_batch_dims=batch,
            lhs_contracting_dims=(len(batch) + 1,), rhs_contracting_dims=(len(batch),),
        )  # fmt: skip

    def spread(self, x: Instruction, dims: Sequence[int], *dimensions: int) -> Instruction:
        """An array whose last dimensions are these of the result, those before them the first ones."""
        outer = x.shape.rank - len(dimensions)
        kept = (*range(outer), *(len(dims) + d for d in dimensions))
        return self.rw.make("broadcast", array_shape(x.shape.dtype, dims), [x], dimensions=kept)

    def stretched(self, x: Instruction, batch: Sequence[int]) -> Instruction:
        """Matrices of a batch that is as torch broadcasts them."""
        dims, kept = (*batch, *x.shape.dims[-2:]), []
        if x.shape.dims == dims:
            return x
        for number, size in enumerate(x.shape.dims, len(dims) - x.shape.rank):
            if size == dims[number]:
                kept.append(number)
        flat = self.rw.make("reshape", array_shape(x.shape.dtype, [dims[k] for k in kept]), [x])
        return self.rw.make("broadcast", array_shape(x.shape.dtype, dims), [flat], dimensions=tuple(kept))

    def triangular(
        self, a: Instruction, right: Instruction, *, lower: bool, unit: bool, transpose: str = "NO_TRANSPOSE"
    ) -> Instruction:
        """x of a x = right."""
        return self.rw.make(
            "triangular-solve", right.shape, [a, right],
            left_side=True, lower=lower, unit_diagonal=unit, transpose_a=transpose,
        )  # fmt: skip

    # -- rows in another order
    def order(self, pivots: Instruction, rows: int) -> Instruction:
        """Which row comes to each place, of LAPACK's pivots."""
        from_zero = self.rw.make("subtract", pivots.shape, [pivots, self.rw.splat(pivots.shape, 1)])
        call = self.rw.make(
            "custom-call", array_shape(s32, (*pivots.shape.dims[:-1], rows)), [from_zero],
            custom_call_target="cu_lu_pivots_to_permutation", api_version=ABIS["typed-ffi"],
        )  # fmt: skip
        call.backend_config = "{}"
        return call

    def order_back(self, order: Instruction) -> Instruction:
        """At which place each row is."""
        dims = (*order.shape.dims, order.shape.dims[-1])
        same = self.compared(self.numbers(dims, -2), self.spread(order, dims, -1), "EQ")
        places = self.numbers(dims, -1)
        return self.reduced(self.chosen(same, places, 0), "add", 0)

    def in_order(self, x: Instruction, order: Instruction) -> Instruction:
        """The rows of each matrix that an order names."""
        *batch, _, columns = x.shape.dims
        outer = tuple(range(len(batch)))
        return self.rw.make(
            "gather", array_shape(self.dtype, (*order.shape.dims, columns)), [x, order],
            offset_dims=(len(batch) + 1,), collapsed_slice_dims=(len(batch),), start_index_map=(len(batch),),
            operand_batching_dims=outer, start_indices_batching_dims=outer, index_vector_dim=order.shape.rank,
            slice_sizes=(*[1] * (len(batch) + 1), columns),
        )  # fmt: skip

    def compared(self, x: Instruction, y: Instruction, direction: str) -> Instruction:
        """x < y and the like."""
        return self.rw.make("compare", x.shape.with_dtype(pred), [x, y], direction=direction)

    def chosen(self, where: Instruction, x: Instruction, other: float) -> Instruction:
        """x where a predicate holds, a number elsewhere."""
        return self.rw.make("select", x.shape, [where, x, self.rw.splat(x.shape, other)])

    def of_matrices(self, direction: str, x: Instruction, other: float) -> Instruction:
        """x where its row's number compares so with its column's, a number elsewhere."""
        dims = x.shape.dims
        return self.chosen(self.compared(self.numbers(dims, -2), self.numbers(dims, -1), direction), x, other)

    def identity(self, dims: Sequence[int]) -> Instruction:
        """Ones on the diagonal of each matrix."""
        return self.of_matrices("EQ", self.rw.splat(array_shape(self.dtype, dims), 1), 0)

    def reduced(self, x: Instruction, opcode: str, start: float) -> Instruction:
        """All of the last dimension put together."""
        shape, module = array_shape(x.shape.dtype, x.shape.dims[:-1]), self.rw.computation.module
        assert module is not None
        start_value = self.rw.constant(array_shape(x.shape.dtype, ()), start)
        return self.rw.make(
            "reduce", shape, [x, start_value],
            dimensions=(x.shape.rank - 1,), to_apply=self.rw.combiner(opcode, opcode, x.shape.dtype),
        )  # fmt: skip

    def are_read(self, *numbers: int) -> bool:
        """Whether some of the call's results are."""
        is_root = self.rw.computation.root is self.call
        return is_root or any(user.attrs.get("index", numbers[0]) in numbers for user in self.call.users)

    def unary(self, opcode: str, x: Instruction) -> Instruction:
        """An operator of each element; of complex numbers, `abs` is real."""
        shape = x.shape.with_dtype(x.shape.dtype.real) if opcode == "abs" else x.shape
        return self.rw.make(opcode, shape, [x])

    def diagonal(self, x: Instruction) -> Instruction:
        """That of each square matrix."""
        return self.reduced(self.of_matrices("EQ", x, 0), "add", 0)

    def exchanges(self, pivots: Instruction) -> Instruction:
        """The determinant of what pivots exchange: 1 or -1."""
        dims = pivots.shape.dims
        one = self.rw.splat(pivots.shape, 1)
        own = self.rw.make("add", pivots.shape, [self.numbers(dims, -1), one])
        signs = self.chosen(self.compared(pivots, own, "EQ"), self.rw.splat(array_shape(self.dtype, dims), 1), -1)
        return self.reduced(signs, "multiply", 1)

    def told(self, info: Instruction, x: Instruction) -> Instruction:
        """x, or NaN where info says that a matrix has no such factors."""
        good = self.compared(info, self.rw.splat(info.shape, 0), "EQ")
        shape = array_shape(pred, x.shape.dims)
        of_each = self.rw.make("broadcast", shape, [good], dimensions=tuple(range(info.shape.rank)))
        return self.chosen(of_each, x, float("nan"))

    def nothing(self, number: int) -> Instruction:
        """A result that was not asked for."""
        return self.rw.splat(self.shapes[number], 0)
