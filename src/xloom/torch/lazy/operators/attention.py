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
    """softmax(query key^T scale) value; torch's own kernel where there is dropout or anything else unusual."""
    tensors = (query, key, value)
    same = all(type(t) is XlaTensor and t.dim() == 4 and t.dtype is query.dtype for t in tensors)
    differentiated = torch.is_grad_enabled() and any(t.requires_grad for t in tensors)
    plain = same and not dropout_p and _fits(query, key, value, enable_gqa)
    if differentiated and any(t.dim() and t.stride(-1) != 1 for t in tensors):
        plain = False  # of these the CPU has no kernel either: its gradients need less than all three
    if not plain or not (attn_mask is None or (not is_causal and _masks(attn_mask, query, key))):
        return _OP._op_dk(
            DispatchKey.CompositeImplicitAutograd,
            *(query, key, value, attn_mask, dropout_p, is_causal),
            scale=scale,
            enable_gqa=enable_gqa,
        )
    factor = 1 / math.sqrt(query.shape[-1]) if scale is None else scale
    if differentiated:
        return _Attention.apply(query, key, value, attn_mask, is_causal, factor)  # type: ignore[return-value]
    return _forward(query, key, value, attn_mask, is_causal, factor)[0]


def _fits(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, grouped: bool) -> bool:
    """Whether the batches are the same, and each head of keys serves one head of queries, or several."""
    heads, own = query.shape[1], key.shape[1]
    alike = heads == own or (grouped and own and not heads % own)
    return query.shape[0] == key.shape[0] and key.shape[:2] == value.shape[:2] and bool(alike) and 0 not in key.shape


def _masks(mask: torch.Tensor, query: torch.Tensor, key: torch.Tensor) -> bool:
    """Whether it is a constant that stretches to all scores."""
    if type(mask) is not XlaTensor or mask.requires_grad or mask.dtype not in (torch.bool, query.dtype):
        return False
    scores = (*query.shape[:3], key.shape[2])
    return mask.dim() <= 4 and all(
        size in (1, wanted) for size, wanted in zip(mask.shape[::-1], scores[::-1], strict=False)
    )


def _forward(query: Any, key: Any, value: Any, mask: Any, is_causal: bool, factor: float) -> tuple[torch.Tensor, Any]:
    """The result, and the weights by which it is made of values."""
    values = [None if each is None else each._alias.read() for each in (query, key, value, mask)]
    result, weights = record(_attention_forward, *values, is_causal, factor)
    own = query._alias.type
    if result.type.dims != own.dims or own.strides[-1] != 1:  # the CPU has another kernel for these
        return tensor_of(result), weights
    return tensor_on(Storage(type_of_copy(own, own.dtype, None), result)), weights


class _Attention(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, query: Any, key: Any, value: Any, mask: Any, is_causal: bool, factor: float) -> torch.Tensor:
        result, ctx.weights = _forward(query, key, value, mask, is_causal, factor)
        ctx.save_for_backward(query, key, value)
        ctx.factor = factor
        return result

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad: Any) -> Any:  # type: ignore[override]
        query, key, value = (each._alias.read() for each in ctx.saved_tensors)
        found = record(_attention_backward, grad._alias.read(), query, key, value, ctx.weights, ctx.factor)
        return (*[tensor_of(each) for each in found], None, None, None)


def _batched(g: Graph, a: Instruction, b: Instruction, over_a: int, over_b: int) -> Instruction:
    return g.dot(
        a,
        b,
        lhs_batch_dims=(0, 1),
        rhs_batch_dims=(0, 1),
        lhs_contracting_dims=(over_a,),
        rhs_contracting_dims=(over_b,),
    )


def _by_group(g: Graph, of_queries: Instruction, key: Instruction) -> Instruction:
    """The rows of all heads that share a head of keys, one head after another."""
    batch, heads = key.shape.dims[:2]
    last = of_queries.shape.dims[3]
    return g.reshape_to(of_queries, (batch, heads, of_queries.shape.size // max(1, batch * heads * last), last))


def _by_head(g: Graph, grouped: Instruction, query: Instruction) -> Instruction:
    """The same rows by the heads of queries again."""
    return g.reshape_to(grouped, (*query.shape.dims[:3], grouped.shape.dims[3]))


def _attention_forward(
    g: Graph,
    query: Instruction,
    key: Instruction,
    value: Instruction,
    mask: Instruction | None,
    is_causal: bool,
    factor: float,
) -> list[Instruction]:
    own = query.shape.dtype
    scores = g.widened(_by_head(g, _batched(g, _by_group(g, query, key), key, 3, 3), query))
    scores = g.multiply(scores, g.full_like(scores, factor))
    dims = scores.shape.dims
    if is_causal:
        seen = g.compare(g.iota_along(dims, 3, dt.s32), g.iota_along(dims, 2, dt.s32), direction="LE")
        scores = g.select(seen, scores, g.full_like(scores, float("-inf")))
    if mask is not None:
        mask = g.expand(mask, dims)
        adds = mask.shape.dtype.is_float
        nothing = g.full_like(scores, float("-inf"))
        scores = g.add(scores, g.widened(mask)) if adds else g.select(mask, scores, nothing)
    top = g.reduce_with(scores, "maximum", float("-inf"), [3])
    if mask is not None:
        top = g.select(g.is_finite(top), top, g.full_like(top, 0))
    powers = g.exponential(g.subtract(scores, g.expand(g.reshape_to(top, (*dims[:3], 1)), dims)))
    total = g.reduce_with(powers, "add", 0, [3])
    if mask is not None:  # rows that see nothing are 0
        sees_nothing = g.compare(total, g.full_like(total, 0), direction="EQ")
        total = g.select(sees_nothing, g.full_like(total, 1), total)
    weights = g.cast(g.divide(powers, g.expand(g.reshape_to(total, (*dims[:3], 1)), dims)), own)
    return [_by_head(g, _batched(g, _by_group(g, weights, key), value, 3, 2), query), weights]


def _attention_backward(
    g: Graph,
    grad: Instruction,
    query: Instruction,
    key: Instruction,
    value: Instruction,
    weights: Instruction,
    factor: float,
) -> list[Instruction]:
    grouped = _by_group(g, grad, key)
    of_weights = g.widened(_by_head(g, _batched(g, grouped, value, 3, 3), query))
    wide = g.widened(weights)
    dims = wide.shape.dims
    product = g.multiply(of_weights, wide)
    total = g.expand(g.reshape_to(g.reduce_with(product, "add", 0, [3]), (*dims[:3], 1)), dims)
    of_scores = g.subtract(product, g.multiply(wide, total))
    of_scores = g.cast(g.multiply(of_scores, g.full_like(of_scores, factor)), weights.shape.dtype)
    of_scores = _by_group(g, of_scores, key)
    return [
        _by_head(g, _batched(g, of_scores, key, 3, 2), query),
        _batched(g, of_scores, _by_group(g, query, key), 2, 2),
        _batched(g, _by_group(g, weights, key), grouped, 2, 2),
    ]
