"""What torch's transformers are made of in evaluation: attention of several heads, and a whole layer of an encoder."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from xloom.torch.decompositions.registry import aten, decomposes

_OF_KEYS = 1
"""Says of a mask that it tells which keys are masked for all queries, not which for each."""


@decomposes(aten._masked_softmax.default)
def masked_softmax(x: Tensor, mask: Tensor, dim: int | None = None, mask_type: int | None = None) -> Tensor:
    """A softmax over the elements at which the mask is False or 0."""
    hidden = mask.to(torch.bool)
    if mask_type == _OF_KEYS and x.dim() == 4 and mask.dim() == 2:
        hidden = hidden[:, None, None, :]
    return x.masked_fill(hidden, -math.inf).softmax(-1 if dim is None else dim)


@decomposes(aten._native_multi_head_attention.default)
def native_multi_head_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    embed_dim: int,
    num_head: int,
    qkv_weight: Tensor,
    qkv_bias: Tensor,
    proj_weight: Tensor,
    proj_bias: Tensor,
    mask: Tensor | None = None,
    need_weights: bool = True,
    average_attn_weights: bool = True,
    mask_type: int | None = None,
) -> tuple[Tensor, Tensor | None]:
    """Projections of queries, keys and values, attention in each head, and its projection; the weights if wanted."""
    each = zip((query, key, value), qkv_weight.chunk(3), qkv_bias.chunk(3), strict=True)
    q, k, v = (aten.linear(x, w, b).unflatten(-1, (num_head, -1)).transpose(1, 2) for x, w, b in each)
    scores = (q * q.shape[-1] ** -0.5) @ k.transpose(2, 3)
    weights = scores.softmax(-1) if mask is None else masked_softmax(scores, mask, 3, mask_type)
    found = aten.linear((weights @ v).transpose(1, 2).flatten(2), proj_weight, proj_bias)
    if not need_weights:
        return found, None
    return found, weights.mean(1) if average_attn_weights else weights


@decomposes(aten._transformer_encoder_layer_fwd.default)
def transformer_encoder_layer(
    src: Tensor,
    embed_dim: int,
    num_heads: int,
    qkv_weight: Tensor,
    qkv_bias: Tensor,
    proj_weight: Tensor,
    proj_bias: Tensor,
    use_gelu: bool,
    norm_first: bool,
    eps: float,
    norm_weight_1: Tensor,
    norm_bias_1: Tensor,
    norm_weight_2: Tensor,
    norm_bias_2: Tensor,
    ffn_weight_1: Tensor,
    ffn_bias_1: Tensor,
    ffn_weight_2: Tensor,
    ffn_bias_2: Tensor,
    mask: Tensor | None = None,
    mask_type: int | None = None,
) -> Tensor:
    """Attention and two linear layers, each added to what goes into it and normalised before or after."""

    def attention(x: Tensor) -> Tensor:
        projections = (qkv_weight, qkv_bias, proj_weight, proj_bias)
        return native_multi_head_attention(
            x, x, x, embed_dim, num_heads, *projections, mask, need_weights=False, mask_type=mask_type
        )[0]

    def feed_forward(x: Tensor) -> Tensor:
        hidden = aten.linear(x, ffn_weight_1, ffn_bias_1)
        return aten.linear(hidden.relu() if not use_gelu else aten.gelu(hidden), ffn_weight_2, ffn_bias_2)

    first, second = (norm_weight_1, norm_bias_1), (norm_weight_2, norm_bias_2)
    x = src
    for part, (weight, bias) in ((attention, first), (feed_forward, second)):
        if norm_first:
            x = x + part(aten.layer_norm(x, [embed_dim], weight, bias, eps))
        else:
            x = aten.layer_norm(x + part(x), [embed_dim], weight, bias, eps)
    return x
