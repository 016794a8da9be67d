"""The loss of connectionist temporal classification: sums over all alignments of targets to inputs, by loops over time.

Logarithms of probabilities of the positions of a target with a blank before, between and after its labels (Graves et
al., "Connectionist temporal classification", 2006, equations 6 to 16).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from xloom.hlo import dtype as dt
from xloom.hlo.instruction import Instruction
from xloom.torch.lowering.cumulative import log_add
from xloom.torch.lowering.graph import Graph
from xloom.torch.lowering.index import gather_lines, take_flat
from xloom.torch.lowering.loops import repeated
from xloom.torch.lowering.registry import lowers

_NEVER = float("-inf")


class _Alignment:
    """Targets with blanks: the label of each position [batch, positions], and where one may come from two before."""

    def __init__(self, g: Graph, targets: Instruction, lengths: Sequence[int], blank: int):
        self.lengths = np.array(lengths, np.int64).reshape(-1)
        batch, longest = len(self.lengths), int(self.lengths.max(initial=0))
        self.dims = (batch, 2 * longest + 1)
        along = np.arange(longest)
        if targets.shape.rank == 1:
            starts = np.cumsum(self.lengths) - self.lengths
        else:
            starts = np.arange(batch) * targets.shape.dims[1]
        places = np.where(along < self.lengths[:, None], starts[:, None] + along, 0)
        own = g.cast(targets, dt.s64)
        labels = take_flat(g, own, g.literal(places)) if longest else g.full((batch, 0), 0, dt.s64)
        labels = g.reshape_to(labels, (batch, longest))
        spread = g.pad_with(labels, [(0, 0), (0, 0, 1)], blank) if longest else labels
        self.labels = g.pad_with(spread, [(0, 0), (1, 1)] if longest else [(0, 0), (0, 1)], blank)
        before = g.pad_with(self.labels, [(0, 0), (2, -2)], blank)
        later = g.compare(g.iota_along(self.dims, 1), g.full(self.dims, 1, dt.s64), direction="GT")
        self.may_skip = g.and_(g.compare(self.labels, before, direction="NE"), later)

    def ends(self, g: Graph) -> Instruction:
        """The last two positions of each target: a label and the blank after it."""
        place = np.arange(self.dims[1])
        last = 2 * self.lengths[:, None]
        return g.literal((place == last) | (place == last - 1))

    def scores(self, g: Graph, log_probs: Instruction) -> Instruction:
        """The logarithm of the probability of each position's label at each time: [time, batch, positions]."""
        time, batch, _ = log_probs.shape.dims
        index = g.expand(g.reshape_to(self.labels, (1, *self.dims)), (time, batch, self.dims[1]))
        return gather_lines(g, log_probs, 2, index)


def _shifted(g: Graph, x: Instruction, by: int) -> Instruction:
    """x with each position's value `by` positions on."""
    return g.pad_with(x, [(0, 0), (by, -by)], _NEVER)


def _at(g: Graph, x: Instruction, time: Instruction) -> Instruction:
    zero = g.scalar(0, dt.s64)
    sizes = (1, *x.shape.dims[1:])
    part = g.dynamic_slice(x, time, zero, zero, shape=x.shape.dtype[sizes], dynamic_slice_sizes=sizes)
    return g.reshape_to(part, sizes[1:])


def _with(g: Graph, x: Instruction, time: Instruction, row: Instruction) -> Instruction:
    zero = g.scalar(0, dt.s64)
    return g.dynamic_update_slice(x, g.reshape_to(row, (1, *row.shape.dims)), time, zero, zero, shape=x.shape)


def _forward(g: Graph, scores: Instruction, alignment: _Alignment) -> Instruction:
    """log(alpha): of all ways to be at each position at each time."""
    time = scores.shape.dims[0]
    dims, dtype = alignment.dims, scores.shape.dtype
    # before the first step one is at the first position, of a blank, that is not scored yet
    first = np.full(dims, _NEVER, dtype.numpy)
    first[:, 0] = 0

    def step(b: Graph, k: Instruction, state: list[Instruction]) -> list[Instruction]:
        scores, may_skip, previous, result = state
        skipped = b.select(may_skip, _shifted(b, previous, 2), b.full_like(previous, _NEVER))
        total = log_add(b, log_add(b, previous, _shifted(b, previous, 1)), skipped)
        now = b.add(total, _at(b, scores, k))
        return [scores, may_skip, now, _with(b, result, k, now)]

    empty = g.full((time, *dims), _NEVER, dtype)
    return repeated(g, time, step, [scores, alignment.may_skip, g.literal(first), empty])[3]


def _backward(
    g: Graph, scores: Instruction, alignment: _Alignment, ends: Instruction, last_times: np.ndarray
) -> Instruction:
    """log(beta): of all ways on from each position at each time, that time's score included."""
    time = scores.shape.dims[0]
    dims, dtype = alignment.dims, scores.shape.dtype
    # from where to where one skips, seen from where one starts
    skips = g.pad_with(alignment.may_skip, [(0, 0), (-2, 2)], False) if dims[1] > 1 else alignment.may_skip

    def step(b: Graph, k: Instruction, state: list[Instruction]) -> list[Instruction]:
        scores, skips, ends, last, following, result = state
        at = b.subtract(b.scalar(time - 1, dt.s64), k)
        skipped = b.select(skips, _shifted(b, following, -2), b.full_like(following, _NEVER))
        total = log_add(b, log_add(b, following, _shifted(b, following, -1)), skipped)
        is_last = b.compare(last, b.full_like(last, at), direction="EQ")
        start = b.select(ends, b.full_like(total, 0), b.full_like(total, _NEVER))
        now = b.add(b.select(is_last, start, total), _at(b, scores, at))
        return [scores, skips, ends, last, now, _with(b, result, at, now)]

    last = g.expand(g.literal(last_times.reshape(-1, 1)), dims)
    never, empty = g.full(dims, _NEVER, dtype), g.full((time, *dims), _NEVER, dtype)
    return repeated(g, time, step, [scores, skips, ends, last, never, empty])[5]


def _total(g: Graph, x: Instruction) -> Instruction:
    """log(sum(e^x)) over the last dimension, repeated along it."""
    last = x.shape.rank - 1
    ones = (*x.shape.dims[:-1], 1)
    top = g.reduce_with(x, "maximum", _NEVER, [last])
    base = g.select(g.is_finite(top), top, g.full_like(top, 0))
    powers = g.exponential(g.subtract(x, g.expand(g.reshape_to(base, ones), x.shape.dims)))
    total = g.add(base, g.log(g.reduce_with(powers, "add", 0, [last])))
    return g.expand(g.reshape_to(total, ones), x.shape.dims)


@lowers("aten._ctc_loss.default")
def ctc_loss(
    g: Graph,
    log_probs,
    targets,
    input_lengths: Sequence[int],
    target_lengths: Sequence[int],
    blank: int,
    zero_infinity: bool,
):
    """The negative logarithm of the probability of each target, and the partial sums for the gradient."""
    alignment = _Alignment(g, targets, target_lengths, blank)
    batch = log_probs.shape.dims[1]
    alpha = _forward(g, alignment.scores(g, log_probs), alignment)
    lengths = np.array(input_lengths, np.int64).reshape(-1)
    last = g.literal(np.broadcast_to(np.maximum(lengths - 1, 0)[:, None, None], (batch, alignment.dims[1], 1)).copy())
    by_batch = g.permute(alpha, (1, 2, 0))
    final = g.reshape_to(gather_lines(g, by_batch, 2, last), alignment.dims)
    final = g.select(alignment.ends(g), final, g.full_like(final, _NEVER))
    loss = g.negate(g.reshape_to(g.slice_along(_total(g, final), 1, 0, 1), (batch,)))
    if not lengths.all():  # of no input: an empty target is sure, and no other is possible
        without = np.where(alignment.lengths == 0, 0.0, np.inf).astype(loss.shape.dtype.numpy)
        loss = g.select(g.literal(lengths == 0), g.literal(without), loss)
    return [loss, g.permute(alpha, (1, 0, 2))]


@lowers("aten._ctc_loss_backward.default")
def ctc_loss_backward(
    g: Graph,
    grad,
    log_probs,
    targets,
    input_lengths: Sequence[int],
    target_lengths: Sequence[int],
    neg_log_likelihood,
    log_alpha,
    blank: int,
    zero_infinity: bool,
):
    """The gradient of the logarithms of probabilities, as of a softmax before them."""
    alignment = _Alignment(g, targets, target_lengths, blank)
    time, batch, classes = log_probs.shape.dims
    lengths = np.array(input_lengths, np.int64).reshape(-1)
    scores = alignment.scores(g, log_probs)
    beta = _backward(g, scores, alignment, alignment.ends(g), lengths - 1)
    through = g.subtract(g.add(g.permute(log_alpha, (1, 0, 2)), beta), scores)
    # at each time the ways through all positions are all there are: their own sum forgets what rounding they share
    posterior = g.exponential(g.subtract(through, _total(g, through)))
    # summed over the positions that have a label
    cube = (*alignment.dims, classes)
    labels = g.broadcast(alignment.labels, shape=dt.s64[cube], dimensions=(0, 1))
    is_label = g.cast(g.compare(labels, g.iota_along(cube, 2), direction="EQ"), scores.shape.dtype)
    sums = g.dot(
        g.permute(posterior, (1, 0, 2)),
        is_label,
        lhs_batch_dims=(0,),
        rhs_batch_dims=(0,),
        lhs_contracting_dims=(2,),
        rhs_contracting_dims=(1,),
    )
    slope = g.subtract(g.exponential(log_probs), g.permute(sums, (1, 0, 2)))
    infinite = g.compare(neg_log_likelihood, g.full_like(neg_log_likelihood, float("inf")), direction="EQ")
    impossible = g.broadcast(infinite, shape=dt.pred[time, batch, classes], dimensions=(1,))
    slope = g.select(impossible, g.full_like(slope, float("nan")), slope)
    result = g.multiply(slope, g.broadcast(grad, shape=log_probs.shape, dimensions=(1,)))
    counted = np.arange(time)[:, None] < lengths
    counts = g.broadcast(g.literal(counted), shape=dt.pred[time, batch, classes], dimensions=(0, 1))
    if zero_infinity:
        counts = g.and_(counts, g.not_(impossible))
    return g.select(counts, result, g.full_like(result, 0))
