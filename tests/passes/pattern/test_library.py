"""The patterns of the library against HLO that JAX lowers, and that decompositions as PyTorch has them lower to."""

from functools import partial

import numpy as np
import pytest

from tests.passes.pattern.roundtrip import expanded, same
from xloom.hlo.shape import Layout
from xloom.hlo.text.parser import parse
from xloom.hlo.verify.module import verify
from xloom.interpreter import evaluate
from xloom.interpreter.samples import random_arguments
from xloom.passes import outline_pattern, run_passes
from xloom.passes.hooks import difference
from xloom.passes.pattern import find_pattern
from xloom.passes.pattern.sources import LIBRARY

jax = pytest.importorskip("jax")
jnp = pytest.importorskip("jax.numpy")

RAW = "call-inlining,dce"
SIMPLE = "call-inlining,algebraic-simplification,layout-simplification,constant-folding,cse,dce"


def arrays(*shapes, dtype="float32"):
    return [jax.ShapeDtypeStruct(shape, dtype) for shape in shapes]


def power_gelu(x):
    return 0.5 * x * (1 + jnp.tanh(np.float32(np.sqrt(2 / np.pi)) * (x + 0.044715 * jnp.power(x, 3.0))))


def torch_gelu(x):
    # aten.gelu's decomposition
    inner = np.float32(np.sqrt(2) * (2 / np.sqrt(np.pi)) * 0.5) * (x + 0.044715 * (x * x * x))
    return 0.5 * x * (1 + jnp.tanh(inner))


def torch_gelu_erf(x):
    return x * 0.5 * (1 + jax.lax.erf(x * np.float32(0.7071067811865476)))


def torch_softmax(x):
    # aten._softmax's decomposition
    e = jnp.exp(x - jax.lax.stop_gradient(jnp.max(x, -1, keepdims=True)))
    return e / jnp.sum(e, -1, keepdims=True)


def layer_norm(x, gamma, beta):
    mean, variance = x.mean(-1, keepdims=True), x.var(-1, keepdims=True)
    return (x - mean) * jax.lax.rsqrt(variance + 1e-5) * gamma + beta


def flax_layer_norm(x, gamma, beta):
    mean, square = x.mean(-1, keepdims=True), (x * x).mean(-1, keepdims=True)
    variance = jnp.maximum(0.0, square - mean * mean)
    return (x - mean) * (jax.lax.rsqrt(variance + 1e-6) * gamma) + beta


def torch_layer_norm(x, gamma, beta):
    # aten.native_layer_norm's decomposition: var_mean, then rsqrt
    mean = jnp.sum(x, -1, keepdims=True) / x.shape[-1]
    variance = jnp.sum((x - mean) * (x - mean), -1, keepdims=True) / x.shape[-1]
    return (x - mean) * jax.lax.rsqrt(variance + 1e-5) * gamma + beta


def rms_norm(x, gamma):
    return x * jax.lax.rsqrt((x * x).mean(-1, keepdims=True) + 1e-6) * gamma


def llama_norm(x, gamma):
    wide = x.astype(jnp.float32)
    return gamma * (wide * jax.lax.rsqrt((wide**2).mean(-1, keepdims=True) + 1e-6)).astype(x.dtype)


def torch_attention(q, k, v):
    # scaled_dot_product_attention's decomposition: both sides scaled, batches merged for bmm
    scale = np.float32(q.shape[-1] ** -0.25)
    batch, heads, time, features = q.shape
    q, k, v = ((a * s).reshape(batch * heads, -1, features) for a, s in ((q, scale), (k, scale), (v, 1)))
    scores = jax.lax.batch_matmul(q, k.transpose(0, 2, 1)).reshape(batch, heads, time, -1)
    p = torch_softmax(scores).reshape(batch * heads, time, -1)
    return jax.lax.batch_matmul(p, v).reshape(batch, heads, time, features)


def masked_attention(q, k, v, mask):
    scores = jnp.einsum("bthd,bshd->bhts", q, k) / np.float32(np.sqrt(q.shape[-1])) + mask
    return jnp.einsum("bhts,bshd->bthd", jax.nn.softmax(scores), v)


def rotate_half(x, cosine, sine):
    half = x.shape[-1] // 2
    turned = jnp.concatenate([-x[..., half:], x[..., :half]], -1)
    return x * cosine[None, :, None] + turned * sine[None, :, None]


def torch_rotate_half(x, cosine, sine):
    # [batch, heads, time, features], angles for each of the batch
    half = x.shape[-1] // 2
    turned = jnp.concatenate([-x[..., half:], x[..., :half]], -1)
    return x * cosine[:, None] + turned * sine[:, None]


def rotate_parts(x, cosine, sine):
    a, b = jnp.split(x, 2, -1)
    c, s = cosine[None, :, None], sine[None, :, None]
    return jnp.concatenate([a * c - b * s, b * c + a * s], -1)


def with_repeated_heads(q, k, v):
    k, v = jnp.repeat(k, 2, axis=2), jnp.repeat(v, 2, axis=2)
    return jnp.einsum("bnts,bsnh->btnh", jax.nn.softmax(jnp.einsum("btnh,bsnh->bnts", q, k) / 8), v)


def swiglu_of_halves(x, w):
    gate, up = jnp.split(x @ w, 2, -1)
    return jax.nn.silu(gate) * up


def of_rows(x):
    mean = x.mean(-1, keepdims=True)
    variance = ((x - mean) * (x - mean)).mean(-1, keepdims=True)
    return (x - mean) * jax.lax.rsqrt(variance + 1e-5)


def plain_group_norm(x):
    return of_rows(x.reshape(x.shape[0], 2, -1)).reshape(x.shape)


def group_norm(x, gamma, beta):
    return plain_group_norm(x) * gamma[None, :, None, None] + beta[None, :, None, None]


def channels_last_group_norm(x):
    groups = x.reshape(x.shape[0], -1, 8, x.shape[-1] // 8)
    mean = groups.mean((1, 3))
    variance = jnp.maximum(0, (groups * groups).mean((1, 3)) - mean * mean)
    mean, variance = (jnp.repeat(of_groups, groups.shape[-1], -1)[:, None, None] for of_groups in (mean, variance))
    return (x - mean) * jax.lax.rsqrt(variance + 1e-5)


def norm_of_patches(x):
    return of_rows(x.reshape(2, 2, 4, 2, 4).swapaxes(2, 3).reshape(2, 4, 16))


def routing(x):
    weights, experts = jax.lax.top_k(jax.nn.softmax(x, -1), 2)
    return weights / weights.sum(-1, keepdims=True), experts


def cross_entropy(logits, labels):
    return -jnp.sum(labels * jax.nn.log_softmax(logits), -1)


def cross_entropy_of_labels(logits, labels):
    return -jnp.take_along_axis(jax.nn.log_softmax(logits), labels[:, None], -1)[:, 0]


def adam(w, g, m, v, t):
    m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * (g * g)
    root = jnp.sqrt(v / (1 - 0.999**t)) + 1e-8
    return w + -0.01 * ((m / (1 - 0.9**t)) / root + 0.1 * w), m, v


QKV = arrays((2, 5, 3, 8), (2, 6, 3, 8), (2, 6, 3, 8))
NORM = arrays((2, 4, 8), (8,), (8,))
CASES = {
    "gelu": ("gelu", jax.nn.gelu, arrays((4, 8))),
    "gelu bf16": ("gelu", jax.nn.gelu, arrays((4, 8, 3), dtype="bfloat16")),
    "gelu by power": ("gelu", power_gelu, arrays((8,))),
    "gelu torch": ("gelu", torch_gelu, arrays((2, 3, 4))),
    "gelu erf": ("gelu_erf", partial(jax.nn.gelu, approximate=False), arrays((4, 8))),
    "gelu erf torch": ("gelu_erf", torch_gelu_erf, arrays((4, 8))),
    "softmax": ("softmax", jax.nn.softmax, arrays((4, 8))),
    "softmax of one row": ("softmax", jax.nn.softmax, arrays((8,))),
    "softmax of many": ("softmax", jax.nn.softmax, arrays((2, 3, 4, 8))),
    "softmax bf16": ("softmax", jax.nn.softmax, arrays((4, 8), dtype="bfloat16")),
    "softmax torch": ("softmax", torch_softmax, arrays((2, 3, 8))),
    "layer norm": ("layer_norm", layer_norm, NORM),
    "layer norm of 7": ("layer_norm", layer_norm, arrays((3, 7), (7,), (7,))),
    "layer norm flax": ("layer_norm", flax_layer_norm, NORM),
    "layer norm torch": ("layer_norm", torch_layer_norm, NORM),
    "layer norm alone": ("layer_norm", partial(jax.nn.standardize, epsilon=1e-5), arrays((4, 8))),
    "rms norm": ("rms_norm", rms_norm, arrays((2, 4, 8), (8,))),
    "rms norm llama": ("rms_norm", llama_norm, arrays((2, 4, 8), (8,), dtype="bfloat16")),
    "attention": ("attention", jax.nn.dot_product_attention, QKV),
    "attention bf16": (
        "attention",
        jax.nn.dot_product_attention,
        arrays((2, 5, 3, 8), (2, 6, 3, 8), (2, 6, 3, 8), dtype="bfloat16"),
    ),
    "attention causal": ("attention", partial(jax.nn.dot_product_attention, is_causal=True), QKV),
    "attention masked": ("attention", masked_attention, [*QKV, *arrays((5, 6))]),
    "attention torch": ("attention", torch_attention, arrays((2, 3, 5, 8), (2, 3, 6, 8), (2, 3, 6, 8))),
    "grouped queries": (
        "grouped_query_attention",
        partial(jax.nn.dot_product_attention, is_causal=True),
        arrays((2, 5, 4, 8), (2, 6, 2, 8), (2, 6, 2, 8)),
    ),
    "repeated heads": (
        "grouped_query_attention",
        with_repeated_heads,
        arrays((2, 5, 4, 8), (2, 6, 2, 8), (2, 6, 2, 8)),
    ),
    "swiglu": ("swiglu", lambda x, w, v: jax.nn.silu(x @ w) * (x @ v), arrays((2, 4, 8), (8, 16), (8, 16))),
    "swiglu of halves": ("swiglu", swiglu_of_halves, arrays((2, 4, 8), (8, 32))),
    "rms norm of a sum": (
        "rms_norm_residual",
        lambda x, r, g: (rms_norm(x + r, g), x + r),
        arrays((2, 4, 8), (2, 4, 8), (8,)),
    ),
    "layer norm of a sum": (
        "layer_norm_residual",
        lambda x, r, g, b: (layer_norm(x + r, g, b), x + r),
        arrays((2, 4, 8), (2, 4, 8), (8,), (8,)),
    ),
    "group norm": ("group_norm", group_norm, arrays((2, 8, 3, 5), (8,), (8,))),
    "group norm alone": ("group_norm", plain_group_norm, arrays((2, 8, 3, 5))),
    "group norm of one place": ("group_norm", plain_group_norm, arrays((2, 8))),
    "group norm of few places": ("group_norm", channels_last_group_norm, arrays((2, 1, 2, 64))),
    "routing": ("moe_routing", routing, arrays((6, 8))),
    "routing of batches": ("moe_routing", routing, arrays((2, 6, 8))),
    "cross entropy": ("cross_entropy", cross_entropy, arrays((4, 8), (4, 8))),
    "cross entropy of labels": (
        "cross_entropy",
        cross_entropy_of_labels,
        [*arrays((4, 8)), *arrays((4,), dtype="int32")],
    ),
    "adam": ("adam", adam, [*arrays((4, 8), (4, 8), (4, 8), (4, 8)), *arrays((), dtype="float32")]),
    "bias relu": ("bias_activation", lambda x, w, b: jax.nn.relu(x @ w + b), arrays((4, 8), (8, 3), (3,))),
    "bias gelu": ("bias_activation", lambda x, b: jax.nn.gelu(x + b), arrays((2, 4, 8), (8,))),
    "bias silu": ("bias_activation", lambda x, b: jax.nn.silu(x + b), arrays((4, 8), (8,))),
    "bias tanh": ("bias_activation", lambda x, b: jnp.tanh(b + x), arrays((4, 8), (8,))),
    "rotary": ("rotary_embedding", rotate_half, arrays((2, 5, 3, 8), (5, 8), (5, 8))),
    "rotary of 128": ("rotary_embedding", rotate_half, arrays((2, 5, 3, 128), (5, 128), (5, 128))),
    "rotary torch": ("rotary_embedding", torch_rotate_half, arrays((2, 3, 5, 8), (2, 5, 8), (2, 5, 8))),
    "rotary parts": ("rotary_embedding", rotate_parts, arrays((2, 5, 3, 8), (5, 4), (5, 4))),
}


@pytest.mark.parametrize("form", [RAW, SIMPLE], ids=["raw", "simple"])
@pytest.mark.parametrize("case", CASES)
def test_found_where_frameworks_write_it(case: str, form: str) -> None:
    name, function, shapes = CASES[case]
    before = parse(jax.jit(lambda *a: function(*a)).lower(*shapes).as_text(dialect="hlo"))
    run_passes(before, form)
    after = before.clone("")
    done = outline_pattern(after, find_pattern(name), "Kernel")
    assert len(done.found) == 1, done.missed
    verify(after)
    call = next(i for i in after.entry if i.opcode == "custom-call")
    heavy = {"dot", "exponential", "reduce", "tanh", "multiply"} - ({"dot"} if "bias" in case else set())
    assert not heavy & {i.opcode for i in after.entry}, "the match left work behind"
    wide = {i.shape.dims for i in after.entry if i.opcode == "parameter"}
    assert len(call.operands) <= len(shapes) + (case == "adam")  # two corrections for t
    assert case == "bias relu" or "mask" in case or {o.shape.dims for o in call.operands} <= wide
    back = expanded(after)
    assert same(back, before)
    arguments = random_arguments(before, 3)
    assert not difference(evaluate(before, *arguments), evaluate(back, *arguments))


def in_other_layouts(module, seed):
    """Gives each array of the entry a layout of its own."""
    rng = np.random.default_rng(seed)
    for instruction in module.entry:
        shape = instruction.shape
        if shape.is_array and shape.rank > 1:
            instruction.shape = shape.with_layout(Layout(tuple(int(d) for d in rng.permutation(shape.rank))))


@pytest.mark.parametrize("api_version", ["original", "typed-ffi"])
@pytest.mark.parametrize("case", CASES)
def test_calls_are_row_major_whatever_the_layouts_and_expand_undoes_that(case: str, api_version: str) -> None:
    name, function, shapes = CASES[case]
    before = parse(jax.jit(lambda *a: function(*a)).lower(*shapes).as_text(dialect="hlo"))
    run_passes(before, RAW)
    in_other_layouts(before, len(case))
    after = before.clone("")
    assert len(outline_pattern(after, find_pattern(name), "Kernel", api_version=api_version).found) == 1
    verify(after)
    call = next(i for i in after.entry if i.opcode == "custom-call")
    assert not any(s.is_permuted for s in (call.shape, *(o.shape for o in call.operands)))
    back = expanded(parse(str(after)))
    assert same(back, before)
    arguments = random_arguments(before, 3)
    assert not difference(evaluate(before, *arguments), evaluate(back, *arguments))


def test_every_pattern_of_the_library_is_tested() -> None:
    assert {p.stem for p in LIBRARY.glob("*.hlo")} == {name for name, _, _ in CASES.values()}


@pytest.mark.parametrize(
    ("name", "function", "shapes"),
    [
        ("softmax", partial(jax.nn.softmax, axis=0), arrays((4, 8))),
        ("softmax", jax.nn.log_softmax, arrays((4, 8))),
        ("gelu", lambda x: jax.nn.gelu(x) + jnp.tanh(x), arrays((4, 8))),
        ("layer_norm", lambda x: (x - x.mean(-1, keepdims=True)) / jnp.sqrt(x.var(-1, ddof=1, keepdims=True) + 1e-5), arrays((4, 8))),
        ("rms_norm", lambda x, g: x * jax.lax.rsqrt((x * x).sum(-1, keepdims=True) / 4 + 1e-6) * g, arrays((4, 8), (8,))),
        ("group_norm", norm_of_patches, arrays((2, 8, 8))),
        ("group_norm", lambda x: of_rows(x.reshape(2, 8, 15)).reshape(2, 8, 3, 5), arrays((2, 8, 3, 5))),
        ("bias_activation", lambda x, b: jax.nn.relu(x + b[:, None]), arrays((4, 8), (4,))),
        ("attention", lambda q, k, v: jax.nn.dot_product_attention(q, k, v, is_causal=True) + jax.nn.softmax(q), arrays(*[(2, 8, 3, 8)] * 3)),
    ],
    ids=["softmax of columns", "log softmax", "gelu", "sample variance", "wrong divisor", "norm of patches", "norm of channels", "bias of rows", "attention"],
)  # fmt: skip
@pytest.mark.parametrize("form", [RAW, SIMPLE], ids=["raw", "simple"])
def test_what_only_looks_alike_is_not_taken_for_it(name, function, shapes, form) -> None:
    module = parse(jax.jit(function).lower(*shapes).as_text(dialect="hlo"))
    run_passes(module, form)
    done = outline_pattern(module, find_pattern(name), "Kernel")
    expected = 1 if name in ("gelu", "attention") else 0  # the real one beside the other
    assert len(done.found) == expected
