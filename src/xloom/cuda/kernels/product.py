"""A product as strided axes: `c[batch, m, n] = sum over k of a[batch, m, k] * b[batch, k, n]`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from llvmlite import ir

from xloom.hlo.instruction import Instruction
from xloom.hlo.shape import Shape
from xloom.llvm.types import I64

Axes = tuple[tuple[int, int], ...]
"""Sizes and strides, outermost first."""


@dataclass(frozen=True)
class Operand:
    """The axes of one operand of a product: those of its own dimension, and of the two that it shares."""

    batch: Axes
    own: Axes
    depth: Axes

    @property
    def is_deep(self) -> bool:
        """Whether neighbours in memory are neighbours along k."""
        return bool(self.depth) and self.depth[-1][1] == 1

    def aligned(self, along: Axes) -> int:
        """How many elements that lie together along some axes can be loaded at once, wherever one begins: 8 or less."""
        if not along or along[-1][1] != 1:
            return 1
        numbers = [along[-1][0], *(s for axes in (self.batch, self.own, self.depth) for _, s in axes if s != 1)]
        return math.gcd(8, *numbers)


@dataclass(frozen=True)
class Product:
    """A dot; the output is dense."""

    lhs: Operand
    rhs: Operand
    batch: int
    m: int
    n: int
    k: int

    @staticmethod
    def of(instruction: Instruction) -> Product:
        """The product that a dot is."""
        lhs, rhs = (o.shape for o in instruction._operands)
        sides = []
        for shape, side in ((lhs, "lhs"), (rhs, "rhs")):
            batch, depth = instruction[f"{side}_batch_dims"], instruction[f"{side}_contracting_dims"]
            own = [d for d in range(shape.rank) if d not in (*batch, *depth)]
            sides.append((batch, own, depth))
        depths = _together(lhs, sides[0][2], rhs, sides[1][2])
        batches = _together(lhs, sides[0][0], rhs, sides[1][0])
        operands = [
            Operand(batches[k], _joined(_axes(shape, sides[k][1])), depths[k]) for k, shape in enumerate((lhs, rhs))
        ]
        left, right = operands
        m, n, k = (math.prod(s for s, _ in axes) for axes in (left.own, right.own, left.depth))
        return Product(left, right, math.prod(lhs.dims[d] for d in sides[0][0]), m, n, k)


def _axes(shape: Shape, dims: Sequence[int]) -> Axes:
    return tuple((shape.dims[d], math.prod(shape.dims[d + 1 :])) for d in dims if shape.dims[d] != 1)


def _joined(axes: Axes) -> Axes:
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


def offset(b: ir.IRBuilder, axes: Axes, number: ir.Value) -> ir.Value:
    """Where element `number` (i64) of some axes lies."""
    total: ir.Value = I64(0)
    for position, (size, stride) in reversed(list(enumerate(axes))):
        part = number
        if position:
            part, number = b.urem(number, I64(size)), b.udiv(number, I64(size))
        total = b.add(total, b.mul(part, I64(stride), flags=["nsw"]), flags=["nsw"])
    return total
