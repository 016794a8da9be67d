"""convolution: of kernels that are read backwards; of spread inputs, with kernels larger than the result."""

from __future__ import annotations

from dataclasses import replace
from math import prod

from xloom.hlo.attributes import ConvolutionDimensions, WindowDimension
from xloom.hlo.instruction import Instruction
from xloom.passes.rewrite import Rewriter, RuleTable

rule = RuleTable()


# convolution(x, reverse(w, spatial dimensions)) == convolution(x, w), with windows reversed there
@rule("convolution")
def _reversed_kernel(i: Instruction, rw: Rewriter) -> Instruction | None:
    x, w = i.operands
    spatial = i["dim_labels"].kernel_spatial
    if w.opcode != "reverse" or not set(w["dimensions"]) <= set(spatial):
        return None
    window = tuple(
        replace(d, window_reversal=d.window_reversal != (place in w["dimensions"]))
        for d, place in zip(i["window"], spatial, strict=True)
    )
    return rw.make("convolution", i.shape, [x, w.operands[0]], **{**i.attrs, "window": window})


# convolution(spread x, w) == reverse(convolution(w, x), spatial dimensions), with spread windows; of finite numbers:
# zeros between elements of x are no longer multiplied with w, but zeros around w with x
@rule("convolution")
def _spread_input(i: Instruction, rw: Rewriter) -> Instruction | None:
    """Gradients of the kernels of transposed convolutions: so all places of the result meet the same of an operand."""
    (x, w), labels, window = i.operands, i["dim_labels"], i["window"]
    groups = max(i["feature_group_count"], i["batch_group_count"])
    sides = [i.shape.dims[d] for d in labels.output_spatial]
    if groups > 1 or prod(d.size for d in window) <= prod(sides) or 0 in (*x.shape.dims, *w.shape.dims, *sides):
        return None
    if all(d.base_dilation == 1 for d in window) or any(d.window_dilation > 1 for d in window):
        return None
    sizes = [x.shape.dims[d] for d in labels.input_spatial]
    turned = tuple(_turned(d, n, o) for d, n, o in zip(window, sizes, sides, strict=True))
    places = zip(window, labels.output_spatial, strict=True)
    backwards = tuple(sorted(place for d, place in places if not d.window_reversal))
    attrs = {**i.attrs, "window": turned, "dim_labels": _exchanged(labels)}
    if "operand_precision" in attrs:
        attrs["operand_precision"] = attrs["operand_precision"][::-1]
    new = rw.make("convolution", i.shape, [w, x], **attrs)
    return rw.make("reverse", i.shape, [new], dimensions=backwards) if backwards else new


def _turned(d: WindowDimension, size: int, places: int) -> WindowDimension:
    """The window of a dimension when its operands change places: of `size` elements, at as many places."""
    # place o meets elements j and k where o * stride + k == j * base_dilation + padding; or -k, of those backwards
    spread = (size - 1) * d.base_dilation
    low = d.padding_low + spread - (d.size - 1) if d.window_reversal else (places - 1) * d.stride - d.padding_low
    high = (places - 1) * d.stride + spread + 1 - d.size - low
    return WindowDimension(size, d.stride, low, high, d.base_dilation, 1, d.window_reversal)


def _exchanged(labels: ConvolutionDimensions) -> ConvolutionDimensions:
    return ConvolutionDimensions(
        labels.kernel_output_feature,
        labels.kernel_input_feature,
        labels.kernel_spatial,
        labels.input_feature,
        labels.input_batch,
        labels.input_spatial,
        labels.output_feature,
        labels.output_batch,
        labels.output_spatial,
    )
