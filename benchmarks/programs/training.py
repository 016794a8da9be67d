"""Whole steps of training and inference."""

import jax
import jax.numpy as jnp
from jax import lax

from benchmarks.programs.arguments import integers, normal
from benchmarks.programs.registry import program

# --- a multilayer perceptron

_LAYERS = [
    (normal(784, 512, scale=0.03), normal(512, scale=0.01)),
    (normal(512, 512, scale=0.04), normal(512, scale=0.01)),
    (normal(512, 10, scale=0.04), normal(10, scale=0.01)),
]
_MLP_FLOPS = 2 * 128 * (784 * 512 + 512 * 512 + 512 * 10)


def _mlp(layers, x):
    for w, b in layers[:-1]:
        x = jax.nn.relu(x @ w + b)
    w, b = layers[-1]
    return x @ w + b


@program("mlp-step", _LAYERS, normal(128, 784), integers(128, high=10), flops=3 * _MLP_FLOPS)
def mlp_step(layers, x, labels):
    """Loss, gradients and the update of a classifier, by stochastic gradient descent."""

    def loss(layers):
        return -jnp.mean(jnp.sum(jax.nn.log_softmax(_mlp(layers, x)) * jax.nn.one_hot(labels, 10), axis=1))

    value, gradients = jax.value_and_grad(loss)(layers)
    return value, jax.tree.map(lambda p, g: p - 0.1 * g, layers, gradients)


# --- a transformer block

_WIDTH, _HEADS, _BATCH, _LENGTH = 256, 8, 4, 128
_BLOCK = {
    "qkv": normal(_WIDTH, 3 * _WIDTH, scale=0.05),
    "out": normal(_WIDTH, _WIDTH, scale=0.05),
    "up": normal(_WIDTH, 4 * _WIDTH, scale=0.05),
    "down": normal(4 * _WIDTH, _WIDTH, scale=0.05),
    "norm1": normal(_WIDTH),
    "norm2": normal(_WIDTH),
}
_TOKENS = normal(_BATCH, _LENGTH, _WIDTH)
_BLOCK_FLOPS = 2 * _BATCH * _LENGTH * _WIDTH * (12 * _WIDTH + 2 * _LENGTH)


def _rms_norm(x, scale):
    return x * lax.rsqrt(jnp.mean(x * x, axis=-1, keepdims=True) + 1e-5) * scale


def _transformer_block(p, x):
    batch, length, width = x.shape
    y = (_rms_norm(x, p["norm1"]) @ p["qkv"]).reshape(batch, length, 3, _HEADS, width // _HEADS)
    q, k, v = y[:, :, 0], y[:, :, 1], y[:, :, 2]
    scores = jnp.einsum("bqhd,bkhd->bhqk", q, k) * (width // _HEADS) ** -0.5
    mask = jnp.tril(jnp.ones((length, length), bool))
    weights = jax.nn.softmax(jnp.where(mask, scores, -1e30), axis=-1)
    x = x + jnp.einsum("bhqk,bkhd->bqhd", weights, v).reshape(batch, length, width) @ p["out"]
    return x + jax.nn.gelu(_rms_norm(x, p["norm2"]) @ p["up"]) @ p["down"]


@program("transformer-forward", _BLOCK, _TOKENS, flops=_BLOCK_FLOPS)
def transformer_forward(p, x):
    """One block: attention and feed-forward."""
    return _transformer_block(p, x)


@program("transformer-backward", _BLOCK, _TOKENS, flops=3 * _BLOCK_FLOPS)
def transformer_backward(p, x):
    """The gradient of one block with respect to all weights and its input."""
    return jax.grad(lambda p, x: jnp.sum(_transformer_block(p, x) ** 2), argnums=(0, 1))(p, x)


@program(
    "transformer-decode",
    normal(512),
    normal(512, 1536, scale=0.05),
    normal(512, 512, scale=0.05),
    normal(8, 1024, 64),
    normal(8, 1024, 64),
)
def transformer_decode(x, qkv, out, keys, values):
    """Attention of one new token to a cache of a thousand."""
    q, k, v = (x @ qkv).reshape(3, 8, 64)
    keys = keys.at[:, 1000].set(k)
    values = values.at[:, 1000].set(v)
    scores = jnp.where(jnp.arange(1024) <= 1000, jnp.einsum("hd,hkd->hk", q, keys) * 0.125, -1e30)
    y = jnp.einsum("hk,hkd->hd", jax.nn.softmax(scores, axis=-1), values)
    return x + y.reshape(512) @ out, keys, values


# --- a language model

_MODEL = {"layers": [_BLOCK] * 12, "embedding": normal(4096, _WIDTH, scale=0.05), "norm": normal(_WIDTH)}
_MODEL_FLOPS = 12 * _BLOCK_FLOPS + 2 * _BATCH * _LENGTH * _WIDTH * 4096


def _next_token_loss(p, tokens):
    x = p["embedding"][tokens]
    for layer in p["layers"]:
        x = _transformer_block(layer, x)
    logits = _rms_norm(x, p["norm"]) @ p["embedding"].T
    likely = jax.nn.log_softmax(logits[:, :-1])
    return -jnp.mean(jnp.take_along_axis(likely, tokens[:, 1:, None], axis=-1))


@program("language-model", _MODEL, _MODEL, _MODEL, integers(_BATCH, _LENGTH, high=4096), flops=3 * _MODEL_FLOPS)
def language_model(p, means, variances, tokens):
    """A training step of twelve transformer blocks by Adam, in thousands of instructions."""
    loss, gradients = jax.value_and_grad(_next_token_loss)(p, tokens)
    updated = jax.tree.map(_adam, p, gradients, means, variances)
    return loss, updated


# --- a residual block

_FILTERS = {
    "conv1": normal(3, 3, 64, 64, scale=0.05),
    "conv2": normal(3, 3, 64, 64, scale=0.05),
    "scale1": normal(64),
    "scale2": normal(64),
    "bias1": normal(64),
    "bias2": normal(64),
}
_IMAGES = normal(2, 28, 28, 64)
_RESNET_FLOPS = 2 * 2 * 2 * 28 * 28 * 64 * 64 * 9


def _batch_norm(x, scale, bias):
    mean = jnp.mean(x, axis=(0, 1, 2))
    variance = jnp.var(x, axis=(0, 1, 2))
    return (x - mean) * lax.rsqrt(variance + 1e-5) * scale + bias


def _conv(x, w):
    return lax.conv_general_dilated(x, w, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))


def _resnet_block(p, x):
    y = jax.nn.relu(_batch_norm(_conv(x, p["conv1"]), p["scale1"], p["bias1"]))
    y = _batch_norm(_conv(y, p["conv2"]), p["scale2"], p["bias2"])
    return jax.nn.relu(x + y)


@program("resnet-forward", _FILTERS, _IMAGES, flops=_RESNET_FLOPS)
def resnet_forward(p, x):
    """Two convolutions with batch normalisation, and the input added."""
    return _resnet_block(p, x)


@program("resnet-backward", _FILTERS, _IMAGES, flops=3 * _RESNET_FLOPS)
def resnet_backward(p, x):
    """The gradient with respect to all weights and the input."""
    return jax.grad(lambda p, x: jnp.sum(_resnet_block(p, x) ** 2), argnums=(0, 1))(p, x)


# --- an optimiser

_TENSORS = [normal(128, 128) if k % 2 else normal(128) for k in range(100)]


@program("adam", _TENSORS, _TENSORS, _TENSORS, _TENSORS, streams=True)
def adam(parameters, gradients, means, variances):
    """An update of a hundred tensors."""
    return [_adam(*four) for four in zip(parameters, gradients, means, variances, strict=True)]


def _adam(p, g, m, v):
    m = 0.9 * m + 0.1 * g
    v = 0.999 * jnp.abs(v) + 0.001 * g * g  # what is given need be no variance
    return p - 1e-3 * m / (jnp.sqrt(v) + 1e-8), m, v
