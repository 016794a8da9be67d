"""Chains of elementwise operations."""

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np

from benchmarks.programs.arguments import integers, normal, uniform
from benchmarks.programs.registry import program

_SHAPE = (4096, 1024)


@program("add", normal(*_SHAPE), normal(*_SHAPE), streams=True)
def add(x, y):
    """The least that a program can do a byte."""
    return x + y


@program("gelu", normal(*_SHAPE), streams=True)
def gelu(x):
    """The exact form, with erf."""
    return jax.nn.gelu(x, approximate=False)


@program("gelu-tanh", normal(*_SHAPE), streams=True)
def gelu_tanh(x):
    """The usual approximation."""
    return jax.nn.gelu(x, approximate=True)


@program("bias-gelu", normal(*_SHAPE), normal(1024), normal(1024), streams=True)
def bias_gelu(x, scale, bias):
    """With two vectors along the rows."""
    return jax.nn.gelu(x * scale + bias, approximate=True)


@program("silu", normal(*_SHAPE), streams=True)
def silu(x):
    """x * sigmoid(x)."""
    return jax.nn.silu(x)


@program("silu-bf16", normal(*_SHAPE, dtype=ml_dtypes.bfloat16), streams=True)
def silu_bf16(x):
    """The same with half the bytes and rounding to bfloat16."""
    return jax.nn.silu(x)


@program("swiglu", normal(*_SHAPE), normal(*_SHAPE), streams=True)
def swiglu(gate, x):
    """The gate of a transformer's feed-forward layer."""
    return jax.nn.silu(gate) * x


@program("transcendental", uniform(1 << 20, low=0.1, high=4.0), streams=True)
def transcendental(x):
    """Arithmetic rather than memory: log, sine, power, cube root and their like."""
    return jnp.log1p(x) + jnp.sin(x) * jnp.cos(x) + jnp.power(x, 1.7) + jnp.cbrt(x) + jnp.arctan2(x, 2.0)


@program("complex-multiply", normal(1 << 20), normal(1 << 20), normal(1 << 20), streams=True)
def complex_multiply(a, b, c):
    """Complex numbers and their absolute value."""
    return jnp.abs(jax.lax.complex(a, b) * jax.lax.complex(b, c))


@program("integer-hash", integers(*_SHAPE, high=1 << 32, dtype=np.uint32), streams=True)
def integer_hash(x):
    """Shifts, exclusive or, and wrapping products."""
    x = (x ^ (x >> 16)) * np.uint32(0x7FEB352D)
    x = (x ^ (x >> 15)) * np.uint32(0x846CA68B)
    return x ^ (x >> 16)


@program("quantise", normal(*_SHAPE), streams=True)
def quantise(x):
    """Scale, round, clamp and convert to eight bits."""
    return jnp.clip(jnp.round(x * 32.0), -127, 127).astype(jnp.int8)


@program("two-results", normal(*_SHAPE), normal(*_SHAPE), streams=True)
def two_results(x, y):
    """Two results of the same arguments, which fit one loop."""
    return jnp.maximum(x, y) * 2.0, jnp.where(x > y, x - y, y)
