"""Functions of libraries that hold operators of the pattern library, as HLO that JAX and PyTorch make of them."""

# pyright: reportMissingImports=false

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from xloom.hlo.module import Module
from xloom.hlo.text.parser import parse


@dataclass(frozen=True)
class Case:
    """`build` gives a module that holds `count` operators of `pattern`."""

    pattern: str
    source: str
    name: str
    count: int
    build: Callable[[], Module]


CASES: list[Case] = []


def case(pattern: str, source: str, count: int = 1) -> Callable[[Callable[[], Module]], Callable[[], Module]]:
    """Adds a case of the decorated function's name."""

    def add(build: Callable[[], Module]) -> Callable[[], Module]:
        CASES.append(Case(pattern, source, build.__name__.strip("_"), count, build))
        return build

    return add


def lowered(function: Callable[..., Any], *arguments: Any) -> Module:
    """The HLO that JAX makes of a function."""
    import jax

    return parse(jax.jit(function).lower(*arguments).as_text(dialect="hlo"))


def array(*shape: int, dtype: str = "float32") -> Any:
    """An argument of that shape."""
    import jax

    return jax.ShapeDtypeStruct(shape, dtype)


def compiled(model: Any, *shapes: tuple[int, ...] | Any) -> Module:
    """What torch.compile makes of a module or function of tensors."""
    import torch

    from tests.passes.pattern.framework_models import _compiled

    generator = torch.Generator().manual_seed(0)
    tensors = [torch.randn(*s, generator=generator) if isinstance(s, tuple) else s for s in shapes]
    return _compiled(model, *tensors)


QKV = ((2, 5, 3, 8), (2, 6, 3, 8), (2, 6, 3, 8))
QKV_TORCH = ((2, 3, 5, 8), (2, 3, 6, 8), (2, 3, 6, 8))


# -- attention
def _dot_product_attention(*more: Any, shapes: Any = QKV, **options: Any) -> Module:
    import jax

    return lowered(lambda *a: jax.nn.dot_product_attention(*a, **options), *(array(*s) for s in shapes), *more)


@case("attention", "jax.nn")
def plain() -> Module:
    return _dot_product_attention()


@case("attention", "jax.nn")
def causal() -> Module:
    return _dot_product_attention(is_causal=True)


@case("attention", "jax.nn")
def bias() -> Module:
    return _dot_product_attention(array(2, 3, 5, 6))


@case("attention", "jax.nn")
def bias_and_mask() -> Module:
    return _dot_product_attention(array(2, 3, 5, 6), array(2, 1, 5, 6, dtype="bool"))


@case("attention", "jax.nn")
def causal_and_bias() -> Module:
    return _dot_product_attention(array(1, 3, 5, 6), is_causal=True)


@case("attention", "jax.nn")
def sequence_lengths() -> Module:
    import jax

    def function(q: Any, k: Any, v: Any, n: Any) -> Any:
        return jax.nn.dot_product_attention(q, k, v, key_value_seq_lengths=n)

    return lowered(function, *(array(*s) for s in QKV), array(2, dtype="int32"))


@case("attention", "jax.nn")
def local_window() -> Module:
    return _dot_product_attention(local_window_size=(2, 0))


@case("attention", "jnp")
def queries_divided_causal() -> Module:
    import jax
    import jax.numpy as jnp

    def function(q: Any, k: Any, v: Any) -> Any:
        scores = jnp.einsum("bnth,bnsh->bnts", q / jnp.sqrt(q.shape[-1]), k)
        past = jnp.tril(jnp.ones(scores.shape[-2:], bool))
        return jax.nn.softmax(jnp.where(past, scores, -1e9)) @ v

    return lowered(function, *(array(*s) for s in QKV_TORCH))


@case("attention", "jnp")
def one_head() -> Module:
    import jax

    def function(q: Any, k: Any, v: Any) -> Any:
        return jax.nn.softmax(q @ k.swapaxes(-1, -2) * 0.125) @ v

    return lowered(function, array(2, 5, 8), array(2, 6, 8), array(2, 6, 8))


@case("attention", "jnp")
def mask_by_multiplication() -> Module:
    import jax
    import jax.numpy as jnp

    def function(q: Any, k: Any, v: Any, m: Any) -> Any:
        scores = jnp.einsum("btnh,bsnh->bnts", q, k) / 8
        return jnp.einsum("bnts,bsnh->btnh", jax.nn.softmax(scores + (1 - m) * -1e9), v)

    return lowered(function, *(array(*s) for s in QKV), array(2, 1, 1, 6))


@case("attention", "flax")
def linen_attention() -> Module:
    import jax
    from flax import linen as nn

    model = nn.MultiHeadDotProductAttention(num_heads=2)
    x = np.ones((2, 6, 16), np.float32)
    return lowered(model.apply, jax.eval_shape(model.init, jax.random.key(0), x), x)


@case("attention", "flax")
def linen_attention_causal() -> Module:
    import jax
    from flax import linen as nn

    model = nn.MultiHeadDotProductAttention(num_heads=2)
    x = np.ones((2, 6, 16), np.float32)
    weights = jax.eval_shape(model.init, jax.random.key(0), x)
    return lowered(lambda w, x: model.apply(w, x, mask=nn.make_causal_mask(x[..., 0])), weights, x)


@case("attention", "flax")
def nnx_attention() -> Module:
    from flax import nnx

    model = nnx.MultiHeadAttention(num_heads=2, in_features=16, decode=False, rngs=nnx.Rngs(0))
    definition, state = nnx.split(model)
    return lowered(lambda s, x: nnx.merge(definition, s)(x), state, np.ones((2, 6, 16), np.float32))


@case("attention", "equinox")
def equinox_attention() -> Module:
    return _equinox_attention(False)


@case("attention", "equinox")
def equinox_attention_masked() -> Module:
    return _equinox_attention(True)


def _equinox_attention(masked: bool) -> Module:
    import equinox as eqx
    import jax
    import jax.numpy as jnp

    model = eqx.nn.MultiheadAttention(2, 16, key=jax.random.key(0))
    weights, static = eqx.partition(model, eqx.is_array)
    mask = jnp.tril(jnp.ones((6, 6), bool)) if masked else None
    return lowered(lambda w, x: eqx.combine(w, static)(x, x, x, mask=mask), weights, np.ones((6, 16), np.float32))


@case("attention", "torch")
def sdpa() -> Module:
    import torch

    return compiled(torch.nn.functional.scaled_dot_product_attention, *QKV_TORCH)


@case("attention", "torch")
def sdpa_causal() -> Module:
    import torch

    sdpa = torch.nn.functional.scaled_dot_product_attention
    return compiled(lambda q, k, v: sdpa(q, k, v, is_causal=True), *QKV_TORCH)


@case("attention", "torch")
def sdpa_additive() -> Module:
    import torch

    sdpa = torch.nn.functional.scaled_dot_product_attention
    return compiled(lambda q, k, v, m: sdpa(q, k, v, attn_mask=m), *QKV_TORCH, (5, 6))


@case("attention", "torch")
def sdpa_boolean() -> Module:
    import torch

    sdpa = torch.nn.functional.scaled_dot_product_attention
    return compiled(lambda q, k, v, m: sdpa(q, k, v, attn_mask=m), *QKV_TORCH, torch.ones(2, 1, 5, 6, dtype=torch.bool))


@case("attention", "torch")
def masked_fill() -> Module:
    import torch

    def function(q: Any, k: Any, v: Any) -> Any:
        scores = q @ k.transpose(-1, -2) / 8**0.5
        future = torch.triu(torch.ones(5, 6, dtype=torch.bool), 1)
        return torch.softmax(scores.masked_fill(future, float("-inf")), -1) @ v

    return compiled(function, *QKV_TORCH)


@case("attention", "torch")
def masked_fill_not_past() -> Module:
    import torch

    def function(q: Any, k: Any, v: Any) -> Any:
        past = torch.tril(torch.ones(5, 6))
        scores = (q @ k.transpose(-1, -2) / 8**0.5).masked_fill(past == 0, float("-inf"))
        return torch.softmax(scores, -1) @ v

    return compiled(function, *QKV_TORCH)


@case("attention", "torch")
def masked_fill_given() -> Module:
    import torch

    def function(q: Any, k: Any, v: Any, hidden: Any) -> Any:
        return torch.softmax((q @ k.transpose(-1, -2) / 8**0.5).masked_fill(hidden, -1e9), -1) @ v

    return compiled(function, *QKV_TORCH, torch.zeros(2, 1, 5, 6, dtype=torch.bool))


@case("attention", "jnp")
def future_hidden() -> Module:
    import jax
    import jax.numpy as jnp

    def function(q: Any, k: Any, v: Any) -> Any:
        scores = jnp.einsum("btnh,bsnh->bnts", q, k) / 8
        future = jnp.triu(jnp.ones(scores.shape[-2:], bool), 1)
        return jnp.einsum("bnts,bsnh->btnh", jax.nn.softmax(jnp.where(future, -jnp.inf, scores)), v)

    return lowered(function, *(array(*s) for s in QKV))


@cache
def _transformer(name: str) -> Module:
    from tests.passes.pattern.framework_models import MODELS

    return MODELS[f"transformers_{name}"]()


@case("attention", "transformers", 2)
def gpt2() -> Module:
    return _transformer("gpt2")


@case("attention", "transformers", 2)
def bert() -> Module:
    return _transformer("bert")


@case("attention", "transformers", 2)
def vit() -> Module:
    return _transformer("vit")


# -- grouped-query attention
GQA = ((2, 5, 4, 8), (2, 6, 2, 8), (2, 6, 2, 8))


@case("grouped_query_attention", "jax.nn")
def grouped() -> Module:
    return _dot_product_attention(shapes=GQA)


@case("grouped_query_attention", "jax.nn")
def grouped_causal() -> Module:
    return _dot_product_attention(shapes=GQA, is_causal=True)


@case("grouped_query_attention", "jax.nn")
def grouped_bias_and_mask() -> Module:
    return _dot_product_attention(array(2, 4, 5, 6), array(2, 1, 5, 6, dtype="bool"), shapes=GQA)


@case("grouped_query_attention", "jax.nn")
def grouped_mask() -> Module:
    return _dot_product_attention(None, array(2, 1, 5, 6, dtype="bool"), shapes=GQA)


@case("grouped_query_attention", "jnp")
def repeated() -> Module:
    import jax
    import jax.numpy as jnp

    def function(q: Any, k: Any, v: Any) -> Any:
        k, v = jnp.repeat(k, 2, axis=2), jnp.repeat(v, 2, axis=2)
        return jnp.einsum("bnts,bsnh->btnh", jax.nn.softmax(jnp.einsum("btnh,bsnh->bnts", q, k) / 8**0.5), v)

    return lowered(function, *(array(*s) for s in GQA))


@case("grouped_query_attention", "torch")
def enable_gqa() -> Module:
    import torch

    sdpa = torch.nn.functional.scaled_dot_product_attention
    return compiled(lambda q, k, v: sdpa(q, k, v, enable_gqa=True), (2, 4, 5, 8), (2, 2, 6, 8), (2, 2, 6, 8))


def _grouped_torch(*more: Any, **options: Any) -> Module:
    import torch

    def function(q: Any, k: Any, v: Any, *mask: Any) -> Any:
        return torch.nn.functional.scaled_dot_product_attention(q, k, v, *mask, enable_gqa=True, **options)

    return compiled(function, (2, 4, 5, 8), (2, 2, 6, 8), (2, 2, 6, 8), *more)


@case("grouped_query_attention", "torch")
def enable_gqa_causal() -> Module:
    return _grouped_torch(is_causal=True)


@case("grouped_query_attention", "torch")
def enable_gqa_additive() -> Module:
    return _grouped_torch((5, 6))


@case("grouped_query_attention", "torch")
def enable_gqa_boolean() -> Module:
    import torch

    return _grouped_torch(torch.ones(2, 1, 5, 6, dtype=torch.bool))


@case("grouped_query_attention", "torch")
def repeat_kv() -> Module:
    import torch

    def repeat(x: Any) -> Any:
        b, n, s, h = x.shape
        return x[:, :, None].expand(b, n, 2, s, h).reshape(b, 2 * n, s, h)

    def function(q: Any, k: Any, v: Any) -> Any:
        return torch.softmax(q @ repeat(k).transpose(-1, -2) * 8**-0.5, -1) @ repeat(v)

    return compiled(function, (2, 4, 5, 8), (2, 2, 6, 8), (2, 2, 6, 8))


@case("grouped_query_attention", "transformers", 2)
def llama_gqa() -> Module:
    return _transformer("llama")


# -- SwiGLU
@case("swiglu", "jnp")
def swiglu_jnp() -> Module:
    import jax

    return lowered(lambda x, w, v: jax.nn.silu(x @ w) * (x @ v), array(2, 4, 8), array(8, 16), array(8, 16))


@case("swiglu", "jnp")
def swiglu_split() -> Module:
    import jax
    import jax.numpy as jnp

    def function(x: Any, w: Any) -> Any:
        gate, up = jnp.split(x @ w, 2, -1)
        return jax.nn.silu(gate) * up

    return lowered(function, array(2, 4, 8), array(8, 32))


@case("swiglu", "flax")
def swiglu_flax() -> Module:
    import jax
    from flax import linen as nn

    class Network(nn.Module):
        @nn.compact
        def __call__(self, x: Any) -> Any:
            return nn.Dense(8)(nn.silu(nn.Dense(16, use_bias=False)(x)) * nn.Dense(16, use_bias=False)(x))

    x = np.ones((4, 8), np.float32)
    return lowered(Network().apply, jax.eval_shape(Network().init, jax.random.key(0), x), x)


@case("swiglu", "torch")
def swiglu_torch() -> Module:
    import torch

    def function(x: Any, w: Any, v: Any) -> Any:
        return torch.nn.functional.silu(x @ w) * (x @ v)

    return compiled(function, (2, 4, 8), (8, 16), (8, 16))


@case("swiglu", "transformers", 2)
def llama_swiglu() -> Module:
    return _transformer("llama")


# -- norms
@case("rms_norm", "transformers", 5)
def llama_norms() -> Module:
    return _transformer("llama")


@case("rms_norm", "torch")
def torch_rms_norm() -> Module:
    import torch

    return compiled(torch.nn.RMSNorm(8), (2, 4, 8))


@case("rms_norm", "flax")
def linen_rms_norm() -> Module:
    from flax import linen as nn

    return _linen(nn.RMSNorm(), 2, 4, 8)


def _linen(model: Any, *shape: int) -> Module:
    import jax

    x = np.ones(shape, np.float32)
    return lowered(model.apply, jax.eval_shape(model.init, jax.random.key(0), x), x)


@case("layer_norm", "flax")
def linen_layer_norm() -> Module:
    from flax import linen as nn

    return _linen(nn.LayerNorm(), 2, 4, 8)


@case("layer_norm", "equinox")
def equinox_layer_norm() -> Module:
    import equinox as eqx
    import jax

    norm = eqx.nn.LayerNorm(8)
    return lowered(
        lambda g, b, x: jax.vmap(eqx.tree_at(lambda n: (n.weight, n.bias), norm, (g, b)))(x),
        array(8),
        array(8),
        array(4, 8),
    )


@case("layer_norm", "torch")
def torch_layer_norm() -> Module:
    import torch

    return compiled(torch.nn.LayerNorm(8), (2, 4, 8))


@case("rms_norm_residual", "jnp")
def residual_rms_norm() -> Module:
    import jax

    def function(x: Any, r: Any, g: Any) -> Any:
        x = x + r
        return x, x * jax.lax.rsqrt((x * x).mean(-1, keepdims=True) + 1e-6) * g

    return lowered(function, array(2, 4, 8), array(2, 4, 8), array(8))


@case("rms_norm_residual", "transformers", 4)
def llama_residuals() -> Module:
    return _transformer("llama")


@case("layer_norm_residual", "transformers", 5)
def gpt2_residuals() -> Module:
    return _transformer("gpt2")


@case("layer_norm_residual", "transformers", 5)
def bert_residuals() -> Module:
    return _transformer("bert")


@case("group_norm", "torch")
def torch_group_norm() -> Module:
    import torch

    return compiled(torch.nn.GroupNorm(2, 8), (2, 8, 4, 4))


@case("group_norm", "flax")
def linen_group_norm() -> Module:
    from flax import linen as nn

    return _linen(nn.GroupNorm(num_groups=2), 2, 4, 4, 8)


@case("group_norm", "equinox")
def equinox_group_norm() -> Module:
    import equinox as eqx
    import jax

    norm = eqx.nn.GroupNorm(2, 8)
    weights, static = eqx.partition(norm, eqx.is_array)
    return lowered(lambda w, x: jax.vmap(eqx.combine(w, static))(x), weights, array(2, 8, 4, 4))


# -- rotary embedding
@case("rotary_embedding", "transformers", 4)
def llama_rotary() -> Module:
    return _transformer("llama")


@case("rotary_embedding", "equinox")
def equinox_rotary() -> Module:
    import equinox as eqx
    import jax

    rope = eqx.nn.RotaryPositionalEmbedding(8)
    return lowered(lambda x: jax.vmap(rope, 1, 1)(x), array(6, 2, 8))


@case("rotary_embedding", "jnp")
def interleaved() -> Module:
    import jax.numpy as jnp

    def function(x: Any, cosine: Any, sine: Any) -> Any:
        even, odd = x[..., ::2], x[..., 1::2]
        c, s = cosine[None, :, None], sine[None, :, None]
        return jnp.stack([even * c - odd * s, even * s + odd * c], -1).reshape(x.shape)

    return lowered(function, array(2, 5, 3, 8), array(5, 4), array(5, 4))


@case("rotary_embedding", "torch")
def every_two() -> Module:
    import torch

    def function(x: Any, cosine: Any, sine: Any) -> Any:
        c, s = (a[None, :, None].repeat_interleave(2, 3) for a in (cosine, sine))
        return x * c + torch.stack((-x[..., 1::2], x[..., ::2]), -1).flatten(-2) * s

    return compiled(function, (2, 5, 3, 8), (5, 4), (5, 4))


@case("rotary_embedding", "torch")
def view_as_complex() -> Module:
    import torch

    def function(x: Any, angles: Any) -> Any:
        spin = torch.polar(torch.ones_like(angles), angles)[None, :, None]
        numbers = torch.view_as_complex(x.reshape(*x.shape[:-1], -1, 2))
        return torch.view_as_real(numbers * spin).flatten(3)

    return compiled(function, (2, 5, 3, 8), (5, 4))


# -- routing
def _routed(first: bool, again: bool, *shape: int) -> Module:
    import jax

    def function(x: Any) -> Any:
        if first:
            w, i = jax.lax.top_k(jax.nn.softmax(x, -1), 2)
            return (w / w.sum(-1, keepdims=True) if again else w), i
        w, i = jax.lax.top_k(x, 2)
        return jax.nn.softmax(w, -1), i

    return lowered(function, array(*shape))


@case("moe_routing", "jnp")
def softmax_top_k() -> Module:
    return _routed(True, False, 6, 8)


@case("moe_routing", "jnp")
def softmax_top_k_normalised() -> Module:
    return _routed(True, True, 6, 8)


@case("moe_routing", "jnp")
def softmax_top_k_of_batches() -> Module:
    return _routed(True, True, 2, 6, 8)


@case("moe_routing", "jnp")
def top_k_softmax() -> Module:
    return _routed(False, False, 6, 8)


@case("moe_routing", "torch")
def torch_routing() -> Module:
    import torch

    def function(x: Any) -> Any:
        w, i = torch.topk(torch.softmax(x, -1), 2, -1)
        return w / w.sum(-1, keepdim=True), i

    return compiled(function, (6, 8))


# -- cross entropy
@case("cross_entropy", "optax")
def optax_integer_labels() -> Module:
    import optax

    return lowered(optax.softmax_cross_entropy_with_integer_labels, array(4, 8), array(4, dtype="int32"))


@case("cross_entropy", "optax")
def optax_soft_labels() -> Module:
    import optax

    return lowered(optax.softmax_cross_entropy, array(4, 8), array(4, 8))


@case("cross_entropy", "jnp")
def log_softmax_picked() -> Module:
    import jax
    import jax.numpy as jnp

    def function(x: Any, y: Any) -> Any:
        return jnp.mean(-jnp.take_along_axis(jax.nn.log_softmax(x), y[:, None], -1)[:, 0])

    return lowered(function, array(4, 8), array(4, dtype="int32"))


@case("cross_entropy", "jnp")
def one_hot() -> Module:
    import jax
    import jax.numpy as jnp

    def function(x: Any, y: Any) -> Any:
        return jnp.mean(-jnp.sum(jax.nn.one_hot(y, 8) * jax.nn.log_softmax(x), -1))

    return lowered(function, array(4, 8), array(4, dtype="int32"))


@case("cross_entropy", "torch")
def torch_cross_entropy() -> Module:
    import torch

    return compiled(torch.nn.functional.cross_entropy, (4, 8), torch.arange(4))


@case("cross_entropy", "torch")
def torch_cross_entropy_of_rows() -> Module:
    import torch

    loss = torch.nn.functional.cross_entropy
    return compiled(lambda x, y: loss(x, y, reduction="none"), (4, 8), torch.arange(4))


@case("cross_entropy", "torch")
def torch_language_model() -> Module:
    import torch

    loss = torch.nn.functional.cross_entropy
    return compiled(lambda x, y: loss(x.view(-1, 8), y.view(-1)), (2, 4, 8), torch.arange(8).reshape(2, 4))


# -- Adam
def _adam(name: str, count: int) -> Module:
    import optax

    optimiser = getattr(optax, name)(1e-3)
    weights = {str(k): np.ones((4, 8 + k), np.float32) for k in range(count)}

    def step(w: Any, g: Any, state: Any) -> Any:
        change, state = optimiser.update(g, state, w)
        return optax.apply_updates(w, change), state

    return lowered(step, weights, weights, optimiser.init(weights))


@case("adam", "optax")
def adam() -> Module:
    return _adam("adam", 1)


@case("adam", "optax", 3)
def adam_of_three() -> Module:
    return _adam("adam", 3)


@case("adam", "optax")
def adamw() -> Module:
    return _adam("adamw", 1)


# -- activations
@case("gelu", "jax.nn")
def gelu_tanh() -> Module:
    import jax

    return lowered(jax.nn.gelu, array(4, 8))


@case("gelu_erf", "torch")
def gelu_erf() -> Module:
    import torch

    return compiled(torch.nn.functional.gelu, (4, 8))


@case("softmax", "torch")
def torch_softmax() -> Module:
    import torch

    return compiled(lambda x: torch.softmax(x, -1), (4, 8))
