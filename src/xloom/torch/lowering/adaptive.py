"""Pooling to a size that is asked for: windows that differ in size, and random ones."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from xloom.hlo import dtype as dt
from xloom.hlo.instruction import Instruction
from xloom.torch.lowering.graph import Graph
from xloom.torch.lowering.pooling import put_back
from xloom.torch.lowering.reduce import extreme_with_index
from xloom.torch.lowering.registry import lowers


def _matrix(size: int, out: int) -> np.ndarray:
    """Row i has what each element adds to the i-th mean."""
    starts = np.arange(out) * size // max(1, out)
    ends = -(-(np.arange(out) + 1) * size // max(1, out))
    at = np.arange(size)
    inside = (at >= starts[:, None]) & (at < ends[:, None])
    return inside / np.maximum(inside.sum(1, keepdims=True), 1)


def _along(g: Graph, x: Instruction, dim: int, matrix: np.ndarray) -> Instruction:
    """Each line of x along a dimension, multiplied by a matrix."""
    weights = g.literal(matrix.astype(x.shape.dtype.numpy))
    product = g.dot(x, weights, lhs_contracting_dims=(dim,), rhs_contracting_dims=(1,))
    order = list(range(x.shape.rank - 1))
    order.insert(dim, x.shape.rank - 1)
    return g.permute(product, order)


def _means(g: Graph, x: Instruction, output_size: Sequence[int], *, gradient_of: Instruction | None = None):
    rank = len(output_size)
    wide = g.widened(x)
    for k in range(rank):
        dim = x.shape.rank - rank + k
        if gradient_of is None:
            wide = _along(g, wide, dim, _matrix(x.shape.dims[dim], output_size[k]))
        else:
            wide = _along(g, wide, dim, _matrix(gradient_of.shape.dims[dim], x.shape.dims[dim]).T)
    return g.cast(wide, x.shape.dtype)


@lowers("aten._adaptive_avg_pool2d.default", "aten._adaptive_avg_pool3d.default")
def adaptive_avg_pool(g: Graph, x, output_size):
    """Means of as many windows as are asked for."""
    return _means(g, x, output_size)


@lowers("aten._adaptive_avg_pool2d_backward.default")
def adaptive_avg_pool2d_backward(g: Graph, grad_output, x):
    """The gradient of such means of a plane."""
    return _means(g, grad_output, [0] * 2, gradient_of=x)


@lowers("aten._adaptive_avg_pool3d_backward.default")
def adaptive_avg_pool3d_backward(g: Graph, grad_output, x):
    """The gradient of such means of a volume."""
    return _means(g, grad_output, [0] * 3, gradient_of=x)


def _windows_maxima(g: Graph, x: Instruction, starts: list[np.ndarray], lengths: list[np.ndarray]) -> list[Instruction]:
    """The greatest of windows that start and end anywhere, and where it is."""
    rank = len(starts)
    sizes = x.shape.dims[-rank:]
    widest = [int(length.max(initial=1)) for length in lengths]
    flat = np.zeros([1] * (2 * rank), np.int64)
    for k in range(rank):
        # beyond its end, a window sees its last element once more
        steps = np.minimum(np.arange(widest[k])[None, :], lengths[k][:, None] - 1)
        at = starts[k][:, None] + steps
        shape = [1] * (2 * rank)
        shape[k], shape[rank + k] = at.shape
        flat = flat * sizes[k] + at.reshape(shape)
    outs = [len(s) for s in starts]
    places = flat.reshape([*outs, -1])
    lead = x.shape.dims[:-rank]
    count = int(np.prod(sizes))
    rows = g.reshape_to(x, [*lead, count])
    from xloom.torch.lowering.index import take_along

    taken = take_along(g, rows, len(lead), g.literal(places))
    values, which = extreme_with_index(g, taken, taken.shape.rank - 1, True)
    spread = g.expand(g.literal(places), taken.shape.dims)
    from xloom.torch.lowering.index import as_column, gather_lines

    found = gather_lines(g, spread, taken.shape.rank - 1, as_column(g, which))
    return [values, g.reshape_to(found, values.shape.dims)]


@lowers("aten.adaptive_max_pool2d.default", "aten.adaptive_max_pool3d.default")
def adaptive_max_pool(g: Graph, x, output_size):
    """Maxima of as many windows as are asked for, and where they are."""
    rank = len(output_size)
    starts, lengths = [], []
    for k, out in enumerate(output_size):
        size = x.shape.dims[x.shape.rank - rank + k]
        first = np.arange(out) * size // max(1, out)
        starts.append(first)
        lengths.append(-(-(np.arange(out) + 1) * size // max(1, out)) - first)
    if 0 in output_size or 0 in x.shape.dims:
        dims = [*x.shape.dims[:-rank], *output_size]
        return [g.full(dims, 0, x.shape.dtype), g.full(dims, 0, dt.s64)]
    return _windows_maxima(g, x, starts, lengths)


@lowers("aten.adaptive_max_pool2d_backward.default")
def adaptive_max_pool2d_backward(g: Graph, grad_output, x, indices):
    """The gradient of such maxima of a plane."""
    return put_back(g, grad_output, x, indices, 2)


@lowers("aten.adaptive_max_pool3d_backward.default")
def adaptive_max_pool3d_backward(g: Graph, grad_output, x, indices):
    """The gradient of such maxima of a volume."""
    return put_back(g, grad_output, x, indices, 3)
