"""ATen to HLO: one table, one file per operator family; importing this package fills it."""

from xloom.torch.lowering import elementwise, matmul, reduce, view
from xloom.torch.lowering.graph import Graph
from xloom.torch.lowering.registry import LOWERINGS, decompositions, has_lowering, lower, lowers
from xloom.torch.lowering.scalar import Scalar

__all__ = [
    "LOWERINGS",
    "Graph",
    "Scalar",
    "decompositions",
    "elementwise",
    "has_lowering",
    "lower",
    "lowers",
    "matmul",
    "reduce",
    "view",
]
