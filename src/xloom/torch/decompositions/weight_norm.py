"""The gradient of weights that are kept as a direction and a size."""

from __future__ import annotations

import torch
from torch import Tensor

from xloom.torch.decompositions.registry import aten, decomposes


@decomposes(aten._weight_norm_interface_backward.default)
def weight_norm_backward(grad: Tensor, v: Tensor, g: Tensor, norms: Tensor, dim: int) -> tuple[Tensor, Tensor]:
    """Of w = g v / |v|, where sizes are of slices along `dim`: the gradients of v and g."""
    others = [d for d in range(v.dim()) if d != dim % v.dim()]
    norms = norms.to(g.dtype)
    along = torch.sum(grad * v, others, keepdim=True)
    return g / norms * (grad - v * (along / (norms * norms))), along / norms
