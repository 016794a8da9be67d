"""Which elements of input and kernel meet in an element of the output, as strides.

Along a spatial dimension, output `o` meets tap `k` at position `o * stride - padding + k * window_dilation` of the
dilated input, which is an element only where `base_dilation` divides it. So outputs fall into classes by their
remainder: those of a class meet the same taps, and their input moves evenly. Without base dilation there is one class.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import gcd
from typing import NamedTuple

from xloom.cpu.kernels.matmul.axes import Axes, Axis, Product, merged
from xloom.hlo.attributes import WindowDimension


class Class(NamedTuple):
    """Outputs of a dimension that meet the same taps: how many, their first input and tap, and how many taps."""

    count: int
    input: int
    tap: int
    taps: int


class Spatial(NamedTuple):
    """A spatial dimension. Strides: of the input from one output of a class to the next and from tap to tap."""

    classes: tuple[Class, ...]
    input_stride: int
    tap_input_stride: int
    tap_stride: int
    low: int
    """The least element of the input that is met; negative in the padding."""
    high: int


def spatial(window: WindowDimension, size: int) -> Spatial:
    """The geometry of a dimension whose input has `size` elements."""
    outputs = window.output_size(size)
    dilation, stride, spread = window.base_dilation, window.stride, window.window_dilation
    classes, tap_stride = dilation // gcd(dilation, stride), dilation // gcd(dilation, spread)
    found = []
    for remainder in range(classes):
        count = max(0, -(-(outputs - remainder) // classes))
        position = remainder * stride - window.padding_low
        first = next((k for k in range(min(tap_stride, window.size)) if (position + k * spread) % dilation == 0), None)
        if first is None:
            found.append(Class(count, 0, 0, 0))
        else:
            found.append(
                Class(count, (position + first * spread) // dilation, first, -(-(window.size - first) // tap_stride))
            )
    input_stride, tap_input_stride = classes * stride // dilation, tap_stride * spread // dilation
    met = [c for c in found if c.count and c.taps]
    return Spatial(
        tuple(found),
        input_stride,
        tap_input_stride,
        tap_stride,
        min((c.input for c in met), default=0),
        max((c.input + (c.count - 1) * input_stride + (c.taps - 1) * tap_input_stride for c in met), default=0),
    )


class OutputClass(NamedTuple):
    """A class of an output axis: its size, what it adds to the offsets of x, w and y, and how many taps it meets."""

    count: int
    x: int = 0
    w: int = 0
    y: int = 0
    taps: int = 1


class OutputAxis(NamedTuple):
    """An axis of the output, by classes: how far a step along it moves in x, w and y, and a tap in x and w."""

    classes: tuple[OutputClass, ...]
    x: int
    w: int
    y: int
    tap_x: int = 0
    tap_w: int = 0
    dim: int | None = None
    """The number of the spatial dimension that it is."""

    @property
    def most(self) -> int:
        """The size of the largest class."""
        return max(p.count for p in self.classes)

    @property
    def least(self) -> int:
        """The size of the smallest class that is not empty."""
        return min(p.count for p in self.classes if p.count)


class Convolution(NamedTuple):
    """A convolution as strides of input x ("a"), kernel w ("b") and output y ("c")."""

    group: Axis
    batch: Axis
    feature: Axis
    """Features of the input, of one group."""
    output: Axis
    """Features of the output, of one group."""
    dims: tuple[Spatial, ...]
    taps: tuple[Axis, ...]
    """The spatial dimensions: size in the kernel, strides of all three."""
    x_base: int
    w_base: int
    feature_groups: bool
    """True when groups lie side by side in the features of the input."""
    in_panels: bool = False
    """True when groups are panels of a kernel: of features of the output, which all meet the same input."""

    def spatial_axes(self, kernel: Sequence[int]) -> list[OutputAxis]:
        """The spatial dimensions of the output, for a kernel with these strides."""
        out = []
        for number, (dim, axis, sw) in enumerate(zip(self.dims, self.taps, kernel, strict=True)):
            classes = tuple(
                OutputClass(c.count, c.input * axis.a, c.tap * sw, r * axis.c, c.taps)
                for r, c in enumerate(dim.classes)
            )
            output_stride = len(classes) * axis.c
            out.append(
                OutputAxis(
                    classes,
                    dim.input_stride * axis.a,
                    0,
                    output_stride,
                    dim.tap_input_stride * axis.a,
                    dim.tap_stride * sw,
                    number,
                )
            )
        return out


def plain(axis: Axis) -> OutputAxis:
    """An axis without a window."""
    return OutputAxis((OutputClass(axis.size),), axis.a, axis.b, axis.c)


def as_product(problem: Convolution) -> Product | None:
    """The convolution as a product whose rows overlap in the input; None where strides do not say it."""
    classes = [d.classes[0] for d in problem.dims]
    first = problem.x_base + sum(p.input * t.a for p, t in zip(classes, problem.taps, strict=True))
    if any(len(d.classes) > 1 for d in problem.dims) or first or problem.w_base or problem.output.c != 1:
        return None
    spaces = list(zip(problem.dims, classes, problem.taps, strict=True))
    rows = [problem.batch, *(Axis(p.count, d.input_stride * t.a, 0, t.c) for d, p, t in spaces)]
    rows = [x for x in sorted(rows, key=lambda x: -x.c) if x.size > 1]
    below = problem.output.size
    for axis in reversed(rows):  # rows follow each other in the output
        if axis.c != below:
            return None
        below *= axis.size
    return Product(merged([problem.group]), merged(rows), merged([problem.output]), _summed(problem))


def as_gradient_product(problem: Convolution) -> Product | None:
    """The product of kernel and input, transposed, for a single place of the output whose features are not adjacent."""
    if problem.x_base or problem.w_base or problem.batch.c != 1 or problem.output.c == 1:
        return None
    if any([(p.count, p.input) for p in d.classes] != [(1, 0)] for d in problem.dims):
        return None
    depth = _summed(problem)
    return Product(merged([problem.group]), merged([problem.batch]), merged([problem.output]), depth).transposed


def _summed(problem: Convolution) -> Axes:
    """What is summed where each dimension has one class, as the input lies in memory."""
    spaces = zip(problem.dims, problem.taps, strict=True)
    taps = (Axis(d.classes[0].taps, d.tap_input_stride * t.a, d.tap_stride * t.b, 0) for d, t in spaces)
    return merged(sorted([problem.feature, *taps], key=lambda x: -x.a))


def is_pointwise(problem: Convolution) -> bool:
    """True for windows of one tap, and no others between them."""
    spaces = zip(problem.dims, problem.taps, strict=True)
    return all(len(d.classes) == 1 and (d.classes[0].taps, t.size) == (1, 1) for d, t in spaces)


def as_pointwise_product(problem: Convolution) -> Product | None:
    """The product of kernel and input, for windows of one tap and dimensions whose positions are adjacent; or None."""
    spaces = [(d, d.classes[0], t) for d, t in zip(problem.dims, problem.taps, strict=True)]
    if problem.x_base or problem.w_base or not is_pointwise(problem) or any(p.input for _, p, _ in spaces):
        return None
    positions = merged([Axis(p.count, d.input_stride * t.a, 0, t.c) for d, p, t in spaces])
    if len(positions) != 1 or (positions[0].a, positions[0].c) != (1, 1):
        return None
    batch = merged([problem.group, problem.batch])
    return Product(batch, positions, merged([problem.output]), merged([problem.feature])).transposed
