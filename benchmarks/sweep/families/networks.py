"""What networks are made of: attention, normalization, losses and layers, and their gradients."""

import jax
import jax.numpy as jnp
from jax import lax

from benchmarks.programs.arguments import key
from benchmarks.sweep.case import Family, array, positive

NETWORKS = Family("networks")

_HEADS = (2, 128, 4, 32)
_IMAGES = (8, 28, 28, 32)
_LOGITS = (array(256, 1000), array(256, dtype="s32", low=0, high=1000))
_LAYERS = (array(128, 256), array(256, 10))


def _attention(q, k, v):
    return jax.nn.dot_product_attention(q, k, v, is_causal=True)


def _cross_entropy(logits, labels):
    return -jnp.take_along_axis(jax.nn.log_softmax(logits), labels[:, None], 1).mean()


def _normalize(x, axes):
    return (x - x.mean(axes, keepdims=True)) * lax.rsqrt(x.var(axes, keepdims=True) + 1e-5)


def _group_norm(x):
    return _normalize(x.reshape(8, 28, 28, 8, 4), (1, 2, 4)).reshape(x.shape)


def _perceptron(x, a, b):
    return jax.nn.relu(x @ a) @ b


NETWORKS.add("attention", _attention, *[array(*_HEADS)] * 3)
NETWORKS.add("attention-bf16", _attention, *[array(*_HEADS, dtype="bf16")] * 3)
NETWORKS.add("attention-grouped", _attention, array(*_HEADS), array(2, 128, 2, 32), array(2, 128, 2, 32))
NETWORKS.add("attention-gradient", jax.grad(lambda *a: _attention(*a).sum(), argnums=(0, 1, 2)), *[array(*_HEADS)] * 3)
NETWORKS.add("cross-entropy", _cross_entropy, *_LOGITS)
NETWORKS.add("cross-entropy-gradient", jax.grad(_cross_entropy), *_LOGITS)
NETWORKS.add("batch-norm", lambda x: _normalize(x, (0, 1, 2)), array(*_IMAGES))
NETWORKS.add("batch-norm-nchw", lambda x: _normalize(x, (0, 2, 3)), array(8, 32, 28, 28))
NETWORKS.add("batch-norm-gradient", jax.grad(lambda x: (_normalize(x, (0, 1, 2)) ** 3).sum()), array(*_IMAGES))
NETWORKS.add("group-norm", _group_norm, array(*_IMAGES))
NETWORKS.add("perceptron", _perceptron, array(32, 128), *_LAYERS)
NETWORKS.add("perceptron-one-row", _perceptron, array(1, 128), *_LAYERS)
NETWORKS.add(
    "perceptron-gradient", jax.grad(lambda a, b, x: _perceptron(x, a, b).sum(), (0, 1)), *_LAYERS, array(32, 128)
)
NETWORKS.add(
    "gradient-each-sample",
    jax.vmap(jax.grad(lambda a, x: jnp.tanh(x @ a).sum()), (None, 0)),
    array(32, 16),
    array(64, 32),
)

for name, shape in (("linear", (2, 112, 112, 3)), ("nearest", (2, 112, 112, 3)), ("cubic", (2, 100, 100, 3))):
    NETWORKS.add(f"resize-{name}", lambda x, m=name, s=shape: jax.image.resize(x, s, m), array(2, 56, 56, 3))

for activation in (jax.nn.gelu, jax.nn.silu):
    gradient = jax.grad(lambda x, f=activation: f(x).sum())
    NETWORKS.add(f"{activation.__name__}-gradient", gradient, array(512, 512))
NETWORKS.add("softmax-gradient", jax.grad(lambda x: (jax.nn.softmax(x) ** 2).sum()), array(512, 512))
NETWORKS.add(
    "layer-norm-gradient",
    jax.grad(lambda x, g: (jax.nn.standardize(x) * g).sum(), (0, 1)),
    array(512, 256),
    array(256),
)


@NETWORKS.program(array(512, 512, dtype="bf16"), array(512, dtype="bf16"))
def _rms_norm_bf16(x, g):
    scale = lax.rsqrt((x.astype(jnp.float32) ** 2).mean(-1, keepdims=True) + 1e-5)
    return x * scale.astype(x.dtype) * g


@NETWORKS.program(*[positive(256, 256)] * 4)
def _adamw(p, m, v, g):
    m, v = m * 0.9 + g * 0.1, v * 0.99 + g * g * 0.01
    return p - 0.001 * m / (jnp.sqrt(v) + 1e-8) - 0.01 * p, m, v


@NETWORKS.program(array(512, 512), array(512))
def _clip_by_norm(a, b):
    norm = jnp.maximum(1, jnp.sqrt((a * a).sum() + (b * b).sum()))
    return a / norm, b / norm


@NETWORKS.program(array(2, 128, 8, 64), array(128, 1, 32), array(128, 1, 32))
def _rotary_embedding(x, cos, sin):
    a, b = x[..., :32], x[..., 32:]
    return jnp.concatenate([a * cos - b * sin, b * cos + a * sin], -1)


@NETWORKS.program(array(256, 64), array(64, 8))
def _choose_experts(x, w):
    return lax.top_k(jax.nn.softmax(x @ w), 2)


@NETWORKS.program(array(8, 64), array(512, 8, 64), array(512, 8, 64))
def _decode_token(q, k, v):
    return jnp.einsum("hk,khd->hd", jax.nn.softmax(jnp.einsum("hd,khd->hk", q, k)), v)


@NETWORKS.program(array(512, 512))
def _glu(x):
    return jax.nn.glu(x)


@NETWORKS.program(array(512, 512))
def _maxout(x):
    return x.reshape(512, 128, 4).max(-1)


@NETWORKS.program(key(), array(256, 256))
def _dropout(k, x):
    return jnp.where(jax.random.bernoulli(k, 0.9, x.shape), x / 0.9, 0)


@NETWORKS.program(array(10), array(10))
def _moving_average(a, b):
    return a * 0.99 + b * 0.01
