"""ATen to HLO: one table, one file per operator family; importing this package fills it."""

from importlib import import_module

from xloom.torch.lowering.graph import Graph
from xloom.torch.lowering.registry import LOWERINGS, has_lowering, lower, lowers
from xloom.torch.lowering.scalar import Scalar

FAMILIES = (
    "activation",
    "adaptive",
    "attention",
    "bessel",
    "comparison",
    "complex_parts",
    "convolution",
    "creation",
    "ctc_loss",
    "cumulative",
    "division",
    "elementwise",
    "expert_products",
    "fft",
    "float_bits",
    "fold",
    "index",
    "linalg",
    "loss",
    "matmul",
    "norm",
    "norm_gradient",
    "polynomials",
    "pooling",
    "random",
    "random_counts",
    "random_gamma",
    "recurrent",
    "reduce",
    "sample_gradients",
    "scatter",
    "sort",
    "special",
    "sync_batch_norm",
    "upsample",
    "view",
    "windows",
)
for _family in FAMILIES:
    import_module(f"xloom.torch.lowering.{_family}")

__all__ = ["FAMILIES", "LOWERINGS", "Graph", "Scalar", "has_lowering", "lower", "lowers"]
