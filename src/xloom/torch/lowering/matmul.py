"""Matrix products."""

from __future__ import annotations

from xloom.torch.lowering.graph import Graph
from xloom.torch.lowering.registry import lowers


@lowers("aten.mm.default")
def mm(g: Graph, x, mat2):
    """x @ mat2."""
    return g.dot(x, mat2, lhs_contracting_dims=(1,), rhs_contracting_dims=(0,))
