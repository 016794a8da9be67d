"""Normalisation, and dropout."""

from __future__ import annotations

import math
from collections.abc import Sequence

from xloom.hlo import dtype as dt
from xloom.hlo.instruction import Instruction
from xloom.torch.lowering.graph import Graph
from xloom.torch.lowering.reduce import moments
from xloom.torch.lowering.registry import lowers


@lowers("aten.native_layer_norm.default")
def native_layer_norm(g: Graph, input, normalized_shape, weight, bias, eps: float):
    """Normalised over the last dimensions; the mean and 1 / deviation too."""
    rank = input.shape.rank
    dims = list(range(rank - len(normalized_shape), rank))
    own = input.shape.dtype
    x = g.widened(input)
    spread, mean = moments(g, x, dims, 0)
    scale = g.rsqrt(g.add(spread, g.full_like(spread, eps)))
    result = g.multiply(g.subtract(x, g.expand(mean, x.shape.dims)), g.expand(scale, x.shape.dims))
    if weight is not None:
        result = g.multiply(result, g.expand(g.widened(weight), x.shape.dims))
    if bias is not None:
        result = g.add(result, g.expand(g.widened(bias), x.shape.dims))
    return [g.cast(result, own), g.cast(mean, own), g.cast(scale, own)]


def per_channel(g: Graph, x: Instruction, like: Instruction) -> Instruction:
    """A vector of channels, repeated to the shape of `like` in the type that torch computes in."""
    dims = [1, x.shape.size, *[1] * (like.shape.rank - 2)]
    return g.expand(g.reshape_to(g.widened(x), dims), like.shape.dims)


def _batch_norm(
    g: Graph,
    input: Instruction,
    weight: Instruction | None,
    bias: Instruction | None,
    running_mean: Instruction | None,
    running_var: Instruction | None,
    training: bool,
    momentum: float,
    eps: float,
) -> tuple[Instruction, Instruction, Instruction, Instruction | None, Instruction | None]:
    """The result, the batch's mean and 1 / deviation, and the running statistics after it as they were computed."""
    own = input.shape.dtype
    x = g.widened(input)
    channels = input.shape.dims[1]
    dims = [0, *range(2, x.shape.rank)]
    new_mean, new_var = (None if r is None else g.widened(r) for r in (running_mean, running_var))
    if training:
        spread, mean = (g.reshape_to(r, (channels,)) for r in moments(g, x, dims, 0))
        saved_mean, saved_scale = mean, g.rsqrt(g.add(spread, g.full_like(spread, eps)))
        count = input.shape.size // max(1, channels)
        unbiased = g.multiply(spread, g.full_like(spread, count / max(1, count - 1)))
        new_mean = moved(g, running_mean, mean, momentum)
        new_var = moved(g, running_var, unbiased, momentum)
        scale = saved_scale
        saved_mean, saved_scale = g.cast(saved_mean, own), g.cast(saved_scale, own)
    else:
        assert running_mean is not None and running_var is not None
        mean, spread = g.widened(running_mean), g.widened(running_var)
        scale = g.rsqrt(g.add(spread, g.full_like(spread, eps)))
        saved_mean = saved_scale = g.full((0,), 0, own)
    if weight is not None:
        scale = g.multiply(scale, g.widened(weight))
    shift = g.negate(g.multiply(mean, scale))
    if bias is not None:
        shift = g.add(shift, g.widened(bias))
    result = g.cast(g.add(g.multiply(x, per_channel(g, scale, x)), per_channel(g, shift, x)), own)
    return result, saved_mean, saved_scale, new_mean, new_var


def moved(g: Graph, running: Instruction | None, batch: Instruction, momentum: float) -> Instruction | None:
    """Running statistics after a batch."""
    if running is None:
        return None
    old = g.multiply(g.widened(running), g.full_like(batch, 1 - momentum))
    return g.add(old, g.multiply(batch, g.full_like(batch, momentum)))


@lowers("aten._native_batch_norm_legit_functional.default")
def batch_norm_functional(g: Graph, input, weight, bias, running_mean, running_var, training, momentum, eps):
    """Normalised over all but channels; the batch's statistics and the new running ones too."""
    return list(_batch_norm(g, input, weight, bias, running_mean, running_var, training, momentum, eps))


@lowers("aten.native_batch_norm.default", "aten._native_batch_norm_legit.default")
def native_batch_norm(g: Graph, input, weight, bias, running_mean, running_var, training, momentum, eps):
    """The same, without the new running statistics."""
    return list(_batch_norm(g, input, weight, bias, running_mean, running_var, training, momentum, eps)[:3])


@lowers("aten._native_batch_norm_legit.no_stats")
def batch_norm_no_stats(g: Graph, input, weight, bias, training, momentum, eps):
    """The same, by the batch's statistics alone."""
    return list(_batch_norm(g, input, weight, bias, None, None, True, momentum, eps)[:3])


@lowers("aten._native_batch_norm_legit_no_training.default")
def batch_norm_no_training(g: Graph, input, weight, bias, running_mean, running_var, momentum, eps):
    """The same, by the running statistics."""
    return list(_batch_norm(g, input, weight, bias, running_mean, running_var, False, momentum, eps)[:3])


@lowers("aten._batch_norm_with_update_functional.default")
def batch_norm_with_update(g: Graph, input, weight, bias, running_mean, running_var, momentum, eps):
    """The same in training, with a reserve space that is not used."""
    result, mean, scale, new_mean, new_var = _batch_norm(
        g, input, weight, bias, running_mean, running_var, True, momentum, eps
    )
    return [result, mean, scale, g.full((0,), 0, dt.u8), new_mean, new_var]


@lowers("aten.native_batch_norm_backward.default")
def native_batch_norm_backward(
    g: Graph, grad_out, input, weight, running_mean, running_var, save_mean, save_invstd, train, eps, output_mask
):
    """The gradients of input, weight and bias."""
    own = input.shape.dtype
    x, grad = g.widened(input), g.widened(grad_out)
    channels = input.shape.dims[1]
    dims = [0, *range(2, x.shape.rank)]
    count = input.shape.size // max(1, channels)
    if train:
        mean, scale = g.widened(save_mean), g.widened(save_invstd)
    else:
        mean, spread = g.widened(running_mean), g.widened(running_var)
        scale = g.rsqrt(g.add(spread, g.full_like(spread, eps)))
    centred = g.subtract(x, per_channel(g, mean, x))
    total = g.reduce_with(grad, "add", 0, dims)
    along = g.reduce_with(g.multiply(grad, centred), "add", 0, dims)
    factor = scale if weight is None else g.multiply(scale, g.widened(weight))
    found: list[Instruction | None] = [None, None, None]
    if output_mask[0]:
        result = grad
        if train:
            size = g.full_like(total, 1 / max(1, count))
            slope = g.multiply(g.multiply(along, size), g.multiply(scale, scale))
            result = g.subtract(result, g.multiply(centred, per_channel(g, slope, x)))
            result = g.subtract(result, per_channel(g, g.multiply(total, size), x))
        found[0] = g.cast(g.multiply(result, per_channel(g, factor, x)), own)
    parameter = own if weight is None else weight.shape.dtype
    if output_mask[1]:
        found[1] = g.cast(g.multiply(along, scale), parameter)
    if output_mask[2]:
        found[2] = g.cast(total, parameter)
    return found


@lowers("aten.native_group_norm.default")
def native_group_norm(g: Graph, input, weight, bias, N: int, C: int, HxW: int, group: int, eps: float):
    """Normalised over groups of channels; the means and 1 / deviations too."""
    own = input.shape.dtype
    x = g.reshape_to(g.widened(input), (N, group, C // group * HxW))
    spread, mean = moments(g, x, [2], 0)
    scale = g.rsqrt(g.add(spread, g.full_like(spread, eps)))
    result = g.multiply(g.subtract(x, g.expand(mean, x.shape.dims)), g.expand(scale, x.shape.dims))
    result = g.reshape_to(result, (N, C, HxW))
    if weight is not None:
        result = g.multiply(result, per_channel(g, weight, result))
    if bias is not None:
        result = g.add(result, per_channel(g, bias, result))
    statistics = [g.cast(g.reshape_to(r, (N, group)), own) for r in (mean, scale)]
    return [g.cast(g.reshape_to(result, input.shape.dims), own), *statistics]


@lowers("aten.native_dropout.default")
def native_dropout(g: Graph, input, p: float, train: bool | None):
    """Elements kept with probability 1 - p and scaled to make up for it; which ones too."""
    from xloom.torch.lowering.random import uniform_floats

    if train is False or p == 0:
        return [input, g.full(input.shape.dims, True, dt.pred)]
    if p == 1:
        return [g.full_like(input, 0), g.full(input.shape.dims, False, dt.pred)]
    draw = uniform_floats(g, input.shape.dims, dt.f32)
    keep = g.compare(draw, g.full_like(draw, p), direction="GE")
    scaled = g.multiply(input, g.full_like(input, 1 / (1 - p)))
    return [g.select(keep, scaled, g.full_like(input, 0)), keep]


@lowers("aten._fused_rms_norm.default")
def fused_rms_norm(g: Graph, input, normalized_shape: Sequence[int], weight, eps: float | None):
    """Divided by the root mean square of the last dimensions; 1 / that too."""
    rank = input.shape.rank
    dims = list(range(rank - len(normalized_shape), rank))
    own = input.shape.dtype
    x = g.widened(input)
    count = math.prod(normalized_shape)
    eps = {16: 0.00097656, 32: 1.1920929e-07, 64: 2.220446049250313e-16}[own.bits] if eps is None else eps
    squares = g.reduce_with(g.multiply(x, x), "add", 0, dims)
    mean = g.reshape_to(
        g.divide(squares, g.full_like(squares, count)), [1 if k in dims else s for k, s in enumerate(x.shape.dims)]
    )
    scale = g.rsqrt(g.add(mean, g.full_like(mean, eps)))
    result = g.multiply(x, g.expand(scale, x.shape.dims))
    if weight is not None:
        result = g.multiply(result, g.expand(g.widened(weight), x.shape.dims))
    return [g.cast(result, own), scale]
