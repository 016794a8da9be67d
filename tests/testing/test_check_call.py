"""Kernels for the library's patterns: the right ones agree with what their calls carry, each planted fault is found."""

import sys
from functools import cache, partial
from typing import Any

import numpy as np
import pytest

import xloom as xl
from xloom.calls import register_c, registry
from xloom.cli.main import main
from xloom.testing import CallDifferenceError, check_call

F32 = np.float32


@pytest.fixture(autouse=True)
def forget():
    before = dict(registry._registered)
    yield
    registry._registered.clear()
    registry._registered.update(before)


def given(*shapes, scale=1.0):
    numbers = np.random.default_rng(5)
    return [(scale * numbers.standard_normal(shape)).astype(F32) for shape in shapes]


# -- programs, and the right kernel of each
def programs():
    import jax
    import jax.numpy as jnp

    def layer_norm(x, gamma, beta):
        mean, variance = x.mean(-1, keepdims=True), x.var(-1, keepdims=True)
        return (x - mean) * jax.lax.rsqrt(variance + 1e-5) * gamma + beta

    def rms_norm(x, gamma):
        return x * jax.lax.rsqrt((x * x).mean(-1, keepdims=True) + 1e-6) * gamma

    def rotary(x, cosine, sine):
        half = x.shape[-1] // 2
        turned = jnp.concatenate([-x[..., half:], x[..., :half]], -1)
        return x * cosine[None, :, None] + turned * sine[None, :, None]

    def attention(q, k, v, mask):
        scores = jnp.einsum("bthd,bshd->bhts", q, k) / F32(np.sqrt(q.shape[-1])) + mask
        return jnp.einsum("bhts,bshd->bthd", jax.nn.softmax(scores), v)

    def group_norm(x, gamma, beta):
        groups = x.reshape(x.shape[0], 2, -1)
        centred = groups - groups.mean(-1, keepdims=True)
        variance = (centred * centred).mean(-1, keepdims=True)
        normal = (centred * jax.lax.rsqrt(variance + 1e-5)).reshape(x.shape)
        return normal * gamma[None, :, None, None] + beta[None, :, None, None]

    def routing(x):
        weights, experts = jax.lax.top_k(jax.nn.softmax(x, -1), 2)
        return weights / weights.sum(-1, keepdims=True), experts

    def adam(w, g, m, v, t):
        m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * (g * g)
        root = jnp.sqrt(v / (1 - 0.999**t)) + 1e-8
        return w + -0.01 * ((m / (1 - 0.9**t)) / root + 0.1 * w), m, v

    def grouped(q, k, v):
        k, v = jnp.repeat(k, 2, axis=2), jnp.repeat(v, 2, axis=2)
        return jnp.einsum("bnts,bsnh->btnh", jax.nn.softmax(jnp.einsum("btnh,bsnh->bnts", q, k) / 8), v)

    mask = np.where(np.tri(6, 6, dtype=bool), F32(0), F32(-1e9))
    state = [*given((4, 8), (4, 8), (4, 8)), *map(np.abs, given((4, 8))), np.asarray(3, F32)]
    return {
        "swiglu": (lambda x, w, v: jax.nn.silu(x @ w) * (x @ v), given((4, 8), (8, 16), (8, 16))),
        "group_norm": (group_norm, given((2, 8, 3, 5), (8,), (8,))),
        "rms_norm_residual": (lambda x, r, g: (rms_norm(s := x + r, g), s), given((6, 32), (6, 32), (32,))),
        "layer_norm_residual": (
            lambda x, r, g, b: (layer_norm(s := x + r, g, b), s),
            given((6, 32), (6, 32), (32,), (32,)),
        ),
        "cross_entropy": (lambda x, y: -jnp.sum(y * jax.nn.log_softmax(x), -1), given((4, 8), (4, 8))),
        "moe_routing": (routing, given((6, 8))),
        "adam": (adam, state),
        "grouped_query_attention": (grouped, given((2, 5, 4, 8), (2, 6, 2, 8), (2, 6, 2, 8))),
        "softmax": (jax.nn.softmax, given((6, 31), scale=4)),
        "gelu": (jax.nn.gelu, given((6, 31))),
        "gelu_erf": (partial(jax.nn.gelu, approximate=False), given((6, 31))),
        "bias_activation": (lambda x, b: jax.nn.relu(x + b), given((7, 7), (7,))),
        "layer_norm": (layer_norm, given((6, 32), (32,), (32,))),
        "rms_norm": (rms_norm, given((6, 32), (32,))),
        "rotary_embedding": (rotary, given((2, 5, 3, 8), (5, 8), (5, 8))),
        "attention": (attention, [*given((2, 6, 3, 8), (2, 6, 3, 8), (2, 6, 3, 8)), mask]),
    }


@cache
def program(pattern):
    jax = pytest.importorskip("jax")
    function, arguments = programs()[pattern]
    module = xl.from_stablehlo(jax.jit(lambda *a: function(*a)).lower(*arguments).as_text())
    xl.run_passes(module, f"call-inlining,dce,outline{{pattern={pattern},target=t}}")
    assert sum(i.opcode == "custom-call" for i in module.instructions) == 1
    return module, arguments


def normal(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def tanh_gelu(x, c=0.044715):
    return F32(0.5) * x * (1 + np.tanh(F32(np.sqrt(2 / np.pi)) * (x + F32(c) * x * x * x)))


def erf_gelu(x):
    from math import erf

    return (0.5 * x * (1 + np.vectorize(erf)(x / np.sqrt(2)))).astype(F32)


def layer(x, gamma, beta, epsilon=1e-5, ddof=0):
    return (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, ddof=ddof, keepdims=True) + F32(epsilon)) * gamma + beta


def rms(x, gamma, epsilon=1e-6, dtype: Any = F32):
    mean = np.mean((x * x).astype(dtype), -1, dtype=dtype, keepdims=True)
    return x / np.sqrt(mean.astype(F32) + F32(epsilon)) * gamma


def rotated(x, cosine, sine, sign=-1):
    low, high = np.split(x, 2, -1)
    return x * cosine[:, None] + np.concatenate([sign * high, low], -1) * sine[:, None]


def attended(q, k, v, mask, scale=8**-0.5):
    scores = np.einsum("bthd,bshd->bhts", q, k) * F32(scale) + mask
    return np.einsum("bhts,bshd->bthd", normal(scores), v)


def gated(x, gate, up):
    z = x @ gate
    return z / (1 + np.exp(-z)) * (x @ up)


def in_groups(x, gamma, beta, groups=2):
    normal = layer(x.reshape(x.shape[0], groups, -1), F32(1), F32(0)).reshape(x.shape)
    rest = (1,) * (x.ndim - 2)
    return normal * gamma.reshape(-1, *rest) + beta.reshape(-1, *rest)


def log_likelihood(x, labels):
    return -(labels * np.log(normal(x))).sum(-1)


def routed(x, normalised=True):
    p = normal(x)
    experts = np.argsort(-p, -1, kind="stable")[:, :2].astype(np.int32)
    weights = np.take_along_axis(p, experts, -1)
    return weights / weights.sum(-1, keepdims=True) if normalised else weights, experts


def stepped(w, g, m, v, correction1, correction2, decay=0.1):
    m, v = F32(0.9) * m + F32(0.1) * g, F32(0.999) * v + F32(0.001) * g * g
    direction = (m / correction1) / (np.sqrt(v / correction2) + F32(1e-8)) + F32(decay) * w
    return w - F32(0.01) * direction, m, v


def attended_in_groups(q, k, v, order=(0, 0, 1, 1)):
    order = list(order)
    return attended(q, k[:, :, order], v[:, :, order], F32(0), scale=1 / 8)


RIGHT = {
    "swiglu": gated,
    "group_norm": in_groups,
    "rms_norm_residual": lambda x, r, gamma: (rms(x + r, gamma), x + r),
    "layer_norm_residual": lambda x, r, gamma, beta: (layer(x + r, gamma, beta), x + r),
    "cross_entropy": log_likelihood,
    "moe_routing": routed,
    "adam": stepped,
    "grouped_query_attention": attended_in_groups,
    "softmax": normal,
    "gelu": tanh_gelu,
    "gelu_erf": erf_gelu,
    "bias_activation": lambda x, b: np.maximum(x + b, 0),
    "layer_norm": layer,
    "rms_norm": rms,
    "rotary_embedding": rotated,
    "attention": attended,
}


# -- what can be wrong with a kernel
def without_last(y):
    y = y.copy()
    y.flat[-1] = 0
    return y


def nan_where_masked(q, k, v, mask):
    with np.errstate(all="ignore"):
        scores = np.einsum("bthd,bshd->bhts", q, k) * F32(8**-0.5) + np.where(mask < 0, -np.inf, 0)
        scores[:, :, 0] = -np.inf
        return np.einsum("bhts,bshd->bthd", normal(scores), v)


WRONG = {
    "gate for up": ("swiglu", lambda x, gate, up: gated(x, up, gate)),
    "groups of half the size": ("group_norm", partial(in_groups, groups=4)),
    "norm of the branch alone": ("rms_norm_residual", lambda x, r, gamma: (rms(x, gamma), x + r)),
    "residual for the sum": ("layer_norm_residual", lambda x, r, gamma, beta: (layer(x + r, gamma, beta), r)),
    "logits for their softmax": ("cross_entropy", lambda x, labels: -(labels * x).sum(-1)),
    "weights that do not sum to one": ("moe_routing", partial(routed, normalised=False)),
    "experts in another order": ("moe_routing", lambda x: (routed(x)[0], routed(x)[1][:, ::-1])),
    "no decay": ("adam", partial(stepped, decay=0)),
    "no correction": ("adam", lambda w, g, m, v, c1, c2: stepped(w, g, m, v, F32(1), F32(1))),
    "heads of another group": ("grouped_query_attention", partial(attended_in_groups, order=(0, 1, 0, 1))),
    "scaled twice": ("softmax", lambda x: normal(normal(x))),
    "columns": ("softmax", lambda x: normal(x.T).T),
    "rows one too far": ("softmax", lambda x: np.roll(normal(x), 1, 0)),
    "f16 sums": ("softmax", lambda x: normal(x.astype(np.float16))),
    "last element unwritten": ("softmax", lambda x: without_last(normal(x))),
    "last column left out of the sum": ("softmax", lambda x: np.exp(x) / np.exp(x[:, :-1]).sum(-1, keepdims=True)),
    "wrong coefficient": ("gelu", partial(tanh_gelu, c=0.0447)),
    "erf for tanh": ("gelu", erf_gelu),
    "tanh for erf": ("gelu_erf", tanh_gelu),
    "bias of rows": ("bias_activation", lambda x, b: np.maximum(x + b[:, None], 0)),
    "bias after": ("bias_activation", lambda x, b: np.maximum(x, 0) + b),
    "wrong epsilon": ("layer_norm", partial(layer, epsilon=1e-6)),
    "sample variance": ("layer_norm", partial(layer, ddof=1)),
    "no offset": ("layer_norm", lambda x, gamma, beta: layer(x, gamma, 0 * beta)),
    "gamma for beta": ("layer_norm", lambda x, gamma, beta: layer(x, beta, gamma)),
    "epsilon of another": ("rms_norm", partial(rms, epsilon=1e-5)),
    "f16 accumulation": ("rms_norm", partial(rms, dtype=np.float16)),
    "centred": ("rms_norm", lambda x, gamma: rms(x - x.mean(-1, keepdims=True), gamma)),
    "turned back": ("rotary_embedding", partial(rotated, sign=1)),
    "angles one too far": ("rotary_embedding", lambda x, c, s: rotated(x, np.roll(c, 1, 0), np.roll(s, 1, 0))),
    "scores scaled twice": ("attention", partial(attended, scale=1 / 8)),
    "no mask": ("attention", lambda q, k, v, mask: attended(q, k, v, 0 * mask)),
    "transposed heads": ("attention", lambda q, k, v, mask: attended(q, k[:, ::-1], v, mask)),
    "NaN on masked rows": ("attention", nan_where_masked),
}


def register(kernel):
    @xl.custom_call("t")
    def t(out, *operands):
        results = kernel(*operands)
        for into, result in zip(out, results, strict=True) if isinstance(out, tuple) else [(out, results)]:
            into[...] = result


@pytest.mark.parametrize("pattern", RIGHT)
def test_the_right_kernel_agrees(pattern):
    register(RIGHT[pattern])
    module, arguments = program(pattern)
    (call,) = check_call(module, *arguments).calls
    assert (call.target, call.runs, call.difference) == ("t", 1, None)


@pytest.mark.parametrize("fault", WRONG)
def test_a_wrong_kernel_is_found(fault):
    pattern, kernel = WRONG[fault]
    register(kernel)
    module, arguments = program(pattern)
    with pytest.raises(
        CallDifferenceError, match=r"custom call 't' differs from the HLO that it carries in run 1"
    ) as e:
        check_call(module, *arguments)
    (call,) = e.value.report.differing
    difference = call.difference
    assert difference is not None and difference.count <= difference.size
    shape = next(i.shape for i in module.instructions if i.opcode == "custom-call")
    assert len(difference.index) in {leaf.rank for _, leaf in shape.leaves()}


def test_every_pattern_of_the_library_has_a_kernel():
    from xloom.passes.pattern.sources import LIBRARY

    assert {p.stem for p in LIBRARY.glob("*.hlo")} == set(RIGHT)
    assert {pattern for pattern, _ in WRONG.values()} == set(RIGHT)


# -- calls in loops and branches, tuples, scratch memory, platforms
CARRIED = """custom-call({operand}), custom_call_target="t", backend_config="ENTRY e {{
  p = f32[5] parameter(0) s = f32[5] sine(p) n = f32[5] negate(p) ROOT t = (f32[5], f32[5]) tuple(s, n) }}",
  metadata={{source_file="model.py" source_line=7}}"""
LOOP = f"""HloModule loop
body {{
  s = (s32[], f32[5]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  x = f32[5] get-tuple-element(s), index=1
  one = s32[] constant(1)
  next = s32[] add(i, one)
  called = (f32[5], f32[5]) {CARRIED.format(operand="x")}
  y = f32[5] get-tuple-element(called), index=0
  ROOT r = (s32[], f32[5]) tuple(next, y)
}}
condition {{
  s = (s32[], f32[5]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  three = s32[] constant(3)
  ROOT c = pred[] compare(i, three), direction=LT
}}
ENTRY e {{
  x = f32[5] parameter(0)
  zero = s32[] constant(0)
  s = (s32[], f32[5]) tuple(zero, x)
  w = (s32[], f32[5]) while(s), condition=condition, body=body
  ROOT r = f32[5] get-tuple-element(w), index=1
}}"""
SWAPPED = """ENTRY e {{ x = f32[5] parameter(0)
  c = (f32[5], f32[5]) {call}
  a = f32[5] get-tuple-element(c), index=0
  b = f32[5] get-tuple-element(c), index=1
  ROOT r = f32[5] subtract(a, b) }}""".format(call=CARRIED.format(operand="x"))
BRANCH = f"""HloModule branch
one {{ x = f32[5] parameter(0) c = (f32[5], f32[5]) {CARRIED.format(operand="x")}
  ROOT r = f32[5] get-tuple-element(c), index=1 }}
other {{ ROOT x = f32[5] parameter(0) }}
ENTRY e {{ p = pred[] parameter(0) x = f32[5] parameter(1)
  ROOT r = f32[5] conditional(p, x, x), true_computation=one, false_computation=other }}"""
X = np.linspace(-2, 2, 5, dtype=F32)


def sine_and_negative(out, x):
    out[0][...], out[1][...] = np.sin(x), -x


def test_calls_in_loops_are_compared_at_each_run():
    xl.custom_call("t")(sine_and_negative)
    (call,) = check_call(xl.parse(LOOP), X).calls
    assert call.runs == 3 and call.where == "%called, model.py:7"
    runs = []

    @xl.custom_call("t")
    def t(out, x):
        sine_and_negative(out, x)
        runs.append(1)
        out[0][2:3] += 0.5 * (len(runs) == 2)

    with pytest.raises(CallDifferenceError, match=r"in run 2: result\{0\}\[2\] is 0.5, expected .*1 of 5 .*model.py:7"):
        check_call(xl.parse(LOOP), X)


def test_only_branches_that_run_are_compared():
    xl.custom_call("t")(sine_and_negative)
    assert check_call(xl.parse(BRANCH), True, X).calls[0].runs == 1
    with pytest.raises(xl.CustomCallError, match="no custom call of branch that carries HLO and has a kernel"):
        check_call(xl.parse(BRANCH), False, X)


@pytest.mark.parametrize("platform", ["Host", "sim"])
def test_swapped_outputs_and_parts_that_nobody_uses(platform):
    @xl.custom_call("t", platform=platform)
    def swapped(out, x):
        out[1][...], out[0][...] = np.sin(x), -x

    with pytest.raises(CallDifferenceError, match=r"result\{0\}\[0\] is 2.0, expected -0.909"):
        check_call(xl.parse(SWAPPED), X, platform=platform)

    @xl.custom_call("t", platform=platform)
    def without_second(out, x):
        out[0][...] = np.sin(x)

    check_call(xl.parse(LOOP), X, platform=platform)
    with pytest.raises(CallDifferenceError, match=r"result\{1\}\[0\] is 0.0, expected 2.0"):
        check_call(xl.parse(SWAPPED), X, platform=platform)


NATIVE = """
#include <math.h>
static void scratch(float** out, const float** in) {
  for (int i = 0; i < 5; ++i) { out[1][i] CLEAR in[0][i]; out[0][i] = sinf(out[1][i]); }
}
#ifdef DEVICE
void t(void* stream, void** buffers, const char* opaque, unsigned long size) {
  scratch((float**)buffers + 1, (const float**)buffers);
}
#else
void t(float** out, const float** in) { scratch(out, in); }
#endif
"""


@pytest.mark.parametrize("platform", ["Host", "sim"])
def test_native_kernels_find_no_zeros_in_scratch_memory(platform):
    source = f"#define DEVICE\n{NATIVE}" if platform == "sim" else NATIVE
    register_c("t", source.replace("CLEAR", "="), platform=platform)
    assert check_call(xl.parse(LOOP), X, platform=platform).calls[0].runs == 3
    register_c("t", source.replace("CLEAR", "+="), platform=platform)
    with pytest.raises(CallDifferenceError, match=r"result\{0\}\[0\] is nan"):
        check_call(xl.parse(LOOP), X, platform=platform)


def test_kernels_that_fail_are_in_the_report():
    @xl.custom_call("t")
    def t(out, x):
        raise ValueError("no")

    with pytest.raises(CallDifferenceError, match=r"'t' fails in run 1: .*ValueError: no") as caught:
        check_call(xl.parse(LOOP), X)
    assert len(caught.value.report.calls) == 1
    assert str(caught.value).count("(at ") == 1


def test_the_tolerance_can_be_set():
    @xl.custom_call("t")
    def t(out, x):
        sine_and_negative(out, x)
        out[1][...] *= F32(1 + 1e-5)

    module = xl.parse(SWAPPED)
    with pytest.raises(CallDifferenceError, match="ULPs off"):
        check_call(module, X)
    report = check_call(module, X, ulps=200)
    assert 50 < report.calls[0].ulps < 200
    check_call(module, X, ulps={"float32": 200})
    check_call(module, X, rtol=1e-4)
    check_call(module, X, atol=1e-4)


def test_calls_without_a_kernel_are_told():
    xl.custom_call("t")(sine_and_negative)
    other = CARRIED.format(operand="a").replace('"t"', '"u"')
    text = SWAPPED.replace("ROOT r", f"u = (f32[5], f32[5]) {other} d = f32[5] get-tuple-element(u), index=0 ROOT r")
    report = check_call(xl.parse(text.replace("(a, b)", "(b, d)")), X)
    assert report.without_kernel == ["u"] and "custom call 'u' has no kernel for Host" in str(report)


def test_integers_are_equal_or_wrong():
    @xl.custom_call("t")
    def t(out, x):
        out[...] = x + 2

    text = """ENTRY e { x = s32[3] parameter(0)
      ROOT c = s32[3] custom-call(x), custom_call_target="t", backend_config="ENTRY e {
        p = s32[3] parameter(0) one = s32[3] constant({1, 1, 1}) ROOT a = s32[3] add(p, one) }" }"""
    with pytest.raises(CallDifferenceError, match=r"result\[0\] is 2, expected 1, 1 ULPs off; 3 of 3"):
        check_call(xl.parse(text), np.zeros(3, np.int32), ulps=50)


@pytest.mark.parametrize("factor", ["2", "3"])
def test_command(factor, tmp_path, monkeypatch, capsys):
    (tmp_path / "m.hlo").write_text(SWAPPED)
    (tmp_path / "k.c").write_text(f"""
    #include <math.h>
    #include <xloom/custom_call.h>
    void t(void* out, const void** in) {{
      float** y = out;
      for (int i = 0; i < 5; ++i) {{
        float x = ((const float*)in[0])[i];
        y[0][i] = sinf(x);
        y[1][i] = {factor} * -x / 2;
      }}
    }}
    XLA_REGISTER_CUSTOM_CALL_TARGET(t, "Host");
    """)
    arguments = ["xloom", "run", str(tmp_path / "m.hlo"), "--load", str(tmp_path / "k.c"), "--check-calls"]
    monkeypatch.setattr(sys, "argv", arguments)
    if factor == "2":
        main()
        assert "custom call 't' agrees with the HLO that it carries in 1 run" in capsys.readouterr().out
        return
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 1 and "custom call 't' differs from the HLO that it carries" in capsys.readouterr().err
