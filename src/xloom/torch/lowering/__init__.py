"""ATen to HLO: one table, one file per operator family; importing this package fills it."""

from importlib import import_module

from xloom.torch.lowering.graph import Graph
from xloom.torch.lowering.registry import LOWERINGS, decompositions, has_lowering, lower, lowers
from xloom.torch.lowering.scalar import Scalar

FAMILIES = (
    "activation",
    "comparison",
    "complex_parts",
    "convolution",
    "creation",
    "cumulative",
    "elementwise",
    "index",
    "matmul",
    "norm",
    "random",
    "reduce",
    "scatter",
    "sort",
    "view",
)
for _family in FAMILIES:
    import_module(f"xloom.torch.lowering.{_family}")

__all__ = ["FAMILIES", "LOWERINGS", "Graph", "Scalar", "decompositions", "has_lowering", "lower", "lowers"]
