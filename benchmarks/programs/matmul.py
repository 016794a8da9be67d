"""Products of matrices."""

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np

from benchmarks.programs.arguments import integers, normal
from benchmarks.programs.registry import program

_BF16 = ml_dtypes.bfloat16


def gemm(x, y):
    """A plain product."""
    return x @ y


def gemm_s8(x, y):
    """Eight bits in, sums in thirty-two."""
    return jax.lax.dot(x, y, preferred_element_type=jnp.int32)


for _n in (64, 128, 256, 512, 1024, 2048):
    program(f"gemm-{_n}", normal(_n, _n), normal(_n, _n), flops=2 * _n**3)(gemm)
for _n in (64, 256, 1024, 2048):
    program(f"gemm-{_n}-bf16", normal(_n, _n, dtype=_BF16), normal(_n, _n, dtype=_BF16), flops=2 * _n**3)(gemm)
for _n in (64, 256, 1024):
    _bytes = integers(_n, _n, low=-128, high=128, dtype=np.int8)
    program(f"gemm-{_n}-s8", _bytes, _bytes, flops=2 * _n**3)(gemm_s8)

program("gemm-odd-sizes", normal(1000, 333), normal(333, 777), flops=2 * 1000 * 333 * 777)(gemm)
program("gemm-skinny", normal(8, 4096), normal(4096, 2048), streams=True)(gemm)
program("gemv", normal(4096, 4096), normal(4096), streams=True)(gemm)
program("vector-matrix", normal(4096), normal(4096, 4096), streams=True)(gemm)
program("gemv-bf16", normal(4096, 4096, dtype=_BF16), normal(4096, dtype=_BF16), streams=True)(gemm)
program("batched", normal(64, 128, 64), normal(64, 64, 128), flops=2 * 64 * 128 * 64 * 128)(gemm)
program("batched-tiny", normal(8192, 8, 8), normal(8192, 8, 8), streams=True)(gemm)


@program("gemm-transposed-left", normal(512, 512), normal(512, 512), flops=2 * 512**3)
def gemm_transposed_left(x, y):
    """As the gradient of a weight."""
    return x.T @ y


@program("gemm-transposed-right", normal(512, 512), normal(512, 512), flops=2 * 512**3)
def gemm_transposed_right(x, y):
    """As the gradient of an activation."""
    return x @ y.T


@program("gemm-bias-gelu", normal(512, 512), normal(512, 2048), normal(2048), flops=2 * 512 * 512 * 2048)
def gemm_bias_gelu(x, w, b):
    """A dense layer: what follows the product fits its registers."""
    return jax.nn.gelu(x @ w + b, approximate=True)


@program(
    "gemm-dequantise",
    normal(64, 2048),
    integers(2048, 2048, low=-127, high=128, dtype=np.int8),
    normal(2048),
    flops=2 * 64 * 2048 * 2048,
)
def gemm_dequantise(x, w, scale):
    """Weights of eight bits with a scale a column."""
    return x @ (w.astype(jnp.float32) * scale)


@program("attention", normal(8, 512, 64), normal(8, 512, 64), normal(8, 512, 64), flops=2 * 2 * 8 * 512 * 512 * 64)
def attention(q, k, v):
    """Causal, of eight heads."""
    scores = jnp.einsum("hqd,hkd->hqk", q, k) * 0.125
    mask = jnp.tril(jnp.ones((512, 512), bool))
    return jnp.einsum("hqk,hkd->hqd", jax.nn.softmax(jnp.where(mask, scores, -1e30), axis=-1), v)


@program("einsum", normal(32, 64, 48), normal(48, 64, 40), flops=2 * 32 * 64 * 48 * 40)
def einsum(x, y):
    """A batch dimension in the middle of both."""
    return jnp.einsum("abc,cbd->abd", x, y)
