"""Products with more than two operands: ragged-dot, whose groups have run-time sizes, and scaled-dot."""

from __future__ import annotations

import numpy as np

from tests.judges.programs.scene import Scene, family


@family(0.6)
def ragged_dot(scene: Scene) -> None:
    """Groups of rows, or of the contracted dimension; the sizes may not reach the end."""
    dtype = scene.dtype("f32", "f64", "bf16", "s32")
    rows, depth, columns = (scene.chance.choice((1, 2, 3, 5, 8, 17)) for _ in range(3))
    groups = scene.chance.choice((1, 2, 3, 4))
    contracting = scene.flip(0.4)
    cuts = sorted(scene.chance.randint(0, depth if contracting else rows) for _ in range(groups))
    sizes = scene.argument(np.diff([0, *cuts]).astype(np.int32))
    rhs = dtype[depth, columns] if contracting else dtype[groups, depth, columns]
    scene.emit(
        "ragged-dot",
        scene.like(dtype[rows, depth]),
        scene.like(rhs),
        sizes,
        rounds=True,
        lhs_contracting_dims=(1,),
        rhs_contracting_dims=(0 if contracting else 1,),
        lhs_ragged_dims=(1 if contracting else 0,),
        rhs_group_dims=() if contracting else (0,),
    )


@family(0.6)
def scaled_dot(scene: Scene) -> None:
    """Each operand in blocks along the contracted dimension, with a scale each."""
    dtype = scene.dtype("f32", "bf16", "f8e4m3fn", "f8e5m2")
    rows, blocks, length, columns = (scene.chance.choice((1, 2, 3, 4, 8)) for _ in range(4))
    scales = scene.dtype("f32", "bf16")
    result = scene.dtype("f32", "bf16")
    scene.emit(
        "scaled-dot",
        scene.like(dtype[rows, blocks * length]),
        scene.like(dtype[blocks * length, columns]),
        scene.like(scales[rows, blocks]),
        scene.like(scales[blocks, columns]),
        rounds=True,
        shape=result[rows, columns],
        lhs_contracting_dims=(1,),
        rhs_contracting_dims=(0,),
    )
