"""Arithmetic of one and two operands."""

from __future__ import annotations

from xloom.torch.lowering.graph import Graph, Value
from xloom.torch.lowering.registry import lowers


@lowers("aten.add.Tensor", "aten.add.Scalar")
def add(g: Graph, x: Value, y: Value, alpha: Value):
    """x + alpha y."""
    x, y = g.broadcast_operands(x, y)
    return g.add(x, y if alpha == 1 else g.multiply(y, g.full_like(y, alpha)))


@lowers("aten.mul.Tensor", "aten.mul.Scalar")
def mul(g: Graph, x: Value, y: Value):
    """x y."""
    return g.multiply(*g.broadcast_operands(x, y))


@lowers("aten.relu.default")
def relu(g: Graph, x):
    """max(x, 0)."""
    return g.maximum(x, g.full_like(x, 0))
