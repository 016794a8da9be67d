"""Activations, and softmax."""

from __future__ import annotations

import math

import torch

from xloom.hlo import dtype as dt
from xloom.hlo.instruction import Instruction
from xloom.torch.dtypes import hlo_dtype
from xloom.torch.lowering.elementwise import in_wide
from xloom.torch.lowering.graph import Graph, Number, normalized
from xloom.torch.lowering.promotion import result_type
from xloom.torch.lowering.registry import lowers


@lowers("aten.relu.default")
def relu(g: Graph, x):
    """max(x, 0)."""
    return g.maximum(x, g.full_like(x, 0))


@lowers("aten.threshold_backward.default")
def threshold_backward(g: Graph, grad_output, x, threshold: Number):
    """The gradient where x is above the threshold."""
    grad, x = g.broadcast_operands(grad_output, x)
    return g.select(g.compare(x, g.full_like(x, threshold), direction="LE"), g.full_like(grad, 0), grad)


@lowers("aten.leaky_relu.default")
def leaky_relu(g: Graph, x, negative_slope: Number):
    """x, multiplied by the slope where it is negative."""
    return in_wide(
        g,
        x.shape.dtype,
        lambda a: g.select(
            g.compare(a, g.full_like(a, 0), direction="GT"), a, g.multiply(a, g.full_like(a, negative_slope))
        ),
        x,
    )


@lowers("aten.hardtanh.default")
def hardtanh(g: Graph, x, min_val: Number, max_val: Number):
    """x between two bounds."""
    return g.minimum(g.maximum(x, g.full_like(x, min_val)), g.full_like(x, max_val))


@lowers("aten.elu.default")
def elu(g: Graph, x, alpha: Number, scale: Number, input_scale: Number):
    """scale x, or scale alpha (e^(x input_scale) - 1) where x is negative."""

    def compute(a: Instruction) -> Instruction:
        curved = g.exponential_minus_one(g.multiply(a, g.full_like(a, input_scale)))
        curved = g.multiply(curved, g.full_like(a, float(alpha) * float(scale)))  # type: ignore[arg-type]
        straight = g.multiply(a, g.full_like(a, scale))
        return g.select(g.compare(a, g.full_like(a, 0), direction="LE"), curved, straight)

    return in_wide(g, x.shape.dtype, compute, x)


@lowers("aten.gelu.default")
def gelu(g: Graph, x, approximate: str):
    """x Phi(x), exactly or by tanh."""

    def compute(a: Instruction) -> Instruction:
        half = g.multiply(a, g.full_like(a, 0.5))
        if approximate == "tanh":
            return g.multiply(half, g.add(g.full_like(a, 1), g.tanh(_gelu_inner(g, a))))
        return g.multiply(half, g.add(g.full_like(a, 1), g.erf(g.multiply(a, g.full_like(a, math.sqrt(0.5))))))

    return in_wide(g, x.shape.dtype, compute, x)


def _gelu_inner(g: Graph, a: Instruction) -> Instruction:
    cube = g.multiply(g.multiply(a, a), a)
    inner = g.add(a, g.multiply(cube, g.full_like(a, 0.044715)))
    return g.multiply(inner, g.full_like(a, math.sqrt(2 / math.pi)))


@lowers("aten.gelu_backward.default")
def gelu_backward(g: Graph, grad_output, x, approximate: str):
    """grad (Phi(x) + x phi(x))."""

    def compute(grad: Instruction, a: Instruction) -> Instruction:
        one, half = g.full_like(a, 1), g.full_like(a, 0.5)
        if approximate == "tanh":
            tanh = g.tanh(_gelu_inner(g, a))
            left = g.multiply(half, g.add(one, tanh))
            slope = g.multiply(g.multiply(a, a), g.full_like(a, 3 * 0.044715))
            slope = g.multiply(g.add(one, slope), g.full_like(a, math.sqrt(2 / math.pi)))
            right = g.multiply(g.multiply(half, a), g.multiply(g.subtract(one, g.multiply(tanh, tanh)), slope))
        else:
            left = g.multiply(half, g.add(one, g.erf(g.multiply(a, g.full_like(a, math.sqrt(0.5))))))
            density = g.exponential(g.multiply(g.multiply(a, a), g.full_like(a, -0.5)))
            right = g.multiply(a, g.multiply(density, g.full_like(a, 1 / math.sqrt(2 * math.pi))))
        return g.multiply(grad, g.add(left, right))

    return in_wide(g, result_type(grad_output, x), compute, grad_output, x)


@lowers("aten.silu.default")
def silu(g: Graph, x):
    """x / (1 + e^-x)."""
    return in_wide(g, x.shape.dtype, lambda a: g.multiply(a, g.logistic(a)), x)


@lowers("aten.softplus.default")
def softplus(g: Graph, x, beta: Number, threshold: Number):
    """log(1 + e^(beta x)) / beta; x itself where that is beyond the threshold."""

    def compute(a: Instruction) -> Instruction:
        scaled = g.multiply(a, g.full_like(a, beta))
        soft = g.divide(g.log_plus_one(g.exponential(scaled)), g.full_like(a, beta))
        return g.select(g.compare(scaled, g.full_like(a, threshold), direction="GT"), a, soft)

    return in_wide(g, x.shape.dtype, compute, x)


@lowers("aten._softmax.default")
def softmax(g: Graph, x, dim: int, half_to_float: bool):
    """e^x divided by its sum along a dimension."""
    target = dt.f32 if half_to_float else x.shape.dtype
    shifted, total = _shifted(g, g.widened(x), dim)
    result = g.divide(g.exponential(shifted), g.expand(total, shifted.shape.dims))
    return g.cast(result, target)


@lowers("aten._log_softmax.default")
def log_softmax(g: Graph, x, dim: int, half_to_float: bool):
    """x less the logarithm of the sum of e^x along a dimension."""
    target = dt.f32 if half_to_float else x.shape.dtype
    shifted, total = _shifted(g, g.widened(x), dim)
    return g.cast(g.subtract(shifted, g.expand(g.log(total), shifted.shape.dims)), target)


def _shifted(g: Graph, x: Instruction, dim: int) -> tuple[Instruction, Instruction]:
    """x less its greatest along a dimension, and the sum of e to that, kept as a one."""
    dim = normalized(dim, x.shape.rank)
    dims = [dim] if x.shape.rank else []
    ones = [1 if k in dims else s for k, s in enumerate(x.shape.dims)]
    top = g.reshape_to(g.reduce_with(x, "maximum", float("-inf"), dims), ones)
    shifted = g.subtract(x, g.expand(top, x.shape.dims))
    return shifted, g.reshape_to(g.reduce_with(g.exponential(shifted), "add", 0, dims), ones)


@lowers("aten._softmax_backward_data.default")
def softmax_backward(g: Graph, grad_output, output, dim: int, input_dtype: torch.dtype):
    """output (grad - sum(grad output))."""
    grad, output = g.widened(grad_output), g.widened(output)
    product = g.multiply(grad, output)
    result = g.subtract(product, g.multiply(output, _total(g, product, dim)))
    return g.cast(result, hlo_dtype(input_dtype))


@lowers("aten._log_softmax_backward_data.default")
def log_softmax_backward(g: Graph, grad_output, output, dim: int, input_dtype: torch.dtype):
    """grad - e^output sum(grad)."""
    grad, output = g.widened(grad_output), g.widened(output)
    result = g.subtract(grad, g.multiply(g.exponential(output), _total(g, grad, dim)))
    return g.cast(result, hlo_dtype(input_dtype))


def _total(g: Graph, x: Instruction, dim: int) -> Instruction:
    dims = [normalized(dim, x.shape.rank)] if x.shape.rank else []
    total = g.reduce_with(x, "add", 0, dims)
    return g.expand(g.reshape_to(total, [1 if k in dims else s for k, s in enumerate(x.shape.dims)]), x.shape.dims)


@lowers("aten._prelu_kernel.default")
def prelu(g: Graph, x, weight):
    """x, multiplied by the weight where it is negative."""
    x, weight = g.broadcast_operands(x, weight)
    return g.select(g.compare(x, g.full_like(x, 0), direction="GT"), x, g.multiply(x, weight))


@lowers("aten.hardshrink_backward.default")
def hardshrink_backward(g: Graph, grad_out, x, lambd: Number):
    """The gradient where |x| is greater than lambd."""
    grad, x = g.broadcast_operands(grad_out, x)
    inside = g.compare(g.abs(x), g.full_like(x, lambd), direction="LE")
    return g.select(inside, g.full_like(grad, 0), grad)


@lowers("aten.softshrink_backward.default")
def softshrink_backward(g: Graph, grad_output, x, lambd: Number):
    """The same."""
    return hardshrink_backward(g, grad_output, x, lambd)
