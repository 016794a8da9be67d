"""Patches put together to images: of each dimension in turn, the sum of the patches' rows where they belong."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from xloom.hlo.instruction import Instruction
from xloom.torch.lowering.graph import Graph, normalized
from xloom.torch.lowering.registry import lowers
from xloom.torch.lowering.scatter import put_along

_FEW = 16
"""Pieces of a window that are added one after another; of more, each element is added where it belongs."""


def _joined(g: Graph, x: Instruction, size: int, dilation: int, padding: int, stride: int) -> Instruction:
    """x [batch, channels, kernel, places, ...] as [batch, channels, size, ...]."""
    batch, channels, kernel, places, *rest = x.shape.dims
    if stride == kernel and dilation == 1:  # patches do not meet
        side_by_side = g.permute(x, [0, 1, 3, 2, *range(4, x.shape.rank)])
        return _cut(g, g.reshape_to(side_by_side, [batch, channels, places * kernel, *rest]), -padding, size)
    total = None
    for k in range(kernel):
        row = g.reshape_to(g.slice_along(x, 2, k, k + 1), [batch, channels, places, *rest])
        row = _cut(g, row, k * dilation - padding, size, stride)
        total = row if total is None else g.add(total, row)
    assert total is not None
    return total


def _cut(g: Graph, x: Instruction, begin: int, size: int, stride: int = 1) -> Instruction:
    """x with dimension 2 of a size: its elements, `stride` apart, from place `begin` on."""
    padding = [(0, 0, 0)] * x.shape.rank
    end = begin + (x.shape.dims[2] - 1) * stride + 1
    padding[2] = (begin, size - end, stride - 1)
    return g.pad_with(x, padding, 0)


@lowers("aten.col2im.default")
def col2im(
    g: Graph,
    x: Instruction,
    output_size: Sequence[int],
    kernel_size: Sequence[int],
    dilation: Sequence[int],
    padding: Sequence[int],
    stride: Sequence[int],
):
    """Images of [batch, channels * kernel, patches]: sums where patches overlap."""
    batched = x if x.shape.rank == 3 else g.reshape_to(x, (1, *x.shape.dims))
    by_side = zip(output_size, kernel_size, dilation, padding, stride, strict=True)
    rows, columns = ((n + 2 * p - d * (k - 1) - 1) // s + 1 for n, k, d, p, s in by_side)
    batch, channels = batched.shape.dims[0], batched.shape.dims[1] // (kernel_size[0] * kernel_size[1])
    own = x.shape.dtype
    out = g.reshape_to(g.widened(batched), [batch, channels * kernel_size[0], kernel_size[1], rows, columns])
    # along the lines first: the sums of whole lines are then fewer
    out = g.permute(out, [0, 1, 2, 4, 3])
    out = _joined(g, out, output_size[1], dilation[1], padding[1], stride[1])
    out = g.permute(out, [0, 1, 3, 2])
    out = g.reshape_to(out, [batch, channels, kernel_size[0], rows, output_size[1]])
    out = _joined(g, out, output_size[0], dilation[0], padding[0], stride[0])
    return g.cast(g.reshape_to(out, (*x.shape.dims[:-2], channels, *output_size)), own)


@lowers("aten.unfold_backward.default")
def unfold_backward(g: Graph, grad_in, input_sizes: Sequence[int], dim: int, size: int, step: int):
    """The sum of windows where they were in a dimension: of pieces as long as a step, each row of them a place on."""
    if not input_sizes:
        return g.reshape_to(grad_in, ())
    dim = normalized(dim, len(input_sizes))
    length, rank = input_sizes[dim], len(input_sizes)
    windows = grad_in.shape.dims[dim]
    x = g.expand(g.widened(grad_in), (*input_sizes[:dim], windows, *input_sizes[dim + 1 :], size))
    x = g.permute(x, [*range(dim + 1), rank, *range(dim + 1, rank)])
    outer, inner = input_sizes[:dim], input_sizes[dim + 1 :]
    pieces = -(-size // step)
    if pieces > _FEW:
        places = np.arange(windows)[:, None] * step + np.arange(size)
        row = g.reshape_to(x, (*outer, windows * size, *inner))
        total = put_along(g, g.full(input_sizes, 0, x.shape.dtype), dim, g.literal(places.reshape(-1)), row, "add")
        return g.cast(total, grad_in.shape.dtype)
    x = _resized(g, x, dim + 1, pieces * step)
    x = g.reshape_to(x, (*outer, windows, pieces, step, *inner))
    total = None
    for k in range(pieces):
        row = g.reshape_to(g.slice_along(x, dim + 1, k, k + 1), (*outer, windows, step, *inner))
        padding = [(0, 0)] * row.shape.rank
        padding[dim] = (k, pieces - 1 - k)
        row = g.pad_with(row, padding, 0)
        total = row if total is None else g.add(total, row)
    assert total is not None
    joined = g.reshape_to(total, (*outer, (windows + pieces - 1) * step, *inner))
    return g.cast(_resized(g, joined, dim, length), grad_in.shape.dtype)


def _resized(g: Graph, x: Instruction, dim: int, size: int) -> Instruction:
    """x with zeros at the end of a dimension, or without the elements there."""
    padding = [(0, 0)] * x.shape.rank
    padding[dim] = (0, size - x.shape.dims[dim])
    return g.pad_with(x, padding, 0)
