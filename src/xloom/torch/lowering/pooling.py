"""Pooling by windows: averages, maxima and where those are; and the gradients."""

from __future__ import annotations

import math
from collections.abc import Sequence

from xloom.hlo import dtype as dt
from xloom.hlo.attributes import WindowDimension
from xloom.hlo.instruction import Instruction
from xloom.hlo.shape import array_shape
from xloom.torch.lowering.graph import Graph
from xloom.torch.lowering.identity_value import identity_value
from xloom.torch.lowering.registry import lowers
from xloom.torch.lowering.scatter import scatter_lines


class PoolingWindow:
    """A pooling window over the last dimensions, with what torch's arguments leave out."""

    def __init__(self, x: Instruction, rank: int, kernel, stride, padding, dilation, ceil_mode: bool):
        def each(values: Sequence[int], default: Sequence[int]) -> list[int]:
            values = list(values) or list(default)
            return values * rank if len(values) == 1 else values

        self.rank = rank
        self.kernel = each(kernel, ())
        self.stride = each(stride, self.kernel)
        self.padding = each(padding, [0])
        self.dilation = each(dilation, [1])
        self.sizes = list(x.shape.dims[-rank:])
        self.lead = x.shape.rank - rank
        self.out = []
        self.high = []
        for k in range(rank):
            span = self.dilation[k] * (self.kernel[k] - 1) + 1
            room = self.sizes[k] + 2 * self.padding[k] - span
            count = (-(-room // self.stride[k]) if ceil_mode else room // self.stride[k]) + 1
            if ceil_mode and (count - 1) * self.stride[k] >= self.sizes[k] + self.padding[k]:
                count -= 1
            self.out.append(count)
            self.high.append((count - 1) * self.stride[k] + span - self.sizes[k] - self.padding[k])

    def dimensions(self) -> list[WindowDimension]:
        """As HLO has it."""
        lead = [WindowDimension(1)] * self.lead
        return lead + [
            WindowDimension(self.kernel[k], self.stride[k], self.padding[k], self.high[k], self.dilation[k])
            for k in range(self.rank)
        ]


def _sums(g: Graph, x: Instruction, window: PoolingWindow) -> Instruction:
    dtype = x.shape.dtype
    return g.reduce_window(x, g.scalar(0, dtype), window=window.dimensions(), to_apply=g.region("add", dtype))


def _divisors(window: PoolingWindow, count_include_pad: bool, divisor: int | None):
    """How many elements each window's sum is divided by, an array of the window's places or one number."""
    import numpy as np

    if divisor:
        return divisor
    each = []
    for k in range(window.rank):
        starts = np.arange(window.out[k]) * window.stride[k] - window.padding[k]
        ends = np.minimum(starts + window.kernel[k], window.sizes[k] + window.padding[k])
        if not count_include_pad:
            starts, ends = np.maximum(starts, 0), np.minimum(ends, window.sizes[k])
        each.append((ends - starts).reshape([-1 if j == k else 1 for j in range(window.rank)]))
    counts = math.prod(each[1:], start=each[0])
    return int(counts.flat[0]) if counts.size and (counts == counts.flat[0]).all() else counts


def _divided(g: Graph, x: Instruction, divisors) -> Instruction:
    if isinstance(divisors, int):
        if x.shape.dtype.is_integer:
            return g.divide(x, g.full_like(x, divisors))
        return g.divide(x, g.full_like(x, divisors))
    return g.divide(x, g.expand(g.literal(divisors.astype(x.shape.dtype.numpy)), x.shape.dims))


def _average(g: Graph, x, rank: int, kernel, stride, padding, ceil_mode, include, divisor) -> Instruction:
    window = PoolingWindow(x, rank, kernel, stride, padding, [1], ceil_mode)
    total = _sums(g, g.widened(x), window)
    return g.cast(_divided(g, total, _divisors(window, include, divisor)), x.shape.dtype)


@lowers("aten.avg_pool2d.default")
def avg_pool2d(
    g: Graph, x, kernel_size, stride, padding, ceil_mode: bool, count_include_pad: bool, divisor_override: int | None
):
    """The mean of each window of a plane."""
    return _average(g, x, 2, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override)


@lowers("aten.avg_pool3d.default")
def avg_pool3d(
    g: Graph, x, kernel_size, stride, padding, ceil_mode: bool, count_include_pad: bool, divisor_override: int | None
):
    """The mean of each window of a volume."""
    return _average(g, x, 3, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override)


def _average_gradient(g: Graph, grad, x, rank: int, kernel, stride, padding, ceil_mode, include, divisor):
    window = PoolingWindow(x, rank, kernel, stride, padding, [1], ceil_mode)
    each = _divided(g, g.widened(grad), _divisors(window, include, divisor))
    # every element's gradient is the sum of those of the windows that it is in
    lead = [WindowDimension(1)] * window.lead
    dims = []
    for k in range(rank):
        low = window.kernel[k] - 1 - window.padding[k]
        spread = (window.out[k] - 1) * window.stride[k] + 1
        high = window.sizes[k] + window.kernel[k] - 1 - low - spread
        dims.append(WindowDimension(window.kernel[k], 1, low, high, 1, window.stride[k]))
    dtype = each.shape.dtype
    total = g.reduce_window(each, g.scalar(0, dtype), window=lead + dims, to_apply=g.region("add", dtype))
    return g.cast(total, x.shape.dtype)


@lowers("aten.avg_pool2d_backward.default")
def avg_pool2d_backward(
    g: Graph, grad_output, x, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override
):
    """The gradient of the means of a plane's windows."""
    return _average_gradient(
        g, grad_output, x, 2, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override
    )


@lowers("aten.avg_pool3d_backward.default")
def avg_pool3d_backward(
    g: Graph, grad_output, x, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override
):
    """The gradient of the means of a volume's windows."""
    return _average_gradient(
        g, grad_output, x, 3, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override
    )


def _flat_places(g: Graph, sizes: Sequence[int], dims: Sequence[int]) -> Instruction:
    """The number of each element in its plane or volume."""
    flat = g.iota_along((math.prod(sizes),), 0)
    return g.expand(g.reshape_to(flat, sizes), dims)


def greatest_with_place(g: Graph, x: Instruction, places: Instruction, window: list[WindowDimension]):
    """The greatest of each window and where it is: the first one, or the last NaN."""
    dtype = x.shape.dtype
    key = ("window maximum", dtype)
    if key not in g._regions:
        r = g.subgraph("greater")
        scalar, place = array_shape(dtype, ()), dt.s64[()]
        a, i, b, j = r.parameter(scalar), r.parameter(place), r.parameter(scalar), r.parameter(place)
        better = r.compare(b, a, direction="GT")
        earlier = r.and_(r.compare(b, a, direction="EQ"), r.compare(j, i, direction="LT"))
        # a place of -1 is padding's
        unset = r.compare(i, r.full_like(i, 0), direction="LT")
        set_ = r.compare(j, r.full_like(j, 0), direction="GE")
        better = r.or_(r.or_(better, r.and_(earlier, set_)), r.and_(unset, set_))
        if dtype.is_float:
            nan, other = r.compare(a, a, direction="NE"), r.compare(b, b, direction="NE")
            better = r.or_(
                r.and_(better, r.not_(nan)), r.and_(other, r.or_(r.not_(nan), r.compare(j, i, direction="GT")))
            )
        g._regions[key] = r.builder.finish(r.tuple(r.select(better, b, a), r.select(better, j, i)))
    initial = g.scalar(identity_value("amax", dtype), dtype)
    both = g.reduce_window(x, places, initial, g.scalar(-1, dt.s64), window=window, to_apply=g._regions[key])
    return g.get_tuple_element(both, index=0), g.get_tuple_element(both, index=1)


def _max_pool(g: Graph, x, rank: int, kernel, stride, padding, dilation, ceil_mode) -> list[Instruction | None]:
    window = PoolingWindow(x, rank, kernel, stride, padding, dilation, ceil_mode)
    if g.read == {0}:
        dtype = x.shape.dtype
        initial = g.scalar(identity_value("amax", dtype), dtype)
        return [g.reduce_window(x, initial, window=window.dimensions(), to_apply=g.region("maximum", dtype)), None]
    places = _flat_places(g, window.sizes, x.shape.dims)
    return list(greatest_with_place(g, x, places, window.dimensions()))


@lowers("aten.max_pool2d_with_indices.default")
def max_pool2d_with_indices(g: Graph, x, kernel_size, stride, padding, dilation, ceil_mode: bool):
    """The greatest of each window of a plane, and where it is."""
    return _max_pool(g, x, 2, kernel_size, stride, padding, dilation, ceil_mode)


@lowers("aten.max_pool3d_with_indices.default")
def max_pool3d_with_indices(g: Graph, x, kernel_size, stride, padding, dilation, ceil_mode: bool):
    """The greatest of each window of a volume, and where it is."""
    return _max_pool(g, x, 3, kernel_size, stride, padding, dilation, ceil_mode)


def put_back(g: Graph, grad: Instruction, x: Instruction, indices: Instruction, rank: int) -> Instruction:
    """Each gradient added at its place in the planes or volumes of x."""
    lead = math.prod(x.shape.dims[:-rank])
    size = math.prod(x.shape.dims[-rank:])
    count = math.prod(grad.shape.dims[-rank:])
    grad = g.reshape_to(g.widened(grad), (lead, count))
    zeros = g.full((lead, size), 0, grad.shape.dtype)
    total = scatter_lines(g, zeros, 1, g.reshape_to(indices, (lead, count)), grad, "add")
    return g.cast(g.reshape_to(total, x.shape.dims), x.shape.dtype)


@lowers("aten.max_pool2d_with_indices_backward.default")
def max_pool2d_backward(g: Graph, grad_output, x, kernel_size, stride, padding, dilation, ceil_mode, indices):
    """The gradient of the maxima of a plane's windows."""
    return put_back(g, grad_output, x, indices, 2)


@lowers("aten.max_pool3d_with_indices_backward.default")
def max_pool3d_backward(g: Graph, grad_output, x, kernel_size, stride, padding, dilation, ceil_mode, indices):
    """The gradient of the maxima of a volume's windows."""
    return put_back(g, grad_output, x, indices, 3)
