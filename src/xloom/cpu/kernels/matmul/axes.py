"""A product as strided axes: `c[batch, rows, columns] = sum over depth of a[...] * b[...]`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any, NamedTuple

from llvmlite import ir

from xloom.cpu.kernel_modules.form import LEAST
from xloom.llvm.types import i64


class Axis(NamedTuple):
    """A dimension and how far apart its elements lie in `a`, `b` and `c`: 0 where an operand lacks it."""

    size: int
    a: int
    b: int
    c: int

    def stride(self, operand: str) -> int:
        """The stride in operand "a", "b" or "c"."""
        return {"a": self.a, "b": self.b, "c": self.c}[operand]


Axes = tuple[Axis, ...]


class Product(NamedTuple):
    """The axes of a product, outermost first."""

    batch: Axes
    rows: Axes
    columns: Axes
    depth: Axes

    @property
    def transposed(self) -> Product:
        """The product with its operands exchanged, and so rows for columns."""

        def swap(axes: Axes) -> Axes:
            return tuple(Axis(x.size, x.b, x.a, x.c) for x in axes)

        return Product(swap(self.batch), swap(self.columns), swap(self.rows), swap(self.depth))

    def opened(self, size: Callable[[int], Any]) -> Product:
        """The product with `size(n)` for each number that kernels need not know."""

        inside = (*self.rows, *self.columns, *self.depth)
        is_small = all(x.size < LEAST for x in inside)  # a tile, whose addresses are best known

        def of(axes: Axes, least: int) -> Axes:
            return tuple(
                Axis(
                    size(x.size) if x.size >= least else x.size,
                    *(s if s < 2 or (is_small and x in inside) else size(s) for s in x[1:]),
                )
                for x in axes
            )

        return Product(of(self.batch, 2), of(self.rows, LEAST), of(self.columns, LEAST), of(self.depth, LEAST))


def row_major(dims: Sequence[int]) -> list[int]:
    """How far apart the elements of a dense array lie, a dimension."""
    out, step = [], 1
    for size in reversed(dims):
        out.append(step)
        step *= size
    return out[::-1]


def merged(axes: Sequence[Axis]) -> Axes:
    """Fewer axes with the same elements in the same order."""
    out: list[Axis] = []
    for axis in axes:
        if axis.size == 1:
            continue
        if out and all(o == i * axis.size for o, i in zip(out[-1][1:], axis[1:], strict=True)):
            out[-1] = Axis(out[-1].size * axis.size, *axis[1:])
        else:
            out.append(axis)
    return tuple(out)


def merged_in(axes: Sequence[Axis], operand: str) -> Axes:
    """Fewer axes of one operand alone, whatever the others are."""
    return merged([Axis(x.size, **{name: x.stride(name) * (name == operand) for name in "abc"}) for x in axes])


def count(axes: Axes) -> int:
    """How many elements the axes have."""
    return prod(x.size for x in axes)


def inner(axes: Axes) -> Axis:
    """The innermost axis; one of a single element when there is none."""
    return axes[-1] if axes else Axis(1, 0, 0, 0)


def digits(b: ir.IRBuilder, axes: Sequence[Axis], index: ir.Value) -> list[ir.Value]:
    """The position on each axis of the element that is number `index` in row-major order."""
    out: list[ir.Value] = []
    for k, axis in enumerate(reversed(axes)):
        last = k == len(axes) - 1
        out.append(index if last else b.urem(index, i64(axis.size)))
        index = index if last else b.udiv(index, i64(axis.size))
    return out[::-1]


def offset(b: ir.IRBuilder, axes: Sequence[Axis], position: Sequence[ir.Value], operand: str) -> ir.Value:
    """Where the element at `position` lies in an operand, in elements."""
    total: ir.Value = i64(0)
    for axis, at in zip(axes, position, strict=True):
        stride = axis.stride(operand)
        if stride:
            total = b.add(total, b.mul(at, i64(stride), flags=["nsw"]), flags=["nsw"])
    return total


def linear_offset(b: ir.IRBuilder, axes: Axes, index: ir.Value, operand: str) -> ir.Value:
    """Where element number `index` of the axes lies in an operand."""
    return offset(b, axes, digits(b, axes, index), operand)
