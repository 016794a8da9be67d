"""Reductions, and what is made of them: softmax and normalisations."""

import jax
import jax.numpy as jnp
import ml_dtypes

from benchmarks.programs.arguments import normal
from benchmarks.programs.registry import program

_SHAPE = (4096, 1024)
_EPSILON = 1e-5


@program("sum-rows", normal(*_SHAPE), streams=True)
def sum_rows(x):
    """Along the contiguous dimension."""
    return jnp.sum(x, axis=1)


@program("sum-columns", normal(*_SHAPE), streams=True)
def sum_columns(x):
    """Across the contiguous dimension."""
    return jnp.sum(x, axis=0)


@program("sum-all", normal(*_SHAPE), streams=True)
def sum_all(x):
    """To one number."""
    return jnp.sum(x)


@program("sum-middle", normal(64, 256, 256), streams=True)
def sum_middle(x):
    """Along a dimension between two others."""
    return jnp.sum(x, axis=1)


@program("max-rows", normal(*_SHAPE), streams=True)
def max_rows(x):
    """The greatest a row; NaN wins."""
    return jnp.max(x, axis=1)


@program("sum-rows-bf16", normal(*_SHAPE, dtype=ml_dtypes.bfloat16), streams=True)
def sum_rows_bf16(x):
    """Sixteen bits in, thirty-two in between."""
    return jnp.sum(x, axis=1)


@program("arg-max", normal(*_SHAPE), streams=True)
def arg_max(x):
    """A reduction of two operands at once."""
    return jnp.argmax(x, axis=1)


@program("any", normal(*_SHAPE), streams=True)
def any_large(x):
    """Of truth values."""
    return jnp.any(x > 4.0, axis=1)


@program("variance", normal(*_SHAPE), streams=True)
def variance(x):
    """Mean and variance, each a result."""
    return jnp.mean(x, axis=1), jnp.var(x, axis=1)


@program("log-sum-exp", normal(*_SHAPE), streams=True)
def log_sum_exp(x):
    """Two reductions, one after the other."""
    return jax.nn.logsumexp(x, axis=1)


@program("softmax", normal(*_SHAPE), streams=True)
def softmax(x):
    """Over rows."""
    return jax.nn.softmax(x, axis=1)


@program("softmax-bf16", normal(*_SHAPE, dtype=ml_dtypes.bfloat16), streams=True)
def softmax_bf16(x):
    """Over rows, in bfloat16."""
    return jax.nn.softmax(x, axis=1)


@program("cross-entropy", normal(1024, 4096), normal(1024, 4096), streams=True)
def cross_entropy(logits, target):
    """Of two distributions, to one number."""
    return -jnp.mean(jnp.sum(jax.nn.softmax(target) * jax.nn.log_softmax(logits), axis=1))


@program("layer-norm", normal(*_SHAPE), normal(1024), normal(1024), streams=True)
def layer_norm(x, scale, bias):
    """Over rows, with scale and bias."""
    mean = jnp.mean(x, axis=1, keepdims=True)
    centred = x - mean
    return centred * jax.lax.rsqrt(jnp.mean(centred * centred, axis=1, keepdims=True) + _EPSILON) * scale + bias


@program("rms-norm", normal(*_SHAPE), normal(1024), streams=True)
def rms_norm(x, scale):
    """Over rows, with a scale."""
    return x * jax.lax.rsqrt(jnp.mean(x * x, axis=1, keepdims=True) + _EPSILON) * scale


@program("batch-norm", normal(32, 28, 28, 128), normal(128), normal(128), streams=True)
def batch_norm(x, scale, bias):
    """Statistics of each channel over batch and image."""
    mean = jnp.mean(x, axis=(0, 1, 2))
    variance = jnp.mean(jnp.square(x), axis=(0, 1, 2)) - jnp.square(mean)
    return (x - mean) * (jax.lax.rsqrt(variance + _EPSILON) * scale) + bias
