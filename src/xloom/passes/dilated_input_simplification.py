"""Convolutions of spread inputs whose windows have one place: what is between the places of the input stays zero."""

from __future__ import annotations

from dataclasses import replace

from xloom.hlo.attributes import PaddingDimension
from xloom.hlo.dtype import Kind, pred
from xloom.hlo.instruction import Instruction
from xloom.hlo.module import Module
from xloom.hlo.shape import array_shape
from xloom.passes.base import Pass, register
from xloom.passes.rewrite import Rewriter, RuleTable, rewrite

rule = RuleTable()


@register
class DilatedInputSimplification(Pass):
    """Gradients of strided convolutions of one place: sums of the places that there are, spread afterwards.

    Only where places of the output are adjacent. Where its features are, sums are as well written where they belong.
    """

    name = "dilated-input-simplification"
    opcodes = rule.by_opcode

    def run(self, module: Module) -> bool:
        """See the class."""
        return rewrite(module, rule)


# convolution(x spread d places apart, w) == (place of x ? convolution(x, w) spread so : 0 w, summed)
@rule("convolution")
def _convolution(i: Instruction, rw: Rewriter) -> Instruction | None:
    labels, window = i["dim_labels"], i["window"]
    spread = [d.base_dilation > 1 for d in window]
    if not any(spread) or any(d.size != 1 for d in window) or labels.output_feature == i.shape.rank - 1:
        return None
    if any(d.stride > 1 for d, is_spread in zip(window, spread, strict=True) if is_spread) or not i.shape.size:
        return None
    dims, padding = list(i.shape.dims), [PaddingDimension(0, 0)] * i.shape.rank
    kept = []
    for d, is_spread, p, q in zip(window, spread, labels.input_spatial, labels.output_spatial, strict=True):
        if is_spread:
            dims[q] = i.operands[0].shape.dims[p]
            padding[q] = PaddingDimension(d.padding_low, d.padding_high, d.base_dilation - 1)
            d = replace(d, base_dilation=1, padding_low=0, padding_high=0)
        kept.append(d)
    dtype = i.shape.dtype
    inner = array_shape(dtype, tuple(dims))
    sums = rw.make("convolution", inner, i.operands, **{**i.attrs, "window": tuple(kept)})
    moved = rw.make("pad", i.shape, [sums, rw.constant(array_shape(dtype, ()), 0)], padding=tuple(padding))
    if dtype.kind not in (Kind.FLOAT, Kind.COMPLEX):
        return moved
    truth = array_shape(pred, ())
    places = [rw.splat(array_shape(pred, tuple(dims)), True), rw.constant(truth, False)]
    present = rw.make("pad", array_shape(pred, i.shape.dims), places, padding=tuple(padding))
    return rw.make("select", i.shape, [present, moved, _of_zeros(i, rw)])


def _of_zeros(i: Instruction, rw: Rewriter) -> Instruction:
    """What the convolution is where it meets zeros: NaN for filters that are not finite."""
    labels, (_, w) = i["dim_labels"], i.operands
    rest = tuple(d for d in range(w.shape.rank) if d != labels.kernel_output_feature)
    zero = rw.constant(array_shape(w.shape.dtype, ()), 0)
    products = rw.make("multiply", w.shape, [w, rw.splat(w.shape, 0)])
    line = array_shape(w.shape.dtype, (w.shape.dims[labels.kernel_output_feature],))
    sums = rw.make("reduce", line, [products, zero], dimensions=rest, to_apply=rw.sum_of(w.shape.dtype))
    if w.shape.dtype is not i.shape.dtype:
        sums = rw.make("convert", array_shape(i.shape.dtype, line.dims), [sums])
    return rw.make("broadcast", i.shape, [sums], dimensions=(labels.output_feature,))
