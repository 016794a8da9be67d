"""dot with any dimension numbers."""

from __future__ import annotations

import math

from tests.judges.programs.scene import Scene, family
from xloom.hlo.dtype import DTYPES

_MIXED = {"bf16": "f32", "f16": "f32", "s8": "s32", "u8": "s32", "f32": "f64"}


@family(4)
def dot(scene: Scene) -> None:
    """Batch, contracting and free dimensions in random places; sometimes a wider result."""
    lhs = scene.any("f32", "f64", "bf16", "f16", "c64", "c128", "s32", "s8", "u8", "s64", "u32", least_rank=1)
    if lhs.shape.rank > 4:
        return
    left = [*range(lhs.shape.rank)]
    scene.chance.shuffle(left)
    batch = scene.chance.choice((0, 0, 1, 2)) if lhs.shape.rank > 1 else 0
    batch = min(batch, lhs.shape.rank - 1)
    contracting = min(scene.chance.choice((1, 1, 1, 2, 0)), lhs.shape.rank - batch)
    lhs_batch, lhs_contracting = left[:batch], left[batch : batch + contracting]
    free = scene.dims(scene.chance.choice((0, 1, 1, 2)), most=16)
    roles = [*((lhs.shape.dims[k], "b", k) for k in lhs_batch), *((lhs.shape.dims[k], "c", k) for k in lhs_contracting)]
    roles += [(size, "f", -1) for size in free]
    scene.chance.shuffle(roles)
    kept = math.prod(lhs.shape.dims[k] for k in range(lhs.shape.rank) if k not in lhs_contracting)
    if kept * math.prod(free) > 2000 or len(roles) > 5:
        return
    rhs = scene.like(lhs.dtype[tuple(size for size, _, _ in roles)])
    places = {k: place for place, (_, role, k) in enumerate(roles) if role != "f"}
    shape = None
    if lhs.dtype.name in _MIXED and scene.flip(0.3):
        left_free = [lhs.shape.dims[k] for k in range(lhs.shape.rank) if k not in (*lhs_batch, *lhs_contracting)]
        right_free = [size for size, role, _ in roles if role == "f"]
        dims = [*(lhs.shape.dims[k] for k in lhs_batch), *left_free, *right_free]
        shape = DTYPES[_MIXED[lhs.dtype.name]][tuple(dims)]
    scene.emit(
        "dot",
        lhs,
        rhs,
        rounds=True,
        shape=shape,
        lhs_batch_dims=tuple(lhs_batch),
        rhs_batch_dims=tuple(places[k] for k in lhs_batch),
        lhs_contracting_dims=tuple(lhs_contracting),
        rhs_contracting_dims=tuple(places[k] for k in lhs_contracting),
    )
