"""What the library's patterns tell kernels: the same values, however the program spells what was matched."""

import numpy as np
import pytest

from xloom.hlo.text.parser import parse
from xloom.passes import outline_pattern, run_passes
from xloom.passes.pattern import find_pattern

jax = pytest.importorskip("jax")
jnp = pytest.importorskip("jax.numpy")

RAW = "call-inlining,dce"
SIMPLE = "call-inlining,algebraic-simplification,layout-simplification,constant-folding,cse,dce"
QKV = [jax.ShapeDtypeStruct(s, "float32") for s in ((2, 5, 3, 8), (2, 6, 3, 8), (2, 6, 3, 8))]
MASK = jax.ShapeDtypeStruct((5, 6), "float32")
BATCH_MASK = jax.ShapeDtypeStruct((2, 1, 5, 6), "float32")
HEAD_MASK = jax.ShapeDtypeStruct((3, 5, 6), "float32")
X = jax.ShapeDtypeStruct((2, 4, 8), "float32")
LOW = float(jnp.finfo(jnp.float32).min)


def described(name, function, *shapes, form=RAW):
    module = parse(jax.jit(function).lower(*shapes).as_text(dialect="hlo"))
    run_passes(module, form)
    done = outline_pattern(module, find_pattern(name), "Kernel")
    assert len(done.found) == 1, done.missed
    return done.found[0].description


def attention(q, k, v, scores=lambda s: s):
    return jnp.einsum("bnts,bsnh->btnh", jax.nn.softmax(scores(jnp.einsum("btnh,bsnh->bnts", q, k))), v)


def by_sqrt(q, k, v):
    return attention(q, k, v, lambda s: s / jnp.sqrt(8))


def causal(q, k, v, offset=0):
    past = jnp.arange(5)[:, None] + offset >= jnp.arange(6)
    return attention(q, k, v, lambda s: jnp.where(past, s / 2, -1e30))


SCALES = {
    "nothing": (attention, 1.0),
    "queries before": (lambda q, k, v: attention(q * 0.25, k, v), 0.25),
    "queries divided": (lambda q, k, v: attention(q / 4, k, v), 0.25),
    "both before": (lambda q, k, v: attention(q * 0.5, k * 0.25, v), 0.125),
    "scores after": (lambda q, k, v: attention(q, k, v, lambda s: s * 0.25), 0.25),
    "scores divided": (lambda q, k, v: attention(q, k, v, lambda s: s / 4), 0.25),
    "a root in the program": (by_sqrt, 8**-0.5),
    "everywhere": (lambda q, k, v: attention(q / 2, k * 3, v, lambda s: s * 0.5), 0.75),
}


@pytest.mark.parametrize("form", [RAW, SIMPLE], ids=["raw", "simple"])
@pytest.mark.parametrize("case", SCALES)
def test_the_scale_is_one_number_wherever_it_is_applied(case: str, form: str) -> None:
    function, scale = SCALES[case]
    found = described("attention", function, *QKV, form=form)
    assert found.scale == pytest.approx(scale, rel=1e-6)
    assert (found.layout, found.batch, found.queries, found.keys, found.heads, found.features) == (
        "btnh",
        2,
        5,
        6,
        3,
        8,
    )
    assert (found.causal, found.mask, found.accumulation) == (False, "none", "f32")
    assert found.operands == ("q", "k", "v")


MASKS = {
    "causal": (causal, [], "none", {"causal": True, "causal_offset": 0, "mask_value": np.float32(-1e30)}),
    "causal, later": (lambda q, k, v: causal(q, k, v, 1), [], "none", {"causal": True, "causal_offset": 1}),
    "causal of JAX": (
        lambda q, k, v: jax.nn.dot_product_attention(q, k, v, is_causal=True),
        [],
        "none",
        {"causal": True, "scale": np.float32(8**-0.5)},
    ),
    "additive": (lambda q, k, v, m: attention(q, k, v, lambda s: s + m), [MASK], "additive", {"mask_dims": "ts"}),
    "of the batch": (
        lambda q, k, v, m: attention(q, k, v, lambda s: s + m),
        [BATCH_MASK],
        "additive",
        {"mask_dims": "bts"},
    ),
    "of heads": (lambda q, k, v, m: attention(q, k, v, lambda s: s + m), [HEAD_MASK], "additive", {"mask_dims": "nts"}),
    "boolean": (
        lambda q, k, v, m: attention(q, k, v, lambda s: jnp.where(m > 0, s, LOW)),
        [MASK],
        "boolean",
        {"allowed_dims": "ts", "mask_value": LOW},
    ),
    "boolean and causal": (
        lambda q, k, v, m: jax.nn.dot_product_attention(q, k, v, mask=m > 0, is_causal=True),
        [BATCH_MASK],
        "boolean",
        {"causal": True, "allowed_dims": "bts"},
    ),
    "additive and boolean": (
        lambda q, k, v, m: jax.nn.dot_product_attention(q, k, v, bias=m, mask=m > 0),
        [BATCH_MASK],
        "both",
        {"causal": False, "mask_dims": "bts", "allowed_dims": "bts"},
    ),
}  # fmt: skip


@pytest.mark.parametrize("form", [RAW, SIMPLE], ids=["raw", "simple"])
@pytest.mark.parametrize("case", MASKS)
def test_the_mask_is_said(case: str, form: str) -> None:
    function, more, mask, values = MASKS[case]
    found = described("attention", function, *QKV, *more, form=form)
    assert found.mask == mask
    assert {name: found.values[name] for name in values} == pytest.approx(values)
    names = {"none": (), "additive": ("mask",), "boolean": ("allowed",), "both": ("mask", "allowed")}
    assert found.operands == ("q", "k", "v", *names[mask])


def test_norms_and_activations() -> None:
    def rms_norm(x, gamma):
        return x * jax.lax.rsqrt((x * x).mean(-1, keepdims=True) + 1e-6) * gamma

    found = described("rms_norm", rms_norm, X, jax.ShapeDtypeStruct((8,), "float32"))
    assert found.values == {"axis": 2, "accumulation": "f32", "epsilon": np.float32(1e-6)}
    assert described("softmax", jax.nn.softmax, X).axis == 2
    for name in ("relu", "gelu", "silu", "tanh"):
        function = getattr(jax.nn, name)
        found = described(
            "bias_activation", lambda x, b, f=function: f(x + b), X, jax.ShapeDtypeStruct((8,), "float32")
        )
        assert found.activation == name
