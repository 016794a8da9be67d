"""Losses that torch's decompositions would make long."""

from __future__ import annotations

from xloom.hlo import dtype as dt
from xloom.hlo.instruction import Instruction
from xloom.torch.lowering.cumulative import running_sum
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


@lowers("aten.multilabel_margin_loss_forward.default")
def multilabel_margin_loss_forward(g: Graph, x, target, reduction: int):
    """Hinges between every target and every class that is none, over the classes; and which classes are targets."""
    own = x.shape.dtype
    valid, places, rows = _targets_of_rows(g, x, target)
    cube = (*rows.shape.dims, rows.shape.dims[1])  # row, target, class
    named = _named(g, valid, places, cube)
    is_target = g.cast(g.reduce_with(g.cast(named, dt.s32), "maximum", 0, [1]), own)
    margin, active = _hinges(g, rows, valid, places, is_target)
    losses = g.select(active, margin, g.full_like(margin, 0))
    flat = x.shape.rank < 2
    loss = g.reduce_with(losses, "add", 0, [0, 1, 2] if flat or reduction != _NONE else [1, 2])
    scale = cube[2] * (cube[0] if reduction == _MEAN else 1)
    loss = g.divide(loss, g.full_like(loss, scale))
    return [g.cast(loss, own), g.reshape_to(is_target, x.shape.dims)]


@lowers("aten.multilabel_margin_loss_backward.default")
def multilabel_margin_loss_backward(g: Graph, grad_output, x, target, reduction: int, is_target):
    """Their gradient."""
    own = x.shape.dtype
    valid, places, rows = _targets_of_rows(g, x, target)
    cube = (*rows.shape.dims, rows.shape.dims[1])
    _, active = _hinges(g, rows, valid, places, g.reshape_to(is_target, rows.shape.dims))
    ones = g.cast(active, rows.shape.dtype)
    gradient = g.reduce_with(ones, "add", 0, [1])
    lost = g.reduce_with(ones, "add", 0, [2])
    spread = g.expand(as_column(g, lost), cube)
    spread = g.select(_named(g, valid, places, cube), spread, g.full_like(spread, 0))
    gradient = g.subtract(gradient, g.reduce_with(spread, "add", 0, [1]))
    grad = g.widened(grad_output)
    if reduction == _NONE and x.shape.rank > 1:
        factor = g.expand(as_column(g, grad), rows.shape.dims)
    else:
        factor = g.expand(g.reshape_to(grad, ()), rows.shape.dims)
    scale = cube[2] * (cube[0] if reduction == _MEAN else 1)
    result = g.multiply(g.divide(gradient, g.full_like(gradient, scale)), factor)
    return g.cast(g.reshape_to(result, x.shape.dims), own)


def _targets_of_rows(g: Graph, x: Instruction, target: Instruction) -> tuple[Instruction, Instruction, Instruction]:
    """Which targets count, those before a row's first -1; their classes (0 for the others); and x as rows."""
    classes = x.shape.dims[-1] if x.shape.rank else 1
    dims = (x.shape.dims[0] if x.shape.rank > 1 else 1, classes)
    target = g.reshape_to(g.cast(target, dt.s64), dims)
    over = g.cast(g.compare(target, g.full_like(target, 0), direction="LT"), dt.s64)
    valid = g.compare(running_sum(g, over, 1), g.full_like(over, 0), direction="EQ")
    return valid, g.select(valid, target, g.full_like(target, 0)), g.reshape_to(g.widened(x), dims)


def _named(g: Graph, valid: Instruction, places: Instruction, cube: tuple[int, ...]) -> Instruction:
    """Where a class is the target."""
    here = g.compare(g.expand(as_column(g, places), cube), g.iota_along(cube, 2), direction="EQ")
    return g.and_(here, g.expand(as_column(g, valid), cube))


def _hinges(
    g: Graph, rows: Instruction, valid: Instruction, places: Instruction, is_target: Instruction
) -> tuple[Instruction, Instruction]:
    """1 - x at a target + x at a class, and where that counts: above 0, of a target that does, at a class of none."""
    cube = (*rows.shape.dims, rows.shape.dims[1])

    def of_class(x: Instruction) -> Instruction:
        return g.expand(g.reshape_to(x, (cube[0], 1, cube[2])), cube)

    scores = gather_lines(g, rows, 1, places)
    margin = g.full(cube, 1, rows.shape.dtype)
    margin = g.add(g.subtract(margin, g.expand(as_column(g, scores), cube)), of_class(rows))
    active = g.compare(margin, g.full_like(margin, 0), direction="GT")
    active = g.and_(active, of_class(g.compare(is_target, g.full_like(is_target, 0), direction="EQ")))
    return margin, g.and_(active, g.expand(as_column(g, valid), cube))
