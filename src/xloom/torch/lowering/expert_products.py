"""Products of rows with the matrices of their experts, by operators that the library transformers brings.

It uses them where torch's own, which `matmul` lowers, cannot be compiled by inductor: of anything but bf16.
"""

from __future__ import annotations

from xloom.torch.lowering.graph import Graph
from xloom.torch.lowering.matmul import grouped_mm
from xloom.torch.lowering.registry import lowers


@lowers("transformers.grouped_mm_fallback.default")
def expert_products(g: Graph, input, weight, offs):
    """Each row times the matrix of its group; groups end at `offs`."""
    return grouped_mm(g, input, weight, offs, None, None)


@lowers("transformers.grouped_mm_fallback_backward.default")
def expert_products_backward(g: Graph, input, weight, offs, grad_output):
    """The gradients of rows and of matrices."""
    by_rows = grouped_mm(g, grad_output, g.permute(weight, (0, 2, 1)), offs, None, None)
    return [by_rows, grouped_mm(g, g.permute(input, (1, 0)), grad_output, offs, None, None)]
