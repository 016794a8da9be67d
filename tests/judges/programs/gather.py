"""gather with any dimension numbers."""

from __future__ import annotations

import math

import numpy as np

from tests.judges.programs.dynamic import INDEX_TYPES
from tests.judges.programs.scene import MOST_ELEMENTS, Scene, Value, family
from xloom.hlo.shape import Shape


def random_indices(scene: Scene, vectors: tuple[int, ...], width: int, bounds: list[int]) -> tuple[Value, int]:
    """Index vectors mostly within `bounds`, and the dimension that holds them."""
    dtype = scene.dtype(*INDEX_TYPES)
    at = scene.chance.randint(0, len(vectors))
    if width == 1 and scene.flip(0.3):
        at, dims = len(vectors), vectors
    else:
        dims = (*vectors[:at], width, *vectors[at:])
    if scene.flip(0.2):
        return scene.like(dtype[dims]), at
    columns = [
        scene.numbers.integers(-1 if scene.flip(0.3) else 0, b + (2 if scene.flip(0.3) else 1), vectors) for b in bounds
    ]
    stacked = np.stack(columns, axis=at) if columns else np.zeros((*vectors[:at], 0, *vectors[at:]), np.int64)
    return scene.argument(stacked.reshape(dims).astype(dtype.numpy)), at


class IndexedDimensions:
    """Roles of the dimensions of an array that is indexed: batching, indexed, collapsed, window."""

    def __init__(self, scene: Scene, shape: Shape):
        order = scene.chance.sample(range(shape.rank), shape.rank)
        batching = scene.chance.choice((0, 0, 0, 1)) if shape.rank > 1 else 0
        self.batching = sorted(order[:batching])
        rest = order[batching:]
        self.indexed = rest[: scene.chance.randint(min(1, len(rest)), len(rest))]
        self.collapsed = sorted(k for k in rest if scene.flip(0.4))
        self.sizes = [
            1 if k in self.collapsed or k in self.batching else scene.chance.randint(min(1, d), d)
            for k, d in enumerate(shape.dims)
        ]
        self.window = [k for k in range(shape.rank) if k not in self.collapsed and k not in self.batching]
        extra = scene.dims(scene.chance.choice((0, 1, 1, 2)), most=12)
        # the batching dimensions lie at random places among those of the indices
        self.vectors = [*extra]
        self.batching_places: list[int] = []
        for k in self.batching:
            place = scene.chance.randint(0, len(self.vectors))
            self.vectors.insert(place, shape.dims[k])
            self.batching_places = [p + (p >= place) for p in self.batching_places] + [place]

    def index_batching(self, at: int, rank: int) -> tuple[int, ...]:
        """The batching dimensions of the indices, `at` being the dimension of their vectors."""
        return tuple(p + (p >= at and rank > len(self.vectors)) for p in self.batching_places)


@family(3)
def gather(scene: Scene) -> None:
    """Slices of an array at an array of places."""
    x = scene.any(least_rank=1)
    if 0 in x.shape.dims:
        return
    roles = IndexedDimensions(scene, x.shape)
    vectors = tuple(roles.vectors)
    window = [roles.sizes[k] for k in roles.window]
    if math.prod(vectors) * math.prod(window) > 2 * MOST_ELEMENTS:
        return
    bounds = [x.shape.dims[k] - roles.sizes[k] for k in roles.indexed]
    indices, at = random_indices(scene, vectors, len(roles.indexed), bounds)
    rank = len(vectors) + len(window)
    scene.emit(
        "gather",
        x,
        indices,
        moves=True,
        offset_dims=tuple(sorted(scene.chance.sample(range(rank), len(window)))),
        collapsed_slice_dims=tuple(roles.collapsed),
        start_index_map=tuple(roles.indexed),
        operand_batching_dims=tuple(roles.batching),
        start_indices_batching_dims=roles.index_batching(at, indices.shape.rank),
        index_vector_dim=at,
        slice_sizes=tuple(roles.sizes),
    )
