"""Kernels that compute what a match says, and know nothing else."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from xloom.calls.match_description import MatchDescription

_ORDERS = {"btnh": (0, 1, 2, 3), "bnth": (0, 2, 1, 3)}
"""Of each layout, from btnh and back."""


def attention(out: Any, q: Any, k: Any, v: Any, *masks: Any, match: MatchDescription) -> None:
    """Attention, and that of grouped queries."""
    order = _ORDERS[match.layout]
    heads = match.values.get("kv_heads", match.heads)
    q = q.reshape(*((match.batch, match.queries, match.heads, match.features)[d] for d in order)).transpose(order)
    k, v = (
        x.reshape(*((match.batch, match.keys, heads, match.features)[d] for d in order))
        .transpose(order)
        .repeat(match.heads // heads, axis=2)
        for x in (k, v)
    )
    scores = match.scale * np.einsum("btnh,bsnh->bnts", q.astype(np.float32), k.astype(np.float32))
    seen = np.ones(scores.shape, bool)
    sizes = {"b": match.batch, "n": match.heads, "t": match.queries, "s": match.keys}
    for name, mask in zip(match.operands[3:], masks, strict=True):
        dims: Any = match.values["mask_dims" if name == "mask" else "allowed_dims"]
        mask = mask.reshape([sizes[d] if d in dims else 1 for d in "bnts"])
        if name == "mask":
            scores = scores + mask
        else:
            seen = seen & (mask if name == "allowed" else ~mask)
    if match.causal:
        seen = seen & np.tri(match.queries, match.keys, match.causal_offset, bool)
    scores = np.where(seen, scores, np.float32(match.mask_value))
    highest = scores.max(-1, keepdims=True)
    with np.errstate(invalid="ignore"):
        e = np.exp(scores - highest)
        p = e / e.sum(-1, keepdims=True)
    if match.zero_rows:
        p = np.where(np.isneginf(highest), 0, p)
    result = np.einsum("bnts,bsnh->btnh", p, v.astype(np.float32))
    out[...] = result.transpose(order).reshape(out.shape)


def rotary_embedding(out: Any, x: Any, *angles: Any, match: MatchDescription) -> None:
    """Pairs of features turned by an angle: the halves of a head, or neighbours."""
    cosine, sine = angles if match.operands[1:] == ("cosine", "sine") else (angles[0].real, angles[0].imag)
    order = _ORDERS[match.layout]
    x = x.reshape(*((match.batch, match.times, match.heads, match.features)[d] for d in order)).transpose(order)
    axis, shape = (-1, (-1, 2)) if match.pairs == "neighbours" else (-2, (2, -1))

    def paired(a: Any) -> Any:
        return a.reshape(*a.shape[:3], *shape)

    of_features = match.form.startswith("rotate")
    width = match.features if of_features else match.features // 2
    c, s = (a.reshape(-1, match.times, 1, width) for a in (cosine, sine))
    c, s = (paired(a) if of_features else np.stack([a, a], axis) for a in (c, s))
    x = paired(x)
    turned = x * c + np.stack([-np.take(x, 1, axis), np.take(x, 0, axis)], axis) * s
    turned = turned.reshape(match.batch, match.times, match.heads, match.features)
    out[...] = turned.transpose(order).reshape(out.shape)


KERNELS: dict[str, Callable[..., None]] = {
    "attention": attention,
    "grouped_query_attention": attention,
    "rotary_embedding": rotary_embedding,
}
"""By pattern."""
