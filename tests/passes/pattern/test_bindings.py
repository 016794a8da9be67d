"""What the library's patterns tell kernels: the same values, however the program spells what was matched."""

import numpy as np
import pytest

import xloom as xl
from tests.passes.pattern.told_kernels import KERNELS
from xloom.calls import remove
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


def past(t, s):
    return jnp.arange(t)[:, None] >= jnp.arange(s)


CAUSAL = {
    "past": (lambda s: jnp.where(past(5, 6), s, -1e30), 0),
    "future hidden": (lambda s: jnp.where(jnp.triu(jnp.ones((5, 6), bool), 1), -1e30, s), 0),
    "more of the future": (lambda s: jnp.where(jnp.triu(jnp.ones((5, 6), bool), 3), -1e30, s), 2),
    "strictly past": (lambda s: jnp.where(jnp.arange(5)[:, None] > jnp.arange(6), s, -1e30), -1),
    "keys moved": (lambda s: jnp.where(jnp.arange(5)[:, None] >= jnp.arange(6) + 2, s, -1e30), -2),
    "not the future": (lambda s: jnp.where(~(jnp.arange(5)[:, None] < jnp.arange(6)), s, -1e30), 0),
}


@pytest.mark.parametrize("case", CAUSAL)
def test_the_offset_of_a_causal_mask_is_one_number_however_it_is_written(case: str) -> None:
    scores, offset = CAUSAL[case]
    found = described("attention", lambda q, k, v: attention(q, k, v, scores), *QKV)
    assert (found.causal, found.causal_offset, found.mask, found.operands) == (True, offset, "none", ("q", "k", "v"))


def test_a_mask_of_what_is_hidden_is_another_operand() -> None:
    def hide(q, k, v, hidden):
        return attention(q, k, v, lambda s: jnp.where(hidden, -1e30, s))

    found = described("attention", hide, *QKV, jax.ShapeDtypeStruct((2, 1, 5, 6), "bool"))
    assert (found.operands, found.mask, found.allowed_dims) == (("q", "k", "v", "hidden"), "hidden", "bts")


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


@pytest.mark.parametrize("form", ["", RAW], ids=["as JAX writes it", "raw"])
def test_true_is_no_mask(form: str) -> None:
    lowered = jax.jit(lambda q, k, v: jax.nn.dot_product_attention(q, k, v, is_causal=True)).lower(*QKV)
    module = xl.from_stablehlo(lowered.as_text())
    if form:
        run_passes(module, form)
    (found,) = outline_pattern(module, find_pattern("attention"), "Kernel").found
    assert (found.description.causal, found.description.mask) == (True, "none")
    assert found.description.operands == ("q", "k", "v")


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


def heads(x):
    return x.reshape(*x.shape[:2], 3, 8)


def attention_bnth(q, k, v):
    return jax.nn.softmax(q @ k.swapaxes(-1, -2) / 3) @ v


def rotated(x):
    return jnp.concatenate([-x[..., 4:], x[..., :4]], -1)


def rotated_neighbours(x):
    return jnp.stack([-x[..., 1::2], x[..., ::2]], -1).reshape(x.shape)


def turned(x, c, s):
    low, high = x[..., :4], x[..., 4:]
    return jnp.concatenate([low * c - high * s, high * c + low * s], -1)


def turned_neighbours(even, odd, c, s):
    return jnp.stack([even * c - odd * s, odd * c + even * s], -1).reshape(2, 5, 3, 8)


def turned_rows(x, c, s):
    rows = x.reshape(2, 5, 3, 4, 2)
    return turned_neighbours(rows[..., 0], rows[..., 1], c, s)


def spun(x, c, s):
    turned = jax.lax.complex(x[..., ::2], x[..., 1::2]) * jax.lax.complex(c, s)
    return jnp.stack([turned.real, turned.imag], -1).reshape(x.shape)


JOINED = [jax.ShapeDtypeStruct(s, "float32") for s in ((2, 5, 24), (2, 6, 24), (2, 6, 24))]
ANGLES = [jax.ShapeDtypeStruct(s, "float32") for s in ((2, 5, 3, 8), (1, 5, 1, 8), (1, 5, 1, 8))]
JOINED_ANGLES = [jax.ShapeDtypeStruct((2, 5, 24), "float32"), *ANGLES[1:]]
HALF_ANGLES = [jax.ShapeDtypeStruct(s, "float32") for s in ((2, 5, 3, 8), (1, 5, 1, 4), (1, 5, 1, 4))]
GROUPED = [jax.ShapeDtypeStruct(s, "float32") for s in ((2, 5, 4, 8), (2, 6, 2, 8), (2, 6, 2, 8))]


def merged(q, k, v, seen):
    q, k, v = (a.reshape(6, -1, 8) for a in (q, k, v))
    scores = jnp.where(seen[:, None, None] > 0, jnp.einsum("nth,nsh->nts", q, k).reshape(2, 3, 5, 6), -1e9)
    return jnp.einsum("nts,nsh->nth", jax.nn.softmax(scores).reshape(6, 5, 6), v).reshape(2, 3, 5, 8)


def safe(q, k, v, seen):
    scores = jnp.einsum("btnh,bsnh->bnts", q, k) + jnp.where(seen > 1.5, 0, -jnp.inf)
    hidden = (scores == -jnp.inf).all(-1, keepdims=True)
    return jnp.einsum("bnts,bsnh->btnh", jnp.where(hidden, 0, jax.nn.softmax(scores)), v)


TOLD = {
    "merged batches, masks of each": (
        "attention",
        merged,
        [jax.ShapeDtypeStruct(s, "float32") for s in ((2, 3, 5, 8), (2, 3, 6, 8), (2, 3, 6, 8), (2, 6))],
    ),
    "rows that see nothing": ("attention", safe, [*QKV, MASK]),
    "grouped, masks of each": (
        "grouped_query_attention",
        lambda q, k, v, seen: jax.nn.dot_product_attention(q, k, v, mask=seen > 0),
        [*GROUPED, BATCH_MASK],
    ),
    **{f"scale, {name}": ("attention", function, QKV) for name, (function, _) in SCALES.items()},
    **{f"mask, {name}": ("attention", function, [*QKV, *more]) for name, (function, more, *_) in MASKS.items()},
    "heads before time": (
        "attention",
        lambda q, k, v: jax.nn.softmax(q @ k.swapaxes(-1, -2) / 3) @ v,
        [jax.ShapeDtypeStruct(s, "float32") for s in ((2, 3, 5, 8), (2, 3, 6, 8), (2, 3, 6, 8))],
    ),
    "a window": (
        "attention",
        lambda q, k, v: jax.nn.dot_product_attention(q, k, v, is_causal=True, local_window_size=(2, 0)),
        QKV,
    ),
    "groups": ("grouped_query_attention", jax.nn.dot_product_attention, GROUPED),
    "causal groups": (
        "grouped_query_attention",
        lambda q, k, v: jax.nn.dot_product_attention(q, k, v, is_causal=True),
        GROUPED,
    ),
    "heads that one product makes": (
        "attention",
        lambda q, k, v: attention(heads(q), heads(k), heads(v), lambda s: s / 3).reshape(2, 5, 24),
        JOINED,
    ),
    "a batch of heads": (
        "attention",
        lambda *qkv: attention_bnth(*(heads(a).swapaxes(1, 2) for a in qkv)).swapaxes(1, 2).reshape(2, 5, 24),
        JOINED,
    ),
    "features before time": (
        "attention",
        lambda q, k, v: jnp.einsum("bnts,bsnh->bnht", jax.nn.softmax(jnp.einsum("btnh,bsnh->bnts", q, k)), v),
        QKV,
    ),
    "rotated halves": ("rotary_embedding", lambda x, c, s: x * c + rotated(x) * s, ANGLES),
    "rotated halves of joined heads": (
        "rotary_embedding",
        lambda x, c, s: heads(x) * c + rotated(heads(x)) * s,
        JOINED_ANGLES,
    ),
    "turned halves": ("rotary_embedding", lambda x, c, s: turned(x, c, s), HALF_ANGLES),
    "rotated neighbours": ("rotary_embedding", lambda x, c, s: x * c + rotated_neighbours(x) * s, ANGLES),
    "turned neighbours": (
        "rotary_embedding",
        lambda x, c, s: turned_neighbours(x[..., ::2], x[..., 1::2], c, s),
        HALF_ANGLES,
    ),
    "neighbours as complex numbers": ("rotary_embedding", spun, HALF_ANGLES),
    "turned neighbours in rows": ("rotary_embedding", turned_rows, HALF_ANGLES),
    "repeated heads": (
        "grouped_query_attention",
        lambda q, k, v: attention(q, jnp.repeat(k, 2, axis=2), jnp.repeat(v, 2, axis=2), lambda s: s / 3),
        GROUPED,
    ),
}


@pytest.mark.parametrize("form", [RAW, SIMPLE], ids=["raw", "simple"])
@pytest.mark.parametrize("case", TOLD)
def test_a_kernel_that_knows_the_match_alone_is_right(case: str, form: str) -> None:
    name, function, shapes = TOLD[case]
    before = parse(jax.jit(function).lower(*shapes).as_text(dialect="hlo"))
    run_passes(before, form)
    after = before.clone("")
    xl.custom_call("test.reference")(KERNELS[name])
    try:
        assert outline_pattern(after, find_pattern(name), "test.reference").found
        rng = np.random.default_rng(0)
        given = [rng.standard_normal(s.shape).astype(s.dtype) for s in shapes]
        np.testing.assert_allclose(xl.evaluate(after, *given), xl.evaluate(before, *given), rtol=2e-3, atol=1e-4)
    finally:
        remove("test.reference")
