"""Convolutions of the shapes that networks have, forwards and backwards, for the library of kernels."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import product
from random import Random
from typing import NamedTuple

from xloom.cpu.library.products import drawn_size
from xloom.hlo.attributes import WindowDimension

_WINDOWS = (
    *((1, 1, 0, 0), (3, 1, 1, 1), (3, 2, 1, 1), (3, 2, 0, 1), (5, 1, 2, 2), (7, 2, 3, 3), (7, 2, 2, 3)),
    *((1, 2, 0, 0), (3, 1, 0, 0), (5, 1, 0, 0)),
)
"""A window's size and stride, its padding below and above."""
_DEPTHWISE = ((3, 1, 1, 1), (3, 2, 1, 1), (3, 2, 0, 1), (5, 1, 2, 2), (5, 2, 2, 2), (5, 2, 1, 2), (7, 1, 3, 3))
_IMAGES = (56, 28, 14, 7)
_PLANES = (56, 32, 28, 16)
"""The sides of images, with the features last or first."""
_CHANNELS = ((64, 64), (32, 16), (3, 64), (16, 32), (3, 16), (1, 32), (256, 512))
_BATCHES = (1, 8)
"""Features of input and output, and images."""
_DOUBLE_WINDOWS = ((1, 1, 0, 0), (3, 1, 1, 1), (3, 2, 0, 1), (3, 1, 0, 0), (5, 1, 0, 0))
_DOUBLE_CHANNELS = ((16, 32), (64, 64), (3, 16), (1, 32), (1, 1))
"""The same of convolutions of f64."""
_DRAWN = (("b01f_01io->b01f", 700), ("bf01_oi01->bf01", 350))
"""Convolutions whose sizes are drawn: kernels serve those of like sizes, as products' do."""
_DRAWN_WINDOWS = ((1, 1, 0, 0), (3, 1, 1, 1), (3, 2, 1, 1), (1, 1, 0, 0), (3, 1, 1, 1), (3, 1, 0, 0), (1, 2, 0, 0))
"""More than others, beside all of `_WINDOWS`."""
_DRAWN_SIDES, _DRAWN_CHANNELS, _DRAWN_BATCHES = (7, 8, 14, 16, 28, 32, 56, 64, 112, 128, 224), (16, 512), (0, 5)
"""Sides of images; the least and most features, and logarithms of how many images."""


class _Convolution(NamedTuple):
    labels: str
    window: WindowDimension
    """The same in each dimension."""
    space: tuple[int, ...]
    features: int
    """Of the input and, of each group, of the kernel."""
    outputs: int
    batch: int
    groups: int = 1
    dtype: str = "f32"


def convolutions() -> Iterator[str]:
    """The HLO text of each convolution whose kernel is built ahead of time."""
    return map(_text, _all())


def _all() -> Iterator[_Convolution]:
    for images, labels in ((_IMAGES, "b01f_01io->b01f"), (_PLANES, "bf01_oi01->bf01")):
        for window, image, channels, batch in product(_WINDOWS, images, _CHANNELS, _BATCHES):
            if image >= 2 * window[0] - 4:
                yield _Convolution(labels, _window(*window), (image, image), *channels, batch)
    yield from _in_groups()
    yield from _dilated()
    yield from _backwards()
    yield from _drawn(Random(0))
    yield from _of_doubles()
    for size, length, channels, batch in product(
        (3, 5, 7, 9), (4096, 1000, 200), ((32, 64), (64, 64), (16, 32)), (1, 4)
    ):
        yield _Convolution("b0f_0io->b0f", _window(size, 1, size // 2, size // 2), (length,), *channels, batch)
    for length, features, batch in product((2048, 200), (64, 100, 1024), (1, 4)):
        yield _Convolution("b0f_0io->b0f", _window(4, 1, 3, 0), (length,), features, features, batch, features)
    for side, channels, batch in product((32, 16, 12, 8), ((16, 32), (32, 32), (8, 8), (1, 16)), (1, 4)):
        yield _Convolution("b012f_012io->b012f", _window(3, 1, 1, 1), (side // 2, side, side), *channels, batch)


def _in_groups() -> Iterator[_Convolution]:
    labels = "b01f_01io->b01f"
    for window, image, features, batch in product(_DEPTHWISE, (112, *_IMAGES), (32, 64, 256), _BATCHES):
        yield _Convolution(labels, _window(*window), (image, image), features, features, batch, features)
    for stride, image, each, groups, batch in product((1, 2), _IMAGES, (4, 8, 16), (32, 4), _BATCHES):
        yield _Convolution(
            labels, _window(3, stride, 1, 1), (image, image), groups * each, groups * each, batch, groups
        )


def _dilated() -> Iterator[_Convolution]:
    labels = "b01f_01io->b01f"
    for spread, image, channels, batch in product((2, 4), (56, 28, 14), (64, 16), _BATCHES):
        window = replace(_window(3, 1, spread, spread), window_dilation=spread)
        yield _Convolution(labels, window, (image, image), channels, channels, batch)
    paddings = ((4, 2, 2), (2, 1, 1), (3, 2, 1), (3, 1, 2))
    for (size, low, high), image, channels, batch in product(paddings, (28, 14, 7), (64, 16), _BATCHES):
        window = replace(_window(size, 1, low, high), base_dilation=2)
        yield _Convolution(labels, window, (image, image), channels, channels, batch)


def _backwards() -> Iterator[_Convolution]:
    """Gradients of the input and of the kernel, of windows of three."""
    reversed_window = replace(_window(3, 1, 1, 1), window_reversal=True)
    spread = [replace(reversed_window, base_dilation=2, padding_low=low, padding_high=3 - low) for low in (1, 2)]
    for image, batch in product(_IMAGES, _BATCHES):
        for window in (reversed_window, *spread):
            yield _Convolution("b01f_01oi->b01f", window, (image, image), 64, 64, batch)
        yield _Convolution("f01b_i01o->01bf", _window(image, 1, 1, 1), (image, image), 4 * batch, 64, 64)


def _of_doubles() -> Iterator[_Convolution]:
    """Those of simulations and of small networks in f64."""
    for labels, window, side, channels, batch in product(
        ("b01f_01io->b01f", "bf01_oi01->bf01"), _DOUBLE_WINDOWS, (64, 28, 14), _DOUBLE_CHANNELS, _BATCHES
    ):
        yield _Convolution(labels, _window(*window), (side, side), *channels, batch, dtype="f64")
    for each, groups, batch in product((1, 16), (32, 4), _BATCHES):
        yield _Convolution(
            "b01f_01io->b01f", _window(3, 1, 1, 1), (28, 28), each * groups, each * groups, batch, groups, "f64"
        )
    for size, length, channels, batch in product((3, 5, 9), (4096, 200), ((1, 1), (16, 32)), (1, 4)):
        yield _Convolution(
            "b0f_0io->b0f", _window(size, 1, size // 2, size // 2), (length,), *channels, batch, dtype="f64"
        )
    for side, channels in product((32, 12), ((8, 8), (1, 1))):
        yield _Convolution("b012f_012io->b012f", _window(3, 1, 1, 1), (side,) * 3, *channels, 1, dtype="f64")


def _drawn(numbers: Random) -> Iterator[_Convolution]:
    for labels, count in _DRAWN:
        for _ in range(count):
            window = numbers.choice(_WINDOWS + _DRAWN_WINDOWS)
            side = numbers.choice(_DRAWN_SIDES) if numbers.random() < 0.7 else numbers.randint(7, 224)
            channels = drawn_size(numbers, *_DRAWN_CHANNELS), drawn_size(numbers, *_DRAWN_CHANNELS)
            yield _Convolution(labels, _window(*window), (side, side), *channels, 2 ** numbers.randint(*_DRAWN_BATCHES))


def _window(size: int, stride: int, low: int, high: int) -> WindowDimension:
    return WindowDimension(size, stride, low, high)


def _text(c: _Convolution) -> str:
    inputs, _, rest = c.labels.partition("_")
    kernel, _, outputs = rest.partition("->")
    output_sizes = [c.window.output_size(n) for n in c.space]
    x = {"b": c.batch, "f": c.features, **{str(k): n for k, n in enumerate(c.space)}}
    w = {"i": c.features // c.groups, "o": c.outputs, **{str(k): c.window.size for k in range(len(c.space))}}
    y = {"b": c.batch, "f": c.outputs, **{str(k): n for k, n in enumerate(output_sizes)}}
    shapes = [_shape(c.dtype, labels, sizes) for labels, sizes in ((inputs, x), (kernel, w), (outputs, y))]
    groups = f", feature_group_count={c.groups}" if c.groups > 1 else ""
    return (
        f"HloModule library\nENTRY e {{\n a = {shapes[0]} parameter(0)\n b = {shapes[1]} parameter(1)\n"
        f" ROOT c = {shapes[2]} convolution(a, b), window={{{_window_text(c.window, len(c.space))}}}, "
        f"dim_labels={c.labels}{groups}\n}}\n"
    )


def _shape(dtype: str, labels: str, sizes: dict[str, int]) -> str:
    return f"{dtype}[{','.join(str(sizes[label]) for label in labels)}]"


def _window_text(window: WindowDimension, rank: int) -> str:
    parts: Sequence[tuple[str, object, bool]] = (
        ("size", window.size, True),
        ("stride", window.stride, window.stride > 1),
        ("pad", f"{window.padding_low}_{window.padding_high}", bool(window.padding_low or window.padding_high)),
        ("lhs_dilate", window.base_dilation, window.base_dilation > 1),
        ("rhs_dilate", window.window_dilation, window.window_dilation > 1),
        ("rhs_reversal", int(window.window_reversal), window.window_reversal),
    )
    return " ".join(f"{name}={'x'.join([str(value)] * rank)}" for name, value, is_said in parts if is_said)
