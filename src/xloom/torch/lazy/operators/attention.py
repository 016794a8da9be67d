"""Scaled dot-product attention as one operator forward and one backward, rather than fifty."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch._C import DispatchKey

from xloom.hlo import dtype as dt
from xloom.hlo.instruction import Instruction
from xloom.torch.lazy.recording.operation import record
from xloom.torch.lazy.tensor.array_type import type_of_copy
from xloom.torch.lazy.tensor.storage import Storage
from xloom.torch.lazy.tensor.tensor import XlaTensor, tensor_of, tensor_on
from xloom.torch.lowering import Graph

_OP = torch.ops.aten.scaled_dot_product_attention.default


def attention(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attn_mask: torch.Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> torch.Tensor:
    """softmax(query key^T scale) value; torch's own kernel where there is a mask, dropout or anything else unusual."""
    tensors = (query, key, value)
    plain = attn_mask is None and not dropout_p and not enable_gqa
    same = all(type(t) is XlaTensor and t.dim() == 4 and t.dtype is query.dtype for t in tensors)
    if not (plain and same and query.shape[:2] == key.shape[:2] == value.shape[:2] and 0 not in key.shape):
        return _OP._op_dk(
            DispatchKey.CompositeImplicitAutograd,
            *(query, key, value, attn_mask, dropout_p, is_causal),
            scale=scale,
            enable_gqa=enable_gqa,
        )
    factor = 1 / math.sqrt(query.shape[-1]) if scale is None else scale
    return _Attention.apply(query, key, value, is_causal, factor)  # type: ignore[return-value]


class _Attention(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, query: Any, key: Any, value: Any, is_causal: bool, factor: float) -> torch.Tensor:
        values = [each._alias.read() for each in (query, key, value)]
        result, weights = record(_attention_forward, *values, is_causal, factor)
        ctx.save_for_backward(query, key, value)
        ctx.weights = weights
        ctx.factor = factor
        own = query._alias.type
        if result.type.dims != own.dims or own.strides[-1] != 1:  # the CPU has another kernel for these
            return tensor_of(result)
        return tensor_on(Storage(type_of_copy(own, own.dtype, None), result))

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad: Any) -> Any:  # type: ignore[override]
        query, key, value = (each._alias.read() for each in ctx.saved_tensors)
        found = record(_attention_backward, grad._alias.read(), query, key, value, ctx.weights, ctx.factor)
        return (*[tensor_of(each) for each in found], None, None)


def _batched(g: Graph, a: Instruction, b: Instruction, over_a: int, over_b: int) -> Instruction:
    return g.dot(
        a,
        b,
        lhs_batch_dims=(0, 1),
        rhs_batch_dims=(0, 1),
        lhs_contracting_dims=(over_a,),
        rhs_contracting_dims=(over_b,),
    )


def _attention_forward(
    g: Graph, query: Instruction, key: Instruction, value: Instruction, is_causal: bool, factor: float
) -> list[Instruction]:
    own = query.shape.dtype
    scores = g.widened(_batched(g, query, key, 3, 3))
    scores = g.multiply(scores, g.full_like(scores, factor))
    dims = scores.shape.dims
    if is_causal:
        seen = g.compare(g.iota_along(dims, 3, dt.s32), g.iota_along(dims, 2, dt.s32), direction="LE")
        scores = g.select(seen, scores, g.full_like(scores, float("-inf")))
    top = g.expand(g.reshape_to(g.reduce_with(scores, "maximum", float("-inf"), [3]), (*dims[:3], 1)), dims)
    powers = g.exponential(g.subtract(scores, top))
    total = g.expand(g.reshape_to(g.reduce_with(powers, "add", 0, [3]), (*dims[:3], 1)), dims)
    weights = g.cast(g.divide(powers, total), own)
    return [_batched(g, weights, value, 3, 2), weights]


def _attention_backward(
    g: Graph,
    grad: Instruction,
    query: Instruction,
    key: Instruction,
    value: Instruction,
    weights: Instruction,
    factor: float,
) -> list[Instruction]:
    of_weights, wide = g.widened(_batched(g, grad, value, 3, 3)), g.widened(weights)
    dims = wide.shape.dims
    product = g.multiply(of_weights, wide)
    total = g.expand(g.reshape_to(g.reduce_with(product, "add", 0, [3]), (*dims[:3], 1)), dims)
    of_scores = g.subtract(product, g.multiply(wide, total))
    of_scores = g.cast(g.multiply(of_scores, g.full_like(of_scores, factor)), weights.shape.dtype)
    return [
        _batched(g, of_scores, key, 3, 2),
        _batched(g, of_scores, query, 2, 2),
        _batched(g, weights, grad, 2, 2),
    ]
