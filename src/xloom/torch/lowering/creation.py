"""Tensors from nothing, or from another's shape; conversions."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import torch

from xloom.hlo import dtype as dt
from xloom.hlo.instruction import Instruction
from xloom.torch.dtypes import hlo_dtype
from xloom.torch.lowering.elementwise import pow_
from xloom.torch.lowering.graph import Graph, Number, Value
from xloom.torch.lowering.promotion import complex_of, default_float, number_dtype, result_type
from xloom.torch.lowering.registry import lowers
from xloom.torch.lowering.scalar import Scalar

Dtype = torch.dtype | None


def dtype_or(dtype: Dtype, default: dt.DType) -> dt.DType:
    """The element type asked for, or `default`."""
    return default if dtype is None else hlo_dtype(dtype)


@lowers("aten.full.default")
def full(g: Graph, size, fill_value: Number, dtype: Dtype):
    """One value everywhere."""
    return g.full(size, fill_value, dtype_or(dtype, number_dtype(fill_value)))


@lowers("aten.zeros.default", "aten.empty.memory_format")
def zeros(g: Graph, size, dtype: Dtype):
    """Zeros; also where contents do not matter."""
    return g.full(size, 0, dtype_or(dtype, default_float()))


@lowers("aten.empty_strided.default", "aten.new_empty_strided.default", "aten.empty_permuted.default")
def empty_strided(g: Graph, size, dtype: Dtype, x=None, stride=None, physical_layout=None):
    """Zeros."""
    return g.full(size, 0, dtype_or(dtype, default_float() if x is None else x.shape.dtype))


@lowers("aten.ones.default")
def ones(g: Graph, size, dtype: Dtype):
    """Ones."""
    return g.full(size, 1, dtype_or(dtype, default_float()))


@lowers("aten.zeros_like.default", "aten.empty_like.default")
def zeros_like(g: Graph, x, dtype: Dtype):
    """Zeros in the shape of x."""
    return g.full(x.shape.dims, 0, dtype_or(dtype, x.shape.dtype))


@lowers("aten.ones_like.default")
def ones_like(g: Graph, x, dtype: Dtype):
    """Ones in the shape of x."""
    return g.full(x.shape.dims, 1, dtype_or(dtype, x.shape.dtype))


@lowers("aten.full_like.default")
def full_like(g: Graph, x, fill_value: Number, dtype: Dtype):
    """One value in the shape of x."""
    return g.full(x.shape.dims, fill_value, dtype_or(dtype, x.shape.dtype))


@lowers("aten.new_zeros.default", "aten.new_empty.default")
def new_zeros(g: Graph, x, size, dtype: Dtype):
    """Zeros of the dtype of x."""
    return g.full(size, 0, dtype_or(dtype, x.shape.dtype))


@lowers("aten.new_ones.default")
def new_ones(g: Graph, x, size, dtype: Dtype):
    """Ones of the dtype of x."""
    return g.full(size, 1, dtype_or(dtype, x.shape.dtype))


@lowers("aten.new_full.default")
def new_full(g: Graph, x, size, fill_value: Number, dtype: Dtype):
    """One value, of the dtype of x."""
    return g.full(size, fill_value, dtype_or(dtype, x.shape.dtype))


@lowers("aten.scalar_tensor.default")
def scalar_tensor(g: Graph, s: Number, dtype: Dtype):
    """A number as a tensor of rank 0."""
    return g.full((), s, dtype_or(dtype, default_float()))


@lowers("aten.fill.Scalar", "aten.fill.Tensor")
def fill(g: Graph, x, value: Value):
    """x with one value everywhere."""
    return g.full_like(x, value)


@lowers("aten.zero.default")
def zero(g: Graph, x):
    """Zeros in place of x."""
    return g.full_like(x, 0)


@lowers("aten.arange.start_step", "aten.arange.start", "aten.arange.default")
def arange(g: Graph, end, dtype: Dtype, start=0, step=1):
    """start, start + step, ... below end."""
    numbers = (start, end, step)
    target = dtype_or(dtype, dt.s64 if all(isinstance(n, int) for n in numbers) else default_float())
    if all(isinstance(n, int) for n in numbers):
        size = max(0, -((start - end) // step))
    else:
        size = max(0, math.ceil((end - start) / step))
    if size == 0:
        return g.full((0,), 0, target)
    wide = dt.s64 if target.is_integer else dt.f64 if target is dt.f64 else dt.f32
    counts = g.iota_along((size,), 0, wide)
    if step != 1:
        counts = g.multiply(counts, g.full_like(counts, step))
    return g.cast(counts if start == 0 else g.add(counts, g.full_like(counts, start)), target)


@lowers("aten.range.step", "aten.range.default")
def range_(g: Graph, start, end, dtype: Dtype, step=1):
    """start, start + step, ... up to end, which is among them."""
    target = dtype_or(dtype, default_float())
    steps = np.arange(math.floor((end - start) / step) + 1)
    wide = np.int64 if target.is_integer else np.float64
    return g.literal((wide(start) + steps * wide(step)).astype(target.numpy))


@lowers("aten.linspace.default")
def linspace(g: Graph, start: Number, end: Number, steps: int, dtype: Dtype):
    """So many points from start to end, both ends exact: the second half counts from the end."""
    if isinstance(start, Scalar) or isinstance(end, Scalar):
        return linspace_of_tensors(g, start, end, steps, dtype)
    inputs_complex = isinstance(start, complex) or isinstance(end, complex)
    target = dtype_or(dtype, dt.c64 if inputs_complex else default_float())
    if target.is_complex or isinstance(start, complex) or isinstance(end, complex):
        return g.literal(np.linspace(start, end, steps).astype(target.numpy))
    k = np.arange(steps)
    if target.is_integer:
        start, end = int(start), int(end)
        step = np.longdouble((end - start) / (steps - 1) if steps > 1 else 0.0)  # each point is rounded once, as by FMA
        points = np.where(k < max(1, steps // 2), start + step * k, end - step * (steps - 1 - k)).astype(np.float64)
        return g.literal(np.trunc(points).astype(target.numpy))
    real = np.float64 if target is dt.f64 else np.float32
    first, last = real(start), real(end)
    step = real((last - first) / real(steps - 1)) if steps > 1 else real(0)
    low, high = first + step * k.astype(real), last - step * (steps - 1 - k).astype(real)
    return g.literal(np.where(k < steps // 2, low, high if steps > 1 else low).astype(target.numpy))


@lowers("aten.linspace.Tensor_Tensor", "aten.linspace.Tensor_Scalar", "aten.linspace.Scalar_Tensor")
def linspace_of_tensors(g: Graph, start, end, steps: int, dtype: Dtype):
    """The same between numbers that are known when the program runs."""
    found = result_type(start, end)
    target = dtype_or(dtype, found if found.is_complex else default_float())
    first, last = (g.cast(e, target) for e in (start, end))
    if target.is_integer:
        first, last = g.cast(first, dt.f64), g.cast(last, dt.f64)
    wide = first.shape.dtype
    if wide.bits < 32:  # the ends are rounded before, the points after
        first, last = g.widened(first), g.widened(last)
        wide = dt.f32
    step = g.divide(g.subtract(last, first), g.full((), max(1, steps - 1), wide))
    k = g.iota_along((steps,), 0, dt.s64)
    first, last, step = (g.expand(e, (steps,)) for e in (first, last, step))
    low = g.add(first, g.multiply(step, g.cast(k, wide)))
    back = g.subtract(g.full_like(k, steps - 1), k)
    high = g.add(last, g.multiply(g.negate(step), g.cast(back, wide)))  # not a difference, which would be rounded twice
    early = g.compare(k, g.full_like(k, max(1, steps // 2)), direction="LT")
    return g.cast(g.select(early, low, high), target)


@lowers(
    *("aten.logspace.default", "aten.logspace.Tensor_Tensor", "aten.logspace.Tensor_Scalar"),
    "aten.logspace.Scalar_Tensor",
)
def logspace(g: Graph, start, end, steps: int, base: float, dtype: Dtype):
    """Powers of a base from start to end, both of which are cut to integers first where the result is of integers."""
    found = default_float()
    target = dtype_or(dtype, complex_of(found) if result_type(start, end).is_complex else found)
    ends = [g.cast(each, target) if isinstance(each, (Scalar, Instruction)) else each for each in (start, end)]
    if target.is_integer:
        ends = [each if isinstance(each, Instruction) else int(each) for each in ends]
    wide = torch.complex128 if target.is_complex else torch.float64
    between = linspace_of_tensors if any(isinstance(each, Instruction) for each in ends) else linspace
    return g.cast(pow_(g, base, between(g, *ends, steps, wide)), target)


@lowers("aten.eye.default", "aten.eye.m")
def eye(g: Graph, n: int, dtype: Dtype, m: int | None = None):
    """Ones on the diagonal."""
    dims = (n, n if m is None else m)
    same = g.compare(g.iota_along(dims, 0), g.iota_along(dims, 1), direction="EQ")
    return g.cast(same, dtype_or(dtype, default_float()))


@lowers("aten.tril_indices.default")
def tril_indices(g: Graph, row: int, col: int, offset: int, dtype: Dtype):
    """Rows and columns of the elements on and below a diagonal."""
    return g.literal(np.stack(np.tril_indices(row, offset, col)).astype(dtype_or(dtype, dt.s64).numpy))


@lowers("aten.triu_indices.default")
def triu_indices(g: Graph, row: int, col: int, offset: int, dtype: Dtype):
    """Rows and columns of the elements on and above a diagonal."""
    return g.literal(np.stack(np.triu_indices(row, offset, col)).astype(dtype_or(dtype, dt.s64).numpy))


@lowers("aten._to_copy.default")
def to_copy(g: Graph, x, dtype: Dtype):
    """x, which may be a number, as another dtype."""
    return x if dtype is None else g.cast(x, hlo_dtype(dtype))


@lowers("prims.convert_element_type.default")
def convert_element_type(g: Graph, a, dtype: torch.dtype):
    """The same, as torch's decompositions spell it."""
    return g.cast(a, hlo_dtype(dtype))


@lowers("aten.clone.default", "aten.contiguous.default", "aten.lift_fresh_copy.default", "aten.lift_fresh.default")
def clone(g: Graph, x):
    """x: values have no memory of their own."""
    return x


@lowers("aten.copy.default")
def copy(g: Graph, x, src: Value):
    """src, in the shape and dtype of x."""
    return g.expand(g.cast(src, x.shape.dtype), x.shape.dims)


@lowers("aten.view.dtype")
def view_dtype(g: Graph, x, dtype: torch.dtype):
    """The same bytes as another dtype."""
    return reinterpreted(g, x, hlo_dtype(dtype))


def reinterpreted(g: Graph, x, target: dt.DType):
    """The same bytes; the last dimension grows or shrinks with the element size."""
    own, dims = x.shape.dtype, list(x.shape.dims)
    if not dims and (own.is_complex or target.is_complex):  # of as many bytes
        return g.reshape_to(reinterpreted(g, g.reshape_to(x, (1,)), target), ())
    if own.is_complex or target.is_complex:
        from xloom.torch.lowering.complex_parts import view_as_complex, view_as_real

        if own.is_complex:
            parts = view_as_real(g, x)
            flat = g.reshape_to(parts, [*dims[:-1], dims[-1] * 2])
            return reinterpreted(g, flat, target)
        real = reinterpreted(g, x, target.real)
        sizes: Sequence[int] = real.shape.dims
        return view_as_complex(g, g.reshape_to(real, [*sizes[:-1], sizes[-1] // 2, 2]))
    a, b = own.bits, target.bits
    if own is dt.pred:
        x, own = g.convert(x, shape=x.shape.with_dtype(dt.u8)), dt.u8
    if target is dt.pred:
        return g.cast(reinterpreted(g, x, dt.u8), dt.pred)
    if a == b:
        return g.bitcast_convert(x, shape=x.shape.with_dtype(target))
    if a > b:
        wide = g.bitcast_convert(x, shape=target[(*dims, a // b)])
        return g.reshape_to(wide, [*dims[:-1], dims[-1] * (a // b)])
    grouped = g.reshape_to(x, [*dims[:-1], dims[-1] // (b // a), b // a])
    return g.bitcast_convert(grouped, shape=target[(*dims[:-1], dims[-1] // (b // a))])
