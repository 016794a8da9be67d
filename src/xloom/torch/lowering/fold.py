"""Patches put together to images: of each dimension in turn, the sum of the patches' rows where they belong."""

from __future__ import annotations

from collections.abc import Sequence

from xloom.hlo.instruction import Instruction
from xloom.torch.lowering.graph import Graph
from xloom.torch.lowering.registry import lowers


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
