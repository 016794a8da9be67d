"""Losses that torch's decompositions would make long."""

from __future__ import annotations

from xloom.hlo import dtype as dt
from xloom.hlo.instruction import Instruction
from xloom.torch.lowering.graph import Graph
from xloom.torch.lowering.index import as_column, gather_lines, take_along
from xloom.torch.lowering.registry import lowers

_NONE, _MEAN = 0, 1


@lowers("aten.nll_loss_forward.default", "aten.nll_loss2d_forward.default")
def nll_loss_forward(g: Graph, x, target, weight, reduction: int, ignore_index: int):
    """-x at the targets, weighted; and the total weight."""
    own = x.shape.dtype
    classes = 1 if x.shape.rank > 1 else 0
    counted, places, weights = _weights(g, x, target, weight, ignore_index)
    shape = [1 if k == classes else s for k, s in enumerate(x.shape.dims)]
    chosen = gather_lines(g, g.widened(x), classes, g.reshape_to(places, shape))
    losses = g.multiply(g.negate(g.reshape_to(chosen, target.shape.dims)), weights)
    losses = g.select(counted, losses, g.full_like(losses, 0))
    if reduction == _NONE and x.shape.rank > 1:
        return [g.cast(losses, own), g.full((), 0, own)]
    every = list(range(losses.shape.rank))
    total, loss = g.reduce_with(weights, "add", 0, every), g.reduce_with(losses, "add", 0, every)
    if reduction == _MEAN:
        loss = g.divide(loss, total)
    return [g.cast(loss, own), g.cast(total, own)]


@lowers("aten.nll_loss_backward.default", "aten.nll_loss2d_backward.default")
def nll_loss_backward(g: Graph, grad_output, x, target, weight, reduction: int, ignore_index: int, total_weight):
    """-grad weight at the targets, zeros elsewhere."""
    own = x.shape.dtype
    classes = 1 if x.shape.rank > 1 else 0
    counted, places, weights = _weights(g, x, target, weight, ignore_index)
    grad = g.widened(grad_output)
    if reduction == _MEAN:
        grad = g.divide(grad, g.widened(total_weight))
    each = g.multiply(g.negate(g.expand(grad, target.shape.dims)), weights)
    each = g.select(counted, each, g.full_like(each, 0))
    shape = [1 if k == classes else s for k, s in enumerate(x.shape.dims)]
    here = g.compare(
        g.expand(g.reshape_to(places, shape), x.shape.dims), g.iota_along(x.shape.dims, classes), direction="EQ"
    )
    spread = g.expand(g.reshape_to(each, shape), x.shape.dims)
    return g.cast(g.select(here, spread, g.full_like(spread, 0)), own)


def _weights(
    g: Graph, x: Instruction, target: Instruction, weight: Instruction | None, ignore_index: int
) -> tuple[Instruction, Instruction, Instruction]:
    """Which targets count, their classes (0 for the others), and their weights."""
    target = g.cast(target, dt.s64)
    counted = g.compare(target, g.full_like(target, ignore_index), direction="NE")
    places = g.select(counted, target, g.full_like(target, 0))
    wide = g.widened(x).shape.dtype
    if weight is None:
        return counted, places, g.cast(counted, wide)
    chosen = take_along(g, g.widened(weight), 0, places)
    return counted, places, g.select(counted, chosen, g.full_like(chosen, 0))


@lowers("aten.multilabel_margin_loss_backward.default")
def multilabel_margin_loss_backward(g: Graph, grad_output, x, target, reduction: int, is_target):
    """The gradient of the hinges between every target and every class that is none."""
    own = x.shape.dtype
    flat = x.shape.rank < 2
    rows = x.shape.dims[0] if not flat else 1
    classes = x.shape.dims[-1] if x.shape.rank else 1
    wide = g.reshape_to(g.widened(x), (rows, classes))
    target = g.reshape_to(g.cast(target, dt.s64), (rows, classes))
    negative = g.reshape_to(
        g.compare(g.widened(is_target), g.full_like(g.widened(is_target), 0), direction="EQ"), (rows, classes)
    )
    # targets end at the first -1
    over = g.cast(g.compare(target, g.full_like(target, 0), direction="LT"), dt.s64)
    from xloom.torch.lowering.cumulative import running_sum

    valid = g.compare(running_sum(g, over, 1), g.full_like(over, 0), direction="EQ")
    places = g.select(valid, target, g.full_like(target, 0))
    scores = gather_lines(g, wide, 1, places)
    cube = (rows, classes, classes)  # row, target, class
    margin = g.add(
        g.subtract(g.full(cube, 1, wide.shape.dtype), g.expand(as_column(g, scores), cube)),
        g.expand(g.reshape_to(wide, (rows, 1, classes)), cube),
    )
    active = g.compare(margin, g.full_like(margin, 0), direction="GT")
    active = g.and_(active, g.expand(g.reshape_to(negative, (rows, 1, classes)), cube))
    active = g.and_(active, g.expand(as_column(g, valid), cube))
    ones = g.cast(active, wide.shape.dtype)
    gradient = g.reduce_with(ones, "add", 0, [1])
    lost = g.reduce_with(ones, "add", 0, [2])
    here = g.compare(g.expand(as_column(g, places), cube), g.iota_along(cube, 2), direction="EQ")
    here = g.and_(here, g.expand(as_column(g, valid), cube))
    spread = g.select(here, g.expand(as_column(g, lost), cube), g.full(cube, 0, wide.shape.dtype))
    gradient = g.subtract(gradient, g.reduce_with(spread, "add", 0, [1]))
    grad = g.widened(grad_output)
    if reduction == _NONE and not flat:
        factor = g.expand(g.reshape_to(grad, (rows, 1)), (rows, classes))
    else:
        factor = g.expand(g.reshape_to(grad, ()), (rows, classes))
    scale = classes * (rows if reduction == _MEAN else 1)
    result = g.multiply(g.divide(gradient, g.full_like(gradient, scale)), factor)
    return g.cast(g.reshape_to(result, x.shape.dims), own)
