"""scatter with any dimension numbers."""

from __future__ import annotations

import math

import numpy as np

from tests.judges.programs.combiners import combiner
from tests.judges.programs.gather import IndexedDimensions, random_indices
from tests.judges.programs.scene import FLOATS, INTEGERS, MOST_ELEMENTS, Scene, family


@family(3)
def scatter(scene: Scene) -> None:
    """Windows combined with an array in any order, places outside skipped."""
    x = scene.any(*FLOATS, *INTEGERS, "pred", "c64", least_rank=1)
    if 0 in x.shape.dims:
        return
    roles = IndexedDimensions(scene, x.shape)
    vectors = tuple(roles.vectors)
    window = [roles.sizes[k] for k in roles.window]
    if math.prod(vectors) * math.prod(window) > MOST_ELEMENTS:
        return
    bounds = [x.shape.dims[k] - roles.sizes[k] for k in roles.indexed]
    indices, at = random_indices(scene, vectors, len(roles.indexed), bounds)
    combine = combiner(scene, x.dtype, math.prod(vectors))
    window_dims = sorted(scene.chance.sample(range(len(vectors) + len(window)), len(window)))
    windows, batches = iter(window), iter(vectors)
    dims = [next(windows) if k in window_dims else next(batches) for k in range(len(vectors) + len(window))]
    scene.emit(
        "scatter",
        x,
        indices,
        scene.like(x.dtype[tuple(dims)]),
        rounds=combine.rounds,
        update_window_dims=tuple(window_dims),
        inserted_window_dims=tuple(roles.collapsed),
        scatter_dims_to_operand_dims=tuple(roles.indexed),
        input_batching_dims=tuple(roles.batching),
        scatter_indices_batching_dims=roles.index_batching(at, indices.shape.rank),
        index_vector_dim=at,
        to_apply=combine.computation,
    )


@family(1)
def scatter_set(scene: Scene) -> None:
    """Rows overwritten at places that are all different, so that the order does not matter."""
    x = scene.any(least_rank=1)
    rows = x.shape.dims[0]
    if rows == 0:
        return
    order = scene.numbers.permutation(rows + 2)[: scene.chance.randint(1, rows)]
    ordered = scene.flip(0.3)
    indices = scene.argument((np.sort(order) if ordered else order).astype(np.int32)[:, None])
    builder, (_, new) = scene.flat_scalars("overwrite", 2, x.dtype)
    scene.emit(
        "scatter",
        x,
        indices,
        scene.like(x.dtype[(len(order), *x.shape.dims[1:])]),
        moves=True,
        update_window_dims=tuple(range(1, x.shape.rank)),
        inserted_window_dims=(0,),
        scatter_dims_to_operand_dims=(0,),
        index_vector_dim=1,
        unique_indices=scene.flip(0.5),
        indices_are_sorted=ordered,
        to_apply=builder.finish(new),
    )
