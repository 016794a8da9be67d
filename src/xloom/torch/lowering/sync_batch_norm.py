"""Batch norm over several processes, in the parts that `torch.nn.SyncBatchNorm` puts between its collectives.

torch has them for GPUs alone. Statistics are in the type that torch computes in.
"""

from __future__ import annotations

from collections.abc import Sequence

from xloom.hlo.instruction import Instruction
from xloom.torch.lowering.graph import Graph
from xloom.torch.lowering.norm import moved, per_channel
from xloom.torch.lowering.reduce import moments
from xloom.torch.lowering.registry import lowers


def _but_channels(x: Instruction) -> list[int]:
    return [0, *range(2, x.shape.rank)]


@lowers("aten.batch_norm_stats.default")
def batch_norm_stats(g: Graph, input, eps: float):
    """The mean and 1 / deviation of each channel of this process's batch."""
    spread, mean = (g.reshape_to(r, (input.shape.dims[1],)) for r in moments(g, input, _but_channels(input), 0))
    return [mean, g.rsqrt(g.add(spread, g.full_like(spread, eps)))]


def gathered_stats(
    g: Graph, input, mean, invstd, running_mean, running_var, momentum: float, eps: float, counts
) -> Sequence[Instruction | None]:
    """Mean and 1 / deviation of all batches of [process, channel] `mean` and `invstd`, and the new running ones.

    `counts` says of how many elements each is, or of each as many.
    """
    mean, invstd = g.widened(mean), g.widened(invstd)
    if isinstance(counts, int):
        share = g.full_like(mean, counts)
    else:
        share = g.expand(g.reshape_to(g.cast(counts, mean.shape.dtype), (mean.shape.dims[0], 1)), mean.shape.dims)
    total = g.reduce_with(share, "add", 0, [0])
    average = g.divide(g.reduce_with(g.multiply(mean, share), "add", 0, [0]), total)
    # var = 1 / invstd^2 - eps; sum n (var + (mean - average)^2) / sum n
    spread = g.subtract(g.divide(g.full_like(invstd, 1), g.multiply(invstd, invstd)), g.full_like(invstd, eps))
    off = g.subtract(mean, g.expand(average, mean.shape.dims))
    squares = g.reduce_with(g.multiply(share, g.add(spread, g.multiply(off, off))), "add", 0, [0])
    scale = g.rsqrt(g.add(g.divide(squares, total), g.full_like(squares, eps)))
    unbiased = g.divide(squares, g.subtract(total, g.full_like(total, 1)))
    return [average, scale, moved(g, running_mean, average, momentum), moved(g, running_var, unbiased, momentum)]


@lowers("aten.batch_norm_elemt.default")
def batch_norm_elemt(g: Graph, input, weight, bias, mean, invstd, eps: float):
    """(input - mean) * invstd * weight + bias, by channels."""
    x = g.widened(input)
    scale = g.widened(invstd) if weight is None else g.multiply(g.widened(invstd), g.widened(weight))
    result = g.multiply(g.subtract(x, per_channel(g, mean, x)), per_channel(g, scale, x))
    if bias is not None:
        result = g.add(result, per_channel(g, bias, x))
    return g.cast(result, input.shape.dtype)


@lowers("aten.batch_norm_backward_reduce.default")
def batch_norm_backward_reduce(
    g: Graph, grad_out, input, mean, invstd, weight, input_g: bool, weight_g: bool, bias_g: bool
):
    """Sums over this process's batch: of the gradient, of it times input - mean; the gradients of weight and bias."""
    x, grad = g.widened(input), g.widened(grad_out)
    centred = g.subtract(x, per_channel(g, mean, x))
    total = g.reduce_with(grad, "add", 0, _but_channels(x))
    along = g.reduce_with(g.multiply(grad, centred), "add", 0, _but_channels(x))
    parameter = input.shape.dtype if weight is None else weight.shape.dtype
    slope = g.cast(g.multiply(along, g.widened(invstd)), parameter)
    return [
        total if input_g else None,
        along if input_g else None,
        slope if weight_g else None,
        g.cast(total, parameter) if bias_g else None,
    ]


@lowers("aten.batch_norm_backward_elemt.default")
def batch_norm_backward_elemt(g: Graph, grad_out, input, mean, invstd, weight, sum_dy, sum_dy_xmu, count):
    """The gradient of the input, by the sums of all processes, of `count` elements each."""
    x, grad = g.widened(input), g.widened(grad_out)
    scale = g.widened(invstd)
    size = g.reduce_with(g.cast(count, scale.shape.dtype), "add", 0, [0])
    average, slope = (g.divide(g.widened(s), g.expand(size, s.shape.dims)) for s in (sum_dy, sum_dy_xmu))
    slope = g.multiply(slope, g.multiply(scale, scale))
    centred = g.subtract(x, per_channel(g, mean, x))
    result = g.subtract(g.subtract(grad, per_channel(g, average, x)), g.multiply(centred, per_channel(g, slope, x)))
    factor = scale if weight is None else g.multiply(scale, g.widened(weight))
    return g.cast(g.multiply(result, per_channel(g, factor, x)), input.shape.dtype)
