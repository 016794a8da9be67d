"""Models built with flax, equinox, optax, transformers and PyTorch, small, as HLO that JAX and PyTorch make of them."""

# pyright: reportMissingImports=false
# the tests skip what is not installed

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from xloom.hlo.module import Module
from xloom.hlo.text.parser import parse

T, D = 6, 16


def _lowered(function: Callable[..., Any], *arguments: Any) -> Module:
    import jax

    return parse(jax.jit(function).lower(*arguments).as_text(dialect="hlo"))


# -- JAX
def flax_transformer() -> Module:
    """Two blocks of an encoder, as flax's modules write attention, layer norm and a GELU network."""
    import jax
    from flax import linen as nn

    class Block(nn.Module):
        @nn.compact
        def __call__(self, x: Any) -> Any:
            x = x + nn.MultiHeadDotProductAttention(num_heads=2)(nn.LayerNorm()(x))
            return x + nn.Dense(D)(nn.gelu(nn.Dense(4 * D)(nn.LayerNorm()(x))))

    model = nn.Sequential([Block(), Block(), nn.LayerNorm()])
    x = np.ones((2, T, D), np.float32)
    return _lowered(model.apply, jax.eval_shape(model.init, jax.random.key(0), x), x)


def flax_mlp_gradient() -> Module:
    """Gradient of a classifier's loss."""
    import jax
    import optax
    from flax import linen as nn

    model = nn.Sequential([nn.Dense(4 * D), nn.relu, nn.Dense(4 * D), nn.gelu, nn.Dense(10)])
    apply: Any = model.apply
    x, labels = np.ones((8, D), np.float32), np.zeros(8, np.int32)

    def loss(w: Any, x: Any, labels: Any) -> Any:
        return optax.softmax_cross_entropy_with_integer_labels(apply(w, x), labels).mean()

    return _lowered(jax.grad(loss), jax.eval_shape(model.init, jax.random.key(0), x), x, labels)


def flax_resnet_block() -> Module:
    """Two convolutions with batch norm and a shortcut, in training."""
    import jax
    from flax import linen as nn

    class Block(nn.Module):
        @nn.compact
        def __call__(self, x: Any) -> Any:
            y = nn.relu(nn.BatchNorm(use_running_average=False)(nn.Conv(8, (3, 3), use_bias=False)(x)))
            y = nn.BatchNorm(use_running_average=False)(nn.Conv(8, (3, 3), use_bias=False)(y))
            return nn.relu(y + nn.Conv(8, (1, 1))(x))

    x = np.ones((2, 8, 8, 3), np.float32)
    weights = jax.eval_shape(Block().init, jax.random.key(0), x)
    return _lowered(lambda w, x: Block().apply(w, x, mutable=["batch_stats"]), weights, x)


def equinox_convnet() -> Module:
    """Convolutions, pooling and a classifier, mapped over a batch."""
    import equinox as eqx
    import jax
    import jax.numpy as jnp

    keys = jax.random.split(jax.random.key(0), 3)
    model = eqx.nn.Sequential(
        [
            eqx.nn.Conv2d(1, 4, 3, padding=1, key=keys[0]),
            eqx.nn.Lambda(jax.nn.relu),
            eqx.nn.MaxPool2d(2, 2),
            eqx.nn.Conv2d(4, 8, 3, padding=1, key=keys[1]),
            eqx.nn.Lambda(jax.nn.gelu),
            eqx.nn.AdaptiveAvgPool2d(2),
            eqx.nn.Lambda(jnp.ravel),
            eqx.nn.Linear(32, 10, key=keys[2]),
            eqx.nn.Lambda(jax.nn.softmax),
        ]
    )
    weights, static = eqx.partition(model, eqx.is_array)
    return _lowered(lambda w, x: jax.vmap(eqx.combine(w, static))(x), weights, np.ones((2, 1, 8, 8), np.float32))


def equinox_attention() -> Module:
    """Attention with rotary embeddings and RMS norm."""
    import equinox as eqx
    import jax

    attention = eqx.nn.MultiheadAttention(2, D, key=jax.random.key(0))
    norm, rope = eqx.nn.RMSNorm(D), eqx.nn.RotaryPositionalEmbedding(D // 2)
    weights, static = eqx.partition((attention, norm), eqx.is_array)

    def apply(w: Any, x: Any) -> Any:
        attention, norm = eqx.combine(w, static)

        def rotate(q: Any, k: Any, v: Any) -> Any:
            return jax.vmap(rope, 1, 1)(q), jax.vmap(rope, 1, 1)(k), v

        h = jax.vmap(norm)(x)
        return x + attention(h, h, h, process_heads=rotate)

    return _lowered(apply, weights, np.ones((T, D), np.float32))


def optax_adam_step() -> Module:
    """A step of training: loss, gradient, clipping and Adam."""
    import jax
    import jax.numpy as jnp
    import optax

    adam = optax.chain(optax.clip_by_global_norm(1.0), optax.adamw(1e-3))
    w = {"a": np.ones((D, 32), np.float32), "b": np.ones((32, 4), np.float32)}

    def step(w: Any, state: Any, x: Any, y: Any) -> Any:
        def loss(w: Any) -> Any:
            return jnp.mean((jax.nn.softmax(jax.nn.gelu(x @ w["a"]) @ w["b"]) - y) ** 2)

        value, gradient = jax.value_and_grad(loss)(w)
        change, state = adam.update(gradient, state, w)
        return value, optax.apply_updates(w, change), state

    return _lowered(step, w, adam.init(w), np.ones((8, D), np.float32), np.ones((8, 4), np.float32))


# -- PyTorch
def _compiled(model: Any, *arguments: Any, backward: bool = False) -> Module:
    """What torch.compile makes of the forward graph, or of the backward one."""
    from unittest import mock

    import torch

    from xloom.torch import compile_backend

    found: list[Module] = []

    def translate(*given: Any, **options: Any) -> Any:
        translated = original(*given, **options)
        found.append(translated.module.clone(""))
        return translated

    original = compile_backend.translate
    torch._dynamo.reset()
    with mock.patch.object(compile_backend, "translate", translate), torch.set_grad_enabled(backward):
        results = torch.compile(model, backend="xloom")(*arguments)
        if backward:
            results.float().pow(2).sum().backward()
    return found[-1]


def _tokens() -> Any:
    import torch

    return torch.arange(2 * T).reshape(2, T) % 50


def transformers_gpt2() -> Module:
    """GPT-2."""
    from transformers import GPT2Config, GPT2Model

    config = GPT2Config(vocab_size=50, n_positions=16, n_embd=D, n_layer=2, n_head=2, bos_token_id=0, eos_token_id=0)
    model = GPT2Model(config).eval()
    return _compiled(lambda tokens: model(tokens, use_cache=False).last_hidden_state, _tokens())


def transformers_bert() -> Module:
    """BERT."""
    from transformers import BertConfig, BertModel

    config = BertConfig(
        vocab_size=50, hidden_size=D, num_hidden_layers=2, num_attention_heads=2, intermediate_size=4 * D,
        max_position_embeddings=16,
    )  # fmt: skip
    model = BertModel(config, add_pooling_layer=False).eval()
    return _compiled(lambda tokens: model(tokens).last_hidden_state, _tokens())


def transformers_llama() -> Module:
    """Llama, with grouped queries."""
    from transformers import LlamaConfig, LlamaModel

    config = LlamaConfig(
        vocab_size=50, hidden_size=D, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
        intermediate_size=2 * D, max_position_embeddings=16,
    )  # fmt: skip
    model = LlamaModel(config).eval()
    return _compiled(lambda tokens: model(tokens, use_cache=False).last_hidden_state, _tokens())


def transformers_vit() -> Module:
    """ViT."""
    import torch
    from transformers import ViTConfig, ViTModel

    config = ViTConfig(
        hidden_size=D, num_hidden_layers=2, num_attention_heads=2, intermediate_size=4 * D, image_size=8, patch_size=4,
    )  # fmt: skip
    model = ViTModel(config, add_pooling_layer=False).eval()
    return _compiled(lambda image: model(image).last_hidden_state, torch.ones(2, 3, 8, 8))


def torch_encoder() -> Module:
    """A layer of PyTorch's own encoder, with scaled_dot_product_attention."""
    import torch

    layer = torch.nn.TransformerEncoderLayer(D, 2, 4 * D, activation="gelu", batch_first=True, dropout=0.0)
    return _compiled(layer.train(), torch.ones(2, T, D))


def torch_resnet_block() -> Module:
    """Convolutions with batch norm and a shortcut."""
    import torch
    from torch import nn

    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.one, self.two = nn.Conv2d(4, 4, 3, padding=1), nn.Conv2d(4, 4, 3, padding=1)
            self.norm = nn.BatchNorm2d(4)

        def forward(self, x: Any) -> Any:
            return torch.relu(x + self.norm(self.two(torch.relu(self.one(x)))))

    return _compiled(Block().eval(), torch.ones(2, 4, 8, 8))


def torch_encoder_gradient() -> Module:
    """What that layer does backwards."""
    import torch

    layer = torch.nn.TransformerEncoderLayer(D, 2, 4 * D, activation="gelu", batch_first=True, dropout=0.0)
    return _compiled(layer, torch.ones(2, T, D, requires_grad=True), backward=True)


MODELS: dict[str, Callable[[], Module]] = {
    f.__name__: f
    for f in (
        flax_transformer,
        flax_mlp_gradient,
        flax_resnet_block,
        equinox_convnet,
        equinox_attention,
        optax_adam_step,
        transformers_gpt2,
        transformers_bert,
        transformers_llama,
        transformers_vit,
        torch_encoder,
        torch_encoder_gradient,
        torch_resnet_block,
    )
}

NEEDS = {
    "flax": ("flax", "optax"),
    "equinox": ("equinox",),
    "optax": ("optax",),
    "transformers": ("torch", "transformers"),
    "torch": ("torch",),
}
"""The packages for each first word of a model's name."""
