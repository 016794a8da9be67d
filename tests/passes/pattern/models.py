"""Models written as their authors wrote them, small: functions of an input and parameters, with example arguments."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

D, HEADS, T = 16, 2, 6


def weight(*shape):
    return jax.ShapeDtypeStruct(shape, jnp.float32)


def layer_norm(x, gamma, beta):
    mean, variance = x.mean(-1, keepdims=True), x.var(-1, keepdims=True)
    return (x - mean) * jax.lax.rsqrt(variance + 1e-5) * gamma + beta


def heads(x):
    return x.reshape(*x.shape[:-1], HEADS, -1)


def joined(x):
    return x.reshape(*x.shape[:-2], -1)


def attention(x, w, causal):
    q, k, v = (heads(x @ w[name]) for name in ("q", "k", "v"))
    return joined(jax.nn.dot_product_attention(q, k, v, is_causal=causal)) @ w["o"]


ATTENTION = {name: weight(D, D) for name in "qkvo"}
NORM = (weight(D), weight(D))
MLP = {"up": weight(D, 4 * D), "up_b": weight(4 * D), "down": weight(4 * D, D), "down_b": weight(D)}


def mlp(x, w, activation):
    return activation(x @ w["up"] + w["up_b"]) @ w["down"] + w["down_b"]


def gpt2(x, w):
    for block in w:
        x = x + attention(layer_norm(x, *block["n1"]), block["att"], True)
        x = x + mlp(layer_norm(x, *block["n2"]), block["mlp"], jax.nn.gelu)
    return x


def bert(x, w):
    for block in w:
        x = layer_norm(x + attention(x, block["att"], False), *block["n1"])
        x = layer_norm(x + mlp(x, block["mlp"], partial(jax.nn.gelu, approximate=False)), *block["n2"])
    return x


def rotated(x):
    half = x.shape[-1] // 2
    angle = np.arange(x.shape[1])[:, None] / 10000 ** (np.arange(half)[None] / half)
    angle = np.concatenate([angle, angle], -1).astype(np.float32)[None, :, None]
    return x * jnp.cos(angle) + jnp.concatenate([-x[..., half:], x[..., :half]], -1) * jnp.sin(angle)


def rms_norm(x, gamma):
    return x * jax.lax.rsqrt((x * x).mean(-1, keepdims=True) + 1e-6) * gamma


def llama(x, w):
    for block in w:
        h = rms_norm(x, block["n1"][0])
        q, k, v = (heads(h @ block["att"][name]) for name in ("q", "k", "v"))
        x = x + joined(jax.nn.dot_product_attention(rotated(q), rotated(k), v, is_causal=True)) @ block["att"]["o"]
        h = rms_norm(x, block["n2"][0])
        x = x + (jax.nn.silu(h @ block["mlp"]["up"]) * (h @ block["mlp"]["up"])) @ block["mlp"]["down"]
    return x


def vit(image, w):
    patches = image.reshape(2, 2, 4, 2, 4, 1).transpose(0, 1, 3, 2, 4, 5).reshape(2, 4, D)
    x = gpt2(patches, w)
    return jax.nn.softmax(layer_norm(x.mean(1), *w[0]["n1"]))


def mixer(x, w):
    for block in w:
        tokens = layer_norm(x, *block["n1"]).swapaxes(1, 2)
        x = x + jax.nn.gelu(tokens @ block["mix"] + block["mix_b"]).swapaxes(1, 2)
        x = x + mlp(layer_norm(x, *block["n2"]), block["mlp"], jax.nn.gelu)
    return x


def convnet(image, w):
    for kernel, bias in w["convolutions"]:
        image = jax.lax.conv_general_dilated(image, kernel, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))
        image = jax.nn.relu(image + bias)
    return jax.nn.softmax(image.mean((1, 2)) @ w["dense"])


BLOCKS = [{"att": ATTENTION, "n1": NORM, "n2": NORM, "mlp": MLP, "mix": weight(T, T), "mix_b": weight(T)}] * 2
X = weight(2, T, D)
CONVOLUTIONS = [(weight(3, 3, 1, 4), weight(4)), (weight(3, 3, 4, 4), weight(4))]
MODELS = {
    "gpt2": (gpt2, (X, BLOCKS)),
    "gpt2 gradient": (jax.grad(lambda w, x: jnp.sum(gpt2(x, w) ** 2)), (BLOCKS, X)),
    "bert": (bert, (X, BLOCKS)),
    "llama": (llama, (X, BLOCKS)),
    "vit": (vit, (weight(2, 8, 8, 1), BLOCKS)),
    "mixer": (mixer, (X, BLOCKS)),
    "convnet": (convnet, (weight(2, 8, 8, 1), {"convolutions": CONVOLUTIONS, "dense": weight(4, 10)})),
}
