"""Convolutions and their gradients."""

from __future__ import annotations

from collections.abc import Sequence

from xloom.hlo.attributes import ConvolutionDimensions, WindowDimension
from xloom.hlo.instruction import Instruction
from xloom.torch.lowering.graph import Graph
from xloom.torch.lowering.registry import lowers


def _spatial(values: Sequence[int], rank: int) -> list[int]:
    return list(values) * rank if len(values) == 1 else list(values)


def _labels(rank: int, *, transposed_kernel: bool = False, swapped: bool = False) -> ConvolutionDimensions:
    spatial = tuple(range(2, 2 + rank))
    batch, feature = (1, 0) if swapped else (0, 1)
    inputs, outputs = (0, 1) if transposed_kernel else (1, 0)
    if swapped:  # the kernel's gradient: batches are summed, features are batches
        return ConvolutionDimensions(1, 0, spatial, 0, 1, spatial, 1, 0, spatial)
    return ConvolutionDimensions(batch, feature, spatial, inputs, outputs, spatial, 0, 1, spatial)


def _convolve(g: Graph, x, weight, stride, padding, dilation, groups: int) -> Instruction:
    rank = x.shape.rank - 2
    window = [
        WindowDimension(weight.shape.dims[2 + k], stride[k], padding[k], padding[k], dilation[k], 1)
        for k in range(rank)
    ]
    return g.convolution(x, weight, window=window, dim_labels=_labels(rank), feature_group_count=groups)


def _spread(g: Graph, x, weight, stride, padding, dilation, groups: int, sizes: Sequence[int]) -> Instruction:
    """What a convolution's input gradient is, and a transposed convolution: the result has these spatial sizes."""
    rank = x.shape.rank - 2
    out, each, *kernel = weight.shape.dims
    window = []
    for k in range(rank):
        reach = dilation[k] * (kernel[k] - 1)
        low = reach - padding[k]
        spread = (x.shape.dims[2 + k] - 1) * stride[k] + 1
        high = sizes[k] + reach - low - spread
        window.append(WindowDimension(kernel[k], 1, low, high, dilation[k], stride[k], False))
    # kernels are reversed; within a group, inputs and outputs change places
    weight = g.reverse(weight, dimensions=range(2, 2 + rank)) if rank else weight
    if groups > 1:
        grouped = g.reshape_to(weight, [groups, out // groups, each, *kernel])
        order = [1, 0, 2, *range(3, 3 + rank)]
        weight = g.reshape_to(g.permute(grouped, order), [out // groups, groups * each, *kernel])
    labels = _labels(rank, transposed_kernel=True)
    return g.convolution(x, weight, window=window, dim_labels=labels, feature_group_count=groups)


@lowers("aten.convolution.default")
def convolution(
    g: Graph, input, weight, bias, stride, padding, dilation, transposed: bool, output_padding, groups: int
):
    """A convolution or a transposed one, in any number of dimensions."""
    result = _forward(g, input, weight, stride, padding, dilation, transposed, output_padding, groups)
    if not input.shape.dims[1]:  # torch makes no features of none
        return g.full([result.shape.dims[0], 0, *result.shape.dims[2:]], 0, input.shape.dtype)
    if bias is not None:
        rank = weight.shape.rank - 2
        column = g.reshape_to(g.cast(bias, result.shape.dtype), [bias.shape.size, *[1] * rank])
        result = g.add(result, g.expand(column, result.shape.dims))
    return g.cast(result, input.shape.dtype)


def _forward(g, x, weight, stride, padding, dilation, transposed, output_padding, groups) -> Instruction:
    rank = weight.shape.rank - 2
    stride, padding, dilation = (_spatial(v, rank) for v in (stride, padding, dilation))
    wide, weight = g.widened(x), g.widened(weight)
    if not transposed:
        result = _convolve(g, wide, weight, stride, padding, dilation, groups)
    else:
        extra = _spatial(output_padding, rank)
        sizes = [
            (x.shape.dims[2 + k] - 1) * stride[k]
            - 2 * padding[k]
            + dilation[k] * (weight.shape.dims[2 + k] - 1)
            + extra[k]
            + 1
            for k in range(rank)
        ]
        result = _spread(g, wide, weight, stride, padding, dilation, groups, sizes)
    return result


def _conj(g: Graph, x: Instruction) -> Instruction:
    return g.complex(g.real(x), g.negate(g.imag(x))) if x.shape.dtype.is_complex else x


@lowers("aten.convolution_backward.default")
def convolution_backward(
    g: Graph,
    grad_output,
    input,
    weight,
    bias_sizes,
    stride,
    padding,
    dilation,
    transposed: bool,
    output_padding,
    groups: int,
    output_mask,
):
    """The gradients of input, weight and bias, those that are wanted."""
    rank = weight.shape.rank - 2
    own = grad_output.shape.dtype
    stride, padding, dilation = (_spatial(v, rank) for v in (stride, padding, dilation))
    grad, x, kernel = (g.widened(v) for v in (grad_output, input, weight))
    if not input.shape.size:
        shapes = (input.shape.dims, weight.shape.dims, bias_sizes)
        return [g.full(dims, 0, own) if yes else None for dims, yes in zip(shapes, output_mask, strict=True)]
    found: list[Instruction | None] = [None, None, None]
    if output_mask[0]:
        if transposed:
            wider = _convolve(g, grad, _conj(g, kernel), stride, padding, dilation, groups)
            for k in range(2, 2 + rank):  # what output_padding has added comes from no input
                wider = g.slice_along(wider, k, 0, input.shape.dims[k])
            found[0] = wider
        else:
            sizes = input.shape.dims[2:]
            found[0] = _spread(g, grad, _conj(g, kernel), stride, padding, dilation, groups, sizes)
    if output_mask[1]:
        lhs, rhs = (grad, x) if transposed else (x, grad)
        found[1] = _kernel_gradient(g, lhs, rhs, weight.shape.dims, stride, padding, dilation, groups, transposed)
    if output_mask[2]:
        found[2] = g.reduce_with(grad, "add", 0, [0, *range(2, 2 + rank)])
    return [None if r is None else g.cast(r, own) for r in found]


def _kernel_gradient(g, x, grad, kernel_dims, stride, padding, dilation, groups: int, transposed: bool) -> Instruction:
    """sum over the batch of x correlated with grad; conjugate where the kernel was multiplied by it."""
    rank = x.shape.rank - 2
    if transposed:
        grad = _conj(g, grad)
    else:
        x = _conj(g, x)
    window = []
    for k in range(rank):
        size = grad.shape.dims[2 + k]
        reach = (kernel_dims[2 + k] - 1) * dilation[k]
        span = (size - 1) * stride[k] + 1
        # so many places that just the kernel's come out
        high = span + reach - padding[k] - x.shape.dims[2 + k]
        window.append(WindowDimension(size, dilation[k], padding[k], high, stride[k], 1))
    spatial = tuple(range(2, 2 + rank))
    # x: its channels are the batch; grad: its channels are the outputs, its batch is summed
    labels = ConvolutionDimensions(1, 0, spatial, 0, 1, spatial, 1, 0, spatial)
    return g.convolution(x, grad, window=window, dim_labels=labels, batch_group_count=groups)
