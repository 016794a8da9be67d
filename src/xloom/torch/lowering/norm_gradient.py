"""Gradients of layer and group norms, each as one operator: torch's decompositions have a dozen."""

from __future__ import annotations

from xloom.hlo.instruction import Instruction
from xloom.torch.lowering.graph import Graph
from xloom.torch.lowering.registry import lowers


def _normalised_gradient(g: Graph, slope: Instruction, normal: Instruction, scale: Instruction, dims: list[int]):
    """Of x, where normal = (x - mean) scale: scale (slope - mean(slope) - normal mean(slope normal))."""
    count = 1
    for d in dims:
        count *= slope.shape.dims[d]
    ones = [1 if k in dims else d for k, d in enumerate(slope.shape.dims)]

    def mean(x: Instruction) -> Instruction:
        total = g.reduce_with(x, "add", 0, dims)
        return g.expand(g.reshape_to(g.multiply(total, g.full_like(total, 1 / max(1, count))), ones), x.shape.dims)

    inner = g.subtract(g.subtract(slope, mean(slope)), g.multiply(normal, mean(g.multiply(slope, normal))))
    return g.multiply(inner, g.expand(scale, slope.shape.dims))


@lowers("aten.native_layer_norm_backward.default")
def native_layer_norm_backward(
    g: Graph, grad_out, input, normalized_shape, mean, rstd, weight, bias, output_mask
) -> list[Instruction | None]:
    """The gradients of input, weight and bias."""
    own, rank = input.shape.dtype, input.shape.rank
    outer = list(range(rank - len(normalized_shape)))
    dims = list(range(len(outer), rank))
    x, grad, scale = g.widened(input), g.widened(grad_out), g.widened(rstd)
    normal = g.multiply(g.subtract(x, g.expand(g.widened(mean), x.shape.dims)), g.expand(scale, x.shape.dims))
    found: list[Instruction | None] = [None, None, None]
    if output_mask[0]:
        slope = grad if weight is None else g.multiply(grad, g.expand(g.widened(weight), x.shape.dims))
        found[0] = g.cast(_normalised_gradient(g, slope, normal, scale, dims), own)
    if output_mask[1] and weight is not None:
        found[1] = g.cast(g.reduce_with(g.multiply(grad, normal), "add", 0, outer), weight.shape.dtype)
    if output_mask[2] and bias is not None:
        found[2] = g.cast(g.reduce_with(grad, "add", 0, outer), bias.shape.dtype)
    return found


@lowers("aten.native_group_norm_backward.default")
def native_group_norm_backward(
    g: Graph, grad_out, input, mean, rstd, weight, N: int, C: int, HxW: int, group: int, output_mask
) -> list[Instruction | None]:
    """The gradients of input, weight and bias."""
    own = input.shape.dtype
    dims = (N, group, C // group, HxW)
    x, grad = (g.reshape_to(g.widened(each), dims) for each in (input, grad_out))
    middle, scale = (g.reshape_to(g.widened(each), (N, group, 1, 1)) for each in (mean, rstd))
    normal = g.multiply(g.subtract(x, g.expand(middle, dims)), g.expand(scale, dims))
    found: list[Instruction | None] = [None, None, None]
    if output_mask[0]:
        slope = grad
        if weight is not None:
            slope = g.multiply(grad, g.expand(g.reshape_to(g.widened(weight), (1, group, C // group, 1)), dims))
        result = _normalised_gradient(g, slope, normal, scale, [2, 3])
        found[0] = g.cast(g.reshape_to(result, input.shape.dims), own)
    parameter = own if weight is None else weight.shape.dtype
    if output_mask[1]:
        found[1] = g.cast(g.reshape_to(g.reduce_with(g.multiply(grad, normal), "add", 0, [0, 3]), (C,)), parameter)
    if output_mask[2]:
        found[2] = g.cast(g.reshape_to(g.reduce_with(grad, "add", 0, [0, 3]), (C,)), parameter)
    return found
