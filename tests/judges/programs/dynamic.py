"""dynamic-slice and dynamic-update-slice, starts in and out of range."""

from __future__ import annotations

from tests.judges.programs.scene import Scene, Value, family

INDEX_TYPES = ("s32", "s32", "s64", "u32", "u8", "s8", "u64")


def _starts(scene: Scene, rank: int) -> list[Value]:
    dtype = scene.dtype(*INDEX_TYPES)
    return [scene.like(dtype[()]) for _ in range(rank)]


@family(3)
def dynamic_slice(scene: Scene) -> None:
    """A part of an array."""
    x = scene.any(least_rank=1)
    sizes = tuple(scene.chance.randint(min(1, d), d) for d in x.shape.dims)
    scene.emit("dynamic-slice", x, *_starts(scene, x.shape.rank), moves=True, dynamic_slice_sizes=sizes)


@family(3)
def dynamic_update_slice(scene: Scene) -> None:
    """An array with a part overwritten."""
    x = scene.any()
    sizes = tuple(scene.chance.randint(min(1, d), d) for d in x.shape.dims)
    update = scene.like(x.dtype[sizes])
    scene.emit("dynamic-update-slice", x, update, *_starts(scene, x.shape.rank), moves=True)
