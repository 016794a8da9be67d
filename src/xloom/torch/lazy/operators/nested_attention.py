"""Attention among the parts of nested tensors: the parts are padded, and padding is masked.

torch has it by kernels of its own devices alone, or by nested tensors of another layout, which the device has not.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
from torch.nn import functional as F

from xloom.torch.lazy.runtime.late_imports import replace, when_imported


def register() -> None:
    """Has parts that are sequences of the device attend so, once nested tensors are there."""
    when_imported("torch.nested._internal.ops", partial(replace, "jagged_scaled_dot_product_attention", _of_device))


def _of_device(own: Any) -> Any:
    def run(
        query: Any,
        key: Any,
        value: Any,
        attn_mask: Any = None,
        dropout_p: float = 0.0,
        is_causal: bool = False,
        scale: float | None = None,
        enable_gqa: bool = False,
    ) -> Any:
        sequences = all(x.is_nested and x.dim() == 4 and x._ragged_idx == 2 for x in (query, key, value))
        if query.device.type == "xla" and sequences and attn_mask is None:
            return _padded(query, key, value, dropout_p, is_causal, scale, enable_gqa)
        return own(query, key, value, attn_mask, dropout_p, is_causal, scale, enable_gqa)

    return run


def _padded(
    query: Any, key: Any, value: Any, dropout: float, is_causal: bool, scale: float | None, enable_gqa: bool
) -> Any:
    """Of parts [heads, length, width]; causal from each part's beginning."""
    from torch.nested._internal.nested_tensor import nested_from_padded

    parts, keys, _ = rows_first = [x.transpose(1, 2) for x in (query, key, value)]
    q, k, v = [torch.nested.to_padded_tensor(x, 0.0).transpose(1, 2) for x in rows_first]
    rows, columns = q.shape[2], k.shape[2]
    places = torch.arange(columns, device=query.device)
    seen = (places < keys.offsets().diff()[:, None])[:, None, None]
    if is_causal:
        seen = seen & (places <= torch.arange(rows, device=query.device)[:, None])
    found = F.scaled_dot_product_attention(q, k, v, seen, dropout, scale=scale, enable_gqa=enable_gqa)
    lengths = parts._maybe_min_seqlen, parts._maybe_max_seqlen, parts.values().shape[0]
    return nested_from_padded(found.transpose(1, 2), parts.offsets(), 1, *lengths).transpose(1, 2)
