"""Complex numbers: their parts, angles and conjugates."""

from __future__ import annotations

from xloom.hlo import dtype as dt
from xloom.torch.dtypes import hlo_dtype, torch_dtype
from xloom.torch.lowering.graph import Graph, Value
from xloom.torch.lowering.promotion import float_type, result_type
from xloom.torch.lowering.registry import lowers


@lowers("aten._conj.default", "aten._conj_physical.default", "aten.conj_physical.default")
def conj(g: Graph, x):
    """The conjugate."""
    if isinstance(x, (int, float, complex)):  # what a gradient is multiplied with
        return x.conjugate()
    return g.complex(g.real(x), g.negate(g.imag(x))) if x.shape.dtype.is_complex else x


@lowers("aten.resolve_conj.default", "aten.resolve_neg.default")
def resolve(g: Graph, x):
    """x: conjugation is never put off."""
    return x


@lowers("aten._neg_view.default")
def neg_view(g: Graph, x):
    """-x."""
    return g.negate(x)


@lowers("aten.real.default")
def real(g: Graph, x):
    """The real part."""
    return g.real(x) if x.shape.dtype.is_complex else x


@lowers("aten.imag.default")
def imag(g: Graph, x):
    """The imaginary part."""
    return g.imag(x)


@lowers("aten.complex.default")
def complex_(g: Graph, real, imag):
    """real + i imag. Raises UnsupportedError for halves, of which HLO has no complex numbers."""
    parts = g.broadcast_operands(real, imag)
    hlo_dtype(torch_dtype(parts[0].shape.dtype).to_complex())
    return g.complex(*parts)


@lowers("aten.polar.default")
def polar(g: Graph, abs: Value, angle: Value):
    """abs e^(i angle)."""
    size, angle = g.broadcast_operands(abs, angle, dtype=result_type(abs, angle))
    return g.complex(g.multiply(size, g.cosine(angle)), g.multiply(size, g.sine(angle)))


@lowers("aten.angle.default")
def angle(g: Graph, x):
    """The angle; of a negative real pi, of NaN NaN."""
    if x.shape.dtype.is_complex:
        return g.atan2(g.imag(x), g.real(x))
    x = g.cast(x, float_type(x))
    zero = g.full_like(x, 0)
    found = g.select(g.compare(x, zero, direction="LT"), g.full_like(x, 3.141592653589793), zero)
    return g.select(g.compare(x, x, direction="NE"), x, found)


@lowers("aten.view_as_real.default")
def view_as_real(g: Graph, x):
    """The parts, along a new last dimension."""
    dims = (*x.shape.dims, 1)
    return g.concat([g.reshape_to(g.real(x), dims), g.reshape_to(g.imag(x), dims)], x.shape.rank)


@lowers("aten.view_as_complex.default")
def view_as_complex(g: Graph, x):
    """The inverse of view_as_real."""
    last = x.shape.rank - 1
    parts = [g.reshape_to(g.slice_along(x, last, k, k + 1), x.shape.dims[:-1]) for k in range(2)]
    return g.complex(*parts)


@lowers("aten.is_nonzero.default")
def is_nonzero(g: Graph, x):
    """x != 0, of one element."""
    return g.cast(g.reshape_to(x, ()), dt.pred)
