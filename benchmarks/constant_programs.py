"""Small programs for constants that decide none of the benchmark set: each named by what it brings to the compiler."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from itertools import pairwise
from typing import Any

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
from jax import lax

from benchmarks.programs.arguments import Argument, integers, lower_triangular, normal, positive_definite
from benchmarks.programs.linalg import _as_operations
from benchmarks.programs.registry import Program

_BF16 = ml_dtypes.bfloat16
OWN: dict[str, Program] = {}


def _own(name: str, function: Callable[..., Any], *arguments: Argument) -> None:
    OWN[f"own/{name}"] = Program(f"own/{name}", function, arguments)


def _conv(numbers: tuple[str, str, str], **options: Any) -> Callable[..., Any]:
    options = {"window_strides": None, "padding": "SAME", **options}
    rank = len(numbers[0]) - 2
    options["window_strides"] = options["window_strides"] or (1,) * rank
    return lambda x, w: lax.conv_general_dilated(x, w, dimension_numbers=numbers, **options)


def _forward_probabilities(emissions: jax.Array, transitions: jax.Array) -> jax.Array:
    """Logarithms of a hidden Markov model's."""

    def step(before: jax.Array, emission: jax.Array) -> tuple[jax.Array, None]:
        return jax.nn.logsumexp(before[:, None] + transitions, axis=0) + emission, None

    return lax.scan(step, emissions[0], emissions[1:])[0]


# --- products

_own("tanh-of-3", lambda x: jnp.tanh(x) * x, normal(3))
_own("transpose-little", lambda x: x.T + 1, normal(17, 9))
_own("mean-of-products", lambda x, y: (x * y).mean(1), normal(64, 1000), normal(64, 1000))
_own("gram-20000", lambda x: x.T @ x, normal(20_000, 16))
_own("gram-64", lambda x: x.T @ x, normal(30_000, 64))
_own("12-vectors", lambda x, y: x @ y, normal(12, 1024), normal(1024, 1024))
_own("40-vectors", lambda x, y: x @ y, normal(40, 1024), normal(1024, 2048))
_own("12-vectors-integers", lambda x, y: x @ y, integers(12, 1024, high=9), integers(1024, 1024, high=9))
_own("vector-bytes-transposed", lambda x, w: w.astype(jnp.bfloat16) @ x, normal(2048, dtype=jnp.bfloat16),
     integers(8192, 2048, high=9, dtype=np.int8))  # fmt: skip
_own("12-vectors-transposed", lambda x, y: x @ y.T, normal(12, 1024), normal(1024, 1024))
_own("4-vectors-transposed", lambda x, y: x @ y.T, normal(4, 1024), normal(1024, 1024))
_own("4-vectors-shorter-sums", lambda x, y: x @ y.T, normal(4, 48), normal(6000, 48))
_own(
    "12-vectors-half-transposed",
    lambda x, y: x @ y.T,
    normal(12, 2048, dtype=jnp.bfloat16),
    normal(2048, 2048, dtype=jnp.bfloat16),
)
_own("20-vectors-transposed", lambda x, y: x @ y.T, normal(20, 4096), normal(512, 4096))
_own("20-vectors-short-sums", lambda x, y: x @ y.T, normal(20, 700), normal(1500, 700))
_own(
    "6-vectors-half", lambda x, y: x @ y.T, normal(6, 1024, dtype=jnp.bfloat16), normal(2048, 1024, dtype=jnp.bfloat16)
)
_own("6-vectors-bytes", lambda x, y: lax.dot_general(x, y, (((1,), (1,)), ((), ())), preferred_element_type=jnp.int32),
     integers(6, 160, high=9, dtype=np.int8), integers(13_000, 160, high=9, dtype=np.int8))  # fmt: skip
_own("4-vectors-short-sums", lambda x, y: x @ y.T, normal(4, 96), normal(4096, 96))
_own("gemm-32-rows", lambda x, y: x @ y, normal(32, 1024), normal(1024, 1024))
_own("rows-dequantise", lambda x, w, s: x @ (w.astype(jnp.float32) * s), normal(16, 1024),
     integers(1024, 1024, low=-127, high=128, dtype=np.int8), normal(1024))  # fmt: skip
_own("vector-times-large", lambda x, y: x @ y, normal(2048), normal(2048, 8192))
_own("2-vectors-times-large", lambda x, y: x @ y, normal(2, 2048), normal(2048, 8192))
_own("max-rows-700", lambda x: x.max(1), normal(6000, 700))
_own("max-rows-of-squares", lambda x: (x * x).max(1), normal(2048, 2048))

# --- convolutions

_NHWC, _NCHW = ("NHWC", "HWIO", "NHWC"), ("NCHW", "OIHW", "NCHW")
_own("depthwise-nchw", _conv(_NCHW, feature_group_count=32), normal(1, 32, 56, 56), normal(32, 1, 3, 3))
_own("depthwise-nchw-7x7", _conv(_NCHW, feature_group_count=32), normal(1, 32, 28, 28), normal(32, 1, 7, 7))
_own("depthwise-nhwc-stride", _conv(_NHWC, feature_group_count=64, window_strides=(2, 2)), normal(1, 56, 56, 64),
     normal(3, 3, 1, 64))  # fmt: skip
_own("depthwise-1d", _conv(("NWC", "WIO", "NWC"), feature_group_count=64), normal(8, 512, 64), normal(4, 1, 64))
_own("depthwise-1d-long", _conv(("NCW", "OIW", "NCW"), feature_group_count=16), normal(2, 16, 4096), normal(16, 1, 31))
_own("depthwise-nhwc-7x7", _conv(_NHWC, feature_group_count=192), normal(1, 28, 28, 192), normal(7, 7, 1, 192))
_own("depthwise-nhwc-7", _conv(_NHWC, feature_group_count=768), normal(1, 7, 7, 768), normal(7, 7, 1, 768))
_own("depthwise-nhwc-40x40", _conv(_NHWC, feature_group_count=128), normal(1, 40, 40, 128), normal(5, 5, 1, 128))
_own(
    "depthwise-1d-nwc-long",
    _conv(("NWC", "WIO", "NWC"), feature_group_count=64),
    normal(2, 1024, 64),
    normal(31, 1, 64),
)
_own("1x1-7x7-deep", _conv(_NHWC), normal(1, 7, 7, 512), normal(1, 1, 512, 2048))
_own("1x1-14x14", _conv(_NHWC), normal(1, 14, 14, 256), normal(1, 1, 256, 256))
_own("1x1-56x56", _conv(_NHWC), normal(1, 56, 56, 64), normal(1, 1, 64, 256))
_own("3x3-7x7-deep", _conv(_NHWC), normal(1, 7, 7, 512), normal(3, 3, 512, 512))
_own("3x3-14x14", _conv(_NHWC), normal(1, 14, 14, 256), normal(3, 3, 256, 256))
_own("3x3-nchw-deep", _conv(_NCHW), normal(1, 512, 7, 7), normal(512, 512, 3, 3))

_own("filter-gradient-depthwise", jax.grad(lambda w, x, y: (_conv(_NHWC, feature_group_count=64)(x, w) * y).sum()),
     normal(3, 3, 1, 64), normal(4, 28, 28, 64), normal(4, 28, 28, 64))  # fmt: skip
_own("filter-gradient-7x7", jax.grad(lambda w, x, y: (_conv(_NHWC, feature_group_count=64)(x, w) * y).sum()),
     normal(9, 9, 1, 64), normal(2, 28, 28, 64), normal(2, 28, 28, 64))  # fmt: skip
_own("filter-gradient-7", jax.grad(lambda w, x, y: (_conv(_NHWC, feature_group_count=512)(x, w) * y).sum()),
     normal(3, 3, 1, 512), normal(1, 7, 7, 512), normal(1, 7, 7, 512))  # fmt: skip
_own("filter-gradient-56", jax.grad(lambda w, x, y: (_conv(_NHWC, feature_group_count=96)(x, w) * y).sum()),
     normal(3, 3, 1, 96), normal(8, 56, 56, 96), normal(8, 56, 56, 96))  # fmt: skip
_own("filter-gradient-fours", jax.grad(lambda w, x, y: (_conv(_NHWC, feature_group_count=16)(x, w) * y).sum()),
     normal(3, 3, 4, 64), normal(4, 28, 28, 64), normal(4, 28, 28, 64))  # fmt: skip
_own("filter-gradient-nchw-14", jax.grad(lambda w, x, y: (_conv(_NCHW, feature_group_count=384)(x, w) * y).sum()),
     normal(384, 1, 3, 3), normal(1, 384, 14, 14), normal(1, 384, 14, 14))  # fmt: skip
_own("filter-gradient-nchw-7", jax.grad(lambda w, x, y: (_conv(_NCHW, feature_group_count=64)(x, w) * y).sum()),
     normal(64, 1, 3, 3), normal(64, 64, 7, 7), normal(64, 64, 7, 7))  # fmt: skip
_own("input-gradient-patches", jax.grad(lambda x, w, y: (_conv(_NHWC, window_strides=(4, 4))(x, w) * y).sum()),
     normal(1, 112, 112, 3), normal(4, 4, 3, 64), normal(1, 28, 28, 64))  # fmt: skip
_own("1x1-stride-batch", _conv(_NCHW, window_strides=(2, 2)), normal(4, 64, 56, 56), normal(128, 64, 1, 1))

# --- sorts

_own("sort-300", jnp.sort, normal(300))
_own("sort-4096", jnp.sort, normal(4096))
_own("sort-rows-24", jnp.sort, normal(2048, 24))
_own("argsort-rows-100", jnp.argsort, normal(256, 100))
_own("argsort-columns", lambda x: jnp.argsort(x, axis=0), normal(400, 300))
_own("argsort-narrow-rows", lambda x: jnp.argsort(x.astype(jnp.bfloat16)), normal(64, 512))
_own("argsort-rows-48", jnp.argsort, normal(512, 48))
_own("sort-3-keys", lambda a, b, c: lax.sort((a, b, c), num_keys=3), normal(4096), normal(4096), normal(4096))
_own("sort-3-keys-rows", lambda a, b, c: lax.sort((a, b, c), num_keys=3), *(normal(256, 24) for _ in range(3)))
_own("sort-9-keys", lambda *x: lax.sort(x, num_keys=9), *(normal(4096) for _ in range(9)))
_own("sort-17-keys", lambda *x: lax.sort(x, num_keys=17), *(normal(4096) for _ in range(17)))
_own("sort-complex", lambda x, y: jnp.sort(lax.complex(x, y)).real, normal(4096), normal(4096))
_own("top-k-50", lambda x: lax.top_k(x, 50), normal(64, 4096))
_own("top-k-500", lambda x: lax.top_k(x, 500), normal(16, 8192))
_own("top-k-short-rows", lambda x: lax.top_k(x, 100), normal(64, 500))

_own("argsort-narrow-rows-1000", lambda x: jnp.argsort(x.astype(jnp.bfloat16)), normal(40, 1000))
_own("sort-100", lambda a, b: lax.sort((a, b), num_keys=1), normal(100), normal(100))

# --- reductions, windows, scans

_own("cumsum-of-12-columns", lambda x: jnp.cumsum(x, axis=0), normal(50_000, 12))
_own("sum-long-rows", lambda x: x.sum(axis=1), normal(5, 300_000))

_own("sum-short-rows", lambda x: x.sum(1), normal(20_000, 5))
_own("softmax-10", lambda x: jax.nn.softmax(x, axis=1), normal(20_000, 10))
_own("scale-rows-of-5", lambda x, s: x * s[:, None] + 1, normal(20_000, 5), normal(20_000))
_own("product-rows", lambda x: x.prod(1), normal(1024, 512))
_own("logsumexp-columns", lambda x: jax.nn.logsumexp(x, axis=0), normal(512, 512))
_own("max-7x7-nchw", lambda x: lax.reduce_window(x, -jnp.inf, lax.max, (1, 1, 7, 7), (1, 1, 1, 1), "SAME"),
     normal(1, 16, 56, 56))  # fmt: skip
_own("sum-window-20", lambda x: lax.reduce_window(x, 0.0, lax.add, (1, 20), (1, 1), "SAME"), normal(64, 4096))
_own("sum-window-columns", lambda x: lax.reduce_window(x, 0.0, lax.add, (40, 1), (1, 1), "SAME"), normal(512, 256))
_own("recurrence", lambda a, b: lax.associative_scan(lambda a, b: (a[0] * b[0], a[1] * b[0] + b[1]), (a, b)),
     normal(2000, scale=0.1), normal(2000))  # fmt: skip


def _max_gradient(window: tuple[int, ...], strides: tuple[int, ...]) -> Callable[..., Any]:
    pool = lambda x: lax.reduce_window(x, -jnp.inf, lax.max, window, strides, "VALID").sum()  # noqa: E731
    return jax.grad(pool)


_own("max-gradient-nchw", _max_gradient((1, 1, 2, 2), (1, 1, 2, 2)), normal(4, 16, 56, 56))
_own("max-gradient-3x3-nchw", _max_gradient((1, 1, 3, 3), (1, 1, 2, 2)), normal(4, 16, 57, 57))
_own("max-gradient-9x9", _max_gradient((1, 9, 9, 1), (1, 4, 4, 1)), normal(1, 61, 61, 32))

_own("max-gradient-overlap-nchw", _max_gradient((1, 1, 5, 5), (1, 1, 3, 3)), normal(1, 8, 60, 1500))
_own("max-gradient-7x7-nchw", _max_gradient((1, 1, 7, 7), (1, 1, 6, 6)), normal(2, 8, 60, 60))
_own("max-gradient-columns", _max_gradient((1, 3, 3, 1), (1, 2, 2, 1)), normal(1, 57, 57, 192))
_own("sum-window-tall", lambda x: lax.reduce_window(x, 0.0, lax.add, (200, 1), (1, 1), "SAME"), normal(2000, 512))
_own("softmax-rows-80", lambda x: jax.nn.softmax(x, axis=1), normal(4000, 80))
_own("markov-7", _forward_probabilities, normal(500, 7), normal(7, 7))
_own("markov-8", _forward_probabilities, normal(500, 8), normal(8, 8))
_own("sum-6-columns", lambda x: x.sum(0), normal(6000, 6))
_own("scale-rows-of-12", lambda x, s: x * s[:, None] + 1, normal(20_000, 12), normal(20_000))

# --- scatters, layouts

_own("transpose-u8", lambda x: x.T, integers(1024, 1024, high=256, dtype=np.uint8))
_own("transpose-two", lambda x, y: x.T * y.T, normal(700, 900), normal(700, 900))
_own("stack-6", lambda *x: jnp.stack(x, -1), *(normal(20_000) for _ in range(6)))
_own("concatenate-10", lambda *x: jnp.concatenate([a * 2 for a in x], 1), *(normal(512, 40) for _ in range(10)))
_own("concatenate-80-unlike", lambda *x: jnp.concatenate([a * (k + 2) for k, a in enumerate(x)], 1),
     *(normal(512, 40) for _ in range(80)))  # fmt: skip
_own("stack-12", lambda *x: jnp.stack(x, -1) * 2, *(normal(400, 30) for _ in range(12)))
_own("rolls-30", jax.vmap(lambda x, k: jnp.roll(x, k) * 2 + x), normal(2000, 30), integers(2000, high=30))
_own("rolls-three", lambda x, *k: sum(jnp.roll(x, by, 1) * (n + 2) for n, by in enumerate(k)), normal(500, 600),
     *(integers(high=600) for _ in range(3)))  # fmt: skip
_own("delay-65536", lambda x: jnp.roll(x, 1), normal(65_536))
for _n in (48, 80, 300):
    _own(f"masked-rows-{_n}", lambda x, n: jnp.where(jnp.arange(x.shape[1]) < n[:, None], x, 0).sum(1),
         normal(3000, _n), integers(3000, high=_n))  # fmt: skip
_own("resize-600", lambda x, y: jnp.resize(x, (600, 600)) + y, normal(77, 200), normal(600, 600))
_own("resize-900", lambda x, y: jnp.resize(x, (900, 900)) + y, normal(77, 200), normal(900, 900))
_own("crop-of-5", lambda k, *x: lax.dynamic_slice(jnp.concatenate([a * 2 for a in x], 1), (3, k), (500, 900)),
     integers(high=300), *(normal(512, 240) for _ in range(5)))  # fmt: skip
_own("argmax-of-5", lambda *x: jnp.argmax(jnp.stack([a * 2 for a in x]), 0), *(normal(20_000) for _ in range(5)))
_own("argmax-of-8", lambda *x: jnp.argmax(jnp.stack([a * 2 for a in x]), 0), *(normal(20_000) for _ in range(8)))
_own("add-64k", lambda x, y: x + y, normal(1 << 16), normal(1 << 16))
_own("copy-16M", lambda x: lax.dynamic_update_slice(x, x[:5] * 2, (3,)), normal(1 << 24))
_own("many-arrays", lambda *x: reduce(lambda a, b: a * b + b, x), *(normal(1 << 18) for _ in range(8)))

# --- factors and transforms

_own("cholesky-150", lambda a: _as_operations(lambda a: lax.linalg.cholesky(a, symmetrize_input=False), a),
     positive_definite(150))  # fmt: skip
_own("cholesky-600", lambda a: _as_operations(lambda a: lax.linalg.cholesky(a, symmetrize_input=False), a),
     positive_definite(600))  # fmt: skip


def _solve(a: Any, b: Any) -> Any:
    return _as_operations(lambda a, b: lax.linalg.triangular_solve(a, b, left_side=True, lower=True), a, b)


_own("solve-64", _solve, lower_triangular(64), normal(64, 256))
_own("solve-wide", _solve, lower_triangular(128), normal(128, 1024))
_own("fft-48", lambda x: jnp.abs(jnp.fft.fft(x)), normal(4, 48))
_own("fft-few", lambda x: jnp.abs(jnp.fft.fft(x)), normal(4, 1024))
_own("fft-96", lambda x: jnp.abs(jnp.fft.fft(x)), normal(4, 96))
_own("fft-rows-4096", lambda x: jnp.abs(jnp.fft.fft(x)), normal(64, 4096))
_own("rfft-long", lambda x: jnp.abs(jnp.fft.rfft(x)), normal(1 << 16))
_own("fft2", lambda x: jnp.abs(jnp.fft.fft2(x)), normal(128, 128))

# --- long programs


def _chain(count: int) -> Callable[[Any], Any]:
    return lambda x: reduce(lambda y, k: y * (1 + k / 100) + jnp.where(y > k, x, k), range(count), x)


def _sines(count: int) -> Callable[[Any], Any]:
    return lambda x: reduce(lambda y, k: jnp.sin(y * k) + y, range(2, 2 + count), x)


def _weighted_mean(count: int, weight: Callable[[Any], Any] = lambda d: jnp.exp(-d * d)) -> Callable[[Any], Any]:
    """Of neighbouring rows, by how far they are from each."""

    def run(x: Any) -> Any:
        rows = x.shape[0] - count
        parts = [x[k : k + rows] for k in range(count)]
        weights = [weight(part - parts[0]) for part in parts]
        return sum(w * part for w, part in zip(weights, parts, strict=True)) / sum(weights)

    return run


def _layers(count: int, *, split: bool = False) -> Callable[..., Any]:
    def run(x: Any, w: Any) -> Any:
        made = []
        for k in range(count):
            x = jnp.tanh(x @ w + k)
            made.append(x.sum(1 if split else 0))
        return (x, *made)

    return run


_own("chain-100", _chain(100), normal(1 << 14))
_own("sines-30", _sines(30), normal(1 << 14))
_own("weighted-mean-40", _weighted_mean(40), normal(104, 128))
_own("weighted-mean-25-of-sigmoids", _weighted_mean(25, lambda d: jax.nn.sigmoid(d * 3)), normal(104, 128))
_own("small-nests-100", lambda x: [jnp.cumsum(x[k : k + 50] * k) + jnp.sort(x[:50]) for k in range(100)], normal(200))
_own("results-40", lambda *x: [a * 2 + b for a, b in pairwise(x)], *(normal(1000) for _ in range(41)))

# --- what few programs have

_own("gemm-200-dequantise", lambda x, w, s: x @ (w.astype(jnp.float32) * s), normal(200, 1024),
     integers(1024, 1024, low=-127, high=128, dtype=np.int8), normal(1024))  # fmt: skip
_own("vector-dequantise-transposed", lambda x, w, s: x @ (w.astype(jnp.float32) * s).T, normal(2048),
     integers(2048, 2048, low=-127, high=128, dtype=np.int8), normal(2048))  # fmt: skip
_own("vector-times-computed", lambda x, w: x @ jnp.tanh(reduce(lambda a, k: a * a + k, range(9), w)),
     normal(1024), normal(1024, 1024))  # fmt: skip
_own("vector-times-computed-long", lambda x, w: x @ jnp.tanh(reduce(lambda a, k: a * a + k, range(14), w)),
     normal(1024), normal(1024, 1024))  # fmt: skip
_own("4-vectors-small", lambda x, y: x @ y.T, normal(4, 512), normal(400, 512))
_own("gemm-depth-5", lambda x, y: x @ y, normal(64, 5), normal(5, 64))
_own("batched-depth-5", lambda x, y: x @ y, normal(256, 16, 5), normal(256, 5, 16))
_own("heads-bf16", lambda x, y: x @ y, normal(16, 64, 64, dtype=_BF16), normal(16, 64, 64, dtype=_BF16))
_own("gemm-bf16-depth-24", lambda x, y: x @ y, normal(1024, 24, dtype=_BF16), normal(24, 64, dtype=_BF16))
_own("softmax-50000", lambda x: jax.nn.softmax(x, axis=1), normal(16, 50_000))
_own("softmax-rows-200", lambda x: jax.nn.softmax(x, axis=1), normal(8000, 200))
_own("add-4-arrays", lambda *x: reduce(lambda a, b: a + b, x), *(normal(1500, 1000) for _ in range(4)))
_own("one-hot-of-stacked", lambda x: jnp.stack([x, x + 1], 2)[..., None] == jnp.arange(3.0), normal(3, 12_000, 5))
_own("copy-10M", lambda x: lax.dynamic_update_slice(x, x[:5] * 2, (3,)), normal(2_500_000))
_own("add-then-cumsum", lambda x, y: jnp.cumsum(x + y, 0), normal(4096, 1024), normal(4096, 1024))
_own("bf16-bias", lambda x, b: jax.nn.silu(x + b), normal(500, 300, dtype=_BF16), normal(300, dtype=_BF16))
_own("bf16-bias-400", lambda x, b: (x + b) * x, normal(500, 400, dtype=_BF16), normal(400, dtype=_BF16))
_own("sum-rows-12-of-5", lambda *x: reduce(lambda a, b: a * b, x).sum(1), *(normal(20_000, 12) for _ in range(5)))
_own("sum-rows-12-of-9", lambda *x: reduce(lambda a, b: a * b, x).sum(1), *(normal(20_000, 12) for _ in range(9)))
_own("scatter-add-24-rows", lambda x, i, u: x.at[i].add(u), normal(24, 4096), integers(24, high=24), normal(24, 4096))
_own("segment-sum-of-scaled", lambda x, w, i, j: jax.ops.segment_sum(x[i] * w[:, None] + 1, j, 1000), normal(5000, 32),
     normal(20_000), integers(20_000, high=5000), integers(20_000, high=1000))  # fmt: skip
_own("sort-2-keys-rows", lambda a, b: lax.sort((a, b), num_keys=2), normal(256, 500), normal(256, 500))
_own("sort-u16-pairs-64k", lambda a, b: lax.sort((a, b), num_keys=1),
     integers(1 << 17, high=1 << 16, dtype=np.uint16), normal(1 << 17))  # fmt: skip
_own("sort-u16-pairs-rows", lambda a, b: lax.sort((a, b), num_keys=1),
     integers(64, 600, high=1 << 16, dtype=np.uint16), normal(64, 600))  # fmt: skip
_own("sum-dilated-5x5", lambda x: lax.reduce_window(x, 0.0, lax.add, (5, 5), (1, 1), "SAME", window_dilation=(2, 2)),
     normal(256, 256))  # fmt: skip
_own("sum-window-600", lambda x: lax.reduce_window(x, 0.0, lax.add, (600, 1), (1, 1), "SAME"), normal(4000, 128))
_own("max-gradient-16-windows", _max_gradient((1, 1, 2, 4), (1, 1, 2, 4)), normal(4, 16, 56, 64))
_own("max-gradient-12-windows", _max_gradient((1, 1, 2, 4), (1, 1, 2, 4)), normal(4, 16, 56, 48))
_own("max-gradient-wide", _max_gradient((1, 2, 2, 1), (1, 2, 2, 1)), normal(1, 16, 16, 1500))
_own("max-gradient-many", _max_gradient((1, 2, 2, 1), (1, 2, 2, 1)), normal(8, 64, 64, 32))
_own("signal-bf16", _conv(("NCW", "OIW", "NCW")), normal(4, 1, 4096, dtype=_BF16), normal(32, 1, 10, dtype=_BF16))
_own("3x3-bf16-24", _conv(_NHWC), normal(1, 28, 28, 32, dtype=_BF16), normal(3, 3, 32, 24, dtype=_BF16))
_own("3x3-bf16-12", _conv(_NHWC), normal(1, 28, 28, 32, dtype=_BF16), normal(3, 3, 32, 12, dtype=_BF16))
_own("3x3-nchw-6", _conv(_NCHW, window_strides=(2, 2)), normal(1, 6, 64, 64), normal(64, 6, 3, 3))
_own("12x12-window-nchw", _conv(_NCHW, window_strides=(2, 2)), normal(1, 16, 64, 64), normal(32, 16, 3, 12))
_own("grouped-12-channels", _conv(_NHWC, feature_group_count=12), normal(1, 28, 28, 192), normal(3, 3, 16, 192))
_own("grouped-6", _conv(_NHWC, feature_group_count=6), normal(1, 28, 28, 96), normal(3, 3, 16, 96))
_own("stack-4-steps", lambda *x: jnp.stack([reduce(lambda a, k: a * a + k, range(8), y) for y in x], -1),
     *(normal(20_000) for _ in range(4)))  # fmt: skip
_own("top-k-f16-few", lambda x: lax.top_k(x, 8), normal(64, 4096, dtype=np.float16))
_own("while-heavy", lambda x: lax.while_loop(lambda s: s[0] < 999, lambda s: (s[0] + 1, jnp.sin(s[1]) + s[0]), (0.0, x)
     ), normal(5000))  # fmt: skip
_own("bf16-rows-bytes", lambda x, w: x @ w.astype(_BF16), normal(6, 1024, dtype=_BF16),
     integers(1024, 1024, high=128, dtype=np.int8))  # fmt: skip
_own("loop-roll-50", lambda x: lax.fori_loop(0, 1000, lambda i, s: jnp.roll(s, 3), x), normal(50))
_own("loop-roll-100", lambda x: lax.fori_loop(0, 1000, lambda i, s: jnp.roll(s, 3), x), normal(100))


def _diffusion(count: int) -> Callable[[Any], Any]:
    """Steps in which each element becomes the mean of itself and its neighbours, but for those at the ends."""

    def step(_: Any, x: Any) -> Any:
        inner = (slice(1, -1),) * x.ndim
        sides = [(*inner[:d], s, *inner[d + 1 :]) for d in range(x.ndim) for s in (slice(0, -2), slice(2, None))]
        return x.at[inner].set((x[inner] + sum(x[s] for s in sides)) / (2 * x.ndim + 1))

    return lambda x: lax.fori_loop(0, count, step, x)


_own("stencil-short", _diffusion(1000), normal(800))
_own("stencil-long", _diffusion(1000), normal(12_000))
_own("stencil-large", _diffusion(64), normal(2048, 2048))
_own("stencil-wide", _diffusion(200), normal(1000, 4000))
_own("stencil-box", _diffusion(200), normal(40, 40, 40))

_own("tangents-16", lambda x: reduce(lambda a, _: jnp.tan(a), range(16), x), normal(4096))
_own("tangents-8", lambda x: reduce(lambda a, _: jnp.tan(a), range(8), x), normal(4096))
_own("scalar-sines-24", lambda x: reduce(lambda a, _: jnp.sin(a), range(24), x), normal())
_own("scalar-sines-4", lambda x: reduce(lambda a, _: jnp.sin(a), range(4), x), normal())
_own("qr-300", jnp.linalg.qr, normal(300, 300))
_own("svd-700", jnp.linalg.svd, normal(700, 700))
