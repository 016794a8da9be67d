"""One program for many sizes gives what a program of each size gives, whatever lies beyond the size."""

import re

import numpy as np
import pytest

import xloom as xl
from xloom.errors import LoweringError
from xloom.passes.dynamic.resizable import resizable
from xloom.passes.runner import run_passes

BOUND, SAMPLES = 16, (16, 9, 13)


def at(text, n):
    """The program of a size: what stands in <> is computed of it."""
    return xl.parse(re.sub(r"<([^<>]*)>", lambda m: str(eval(m[1], {"n": n})), text))


REDUCERS = """
add { x = f32[] parameter(0)
  y = f32[] parameter(1)
  ROOT r = f32[] add(x, y) }
max { x = f32[] parameter(0)
  y = f32[] parameter(1)
  ROOT r = f32[] maximum(x, y) }
less { x = f32[] parameter(0)
  y = f32[] parameter(1)
  ROOT r = pred[] compare(x, y), direction=LT }
"""

PROGRAMS = {
    "mean": """ENTRY e { x = f32[3,<n>] parameter(0)
  zero = f32[] constant(0)
  s = f32[3] reduce(x, zero), dimensions={1}, to_apply=add
  k = f32[] constant(<1/n>)
  b = f32[3] broadcast(k), dimensions={}
  ROOT r = f32[3] multiply(s, b) }""",
    "variance": """ENTRY e { x = f32[<n>,4] parameter(0)
  zero = f32[] constant(0)
  s = f32[4] reduce(x, zero), dimensions={0}, to_apply=add
  k = f32[] constant(<n-1>)
  b = f32[4] broadcast(k), dimensions={}
  ROOT r = f32[4] divide(s, b) }""",
    "softmax": """ENTRY e { x = f32[2,<n>] parameter(0)
  low = f32[] constant(-inf)
  zero = f32[] constant(0)
  m = f32[2] reduce(x, low), dimensions={1}, to_apply=max
  mb = f32[2,<n>] broadcast(m), dimensions={0}
  d = f32[2,<n>] subtract(x, mb)
  e = f32[2,<n>] exponential(d)
  s = f32[2] reduce(e, zero), dimensions={1}, to_apply=add
  sb = f32[2,<n>] broadcast(s), dimensions={0}
  ROOT r = f32[2,<n>] divide(e, sb) }""",
    "products by groups": """ENTRY e { x = f32[<n>,4] parameter(0)
  w = f32[3,4,5] parameter(1)
  two = s32[2] constant({2, 3})
  k = s32[] constant(<n-5>)
  rest = s32[1] reshape(k)
  counts = s32[3] concatenate(two, rest), dimensions={0}
  ROOT r = f32[<n>,5] ragged-dot(x, w, counts), lhs_contracting_dims={1}, rhs_contracting_dims={1}, lhs_ragged_dims={0}, rhs_group_dims={0} }""",
    "gradients by groups": """ENTRY e { x = f32[<n>,4] parameter(0)
  y = f32[<n>,5] parameter(1)
  two = s32[2] constant({2, 3})
  k = s32[] constant(<n-5>)
  rest = s32[1] reshape(k)
  counts = s32[3] concatenate(two, rest), dimensions={0}
  ROOT r = f32[3,4,5] ragged-dot(x, y, counts), lhs_contracting_dims={0}, rhs_contracting_dims={0}, lhs_ragged_dims={0} }""",
    "causal product": """ENTRY e { q = f32[2,<n>,4] parameter(0)
  k = f32[2,<n>,4] parameter(1)
  s = f32[2,<n>,<n>] dot(q, k), lhs_batch_dims={0}, rhs_batch_dims={0}, lhs_contracting_dims={2}, rhs_contracting_dims={2}
  i = s32[<n>,<n>] iota(), iota_dimension=0
  j = s32[<n>,<n>] iota(), iota_dimension=1
  keep = pred[<n>,<n>] compare(i, j), direction=GE
  kb = pred[2,<n>,<n>] broadcast(keep), dimensions={1,2}
  zero = f32[] constant(0)
  zb = f32[2,<n>,<n>] broadcast(zero), dimensions={}
  t = f32[2,<n>,<n>] select(kb, s, zb)
  ROOT r = f32[2,<n>,4] dot(t, k), lhs_batch_dims={0}, rhs_batch_dims={0}, lhs_contracting_dims={2}, rhs_contracting_dims={1} }""",
    "rows of a linear layer": """ENTRY e { x = f32[3,<n>,4] parameter(0)
  w = f32[4,5] parameter(1)
  f = f32[<3*n>,4] reshape(x)
  d = f32[<3*n>,5] dot(f, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  one = f32[] constant(1)
  ones = f32[<3*n>,5] broadcast(one), dimensions={}
  p = f32[<3*n>,5] add(d, ones)
  ROOT r = f32[3,<n>,5] reshape(p) }""",
    "rows as a result": """ENTRY e { x = f32[3,<n>,4] parameter(0)
  f = f32[<3*n>,4] reshape(x)
  ROOT r = f32[<3*n>,4] negate(f) }""",
    "sum of rows": """ENTRY e { x = f32[3,<n>,4] parameter(0)
  f = f32[<3*n>,4] reshape(x)
  zero = f32[] constant(0)
  ROOT r = f32[4] reduce(f, zero), dimensions={0}, to_apply=add }""",
    "gradient of a linear layer": """ENTRY e { x = f32[3,<n>,4] parameter(0)
  g = f32[3,<n>,5] parameter(1)
  f = f32[<3*n>,4] reshape(x)
  h = f32[<3*n>,5] reshape(g)
  ROOT r = f32[4,5] dot(f, h), lhs_contracting_dims={0}, rhs_contracting_dims={0} }""",
    "rows apart again": """ENTRY e { f = f32[<3*n>,4] parameter(0)
  x = f32[3,<n>,4] reshape(f)
  ROOT r = f32[3,4,<n>] transpose(x), dimensions={0,2,1} }""",
    "heads": """ENTRY e { x = f32[2,<n>,6] parameter(0)
  h = f32[2,<n>,3,2] reshape(x)
  t = f32[2,3,<n>,2] transpose(h), dimensions={0,2,1,3}
  m = f32[6,<n>,2] reshape(t)
  ROOT r = f32[6,<2*n>] reshape(m) }""",
    "slices": """ENTRY e { x = f32[<n>,4] parameter(0)
  last = f32[1,4] slice(x), slice={[<n-1>:<n>], [0:4]}
  first = f32[5,4] slice(x), slice={[0:5], [0:4]}
  but = f32[<n-1>,4] slice(x), slice={[1:<n>], [0:4]}
  init = f32[<n-1>,4] slice(x), slice={[0:<n-1>], [0:4]}
  d = f32[<n-1>,4] subtract(but, init)
  ROOT r = (f32[1,4], f32[5,4], f32[<n-1>,4]) tuple(last, first, d) }""",
    "gradients of slices": """ENTRY e { g = f32[1,4] parameter(0)
  h = f32[5,4] parameter(1)
  zero = f32[] constant(0)
  a = f32[<n>,4] pad(g, zero), padding=<n-1>_0x0_0
  b = f32[<n>,4] pad(h, zero), padding=0_<n-5>x0_0
  c = f32[<n>,4] add(a, b)
  s = f32[4] reduce(c, zero), dimensions={0}, to_apply=add
  ROOT r = (f32[<n>,4], f32[4]) tuple(c, s) }""",
    "a cache that grows": """ENTRY e { c = f32[2,<n>] parameter(0)
  x = f32[2,3] parameter(1)
  k = f32[2,<n+3>] concatenate(c, x), dimensions={1}
  zero = f32[] constant(0)
  s = f32[2] reduce(k, zero), dimensions={1}, to_apply=add
  ROOT r = (f32[2,<n+3>], f32[2]) tuple(k, s) }""",
    "embedding and its gradient": """ENTRY e { table = f32[7,4] parameter(0)
  ids = s32[2,<n>] parameter(1)
  g = f32[2,<n>,4] gather(table, ids), offset_dims={2}, collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=2, slice_sizes={1,4}
  zero = f32[] constant(0)
  zeros = f32[7,4] broadcast(zero), dimensions={}
  ROOT s = f32[7,4] scatter(zeros, ids, g), update_window_dims={2}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, index_vector_dim=2, to_apply=add }""",
    "constants": """ENTRY e { x = s32[<n>] parameter(0)
  a = s32[<n>] constant({<", ".join(map(str, range(n)))>})
  k = s32[] constant(<3*n+2>)
  b = s32[<n>] broadcast(k), dimensions={}
  c = s32[<n>] add(a, b)
  ROOT r = s32[<n>] multiply(c, x) }""",
    "uniform sums": """ENTRY e { one = f32[] constant(1)
  ones = f32[<n>,3] broadcast(one), dimensions={}
  zero = f32[] constant(0)
  s = f32[3] reduce(ones, zero), dimensions={0}, to_apply=add
  x = f32[<n>,3] parameter(0)
  d = f32[3,3] dot(ones, x), lhs_contracting_dims={0}, rhs_contracting_dims={0}
  ROOT r = (f32[3], f32[3,3]) tuple(s, d) }""",
    "convolution of a batch": """ENTRY e { x = f32[<n>,4,5,3] parameter(0)
  k = f32[3,3,1,6] parameter(1)
  ROOT r = f32[<n>,4,5,6] convolution(x, k), window={size=3x3 pad=1_1x1_1}, dim_labels=b01f_01io->b01f, feature_group_count=3 }""",
    "convolution of a length, and its kernel's gradient": """ENTRY e { x = f32[<n>,<n>,3] parameter(0)
  k = f32[3,3,2] parameter(1)
  c = f32[<n>,<n>,2] convolution(x, k), window={size=3 pad=1_1}, dim_labels=b0f_0io->b0f
  d = f32[<n>,2] parameter(2)
  v = f32[<n>,3] parameter(3)
  g = f32[3,2] convolution(v, d), dim_labels=fb_io->bf
  ROOT r = (f32[<n>,<n>,2], f32[3,2]) tuple(c, g) }""",
    "numbers": """ENTRY e { x = f32[<n>] parameter(0)
  a = f32[] constant(<2/(n-1)>)
  b = f32[] constant(<(64*n)/(64*n-1)>)
  c = bf16[] constant(<1/n>)
  d = f64[] constant(<1/(3*n)>)
  e = f32[] constant(<-n>)
  ROOT r = (f32[], f32[], bf16[], f64[], f32[]) tuple(a, b, c, d, e) }""",
    "rows that lie otherwise": """ENTRY e { x = f32[3,<n>] parameter(0)
  y = f32[<3*n>] parameter(1)
  f = f32[<3*n>] reshape(x)
  ROOT r = f32[<3*n>] add(f, y) }""",
    "reversed rows": """ENTRY e { x = f32[3,<n>] parameter(0)
  f = f32[<3*n>] reshape(x)
  ROOT r = f32[<3*n>] reverse(f), dimensions={0} }""",
    "gradient of rows that came apart": """ENTRY e { f = f32[<3*n>,4] parameter(0)
  x = f32[3,<n>,4] parameter(1)
  g = f32[<3*n>,4] reshape(x)
  d = f32[4,4] dot(f, g), lhs_contracting_dims={0}, rhs_contracting_dims={0}
  p = f32[<3*n>,4] multiply(g, f)
  ROOT r = (f32[4,4], f32[<3*n>,4]) tuple(d, p) }""",
    "loss of rows": """ENTRY e { x = f32[3,<n>,4] parameter(0)
  t = s32[3,<n>] parameter(1)
  f = f32[<3*n>,4] reshape(x)
  u = s32[<3*n>,1] reshape(t)
  i = s32[<3*n>,1] iota(), iota_dimension=0
  at = s32[<3*n>,2] concatenate(i, u), dimensions={1}
  g = f32[<3*n>] gather(f, at), offset_dims={}, collapsed_slice_dims={0,1}, start_index_map={0,1}, index_vector_dim=2, slice_sizes={1,1}
  zero = f32[] constant(0)
  ROOT s = f32[] reduce(g, zero), dimensions={0}, to_apply=add }""".replace("index_vector_dim=2", "index_vector_dim=1"),
    "its gradient": """ENTRY e { d = f32[<3*n>] parameter(0)
  t = s32[<3*n>,1] parameter(1)
  i = s32[<3*n>,1] iota(), iota_dimension=0
  at = s32[<3*n>,2] concatenate(i, t), dimensions={1}
  zero = f32[] constant(0)
  zeros = f32[<3*n>,8] broadcast(zero), dimensions={}
  s = f32[<3*n>,8] scatter(zeros, at, d), update_window_dims={}, inserted_window_dims={0,1}, scatter_dims_to_operand_dims={0,1}, index_vector_dim=1, to_apply=add
  ROOT r = f32[3,<n>,8] reshape(s) }""",
    "whole columns": """ENTRY e { x = f32[<n>,8] parameter(0)
  at = s32[3,1] parameter(1)
  g = f32[3,<n>] gather(x, at), offset_dims={1}, collapsed_slice_dims={1}, start_index_map={1}, index_vector_dim=1, slice_sizes={<n>,1}
  zero = f32[] constant(0)
  zeros = f32[<n>,8] broadcast(zero), dimensions={}
  s = f32[<n>,8] scatter(zeros, at, g), update_window_dims={1}, inserted_window_dims={1}, scatter_dims_to_operand_dims={1}, index_vector_dim=1, to_apply=add
  ROOT r = (f32[3,<n>], f32[<n>,8]) tuple(g, s) }""",
    "cumulative sum": """ENTRY e { x = f32[2,<n>] parameter(0)
  zero = f32[] constant(0)
  ROOT r = f32[2,<n>] reduce-window(x, zero), window={size=1x<n> pad=0_0x<n-1>_0}, to_apply=add }""",
    "gradient of a convolution's kernel": """ENTRY e { x = f32[2,<n>,3] parameter(0)
  d = f32[2,<n>,4] parameter(1)
  ROOT g = f32[3,3,4] convolution(x, d), window={size=<n> pad=1_1}, dim_labels=f0b_i0o->0bf }""",
    "halves put together and taken apart": """ENTRY e { x = f32[2,<n>] parameter(0)
  c = f32[2,<2*n>] concatenate(x, x), dimensions={1}
  h = f32[2,<n>] slice(c), slice={[0:2], [<n>:<2*n>]}
  zero = f32[] constant(0)
  p = f32[2,<2*n>] pad(h, zero), padding=0_0x<n>_0
  q = f32[2,<2*n>] add(p, c)
  ROOT r = f32[2] reduce(q, zero), dimensions={1}, to_apply=add }""",
    "updates": """ENTRY e { x = f32[<n>,4] parameter(0)
  y = f32[<n-1>,4] parameter(1)
  zero = s32[] constant(0)
  fill = f32[] constant(2)
  a = f32[<n>,4] dynamic-update-slice(x, y, zero, zero)
  fills = f32[32,4] broadcast(fill), dimensions={}
  four = s32[] constant(4)
  b = f32[32,4] dynamic-update-slice(fills, x, four, zero)
  ROOT r = (f32[<n>,4], f32[32,4]) tuple(a, b) }""",
    "slices from where the program says": """ENTRY e { x = f32[<n+6>,4] parameter(0)
  y = f32[20,4] parameter(1)
  i = s8[] parameter(2)
  w = s64[1] constant({4294967297})
  far = s64[] reshape(w)
  none = s64[] constant(0)
  zero = s8[] constant(0)
  a = f32[<n>,4] dynamic-slice(x, i, zero), dynamic_slice_sizes={<n>,4}
  b = f32[<n>,4] dynamic-slice(y, i, zero), dynamic_slice_sizes={<n>,4}
  c = f32[<n>,4] dynamic-slice(y, far, none), dynamic_slice_sizes={<n>,4}
  d = f32[3,4] dynamic-slice(x, far, none), dynamic_slice_sizes={3,4}
  ROOT r = (f32[<n>,4], f32[<n>,4], f32[<n>,4], f32[3,4]) tuple(a, b, c, d) }""",
    "updates where the program says": """ENTRY e { x = f32[<n>,4] parameter(0)
  y = f32[20,4] parameter(1)
  z = f32[<n+6>,4] parameter(2)
  i = s32[] parameter(3)
  zero = s32[] constant(0)
  far = s32[] constant(8)
  a = f32[20,4] dynamic-update-slice(y, x, i, zero)
  b = f32[<n+6>,4] dynamic-update-slice(z, x, i, zero)
  c = f32[20,4] dynamic-update-slice(y, x, far, zero)
  ROOT r = (f32[20,4], f32[<n+6>,4], f32[20,4]) tuple(a, b, c) }""",
    "sort": """ENTRY e { x = f32[2,<n>] parameter(0)
  ROOT r = f32[2,<n>] sort(x), dimensions={1}, to_apply=less }""",
    "topk": """ENTRY e { x = f32[2,<n>] parameter(0)
  y = u64[<n>,4] parameter(1)
  a = (f32[2,3], s32[2,3]) topk(x), k=3, largest=true
  b = (f32[2,3], s32[2,3]) topk(x), k=3, largest=false
  c = (u64[<n>,2], s32[<n>,2]) topk(y), k=2, largest=false
  t = u64[4,<n>] transpose(y), dimensions={1,0}
  d = (u64[4,3], s32[4,3]) topk(t), k=3, largest=false
  p = f32[2,3] get-tuple-element(a), index=0
  q = s32[2,3] get-tuple-element(b), index=1
  u = u64[<n>,2] get-tuple-element(c), index=0
  v = s32[4,3] get-tuple-element(d), index=1
  ROOT r = (f32[2,3], s32[2,3], u64[<n>,2], s32[4,3]) tuple(p, q, u, v) }""",
}


def random(shape, rng):
    if shape.dtype.is_float:
        return rng.standard_normal(shape.dims).astype(shape.dtype.numpy)
    return rng.integers(0, 7, shape.dims).astype(shape.dtype.numpy)


def beyond(array, dims, n):
    """The array at the bounds of its dimensions, with rubbish beyond its sizes."""
    rubbish = np.nan if array.dtype.kind == "f" else min(1 << 20, np.iinfo(array.dtype).max)
    out = np.full([dims[d].at(BOUND) if d in dims else k for d, k in enumerate(array.shape)], rubbish, array.dtype)
    out[tuple(map(slice, array.shape))] = array
    return out


def cut(array, extents, n):
    """What is there of a result."""
    for d, extent in extents.items():
        rows = 1 if extent.period is None else array.shape[d] // extent.period
        split = array.reshape(*array.shape[:d], rows, -1, *array.shape[d + 1 :])
        there = split[(slice(None),) * (d + 1) + (slice(extent.size.at(n)),)]
        array = there.reshape(*array.shape[:d], -1, *array.shape[d + 1 :])
    return array


@pytest.mark.parametrize("name", PROGRAMS)
def test_one_program_gives_what_each_size_gives(name):
    text = REDUCERS + PROGRAMS[name]
    made = resizable([(n, at(text, n)) for n in SAMPLES], position=1)
    run_passes(made.module, "dce")
    compiled = xl.compile(made.module)
    rng = np.random.default_rng(0)
    for n in (9, 10, 12, 15, 16):
        exact = at(text, n)
        arguments = [random(p.shape, rng) for p in exact.entry.parameters]
        padded = [beyond(a, dims, n) for a, dims in zip(arguments, made.parameters, strict=True)]
        padded.insert(1, np.array(n, np.int32))
        expected = xl.evaluate(exact, *arguments)
        for found in (xl.evaluate(made.module, *padded), compiled(*padded)):
            pairs = zip(found, expected, strict=True) if isinstance(expected, tuple) else [(found, expected)]
            for extents, (a, b) in zip(made.results, pairs, strict=True):
                np.testing.assert_allclose(cut(a, extents, n), b, rtol=1e-5, atol=1e-6)


REFUSED = {
    "halves": """ENTRY e { x = f32[<n>] parameter(0)
  ROOT r = f32[<n//2>] slice(x), slice={[0:<n//2>]} }""",
    "another program": """ENTRY e { x = f32[<n>] parameter(0)
  ROOT r = f32[<n>] <("abs", "negate")[n == 16]>(x) }""",
    "another attribute": """ENTRY e { x = f32[<n>,2] parameter(0)
  ROOT r = f32[<n>,2] reverse(x), dimensions={<n % 2>} }""",
    "squares": """ENTRY e { x = f32[<n>] parameter(0)
  k = f32[] constant(<n*n>)
  b = f32[<n>] broadcast(k), dimensions={}
  ROOT r = f32[<n>] multiply(x, b) }""",
    "an unknown call": """ENTRY e { x = f32[<n>] parameter(0)
  ROOT r = f32[<n>] custom-call(x), custom_call_target="f" }""",
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_needs_to_know_what_lies_beyond_is_refused(name):
    with pytest.raises(LoweringError):
        resizable([(n, at(REFUSED[name], n)) for n in SAMPLES], position=1)
