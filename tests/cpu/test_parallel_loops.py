"""Loops over blocks, whose iterations threads share, and slices that are read where they lie."""

import ml_dtypes
import numpy as np
import pytest

import xloom as xl
from xloom.cpu.printers import llvm_text, schedule_text
from xloom.llvm.target import process_target

MARK = ', frontend_attributes={xloom.blocks="true"}'
BLOCKS = """HloModule m
on {{
  s = (s32[], f32[{n},64,64], f32[64,64], f32[{n},64,64]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant({n})
  ROOT l = pred[] compare(i, n), direction=LT
}}
body {{
  s = (s32[], f32[{n},64,64], f32[64,64], f32[{n},64,64]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  x = f32[{n},64,64] get-tuple-element(s), index=1
  w = f32[64,64] get-tuple-element(s), index=2
  y = f32[{n},64,64] get-tuple-element(s), index=3
  one = s32[] constant(1)
  zero = s32[] constant(0)
  last = s32[] constant({last})
  k = s32[] subtract(last, i)
  a = f32[1,64,64] dynamic-slice(x, k, zero, zero), dynamic_slice_sizes={{1,64,64}}
  m = f32[64,64] reshape(a)
  d = f32[64,64] dot(m, w), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
  t = f32[64,64] tanh(d)
  e = f32[64,64] dot(t, w), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
  r = f32[1,64,64] reshape(e)
  u = f32[{n},64,64] dynamic-update-slice(y, r, k, zero, zero)
  j = s32[] add(i, one)
  ROOT o = (s32[], f32[{n},64,64], f32[64,64], f32[{n},64,64]) tuple(j, x, w, u)
}}
ENTRY e {{
  x = f32[{n},64,64] parameter(0)
  w = f32[64,64] parameter(1)
  zero = f32[] constant(0)
  y = f32[{n},64,64] broadcast(zero), dimensions={{}}
  i = s32[] constant(0)
  t = (s32[], f32[{n},64,64], f32[64,64], f32[{n},64,64]) tuple(i, x, w, y)
  l = (s32[], f32[{n},64,64], f32[64,64], f32[{n},64,64]) while(t), condition=on, body=body{attribute}
  c = s32[] get-tuple-element(l), index=0
  r = f32[{n},64,64] get-tuple-element(l), index=3
  ROOT a = (f32[{n},64,64], s32[]) tuple(r, c)
}}"""
FACTORS = """HloModule m
on {
  s = STATE parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(9)
  ROOT l = pred[] compare(i, n), direction=LT
}
body {
  s = STATE parameter(0)
  i = s32[] get-tuple-element(s), index=0
  x = f32[9,480,480] get-tuple-element(s), index=1
  y = f32[9,480,480] get-tuple-element(s), index=2
  one = s32[] constant(1)
  zero = s32[] constant(0)
  a = f32[1,480,480] dynamic-slice(x, i, zero, zero), dynamic_slice_sizes={1,480,480}
  r = f32[1,480,480] cholesky(a), lower=true
  u = f32[9,480,480] dynamic-update-slice(y, r, i, zero, zero)
  j = s32[] add(i, one)
  ROOT o = STATE tuple(j, x, u)
}
ENTRY e {
  x = f32[9,480,480] parameter(0)
  zero = f32[] constant(0)
  y = f32[9,480,480] broadcast(zero), dimensions={}
  i = s32[] constant(0)
  t = STATE tuple(i, x, y)
  l = STATE while(t), condition=on, body=body, frontend_attributes={xloom.blocks="true"}
  ROOT r = f32[9,480,480] get-tuple-element(l), index=2
}""".replace("STATE", "(s32[], f32[9,480,480], f32[9,480,480])")
ATTENTION = """HloModule m
max {{
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] maximum(a, b)
}}
add {{
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] add(a, b)
}}
ENTRY e {{
  q = bf16[{b},{n},64] parameter(0)
  k = bf16[{b},{m},64] parameter(1)
  v = bf16[{b},{m},64] parameter(2)
  least = f32[] constant(-inf)
  zero = f32[] constant(0)
  s = f32[{b},{n},{m}] dot(q, k), lhs_batch_dims={{0}}, lhs_contracting_dims={{2}}, rhs_batch_dims={{0}}, rhs_contracting_dims={{2}}
  mx = f32[{b},{n}] reduce(s, least), dimensions={{2}}, to_apply=max
  ms = f32[{b},{n},{m}] broadcast(mx), dimensions={{0,1}}
  d = f32[{b},{n},{m}] subtract(s, ms)
  e = f32[{b},{n},{m}] exponential(d)
  p = bf16[{b},{n},{m}] convert(e)
  o = f32[{b},{n},64] dot(p, v), lhs_batch_dims={{0}}, lhs_contracting_dims={{2}}, rhs_batch_dims={{0}}, rhs_contracting_dims={{1}}
  t = f32[{b},{n}] reduce(e, zero), dimensions={{2}}, to_apply=add
  ts = f32[{b},{n},64] broadcast(t), dimensions={{0,1}}
  ROOT r = f32[{b},{n},64] divide(o, ts)
}}"""


def blocks(n, attribute=MARK):
    return xl.parse(BLOCKS.format(n=n, last=n - 1, attribute=attribute))


@pytest.mark.parametrize("attribute", [None, ""], ids=["shared", "in turn"])
def test_iterations_are_shared_where_a_loop_says_that_they_may_be(attribute, monkeypatch):
    monkeypatch.setenv("XLOOM_CHECK", "buffers,loops")
    module = blocks(23) if attribute is None else blocks(23, attribute)
    text = schedule_text(module)
    assert text.count("23 iterations shared among threads") == (attribute is None)
    assert text.count("it is read where it lies") == 1
    rng = np.random.default_rng(0)
    x, w = (rng.standard_normal(s).astype(np.float32) * 0.2 for s in ((23, 64, 64), (64, 64)))
    result, count = xl.compile(module)(x, w)
    np.testing.assert_allclose(result, np.tanh(x @ w) @ w, rtol=1e-4, atol=1e-5)
    assert count == 23


def test_what_reads_other_iterations_stays_in_turn():
    before = "dynamic-slice(x, k"
    assert before in BLOCKS
    changed = BLOCKS.replace(before, "dynamic-slice(y, k").format(n=23, last=22, attribute=MARK)
    assert "iterations shared" not in schedule_text(xl.parse(changed))


def test_what_kernels_need_beside_arrays_may_be_more_than_a_stack_has():
    module = xl.parse(FACTORS)
    assert "9 iterations shared among threads" in schedule_text(module)
    assert "aligned_alloc" in llvm_text(module)
    x = np.random.default_rng(2).standard_normal((9, 480, 480)).astype(np.float32)
    x = x @ x.swapaxes(1, 2) + 480 * np.eye(480, dtype=np.float32)
    found = np.tril(xl.compile(module)(x))
    np.testing.assert_allclose(found @ found.swapaxes(1, 2), x, rtol=1e-3, atol=0.05)


@pytest.mark.skipif(not process_target().has_tiles, reason="code for a processor without AMX")
@pytest.mark.parametrize(("b", "n", "m"), [(6, 600, 600), (1, 1500, 1500), (60, 197, 197), (4, 520, 1031)])
def test_attention_by_tiles(b, n, m, monkeypatch):
    """Rows and columns that are no whole number of tiles or of blocks."""
    monkeypatch.setenv("XLOOM_CHECK", "buffers,loops")
    rng = np.random.default_rng(1)
    q, k, v = (rng.standard_normal((b, rows, 64)).astype(ml_dtypes.bfloat16) for rows in (n, m, m))
    module = xl.parse(ATTENTION.format(b=b, n=n, m=m))
    assert "iterations shared among threads" in schedule_text(module)
    wide = [x.astype(np.float64) for x in (q, k, v)]
    s = wide[0] @ wide[1].swapaxes(1, 2)
    e = np.exp(s - s.max(-1, keepdims=True))
    expected = e @ wide[2] / e.sum(-1, keepdims=True)
    np.testing.assert_allclose(xl.compile(module)(q, k, v), expected, atol=0.02)
