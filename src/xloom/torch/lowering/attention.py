"""Scaled dot product attention: one softmax of one product, and its gradient from what the softmax left.

There may be fewer heads of keys and values than of queries, each for a group of neighbouring ones.
"""

from __future__ import annotations

import functools
import itertools
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
_PARTS = 4
"""Of the rows of causal attention: the first of four need not look at three quarters of the keys, and so on."""
_LARGE = 1 << 22
"""Bytes of scores from which on it is computed in parts."""


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
    g: Graph, query: Instruction, key: Instruction, first: int | None, mask: Instruction | None, scale: float
) -> Instruction:
    """The scaled products of queries and keys, -inf where a query may not look: at keys behind it, if `first` says
    which one the first is."""
    heads = query.shape.dims[1]
    query = _grouped(g, query, key.shape.dims[1])
    if math.frexp(scale)[0] == 0.5:  # a power of two: the product is scaled without rounding
        query, scale = g.multiply(query, g.full_like(query, scale)), 1
    scores = _rows_by_rows(g, g.widened(query), g.widened(key))
    if scale != 1:
        scores = g.multiply(scores, g.full_like(scores, scale))
    low, rank = g.full_like(scores, float("-inf")), scores.shape.rank
    if first is not None:
        row, column = (g.iota_along(scores.shape.dims, k, dt.s32) for k in (rank - 2, rank - 1))
        row = g.add(row, g.full_like(row, first)) if first else row
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
    parts = [
        _attention(g, q, k, v, first, mask, _scale(query, scale))
        for first, q, k, v, mask in _parts(g, is_causal, query, key, value, attn_mask)
    ]
    return [g.concat([part[n] for part in parts], 2) for n in (0, 1)]


_Part = tuple[int | None, Instruction, Instruction, Instruction, Instruction | None]


def _parts(
    g: Graph, is_causal: bool, query: Instruction, key: Instruction, value: Instruction, mask: Instruction | None
) -> list[_Part]:
    """Of each part of the queries the first one, if that matters, then these, what they see, and the mask."""
    if not is_causal:
        return [(None, query, key, value, mask)]
    rows, columns = query.shape.dims[2], key.shape.dims[2]
    size = math.prod(query.shape.dims[:3]) * columns * 4
    found: list[_Part] = []
    for first, end in _ranges(rows, _PARTS if size >= _LARGE and rows >= _PARTS else 1):
        k, v = (g.slice_along(x, 2, 0, min(end, columns)) for x in (key, value))
        found.append((first, g.slice_along(query, 2, first, end), k, v, _of_mask(g, mask, (first, end), columns)))
    return found


def _ranges(rows: int, parts: int) -> list[tuple[int, int]]:
    return [(rows * n // parts, rows * (n + 1) // parts) for n in range(parts)]


def _of_mask(g: Graph, mask: Instruction | None, rows: tuple[int, int], columns: int) -> Instruction | None:
    """What a mask says of some rows and the keys up to their last one."""
    if mask is None:
        return None
    rank = mask.shape.rank
    if mask.shape.dims[rank - 1] > 1:
        mask = g.slice_along(mask, rank - 1, 0, min(rows[1], columns))
    return g.slice_along(mask, rank - 2, *rows) if rank > 1 and mask.shape.dims[rank - 2] > 1 else mask


def _attention(
    g: Graph,
    query: Instruction,
    key: Instruction,
    value: Instruction,
    first: int | None,
    mask: Instruction | None,
    scale: float,
) -> list[Instruction]:
    """The same of rows whose first one is given."""
    scores = _scores(g, query, key, first, mask, scale)
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
    found, ends, begin = [], [0], 0
    for first, q, k, v, mask in _parts(g, is_causal, query, key, value, attn_mask):
        end = begin + q.shape.dims[2]
        own = [g.slice_along(x, 2, begin, end) for x in (grad_out, out, logsumexp)]
        found.append(_gradients(g, own, (q, k, v), first, mask, factor))
        ends.append(k.shape.dims[2])
        begin = end
    of_queries = g.concat([part[0] for part in found], 2)
    results = [of_queries, *(_summed(g, [part[n] for part in found], ends, key) for n in (1, 2))]
    return [g.cast(r, query.shape.dtype) for r in results]


def _summed(g: Graph, parts: list[Instruction], ends: list[int], key: Instruction) -> Instruction:
    """The sum of gradients of keys, of which each part has those up to an end; of those that none has, 0."""
    pieces = []
    for n, (begin, end) in enumerate(itertools.pairwise(ends)):
        if begin < end:
            each = [g.slice_along(part, 2, begin, end) for part in parts[n:]]
            pieces.append(functools.reduce(g.add, each))
    unseen = key.shape.dims[2] - ends[-1]
    return g.pad_with(g.concat(pieces, 2), [(0, 0), (0, 0), (0, unseen), (0, 0)], 0)


def _gradients(
    g: Graph,
    results: list[Instruction],
    arrays: tuple[Instruction, Instruction, Instruction],
    first: int | None,
    mask: Instruction | None,
    factor: float,
) -> list[Instruction]:
    """The gradients of some queries, and what they give of those of keys and values."""
    (query, key, value), (grad_out, out, logsumexp) = arrays, results
    scores = _scores(g, query, key, first, mask, factor)
    heads = key.shape.dims[1]
    weights = _weights(g, scores, _grouped(g, g.cast(logsumexp, scores.shape.dtype), heads))
    q, grad, result = (g.widened(_grouped(g, x, heads)) for x in (query, grad_out, out))
    k, v = g.widened(key), g.widened(value)
    along = g.reduce_with(g.multiply(grad, result), "add", 0, [grad.shape.rank - 1])
    slope = g.subtract(_rows_by_rows(g, grad, v), _column(g, along, scores))
    slope = g.multiply(weights, g.multiply(slope, g.full_like(slope, factor)))
    slope, weights = (_factors(g, x, query.shape.dtype) for x in (slope, weights))
    gradients = (_matmul(g, slope, k), _columns_by_columns(g, slope, q), _columns_by_columns(g, weights, grad))
    return [g.reshape_to(r, x.shape.dims) for r, x in zip(gradients, arrays, strict=True)]
