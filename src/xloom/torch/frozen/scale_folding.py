"""A convolution whose result's channels are scaled by weights has scaled weights instead: batch norms cost a sum."""

from __future__ import annotations

from collections.abc import Collection
from math import prod

from xloom.hlo.computation import Computation
from xloom.hlo.dtype import Kind
from xloom.hlo.instruction import Instruction
from xloom.hlo.shape import array_shape
from xloom.passes.rewrite import Rewriter
from xloom.torch.frozen.division import computed_of


def fold_scales(computation: Computation, static: Collection[int]) -> bool:
    """Scales weights where a convolution's channels would be; the weights are the `static` parameters."""
    folding = _Folding(computation, static)
    changed = False
    for i in computation.post_order():
        new = folding.of(i) if i.opcode == "multiply" and i.shape.dtype.kind is Kind.FLOAT else None
        if new is not None:
            i.replace_all_uses_with(new)
            changed = True
    return changed


class _Folding:
    def __init__(self, computation: Computation, static: Collection[int]):
        self.computation = computation
        self.weights = computed_of(computation, static)
        self.rewriter = Rewriter(computation)

    def of(self, i: Instruction) -> Instruction | None:
        """The value of a multiplication, without one of the convolution's result."""
        for y, s in (i.operands, i.operands[::-1]):
            y = _unrounded(y)
            # conv(x, w) * s == conv(x, w * s)
            if y.opcode == "convolution":
                new = self._scaled(y, s)
                if new is not None:
                    return new
            # (conv(x, w) + b) * s == conv(x, w * s) + b * s
            elif y.opcode == "add" and len(y.users) == 1:
                for conv, b in (y.operands, y.operands[::-1]):
                    new = self._shifted(_unrounded(conv), b, s)
                    if new is not None:
                        return new
        return None

    def _shifted(self, conv: Instruction, b: Instruction, s: Instruction) -> Instruction | None:
        if conv.opcode != "convolution":
            return None
        channel = conv["dim_labels"].output_feature
        scale, shift = self._of_channels(s, channel), self._of_channels(b, channel)
        if scale is None or shift is None:
            return None
        new = self._scaled(conv, s)
        if new is None:
            return None
        made = self.rewriter.make("multiply", scale.shape, [self.rewriter.converted(shift, scale.shape.dtype), scale])
        wide = self.rewriter.make("broadcast", new.shape, [made], dimensions=(channel,))
        self.weights.update((made, wide))
        return self.rewriter.make("add", new.shape, [new, wide])

    def _scaled(self, conv: Instruction, s: Instruction) -> Instruction | None:
        """The convolution with scaled weights, where it is not used otherwise."""
        (x, w), labels, make = conv.operands, conv["dim_labels"], self.rewriter.make
        scale = self._of_channels(s, labels.output_feature)
        if scale is None or w not in self.weights or len(conv.users) > 1 or conv.shape.dtype is not s.shape.dtype:
            return None
        scale = self.rewriter.converted(scale, w.shape.dtype)
        wide = make("broadcast", w.shape, [scale], dimensions=(labels.kernel_output_feature,))
        scaled = make("multiply", w.shape, [w, wide])
        if w.opcode == "convert":  # as narrow as they were, for products of narrow types
            scaled = make("convert", w.shape, [self.rewriter.converted(scaled, w.operands[0].shape.dtype)])
        self.weights.update((scale, wide, scaled, scaled.operands[0]))
        return self.computation.add(conv.clone([x, scaled]))

    def _of_channels(self, s: Instruction, channel: int) -> Instruction | None:
        """The vector of weights of which each channel has an element; None where it is anything else."""
        if s.opcode != "broadcast" or s.operands[0] not in self.weights:
            return None
        v, dims = s.operands[0], s["dimensions"]
        size = s.shape.dims[channel]
        if channel not in dims or v.shape.dims[dims.index(channel)] != size or prod(v.shape.dims) != size:
            return None
        if v.shape.rank > 1:
            v = self.rewriter.make("reshape", array_shape(v.shape.dtype, (size,)), [v])
            self.weights.add(v)
        return v


def _unrounded(y: Instruction) -> Instruction:
    """A value that is not used otherwise as it was before it was rounded to a narrower type and widened again."""
    if y.opcode != "convert" or len(y.users) > 1:
        return y
    narrow = y.operands[0]
    if narrow.opcode != "convert" or len(narrow.users) > 1:
        return y
    wide = narrow.operands[0]
    is_rounding = wide.shape.dtype is y.shape.dtype and narrow.shape.dtype.bits < wide.shape.dtype.bits
    return wide if is_rounding and narrow.shape.dtype.kind is Kind.FLOAT else y
