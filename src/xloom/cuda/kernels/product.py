"""Products as strided axes: `c[batch, m, n] = sum over k of a[batch, m, k] * b[batch, k, n]`; convolutions too."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from llvmlite import ir

from xloom.hlo.instruction import Instruction
from xloom.hlo.shape import Shape
from xloom.llvm.types import I64

Axes = tuple[tuple[int, int], ...]
"""Sizes and strides, outermost first."""

Place = tuple[ir.Value, ir.Value, ir.Value]
"""An element of the output: its batch, row and column."""


class Window(NamedTuple):
    """A dimension of which the position is `out * stride + tap * dilation - padding`, and has to be inside."""

    out: int | None
    """The number of the operand's own axis that the output moves along; None for a single one."""
    tap: int | None
    """The number of the axis along k that the tap moves along."""
    stride: int
    dilation: int
    padding: int
    size: int
    spread: int = 1
    """Of so many positions one has an element; what is between them counts as zero."""
    step: int = 0
    """Between neighbouring elements in memory, where they are spread: the axes have no strides then."""

    def is_always_inside(self, own: Axes, depth: Axes) -> bool:
        """Whether there is nothing to check."""
        outs, taps = 1 if self.out is None else own[self.out][0], 1 if self.tap is None else depth[self.tap][0]
        return (
            self.spread == 1
            and self.padding <= 0
            and (outs - 1) * self.stride + (taps - 1) * self.dilation - self.padding < self.size
        )


@dataclass(frozen=True)
class Operand:
    """The axes of one operand of a product: those of its own dimension, and of the two that it shares."""

    batch: Axes
    own: Axes
    depth: Axes
    first: int = 0
    """Where the element is of which all numbers are 0; less than 0 in padding."""
    windows: tuple[Window, ...] = field(default=())

    @property
    def is_deep(self) -> bool:
        """Whether neighbours in memory are neighbours along k."""
        return bool(self.depth) and self.depth[-1][1] == 1

    @property
    def aligned(self) -> int:
        """How many elements that lie together can be loaded at once, wherever one begins: 16 or less."""
        along = self.depth if self.is_deep else self.own
        if not along or along[-1][1] != 1:
            return 1
        others = [*self.batch, *self.own, *self.depth]
        others.remove(along[-1])
        steps = [*(stride for _, stride in others), *(window.step for window in self.windows)]
        return math.gcd(16, self.first, along[-1][0], *steps)

    def place(self, b: ir.IRBuilder, at: ir.Value, deep: ir.Value) -> tuple[ir.Value, list[ir.Value]]:
        """Where the element at numbers of the own dimension and of k is, and the conditions on which there is one."""
        outs, taps = parts(b, self.own, at), parts(b, self.depth, deep)
        index = b.add(_sum(b, self.own, outs), _sum(b, self.depth, taps), flags=["nsw"])
        conditions = []
        for window in self.windows:
            if window.is_always_inside(self.own, self.depth):
                continue
            position = I64(-window.padding)
            for number, values, factor in ((window.out, outs, window.stride), (window.tap, taps, window.dilation)):
                if number is not None:
                    position = b.add(position, b.mul(values[number], I64(factor), flags=["nsw"]), flags=["nsw"])
            conditions.append(b.icmp_unsigned("<", position, I64(window.size)))
            if window.spread > 1:
                conditions.append(b.icmp_signed("==", b.urem(position, I64(window.spread)), I64(0)))
                step = b.mul(b.udiv(position, I64(window.spread)), I64(window.step))
                index = b.add(index, step)
        return b.add(index, I64(self.first), flags=["nsw"]), conditions


@dataclass(frozen=True)
class Product:
    """A product; `output` has the axes of its batch, rows and columns."""

    lhs: Operand
    rhs: Operand
    output: tuple[Axes, Axes, Axes]

    @property
    def batch(self) -> int:
        """How many products."""
        return _size(self.output[0])

    @property
    def m(self) -> int:
        """Rows of the output."""
        return _size(self.output[1])

    @property
    def n(self) -> int:
        """Columns of the output."""
        return _size(self.output[2])

    @property
    def k(self) -> int:
        """Elements of each sum."""
        return _size(self.lhs.depth)

    @property
    def has_pairs(self) -> bool:
        """Whether two neighbours of the output, from an even column on, lie together and aligned."""
        columns = self.output[2]
        others = [stride for axes in self.output for _, stride in axes]
        others.remove(1) if 1 in others else None
        return bool(columns) and columns[-1][1] == 1 and math.gcd(columns[-1][0], *others) % 2 == 0

    def output_index(self, b: ir.IRBuilder, batch: ir.Value, row: ir.Value, column: ir.Value) -> ir.Value:
        """Where an element of the output is."""
        numbers = zip(self.output, (batch, row, column), strict=True)
        total: ir.Value = I64(0)
        for axes, number in numbers:
            total = b.add(total, offset(b, axes, number), flags=["nsw"])
        return total

    def along(self, b: ir.IRBuilder, place: Place, size: int, stride: int) -> ir.Value:
        """The number of an element along a loop of `size` steps of `stride` elements of the output."""
        numbers = [
            (n, t, x)
            for axes, number in zip(self.output, place, strict=True)
            for (n, t), x in zip(axes, parts(b, axes, number), strict=True)
        ]
        inside = [(n, t, x) for n, t, x in numbers if stride <= t and t * n <= stride * size and t % stride == 0]
        if math.prod(n for n, _, _ in inside) == size:
            return _sum(b, tuple((n, t // stride) for n, t, _ in inside), [x for _, _, x in inside])
        for n, t, x in numbers:
            if stride % t == 0 and (t * n) % (stride * size) == 0:
                x = b.udiv(x, I64(stride // t)) if stride > t else x
                return b.urem(x, I64(size)) if stride * size < t * n else x
        return b.urem(b.udiv(self.output_index(b, *place), I64(stride)), I64(size))

    @property
    def flat(self) -> Product:
        """The same with an output of one row."""
        return replace(self, output=((), (), ((self.batch * self.m * self.n, 1),)))

    @staticmethod
    def of_dot(instruction: Instruction) -> Product:
        """The product that a dot is."""
        lhs, rhs = (o.shape for o in instruction._operands)
        sides = []
        for shape, side in ((lhs, "lhs"), (rhs, "rhs")):
            batch, depth = instruction[f"{side}_batch_dims"], instruction[f"{side}_contracting_dims"]
            own = [d for d in range(shape.rank) if d not in (*batch, *depth)]
            sides.append((batch, own, depth))
        depths = _together(lhs, sides[0][2], rhs, sides[1][2])
        batches = _together(lhs, sides[0][0], rhs, sides[1][0])
        left, right = (
            Operand(batches[k], joined(_axes(shape, sides[k][1])), depths[k]) for k, shape in enumerate((lhs, rhs))
        )
        m, n = _size(left.own), _size(right.own)
        return Product(left, right, (((_size(left.batch), m * n),), ((m, n),), ((n, 1),)))

    @staticmethod
    def of_convolution(instruction: Instruction) -> Product:
        """The product that a convolution is: rows are the output's places, columns its features, of each group."""
        lhs, rhs = (o.shape for o in instruction._operands)
        labels, window = instruction["dim_labels"], instruction["window"]
        of_batches, of_features = instruction["batch_group_count"], instruction["feature_group_count"]
        groups = max(of_batches, of_features)  # one of them is 1
        x, w, y = strides_of(lhs), strides_of(rhs), strides_of(instruction.shape)
        features, outputs = (
            rhs.dims[labels.kernel_input_feature],
            instruction.shape.dims[labels.output_feature] // groups,
        )
        own, rows, batch = _Numbered(), _Numbered(), lhs.dims[labels.input_batch] // of_batches
        own.add(batch, x[labels.input_batch])
        rows.add(batch, y[labels.output_batch])
        depth, kernel, windows, first, first_tap = _Numbered(), _Numbered(), [], 0, 0
        for dimension, inner, tap, outer in zip(
            window, labels.input_spatial, labels.kernel_spatial, labels.output_spatial, strict=True
        ):
            count = instruction.shape.dims[outer]
            rows.add(count, y[outer])
            spread = dimension.base_dilation
            along = x[inner] if spread == 1 else 0
            out = own.add(count, dimension.stride * along)
            kernel.add(dimension.size, -w[tap] if dimension.window_reversal else w[tap])
            first_tap += (dimension.size - 1) * w[tap] if dimension.window_reversal else 0
            number = depth.add(dimension.size, dimension.window_dilation * along)
            first -= dimension.padding_low * along
            windows.append(
                Window(
                    out,
                    number,
                    dimension.stride,
                    dimension.window_dilation,
                    dimension.padding_low,
                    (lhs.dims[inner] - 1) * spread + 1,
                    spread,
                    x[inner] if spread > 1 else 0,
                )
            )
        depth.add(features, x[labels.input_feature])
        kernel.add(features, w[labels.kernel_input_feature])
        group = batch * x[labels.input_batch] if of_batches > 1 else features * x[labels.input_feature]
        of_groups = [group, outputs * w[labels.kernel_output_feature]]
        left = Operand(((groups, of_groups[0]),), own.axes, depth.axes, first, tuple(windows))
        right = Operand(
            ((groups, of_groups[1]),), ((outputs, w[labels.kernel_output_feature]),), kernel.axes, first_tap
        )
        columns = ((outputs, y[labels.output_feature]),)
        return Product(left, right, (((groups, outputs * y[labels.output_feature]),), joined(rows.axes), columns))


class _Numbered:
    """Axes as they are added, those of one element left out."""

    def __init__(self) -> None:
        self._axes: list[tuple[int, int]] = []

    def add(self, size: int, stride: int) -> int | None:
        """The number of the axis, if there is one."""
        if size == 1:
            return None
        self._axes.append((size, stride))
        return len(self._axes) - 1

    @property
    def axes(self) -> Axes:
        """All of them."""
        return tuple(self._axes)


def _size(axes: Axes) -> int:
    return math.prod(size for size, _ in axes)


def strides_of(shape: Shape) -> list[int]:
    """The strides of an array's dimensions."""
    return [math.prod(shape.dims[d + 1 :]) for d in range(shape.rank)]


def _axes(shape: Shape, dims: Sequence[int]) -> Axes:
    return axes_of(shape.dims, strides_of(shape), dims)


def axes_of(sizes: Sequence[int], strides: Sequence[int], dims: Sequence[int]) -> Axes:
    """The axes that some dimensions of an array are, those of one element left out."""
    return tuple((sizes[d], strides[d]) for d in dims if sizes[d] != 1)


def joined(axes: Axes) -> Axes:
    """Axes with neighbours joined that are one in memory."""
    out: list[tuple[int, int]] = []
    for size, stride in axes:
        if out and out[-1][1] == size * stride:
            out[-1] = (out[-1][0] * size, stride)
        else:
            out.append((size, stride))
    return tuple(out)


def _together(lhs: Shape, lhs_dims: Sequence[int], rhs: Shape, rhs_dims: Sequence[int]) -> tuple[Axes, Axes]:
    """Axes that two operands share, joined where they are one in both."""
    out: list[list[int]] = []
    for (size, x), (_, y) in zip(_axes(lhs, lhs_dims), _axes(rhs, rhs_dims), strict=True):
        if out and out[-1][1] == size * x and out[-1][2] == size * y:
            out[-1] = [out[-1][0] * size, x, y]
        else:
            out.append([size, x, y])
    return tuple((s, x) for s, x, _ in out), tuple((s, y) for s, _, y in out)


def parts(b: ir.IRBuilder, axes: Axes, number: ir.Value) -> list[ir.Value]:
    """Where element `number` (i64) of some axes is along each."""
    found = []
    for position, (size, _) in reversed(list(enumerate(axes))):
        part = number
        if position:
            part, number = b.urem(number, I64(size)), b.udiv(number, I64(size))
        found.append(part)
    return found[::-1]


def offset(b: ir.IRBuilder, axes: Axes, number: ir.Value) -> ir.Value:
    """Where element `number` (i64) of some axes lies."""
    return _sum(b, axes, parts(b, axes, number))


def _sum(b: ir.IRBuilder, axes: Axes, numbers: Sequence[ir.Value]) -> ir.Value:
    total: ir.Value = I64(0)
    for (_, stride), number in zip(axes, numbers, strict=True):
        total = b.add(total, b.mul(number, I64(stride), flags=["nsw"]), flags=["nsw"])
    return total
