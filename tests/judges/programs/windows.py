"""reduce-window and select-and-scatter."""

from __future__ import annotations

import math

import numpy as np

from tests.judges.programs.combiners import combiner
from tests.judges.programs.scene import FLOATS, Scene, family
from xloom.hlo.attributes import Window, WindowDimension


def random_window(scene: Scene, dims: tuple[int, ...], dilation: bool) -> Window:
    """A window that fits `dims`, with strides, padding (negative too) and dilation."""
    window = []
    for extent in dims:
        size = scene.chance.choice((1, 1, 2, 3, extent if extent else 1))
        size = min(size, 6)
        window.append(
            WindowDimension(
                size,
                stride=scene.chance.choice((1, 1, 2, 3)),
                padding_low=scene.chance.choice((0, 0, 1, 2, -1 if dilation else 0)),
                padding_high=scene.chance.choice((0, 0, 1, 2, -1 if dilation else 0)),
                window_dilation=scene.chance.choice((1, 1, 1, 2)) if dilation else 1,
                base_dilation=scene.chance.choice((1, 1, 1, 2)) if dilation else 1,
            )
        )
    return tuple(window)


@family(3)
def reduce_window(scene: Scene) -> None:
    """Pooling of any kind."""
    x = scene.any("f32", "s32", "f64", "bf16", "u8", "f16", "s64", "pred", least_rank=1)
    window = random_window(scene, x.shape.dims, dilation=True)
    combine = combiner(scene, x.dtype, math.prod(w.size for w in window))
    _emit(scene, x, combine, window)


@family(1)
def cumulative(scene: Scene) -> None:
    """A running sum, product or extremum along one dimension, from either end."""
    x = scene.any("f32", "s32", "f64", "u32", least_rank=1)
    dim = scene.chance.randrange(x.shape.rank)
    if x.shape.dims[dim] == 0:
        return
    n = x.shape.dims[dim] - 1
    low, high = (n, 0) if scene.flip(0.7) else (0, n)
    window = [WindowDimension(1)] * x.shape.rank
    window[dim] = WindowDimension(n + 1, padding_low=low, padding_high=high)
    _emit(scene, x, combiner(scene, x.dtype, n + 1), tuple(window))


def _emit(scene: Scene, x, combine, window: Window) -> None:
    identity_value = scene.constant(combine.identity_value)
    scene.emit("reduce-window", x, identity_value, rounds=combine.rounds, window=window, to_apply=combine.computation)


@family(1)
def select_and_scatter(scene: Scene) -> None:
    """Gradients of max and min pooling: the selection jumps, so of exact values without NaN."""
    name = scene.chance.choice((*FLOATS, "s32"))
    rank = scene.chance.randint(1, 3)
    dtype = scene.dtype(name)
    dims = scene.dims(rank, empty=False)
    x = scene.argument(np.asarray(scene.numbers.permutation(int(np.prod(dims))).reshape(dims)).astype(dtype.numpy))
    window = random_window(scene, dims, dilation=False)
    out = tuple(w.output_size(size) for w, size in zip(window, dims, strict=True))
    source = scene.like(dtype[out])
    builder, (a, b) = scene.flat_scalars("select", 2, dtype)
    select = builder.finish(builder.compare(a, b, direction=scene.chance.choice(("GE", "LE"))))
    add = combiner(scene, dtype, x.shape.size, ("add",))
    scene.emit(
        "select-and-scatter",
        x,
        source,
        scene.constant(add.identity_value),
        rounds=True,
        window=window,
        select=select,
        scatter=add.computation,
    )
