"""Convolutions of spread inputs in phases: places of the output whose windows meet the input alike are dense ones.

Along a dimension that is spread d places apart, places of the output fall into d phases by their remainder. All of a
phase meet every d-th element of the kernel, which they do as in a convolution of the input as it is.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from xloom.hlo.attributes import PaddingDimension, SliceDimension, WindowDimension
from xloom.hlo.dtype import bf16, f32, pred
from xloom.hlo.instruction import Instruction
from xloom.hlo.module import Module
from xloom.hlo.shape import array_shape
from xloom.passes.base import Pass, register
from xloom.passes.narrow_operands import is_widened
from xloom.passes.op_expansion import expand_ops
from xloom.passes.rewrite import Rewriter, RuleTable

rule = RuleTable()

LEAST_PLACES = 64
"""Places of a phase for which it is worth to look for what is not finite in all of the kernel."""

LEAST_COLUMNS = 16
"""Features of one convolution, for which processors have fast products of bf16."""

MOST_PHASES = 16
"""Of which each is a convolution, or a part of the mask that says what meets zeros."""


@register
class DilatedInputPhases(Pass):
    """Transposed convolutions of bf16, and gradients of strided ones, as convolutions that are not spread.

    Where the window is as long as the input is spread, each place has one element of the input: that is one product.
    Only where features are adjacent in the output, so that phases are put together by whole lines of features.
    """

    name = "dilated-input-phases"
    opcodes = rule.by_opcode

    def run(self, module: Module) -> bool:
        """See the class."""
        return expand_ops(module, rule)


class _Phase(NamedTuple):
    """Places of the output along one dimension that meet the same elements of the kernel."""

    window: WindowDimension
    """What they are a convolution with."""
    taps: range
    """Elements of the kernel."""
    count: int
    """How many they are."""


# convolution(x spread, w) == together(convolution(x, every d-th of w from r on) for each phase r)
@rule("convolution")
def _convolution(i: Instruction, rw: Rewriter) -> Instruction | None:
    if not _may_have_phases(i) or math.prod(d.base_dilation for d in i["window"]) > MOST_PHASES:
        return None
    labels, x = i["dim_labels"], i.operands[0]
    phases = [
        _phases(d, x.shape.dims[p], i.shape.dims[q]) if d.base_dilation > 1 else [_whole(d, i.shape.dims[q])]
        for d, p, q in zip(i["window"], labels.input_spatial, labels.output_spatial, strict=True)
    ]
    if any(p.count < 1 for phase in phases for p in phase):
        return None
    if math.prod(phase[0].count for phase in phases) * i.shape.dims[labels.output_batch] < LEAST_PLACES:
        return None
    is_product = all(_is_one_place(d, phase) for d, phase in zip(i["window"], phases, strict=True))
    columns = i.shape.dims[-1] * (math.prod(map(len, phases)) if is_product else 1)
    if columns < LEAST_COLUMNS:
        return None
    added = _of_zeros(rw, i, phases)
    return _as_product(rw, i, added) if is_product else _together(rw, i, phases, added)


def _may_have_phases(i: Instruction) -> bool:
    labels = i["dim_labels"]
    narrow = all(o.shape.dtype is bf16 or is_widened(o) for o in i.operands) and i.shape.dtype in (bf16, f32)
    if not narrow or i.backend_config or labels.output_feature != i.shape.rank - 1 or not i.shape.size:
        return False
    if max(i["feature_group_count"], i["batch_group_count"]) > 1 or 0 in i.operands[1].shape.dims:
        return False
    spread = [d for d in i["window"] if d.base_dilation > 1]
    return bool(spread) and all((d.stride, d.window_dilation) == (1, 1) for d in spread)


def _whole(d: WindowDimension, count: int) -> _Phase:
    return _Phase(d, range(d.size), count)


def _phases(d: WindowDimension, inputs: int, outputs: int) -> list[_Phase]:
    """The phases of a dimension with so many elements of the input, and places of the output."""
    found = []
    for remainder in range(d.base_dilation):
        first = (d.padding_low - remainder) % d.base_dilation
        taps = range(first, d.size, d.base_dilation)
        count = -(-(outputs - remainder) // d.base_dilation)
        low = (d.padding_low - remainder - first) // d.base_dilation
        high = count - 1 + len(taps) - inputs - low
        window = WindowDimension(len(taps), 1, low, high, window_reversal=d.window_reversal)
        if d.window_reversal:  # where the same elements are stored
            taps = range(d.size - 1 - taps[-1], d.size - first, d.base_dilation) if taps else taps
        found.append(_Phase(window, taps, count))
    return found


def _is_one_place(d: WindowDimension, phases: Sequence[_Phase]) -> bool:
    """True where each phase is made of the input's places, one each; of dimensions that are not spread as well."""
    if d.base_dilation == 1:
        return True
    plain = all((p.window.size, p.window.padding_low, p.window.padding_high) == (1, 0, 0) for p in phases)
    return plain and d.size == d.base_dilation


def _of_zeros(rw: Rewriter, i: Instruction, phases: Sequence[Sequence[_Phase]]) -> Instruction:
    """What zeros between the places of the input add: 0, or NaN for kernels that are not finite, of each phase."""
    labels, w = i["dim_labels"], rw.converted(i.operands[1], f32)
    taps = [w.shape.dims[p] for p in labels.kernel_spatial]
    products = rw.make("multiply", w.shape, [w, rw.splat(w.shape, 0)])
    zero, total = rw.constant(array_shape(f32, ()), 0), rw.sum_of(f32)
    left = [d for d in range(w.shape.rank) if d != labels.kernel_input_feature]
    shape = array_shape(f32, [w.shape.dims[d] for d in left])
    reduced = (labels.kernel_input_feature,)
    sums = rw.make("reduce", shape, [products, zero], dimensions=reduced, to_apply=total)
    # after the phases' dimensions, those of the kernel
    own = np.ones([*map(len, phases), *taps], bool)
    for number, phase in enumerate(phases):
        met = np.zeros((len(phase), taps[number]), bool)
        for k, p in enumerate(phase):
            met[k, p.taps] = True
        place = [1] * own.ndim
        place[number], place[len(phases) + number] = met.shape
        own &= met.reshape(place)
    features = w.shape.dims[labels.kernel_output_feature]
    dims = (*own.shape, features)
    places = {d: len(phases) + k for k, d in enumerate(labels.kernel_spatial)}
    places[labels.kernel_output_feature] = own.ndim
    order = [places[d] for d in left]
    if order != sorted(order):
        turned = tuple(sorted(range(len(order)), key=order.__getitem__))
        sums = rw.make("transpose", array_shape(f32, [sums.shape.dims[d] for d in turned]), [sums], dimensions=turned)
    each = rw.make("broadcast", array_shape(f32, dims), [sums], dimensions=tuple(sorted(order)))
    mask = rw.make("broadcast", array_shape(pred, dims), [rw.constant(array_shape(pred, own.shape), own)],
                   dimensions=tuple(range(own.ndim)))  # fmt: skip
    others = rw.make("select", each.shape, [mask, rw.splat(each.shape, 0), each])
    shape = array_shape(f32, (*map(len, phases), features))
    reduced = tuple(range(len(phases), own.ndim))
    return rw.make("reduce", shape, [others, zero], dimensions=reduced, to_apply=total)


def _narrow(i: Instruction) -> Instruction:
    """What `i` is in bf16."""
    return i.operands[0] if i.shape.dtype is not bf16 else i


def _plus(rw: Rewriter, sums: Instruction, features: Instruction) -> Instruction:
    """Sums of which a number is added to each feature, the last dimension."""
    added = rw.converted(features, sums.shape.dtype)
    added = rw.make("broadcast", sums.shape, [added], dimensions=(sums.shape.rank - 1,))
    return rw.make("add", sums.shape, [sums, added])


# -- one product
def _as_product(rw: Rewriter, i: Instruction, added: Instruction) -> Instruction:
    """Each place of the input times all of the kernel, and the results put where they belong."""
    labels, x, w = i["dim_labels"], i.operands[0], _narrow(i.operands[1])
    spread = [k for k, d in enumerate(i["window"]) if d.base_dilation > 1]
    stored = tuple(
        labels.kernel_spatial[k] for k in spread if not i["window"][k].window_reversal
    )  # backwards, as places of the output are
    w = rw.make("reverse", w.shape, [w], dimensions=stored) if stored else w
    output, feature = labels.kernel_output_feature, labels.kernel_input_feature
    kept = [p for k, p in enumerate(labels.kernel_spatial) if k not in spread]
    columns = [*(labels.kernel_spatial[k] for k in spread), output]
    order = [*columns, *kept, feature] if output < feature else [feature, *kept, *columns]
    if order != list(range(w.shape.rank)):
        w = rw.make("transpose", array_shape(w.shape.dtype, [w.shape.dims[d] for d in order]), [w],
                    dimensions=tuple(order))  # fmt: skip
    sizes = {d: n for d, n in zip(order, w.shape.dims, strict=True)}
    count = math.prod(sizes[d] for d in columns)
    spaces = [1 if k in spread else sizes[p] for k, p in enumerate(labels.kernel_spatial)]
    ends = (count, sizes[feature]) if output < feature else (sizes[feature], count)
    w = rw.make("reshape", array_shape(w.shape.dtype, (ends[0], *spaces, ends[1])), [w])
    w = rw.converted(w, i.operands[1].shape.dtype)
    last = w.shape.rank - 1
    windows = tuple(WindowDimension(1) if k in spread else d for k, d in enumerate(i["window"]))
    dims = list(i.shape.dims)
    for k in spread:
        dims[labels.output_spatial[k]] = x.shape.dims[labels.input_spatial[k]]
    dims[-1] = count
    attrs = {
        **i.attrs,
        "window": windows,
        "dim_labels": replace(
            labels,
            kernel_spatial=tuple(range(1, last)),
            kernel_output_feature=0 if output < feature else last,
            kernel_input_feature=last if output < feature else 0,
        ),
    }
    sums = rw.make("convolution", array_shape(i.shape.dtype, dims), [x, w], **attrs)
    sums = _plus(rw, sums, rw.make("reshape", array_shape(added.shape.dtype, (count,)), [added]))
    parts = [i["window"][k].base_dilation for k in spread]
    split = rw.make("reshape", array_shape(i.shape.dtype, (*dims[:-1], *parts, i.shape.dims[-1])), [sums])
    inner = {labels.output_spatial[k]: len(dims) - 1 + n for n, k in enumerate(spread)}
    turned = [*itertools.chain.from_iterable((d, inner[d]) if d in inner else (d,) for d in range(len(dims) - 1))]
    turned.append(split.shape.rank - 1)
    moved = rw.make("transpose", array_shape(i.shape.dtype, [split.shape.dims[d] for d in turned]), [split],
                    dimensions=tuple(turned))  # fmt: skip
    return rw.make("reshape", i.shape, [moved])


# -- a convolution for each phase
def _together(rw: Rewriter, i: Instruction, phases: Sequence[Sequence[_Phase]], added: Instruction) -> Instruction:
    """The convolutions of all phases, their places one after another along each dimension in turn."""
    labels = i["dim_labels"]
    parts = {
        numbers: _of_phase(rw, i, [phase[n] for phase, n in zip(phases, numbers, strict=True)], numbers, added)
        for numbers in itertools.product(*(range(len(phase)) for phase in phases))
    }
    for k in reversed(range(len(phases))):
        along = labels.output_spatial[k]
        groups: dict[tuple[int, ...], list[Instruction]] = {}
        for numbers, part in parts.items():
            groups.setdefault(numbers[:k], []).append(part)
        parts = {numbers: _woven(rw, group, along, i.shape.dims[along]) for numbers, group in groups.items()}
    (result,) = parts.values()
    return result


def _of_phase(
    rw: Rewriter, i: Instruction, phase: Sequence[_Phase], numbers: tuple[int, ...], added: Instruction
) -> Instruction:
    labels, x, w = i["dim_labels"], i.operands[0], _narrow(i.operands[1])
    features = added.shape.dims[-1]
    one = tuple(SliceDimension(n, n + 1) for n in numbers)
    shape = array_shape(f32, (*(1 for _ in numbers), features))
    line = rw.make("slice", shape, [added], slice=(*one, SliceDimension(0, features)))
    line = rw.make("reshape", array_shape(f32, (features,)), [line])
    dims = list(i.shape.dims)
    for p, r in zip(phase, labels.output_spatial, strict=True):
        dims[r] = p.count
    if not all(p.taps for p in phase):  # nothing is between zeros alone
        line = rw.converted(line, i.shape.dtype)
        return rw.make("broadcast", array_shape(i.shape.dtype, dims), [line], dimensions=(len(dims) - 1,))
    slices = [SliceDimension(0, n) for n in w.shape.dims]
    for p, q in zip(phase, labels.kernel_spatial, strict=True):
        slices[q] = SliceDimension(p.taps[0], p.taps[-1] + 1, p.taps.step)
    sizes = [len(range(s.start, s.limit, s.stride)) for s in slices]
    w = rw.make("slice", array_shape(w.shape.dtype, sizes), [w], slice=tuple(slices))
    backwards = tuple(
        q for p, q in zip(phase, labels.kernel_spatial, strict=True) if p.window.window_reversal and len(p.taps) > 1
    )
    w = rw.make("reverse", w.shape, [w], dimensions=backwards) if backwards else w
    w = rw.converted(w, i.operands[1].shape.dtype)
    attrs = {**i.attrs, "window": tuple(replace(p.window, window_reversal=False) for p in phase)}
    sums = rw.make("convolution", array_shape(i.shape.dtype, dims), [x, w], **attrs)
    return _plus(rw, sums, line)


def _woven(rw: Rewriter, parts: Sequence[Instruction], along: int, size: int) -> Instruction:
    """Arrays whose places along a dimension take turns; together they have `size`."""
    if len(parts) == 1:
        return parts[0]
    most, dtype = parts[0].shape.dims[along], parts[0].shape.dtype
    zero = rw.constant(array_shape(dtype, ()), 0)
    level = []
    for part in parts:
        dims = list(part.shape.dims)
        if dims[along] < most:
            padding = [PaddingDimension(0, 0)] * len(dims)
            padding[along] = PaddingDimension(0, most - dims[along])
            dims[along] = most
            part = rw.make("pad", array_shape(dtype, dims), [part, zero], padding=tuple(padding))
        level.append(rw.make("reshape", array_shape(dtype, (*dims[: along + 1], 1, *dims[along + 1 :])), [part]))
    dims = list(level[0].shape.dims)
    dims[along + 1] = len(parts)
    woven = rw.make("concatenate", array_shape(dtype, dims), level, dimensions=(along + 1,))
    dims[along : along + 2] = [most * len(parts)]
    woven = rw.make("reshape", array_shape(dtype, dims), [woven])
    if most * len(parts) == size:
        return woven
    slices = [SliceDimension(0, n) for n in dims]
    slices[along], dims[along] = SliceDimension(0, size), size
    return rw.make("slice", array_shape(dtype, dims), [woven], slice=tuple(slices))
