"""Convolutions of one to three dimensions, with strides, dilations and groups, and their gradients."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
from jax import lax

from benchmarks.sweep.case import Family, array

CONVOLUTIONS = Family("convolutions")

_KERNELS = {"NHWC": "HWIO", "NCHW": "OIHW", "NWC": "WIO", "NDHWC": "DHWIO"}


@dataclass(frozen=True)
class _Convolution:
    """As of `lax.conv_general_dilated`."""

    layout: str
    input: tuple[int, ...]
    kernel: tuple[int, ...]
    stride: int = 1
    padding: str | tuple[tuple[int, int], ...] = "SAME"
    groups: int = 1
    input_dilation: tuple[int, int] | None = None
    kernel_dilation: tuple[int, int] | None = None

    @property
    def function(self) -> Callable[..., Any]:
        return partial(
            lax.conv_general_dilated,
            window_strides=(self.stride,) * (len(self.layout) - 2),
            padding=self.padding,
            lhs_dilation=self.input_dilation,
            rhs_dilation=self.kernel_dilation,
            dimension_numbers=(self.layout, _KERNELS[self.layout], self.layout),
            feature_group_count=self.groups,
        )


_IMAGES = {
    "3x3": _Convolution("NHWC", (2, 28, 28, 16), (3, 3, 16, 32)),
    "3x3-nchw": _Convolution("NCHW", (2, 16, 28, 28), (32, 16, 3, 3)),
    "strided": _Convolution("NHWC", (2, 28, 28, 16), (3, 3, 16, 32), stride=2),
    "5x5-valid": _Convolution("NHWC", (2, 28, 28, 1), (5, 5, 1, 32), padding="VALID"),
    "depthwise": _Convolution("NHWC", (1, 28, 28, 64), (3, 3, 1, 64), groups=64),
    "grouped": _Convolution("NHWC", (1, 28, 28, 64), (3, 3, 16, 64), groups=4),
    "dilated": _Convolution("NHWC", (1, 28, 28, 16), (3, 3, 16, 16), kernel_dilation=(2, 2)),
    "transposed": _Convolution(
        "NHWC", (1, 14, 14, 16), (3, 3, 16, 16), padding=((1, 2), (1, 2)), input_dilation=(2, 2)
    ),
    "pointwise": _Convolution("NHWC", (1, 14, 14, 128), (1, 1, 128, 64)),
    "image": _Convolution("NHWC", (1, 64, 64, 3), (3, 3, 3, 16)),
    "one-channel-nchw": _Convolution("NCHW", (4, 1, 28, 28), (8, 1, 3, 3)),
}
_DEEP = {
    "pointwise-deep": _Convolution("NHWC", (1, 14, 14, 256), (1, 1, 256, 1024)),
    "pointwise-strided": _Convolution("NHWC", (1, 28, 28, 256), (1, 1, 256, 512), stride=2),
    "3x3-deep": _Convolution("NHWC", (1, 7, 7, 512), (3, 3, 512, 512)),
    "depthwise-5x5": _Convolution("NHWC", (1, 14, 14, 480), (5, 5, 1, 480), groups=480),
    "depthwise-7x7": _Convolution("NHWC", (1, 28, 28, 192), (7, 7, 1, 192), groups=192),
    "depthwise-small": _Convolution("NHWC", (1, 7, 7, 960), (3, 3, 1, 960), groups=960),
}
"""As the last layers of networks are: large kernels, few places."""
_OTHERS = {
    "1d": _Convolution("NWC", (4, 200, 16), (5, 16, 32)),
    "1d-causal-depthwise": _Convolution("NWC", (4, 200, 64), (4, 1, 64), padding=((3, 0),), groups=64),
    "3d": _Convolution("NDHWC", (1, 8, 12, 12, 8), (3, 3, 3, 8, 8)),
}


def _gradient(convolution: _Convolution) -> Callable[..., Any]:
    function = convolution.function
    return jax.grad(lambda x, w: (function(x, w) ** 2).sum(), (0, 1))


def _add(name: str, function: Callable[..., Any], convolution: _Convolution, dtype: str) -> None:
    CONVOLUTIONS.add(name, function, array(*convolution.input, dtype=dtype), array(*convolution.kernel, dtype=dtype))


for name, convolution in _IMAGES.items():
    for dtype in ("f32", "f64", "bf16", "f16", "s32", "c64"):
        _add(f"{name}-{dtype}", convolution.function, convolution, dtype)
    for dtype in ("f32", "bf16"):
        _add(f"{name}-{dtype}-gradient", _gradient(convolution), convolution, dtype)

for name, convolution in _OTHERS.items():
    for dtype in ("f32", "bf16", "f64"):
        _add(f"{name}-{dtype}", convolution.function, convolution, dtype)

for name, convolution in _DEEP.items():
    for dtype in ("f32", "bf16"):
        _add(f"{name}-{dtype}", convolution.function, convolution, dtype)
