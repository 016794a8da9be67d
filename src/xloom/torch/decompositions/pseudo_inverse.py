"""The pseudo-inverse."""

from __future__ import annotations

import torch
from torch import Tensor

from xloom.torch.decompositions.registry import aten, decomposes


@decomposes(aten.linalg_pinv.atol_rtol_tensor)
def linalg_pinv(x: Tensor, *, atol: Tensor | None = None, rtol: Tensor | None = None, hermitian=False) -> Tensor:
    """The pseudo-inverse, from singular values (or eigenvalues) above a tolerance."""
    if x.numel() == 0:
        return x.mH
    epsilon = torch.finfo(x.dtype).eps
    if atol is None and rtol is None:
        rtol = torch.full((), epsilon * max(x.shape[-2:]), device=x.device)
    rtol = torch.zeros((), device=x.device) if rtol is None else rtol
    atol = torch.zeros((), device=x.device) if atol is None else atol
    if hermitian:
        values, vectors = torch.linalg.eigh(x)
        size = values.abs()
        left, right = vectors, vectors.mH
    else:
        u, values, right_h = torch.linalg.svd(x, full_matrices=False)
        size, left, right = values, right_h.mH, u.mH
    bound = torch.maximum(atol.unsqueeze(-1), rtol.unsqueeze(-1) * torch.amax(size, -1, keepdim=True))
    inverse = torch.where(size > bound, values.reciprocal(), torch.zeros_like(values))
    return (left * inverse.unsqueeze(-2).to(left.dtype)) @ right
