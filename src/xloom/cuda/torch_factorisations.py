"""PyTorch's factorisations as calls of LAPACK's routines that have kernels here."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from xloom.calls.registry import ABIS
from xloom.calls.torch_routines import PREFIX
from xloom.hlo.attributes import SliceDimension
from xloom.hlo.dtype import pred, s32
from xloom.hlo.instruction import Instruction
from xloom.hlo.module import Module
from xloom.hlo.shape import Shape, array_shape, tuple_shape
from xloom.passes.base import Pass, register
from xloom.passes.replacement import replace_each
from xloom.passes.rewrite import Rewriter, RuleTable

rule = RuleTable()
Values = Sequence[Instruction]
_LETTERS = {"f32": "s", "f64": "d", "c64": "c", "c128": "z"}
"""What LAPACK calls a type."""


@register
@dataclass(frozen=True)
class TorchFactorisations(Pass):
    """Makes calls of LAPACK of `xloom.torch.*`, of those which kernels of ours do as torch has them."""

    name = "torch-factorisations"

    def run(self, module: Module) -> bool:
        """See the class."""
        return replace_each(module, rule)


@rule("custom-call")
def _factorisation(call: Instruction, rw: Rewriter) -> Instruction | None:
    target = call["custom_call_target"]
    expand = _EXPANSIONS.get(target.removeprefix(PREFIX)) if target.startswith(PREFIX) else None
    if expand is None or not all(operand.shape.size for operand in call.operands):
        return None
    found = expand(_Expansion(call, rw), *call.operands, **json.loads(call.backend_config))
    if found is None:
        return None
    if not call.shape.is_tuple:
        (value,) = found
        return value
    return rw.make("tuple", call.shape, found)


class _Expansion:
    """Makes what a call is replaced by."""

    def __init__(self, call: Instruction, rw: Rewriter):
        self.rw, self.call = rw, call
        self.shapes: Sequence[Shape] = call.shape.elements if call.shape.is_tuple else (call.shape,)
        """Of the call's results."""
        self.dtype = call.operands[0].shape.dtype

    # -- calls
    def lapack(self, routine: str, operands: Values, results: Sequence[Shape], **letters: str) -> Values:
        """The results of a routine; options are letters."""
        shape = results[0] if len(results) == 1 else tuple_shape(results)
        target = f"lapack_{_LETTERS[self.dtype.name]}{routine}_ffi"
        call = self.rw.make("custom-call", shape, operands, custom_call_target=target, api_version=ABIS["typed-ffi"])
        given = ", ".join(f"{name} = {ord(letter)} : ui8" for name, letter in letters.items())
        call.backend_config = f"{{{given}}}"
        if len(results) == 1:
            return [call]
        return [self.rw.make("get-tuple-element", each, [call], index=k) for k, each in enumerate(results)]

    def lu(self, a: Instruction) -> Values:
        """getrf: both factors, pivots and info."""
        *batch, m, n = a.shape.dims
        return self.lapack("getrf", [a], [a.shape, array_shape(s32, (*batch, min(m, n))), array_shape(s32, batch)])

    def solved(self, a: Instruction, right: Instruction) -> tuple[Instruction, Values]:
        """x of a x = right, and what `lu` gives of a: elimination goes on in the columns behind those of a."""
        *batch, n, m = right.shape.dims
        whole = self.rw.make(
            "concatenate", array_shape(self.dtype, (*batch, n, n + m)), [a, right], dimensions=(len(batch) + 1,)
        )
        both, pivots, info = self.lu(whole)
        factors = self.columns(both, 0, n)
        x = self.rw.make(
            "triangular-solve", right.shape, [factors, self.columns(both, n, n + m)],
            left_side=True, lower=False, unit_diagonal=False, transpose_a="NO_TRANSPOSE",
        )  # fmt: skip
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
        return any(user.attrs.get("index", numbers[0]) in numbers for user in self.call.users)

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


Expansion = Callable[..., Values | None]


def _taus(e: _Expansion, a: Instruction) -> Shape:
    *batch, m, n = a.shape.dims
    return array_shape(e.dtype, (*batch, min(m, n)))


def _geqrf(e: _Expansion, a: Instruction) -> Values:
    return e.lapack("geqrf", [a], [a.shape, _taus(e, a)])


def _unitary(e: _Expansion, a: Instruction, taus: Instruction, shape: Shape) -> Values:
    return e.lapack("ungqr" if e.dtype.is_complex else "orgqr", [a, taus], [shape])


def _householder_product(e: _Expansion, a: Instruction, taus: Instruction) -> Values:
    return _unitary(e, a, taus, a.shape)


def _qr(e: _Expansion, a: Instruction, *, mode: str) -> Values:
    m, n = a.shape.dims[-2:]
    factors, taus = _geqrf(e, a)
    upper = e.of_matrices("LE", e.slice(factors, a.shape.rank - 2, 0, e.shapes[1].dims[-2]), 0)
    if mode == "r":
        return [e.nothing(0), upper]
    width = e.shapes[0].dims[-1]
    vectors = e.columns(factors, 0, min(width, n))
    if width > n:
        more = e.rw.splat(array_shape(e.dtype, (*a.shape.dims[:-2], m, width - n)), 0)
        vectors = e.rw.make("concatenate", e.shapes[0], [vectors, more], dimensions=(a.shape.rank - 1,))
    return [*_unitary(e, vectors, taus, e.shapes[0]), upper]


def _eigh(e: _Expansion, a: Instruction, *, UPLO: str, compute_v: bool) -> Values:
    batch = a.shape.dims[:-2]
    routine = "heevd" if e.dtype.is_complex else "syevd"
    shapes = [a.shape, e.shapes[0], array_shape(s32, batch)]
    vectors, values, info = e.lapack(routine, [a], shapes, mode="V", uplo=UPLO)
    return [e.told(info, values), e.told(info, vectors) if compute_v else e.nothing(1)]


def _svd(e: _Expansion, a: Instruction, *, full_matrices: bool, compute_uv: bool) -> Values:
    *batch, m, n = a.shape.dims
    k = min(m, n)
    width, height = (m, n) if full_matrices and compute_uv else (k, k)
    vectors = [array_shape(e.dtype, (*batch, m, width)), array_shape(e.dtype, (*batch, height, n))]
    shapes = [a.shape, e.shapes[1], *vectors, array_shape(s32, batch)]
    mode = "N" if not compute_uv else "A" if full_matrices else "S"
    _, values, left, right, info = e.lapack("gesdd", [a], shapes, mode=mode)
    if not compute_uv:
        return [e.nothing(0), e.told(info, values), e.nothing(2)]
    return [e.told(info, x) for x in (left, values, right)]


def _lu_factor(e: _Expansion, a: Instruction, *, pivot: bool, check_errors: bool) -> Values | None:
    return e.lu(a) if pivot else None


def _inverse(e: _Expansion, a: Instruction, *, check_errors: bool) -> Values:
    x, (_, _, info) = e.solved(a, e.identity(a.shape.dims))
    return [x, info]


def _as_factored(e: _Expansion, a: Instruction, columns: bool) -> Instruction:
    """Of real matrices that lie in rows, torch factors the transposes."""
    return a if columns or e.dtype.is_complex else e.turned(a)


def _det(e: _Expansion, a: Instruction, *, columns: bool = False) -> Values:
    factors, pivots, _ = e.lu(_as_factored(e, a, columns))
    product = e.reduced(e.diagonal(factors), "multiply", 1)
    found = e.rw.make("multiply", product.shape, [product, e.exchanges(pivots)])
    return [found, factors, pivots]


def _slogdet(e: _Expansion, a: Instruction, *, columns: bool = False) -> Values:
    factors, pivots, _ = e.lu(_as_factored(e, a, columns))
    diagonal = e.diagonal(factors)
    signs = e.reduced(e.unary("sign", diagonal), "multiply", 1)
    sign = e.rw.make("multiply", signs.shape, [signs, e.exchanges(pivots)])
    return [sign, e.reduced(e.unary("log", e.unary("abs", diagonal)), "add", 0), factors, pivots]


def _solve(
    e: _Expansion, a: Instruction, right: Instruction, *, left: bool, check_errors: bool, columns: bool = False
) -> Values | None:
    *batch, n, _ = a.shape.dims
    is_vector = right.shape.dims == (*batch, n)
    if not is_vector and right.shape.dims[:-2] != tuple(batch):
        return None
    if e.are_read(1, 2) and not columns and not e.dtype.is_complex:
        return None  # factors of the matrix or its transpose, as torch's version has it
    matrix = a
    if is_vector:
        right = e.rw.make("reshape", array_shape(e.dtype, (*batch, n, 1)), [right])
    if not left and not is_vector:
        matrix, right = e.turned(a), e.turned(right)
    x, (factors, pivots, info) = e.solved(matrix, right)
    if matrix is not a:
        factors, pivots, _ = e.lu(a)
    if is_vector:
        x = e.rw.make("reshape", e.shapes[0], [x])
    elif not left:
        x = e.turned(x)
    return [x, factors, pivots, info]


_EXPANSIONS: dict[str, Expansion] = {
    "_linalg_det": _det,
    "_linalg_eigh": _eigh,
    "_linalg_slogdet": _slogdet,
    "_linalg_solve_ex": _solve,
    "_linalg_svd": _svd,
    "geqrf": _geqrf,
    "linalg_householder_product": _householder_product,
    "linalg_inv_ex": _inverse,
    "linalg_lu_factor_ex": _lu_factor,
    "linalg_qr": _qr,
}
