"""convolution with any dimension numbers, strides, dilation and groups."""

from __future__ import annotations

from tests.judges.programs.numbers import random_array
from tests.judges.programs.scene import Scene, family
from xloom.hlo.attributes import ConvolutionDimensions, WindowDimension
from xloom.hlo.dtype import DTYPES


def _window(scene: Scene, size: int) -> WindowDimension:
    return WindowDimension(
        size,
        stride=scene.chance.choice((1, 1, 2, 3)),
        padding_low=scene.chance.choice((0, 0, 1, 2, -1)),
        padding_high=scene.chance.choice((0, 0, 1, 2, -1)),
        window_dilation=scene.chance.choice((1, 1, 1, 2)),
        base_dilation=scene.chance.choice((1, 1, 1, 2)),
        window_reversal=scene.flip(0.1),
    )


@family(2.5)
def convolution(scene: Scene) -> None:
    """0 to 3 spatial dimensions."""
    spatial = scene.chance.choice((0, 1, 1, 2, 2, 2, 3))
    groups, batch_groups = scene.chance.choice(((1, 1), (1, 1), (1, 1), (2, 1), (3, 1), (1, 2), (4, 1)))
    batch = batch_groups * scene.chance.choice((1, 1, 2, 3))
    channels = scene.chance.choice((1, 1, 2, 3))
    outputs = groups * batch_groups * scene.chance.choice((1, 2, 3))
    sizes = [scene.chance.choice((1, 2, 3, 4, 5, 7)) for _ in range(spatial)]
    kernel = [scene.chance.choice((1, 1, 2, 3)) for _ in range(spatial)]
    orders = [scene.chance.sample(range(spatial + 2), spatial + 2) for _ in range(3)]
    lhs_dims, rhs_dims = [0] * (spatial + 2), [0] * (spatial + 2)
    for place, size in zip(orders[0], (batch, channels * groups, *sizes), strict=True):
        lhs_dims[place] = size
    for place, size in zip(orders[1], (channels, outputs, *kernel), strict=True):
        rhs_dims[place] = size
    dtype = DTYPES[scene.chance.choice(("f32", "f32", "f32", "f64", "bf16", "f16", "c64", "s32"))]
    # a kernel without infinities: whether padding meets them is left open
    lhs, rhs = (
        scene.like(dtype[tuple(lhs_dims)]),
        scene.argument(random_array(scene.numbers, dtype, tuple(rhs_dims), 0)),
    )
    inputs, kernels, results = orders
    labels = ConvolutionDimensions(
        input_batch=inputs[0],
        input_feature=inputs[1],
        input_spatial=tuple(inputs[2:]),
        kernel_input_feature=kernels[0],
        kernel_output_feature=kernels[1],
        kernel_spatial=tuple(kernels[2:]),
        output_batch=results[0],
        output_feature=results[1],
        output_spatial=tuple(results[2:]),
    )
    scene.emit(
        "convolution",
        lhs,
        rhs,
        rounds=True,
        window=tuple(_window(scene, size) for size in kernel),
        dim_labels=labels,
        feature_group_count=groups,
        batch_group_count=batch_groups,
    )
