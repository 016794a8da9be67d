"""Sums and other folds over dimensions."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from xloom.hlo import dtype as dt
from xloom.hlo.module import Instruction
from xloom.torch.dtypes import hlo_dtype
from xloom.torch.lowering.graph import Graph, normalized_dims
from xloom.torch.lowering.registry import lowers


def kept(g: Graph, result: Instruction, dims: Sequence[int], keepdim: bool, reduced: Sequence[int]) -> Instruction:
    """A reduction's result with the dimensions that it has folded as ones, if they are kept."""
    return g.reshape_to(result, [1 if k in reduced else d for k, d in enumerate(dims)]) if keepdim else result


@lowers("aten.sum.default", "aten.sum.dim_IntList")
def sum_(g: Graph, x, dim=None, keepdim=False, dtype: torch.dtype | None = None):
    """The sum over dimensions; integers add up as s64, narrow floats as f32."""
    own = x.shape.dtype
    target = hlo_dtype(dtype) if dtype else dt.s64 if own is dt.pred or own.is_integer else own
    dims = normalized_dims(dim, x.shape.rank)
    total = g.fold(g.widened(g.cast(x, target)), "add", 0, dims)
    return kept(g, g.cast(total, target), x.shape.dims, keepdim, dims)
