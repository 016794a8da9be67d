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
    """As [batch][head of the keys][one that shares it][...]; as it is, where each head has keys of its own."""
    batch, own, *rest = x.shape.dims
    return x if own == heads else g.reshape_to(x, (batch, heads, own // heads, *rest))


def _rows_by_rows(g: Graph, a: Instruction, b: Instruction) -> Instruction:
    """a bᵀ, for each batch and head."""
    return _rows_by(g, a, b, contracted=3)


def _matmul(g: Graph, a: Instruction, b: Instruction) -> Instruction:
    """a b, for each batch and head."""
    return _rows_by(g, a, b, contracted=2)


def _rows_by(g: Graph, a: Instruction, b: Instruction, contracted: int) -> Instruction:
    return product(
        g,
        a,
        b,
        lhs_batch_dims=(0, 1),
        rhs_batch_dims=(0, 1),
        lhs_contracting_dims=(a.shape.rank - 1,),
        rhs_contracting_dims=(contracted,),
    )


def _columns_by_columns(g: Graph, a: Instruction, b: Instruction) -> Instruction:
    """aᵀ b, for each batch and head: of heads that share one, the sum."""
    rows = tuple(range(2, a.shape.rank - 1))
    return product(
        g,
        a,
        b,
        lhs_batch_dims=(0, 1),
        rhs_batch_dims=(0, 1),
        lhs_contracting_dims=rows,
        rhs_contracting_dims=rows,
    )


def _scores(
    g: Graph, query: Instruction, key: Instruction, is_causal: bool, mask: Instruction | None, scale: float
) -> Instruction:
    """The scaled products of queries and keys, -inf where a query may not look."""
    heads = query.shape.dims[1]
    query = _grouped(g, query, key.shape.dims[1])
    if math.frexp(scale)[0] == 0.5:  # a power of two: the product is scaled without rounding
        query, scale = g.multiply(query, g.full_like(query, scale)), 1
    scores = _rows_by_rows(g, g.widened(query), g.widened(key))
    if scale != 1:
        scores = g.multiply(scores, g.full_like(scores, scale))
    low, rank = g.full_like(scores, float("-inf")), scores.shape.rank
    if is_causal:
        row, column = (g.iota_along(scores.shape.dims, k, dt.s32) for k in (rank - 2, rank - 1))
        scores = g.select(g.compare(row, column, direction="GE"), scores, low)
    if mask is None:
        return scores
    if rank == 5 and mask.shape.rank > 2:
        batch, own, *rest = (*(1,) * (4 - mask.shape.rank), *mask.shape.dims)
        dims = scores.shape.dims[1:3] if own == heads else (1, 1)
        mask = g.reshape_to(mask, (batch, *dims, *rest))
    if mask.shape.dtype is dt.pred:
        return g.select(g.expand(mask, scores.shape.dims), scores, low)
    return g.add(scores, g.expand(g.cast(mask, scores.shape.dtype), scores.shape.dims))


def _scale(query: Instruction, scale: float | None) -> float:
    return 1 / math.sqrt(query.shape.dims[-1]) if scale is None else scale


def _column(g: Graph, x: Instruction, like: Instruction) -> Instruction:
    return g.broadcast(x, shape=like.shape, dimensions=tuple(range(x.shape.rank)))


def _weights(g: Graph, scores: Instruction, rows: Instruction) -> Instruction:
    """e^(scores - rows), and 0 for what would be subnormal in f32, as in PyTorch's own kernel."""
    # a subnormal number takes processors of x86 a hundred cycles where it is made, and again where it is multiplied
    difference = g.subtract(scores, _column(g, rows, scores))
    if difference.shape.dtype is dt.f32:
        is_subnormal = g.compare(difference, g.full_like(difference, _LEAST), direction="LT")
        difference = g.select(is_subnormal, g.full_like(difference, float("-inf")), difference)
    return g.exponential(difference)


def _factors(g: Graph, x: Instruction, dtype: dt.DType) -> Instruction:
    """What is multiplied with arrays of this type, rounded to it for tiles of bf16, as in PyTorch's kernel."""
    return g.widened(g.cast(x, dt.bf16)) if dtype is dt.bf16 and process_target().has_tiles else x


@lowers("aten._scaled_dot_product_flash_attention_for_cpu.default")
def attention(g: Graph, query, key, value, dropout_p: float, is_causal: bool, attn_mask, scale: float | None):
    """softmax(query keyᵀ scale) value, and the logarithm of each row's sum."""
    if dropout_p:
        raise UnsupportedError("attention with dropout", hint="apply dropout to the probabilities")
    scores = _scores(g, query, key, is_causal, attn_mask, _scale(query, scale))
    last = scores.shape.rank - 1
    top = g.reduce_with(scores, "maximum", float("-inf"), [last])
    top = g.select(g.is_finite(top), top, g.full_like(top, 0))
    weights = _weights(g, scores, top)
    total = g.reduce_with(weights, "add", 0, [last])
    sees_nothing = g.compare(total, g.full_like(total, 0), direction="EQ")
    total = g.select(sees_nothing, g.full_like(total, 1), total)  # such rows are 0, as is their logarithm
    wide = _matmul(g, _factors(g, weights, value.shape.dtype), g.widened(value))
    found = g.cast(g.divide(wide, _column(g, total, wide)), query.shape.dtype)
    dims = (*query.shape.dims[:3], value.shape.dims[3])
    return [g.reshape_to(found, dims), g.reshape_to(g.add(top, g.log(total)), dims[:3])]


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
    heads = key.shape.dims[1]
    weights = _weights(g, scores, _grouped(g, g.cast(logsumexp, scores.shape.dtype), heads))
    q, grad, result = (g.widened(_grouped(g, x, heads)) for x in (query, grad_out, out))
    k, v = g.widened(key), g.widened(value)
    along = g.reduce_with(g.multiply(grad, result), "add", 0, [grad.shape.rank - 1])
    slope = g.subtract(_rows_by_rows(g, grad, v), _column(g, along, scores))
    slope = g.multiply(weights, g.multiply(slope, g.full_like(slope, factor)))
    slope, weights = (_factors(g, x, query.shape.dtype) for x in (slope, weights))
    gradients = (_matmul(g, slope, k), _columns_by_columns(g, slope, q), _columns_by_columns(g, weights, grad))
    like = (query, key, value)
    return [g.reshape_to(g.cast(r, query.shape.dtype), x.shape.dims) for r, x in zip(gradients, like, strict=True)]
