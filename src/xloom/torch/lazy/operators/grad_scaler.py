"""What `torch.amp.GradScaler` is made of: gradients are unscaled, and the scale follows what was found in them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from xloom.hlo import dtype as dt
from xloom.hlo.instruction import Instruction
from xloom.torch.lazy.recording.operation import record
from xloom.torch.lazy.recording.table import handles
from xloom.torch.lowering import Graph


@handles("aten._amp_foreach_non_finite_check_and_unscale_.default")
def unscale(args: Sequence[Any], kwargs: Mapping[str, Any] | None) -> None:
    """Multiplies gradients by `inv_scale`; `found_inf` becomes 1 where one of them is not finite."""
    gradients, found_inf, inv_scale = args
    written = [*gradients, found_inf]
    values = record(_unscaled, *[each._alias.read() for each in (*written, inv_scale)])
    for target, value in zip(written, values, strict=True):
        target._alias.write(value)


def _unscaled(g: Graph, *given: Instruction) -> list[Instruction]:
    *gradients, found, factor = given
    out: list[Instruction] = []
    for gradient in gradients:
        wide = g.widened(gradient)
        finite = g.reduce_with(g.is_finite(wide), "and", True, range(wide.shape.rank))
        found = g.select(g.expand(finite, found.shape.dims), found, g.full_like(found, 1))
        scale = g.expand(g.reshape_to(g.cast(factor, wide.shape.dtype), ()), wide.shape.dims)
        out.append(g.cast(g.multiply(wide, scale), gradient.shape.dtype))
    return [*out, found]


@handles("aten._amp_update_scale_.default")
def update_scale(args: Sequence[Any], kwargs: Mapping[str, Any] | None) -> Any:
    """Backs off after a step that was not finite; grows after `interval` steps that were."""
    scale, steps, found_inf, growth, backoff, interval = args
    values = record(_updated, *[each._alias.read() for each in (scale, steps, found_inf)], growth, backoff, interval)
    scale._alias.write(values[0])
    steps._alias.write(values[1])
    return scale


def _updated(
    g: Graph, scale: Instruction, steps: Instruction, found: Instruction, growth: float, backoff: float, interval: int
) -> list[Instruction]:
    dims = scale.shape.dims
    failed = g.expand(g.reshape_to(g.cast(found, dt.pred), ()), dims)
    count = g.expand(g.add(steps, g.full_like(steps, 1)), dims)
    enough = g.compare(count, g.full_like(count, interval), direction="EQ")
    grown = g.multiply(scale, g.full_like(scale, growth))
    grown = g.select(g.and_(enough, g.is_finite(grown)), grown, scale)
    none = g.full_like(count, 0)
    steps = g.reshape_to(g.select(g.or_(failed, enough), none, count), steps.shape.dims)
    return [g.select(failed, g.multiply(scale, g.full_like(scale, backoff)), grown), steps]
