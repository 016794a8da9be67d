"""Scaled dot product attention: one softmax of one product, and its gradient from what the softmax left.

There may be fewer heads of keys and values than of queries, each for a group of neighbouring ones.
"""

from __future__ import annotations

import math

from xloom.errors import UnsupportedError
from xloom.hlo import dtype as dt
from xloom.hlo.instruction import Instruction
from xloom.llvm.target import process_target
from xloom.torch.lowering.graph import Graph
from xloom.torch.lowering.matmul import product
from xloom.torch.lowering.registry import lowers

_LEAST = math.log(2.0**-126)
"""Of less, e^x is no normal number of f32."""


def _grouped(g: Graph, x: Instruction, heads: int) -> Instruction:
    """With as many heads as the keys have: rows of heads that share one follow each other."""
    batch, own, rows, size = x.shape.dims
    return x if own == heads else g.reshape_to(x, (batch, heads, own // heads * rows, size))


def _rows_by_rows(g: Graph, a: Instruction, b: Instruction) -> Instruction:
    """a bᵀ, for each batch and head."""
    return _rows_by(g, a, b, contracted=3)


def _matmul(g: Graph, a: Instruction, b: Instruction) -> Instruction:
    """a b, for each batch and head."""
    return _rows_by(g, a, b, contracted=2)


def _rows_by(g: Graph, a: Instruction, b: Instruction, contracted: int) -> Instruction:
    out = product(
        g,
        _grouped(g, a, b.shape.dims[1]),
        b,
        lhs_batch_dims=(0, 1),
        rhs_batch_dims=(0, 1),
        lhs_contracting_dims=(3,),
        rhs_contracting_dims=(contracted,),
    )
    return g.reshape_to(out, (*a.shape.dims[:3], b.shape.dims[5 - contracted]))


def _columns_by_columns(g: Graph, a: Instruction, b: Instruction, heads: int) -> Instruction:
    """aᵀ b, for each batch and head of so many: of heads that share one, the sum."""
    return product(
        g,
        _grouped(g, a, heads),
        _grouped(g, b, heads),
        lhs_batch_dims=(0, 1),
        rhs_batch_dims=(0, 1),
        lhs_contracting_dims=(2,),
        rhs_contracting_dims=(2,),
    )


def _scores(
    g: Graph, query: Instruction, key: Instruction, is_causal: bool, mask: Instruction | None, scale: float
) -> Instruction:
    """The scaled products of queries and keys, -inf where a query may not look."""
    scores = _rows_by_rows(g, g.widened(query), g.widened(key))
    scores = g.multiply(scores, g.full_like(scores, scale))
    low = g.full_like(scores, float("-inf"))
    if is_causal:
        row, column = (g.iota_along(scores.shape.dims, k, dt.s32) for k in (2, 3))
        scores = g.select(g.compare(row, column, direction="GE"), scores, low)
    if mask is None:
        return scores
    if mask.shape.dtype is dt.pred:
        return g.select(g.expand(mask, scores.shape.dims), scores, low)
    return g.add(scores, g.expand(g.cast(mask, scores.shape.dtype), scores.shape.dims))


def _scale(query: Instruction, scale: float | None) -> float:
    return 1 / math.sqrt(query.shape.dims[-1]) if scale is None else scale


def _column(g: Graph, x: Instruction, like: Instruction) -> Instruction:
    return g.broadcast(x, shape=like.shape, dimensions=(0, 1, 2))


def _weights(g: Graph, scores: Instruction, rows: Instruction) -> Instruction:
    """e^(scores - rows), and 0 for what would be subnormal in f32, as in PyTorch's own kernel."""
    # a subnormal number takes processors of x86 a hundred cycles where it is made, and again where it is multiplied
    difference = g.subtract(scores, _column(g, rows, scores))
    if difference.shape.dtype is dt.f32:
        is_subnormal = g.compare(difference, g.full_like(difference, _LEAST), direction="LT")
        difference = g.select(is_subnormal, g.full_like(difference, float("-inf")), difference)
    return g.exponential(difference)


@lowers("aten._scaled_dot_product_flash_attention_for_cpu.default")
def attention(g: Graph, query, key, value, dropout_p: float, is_causal: bool, attn_mask, scale: float | None):
    """softmax(query keyᵀ scale) value, and the logarithm of each row's sum."""
    if dropout_p:
        raise UnsupportedError("attention with dropout", hint="apply dropout to the probabilities")
    scores = _scores(g, query, key, is_causal, attn_mask, _scale(query, scale))
    top = g.reduce_with(scores, "maximum", float("-inf"), [3])
    top = g.select(g.is_finite(top), top, g.full_like(top, 0))
    weights = _weights(g, scores, top)
    total = g.reduce_with(weights, "add", 0, [3])
    sees_nothing = g.compare(total, g.full_like(total, 0), direction="EQ")
    total = g.select(sees_nothing, g.full_like(total, 1), total)  # such rows are 0, as is their logarithm
    if value.shape.dtype is dt.bf16 and process_target().has_tiles:  # as PyTorch's kernel does, too
        weights = g.widened(g.cast(weights, dt.bf16))
    wide = _matmul(g, weights, g.widened(value))
    divisor = g.broadcast(total, shape=wide.shape, dimensions=(0, 1, 2))
    return [g.cast(g.divide(wide, divisor), query.shape.dtype), g.add(top, g.log(total))]


@lowers("aten._scaled_dot_product_flash_attention_for_cpu_backward.default")
def attention_backward(
    g: Graph,
    grad_out,
    query,
    key,
    value,
    out,
    logsumexp,
    dropout_p: float,
    is_causal: bool,
    attn_mask,
    scale: float | None,
):
    """The gradients of query, key and value."""
    factor = _scale(query, scale)
    scores = _scores(g, query, key, is_causal, attn_mask, factor)
    weights = _weights(g, scores, g.cast(logsumexp, scores.shape.dtype))
    q, k, v, grad, result = (g.widened(x) for x in (query, key, value, grad_out, out))
    along = g.reduce_with(g.multiply(grad, result), "add", 0, [3])
    slope = g.subtract(_rows_by_rows(g, grad, v), _column(g, along, scores))
    slope = g.multiply(weights, g.multiply(slope, g.full_like(slope, factor)))
    gradients = (
        _matmul(g, slope, k),
        _columns_by_columns(g, slope, q, k.shape.dims[1]),
        _columns_by_columns(g, weights, grad, v.shape.dims[1]),
    )
    return [g.cast(r, query.shape.dtype) for r in gradients]
