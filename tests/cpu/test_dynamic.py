"""Arrays of bounded dynamic size in native code, against the interpreter."""

import numpy as np
import pytest

import xloom as xl

REGIONS = """
add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT s = f32[] add(a, b) }
less { a = f32[] parameter(0) b = f32[] parameter(1) ROOT s = pred[] compare(a, b), direction=GT }
body {
  s = (f32[<=6,3], s32[]) parameter(0)
  x = f32[<=6,3] get-tuple-element(s), index=0
  i = s32[] get-tuple-element(s), index=1
  one = s32[] constant(1)
  j = s32[] add(i, one)
  y = f32[<=6,3] add(x, x)
  z = f32[<=6,3] set-dimension-size(y, j), dimensions={0}
  ROOT t = (f32[<=6,3], s32[]) tuple(z, j)
}
cond {
  s = (f32[<=6,3], s32[]) parameter(0)
  i = s32[] get-tuple-element(s), index=1
  n = s32[] constant(3)
  ROOT p = pred[] compare(i, n), direction=LT
}
twice { x = f32[<=6,3] parameter(0) ROOT y = f32[<=6,3] add(x, x) }
same { x = f32[<=6,3] parameter(0) ROOT y = f32[<=6,3] copy(x) }
"""
ROOTS = {
    "elementwise": "f32[<=6,3] multiply(x, x)",
    "reduce": "f32[3] reduce(x, zero), dimensions={0}, to_apply=add",
    "reduce other": "f32[<=6] reduce(x, zero), dimensions={1}, to_apply=add",
    "size": "s32[] get-dimension-size(x), dimensions={0}",
    "transpose": "f32[3,<=6] transpose(x), dimensions={1,0}",
    "broadcast": "f32[2,<=6,3] broadcast(x), dimensions={1,2}",
    "reshape": "f32[<=18] reshape(x)",
    "reshape minor": "f32[<=18] reshape(m)",
    "slice": "f32[<=2,3] slice(x), slice={[1:5:2], [0:3]}",
    "pad": "f32[<=9,3] pad(x, one), padding=1_2x0_0",
    "concatenate": "f32[<=12,3] concatenate(x, x), dimensions={0}",
    "reverse": "f32[<=6,3] reverse(x), dimensions={0}",
    "dot": "f32[3,3] dot(x, x), lhs_contracting_dims={0}, rhs_contracting_dims={0}",
    "dot free": "f32[<=6,<=6] dot(x, x), lhs_contracting_dims={1}, rhs_contracting_dims={1}",
    "sort": "f32[<=6,3] sort(x), dimensions={0}, to_apply=less",
    "topk": "(f32[3,1], s32[3,1]) topk(m), k=1, largest=true",
    "topk least": "(f32[3,1], s32[3,1]) topk(m), k=1, largest=false",
    "topk of rows": "(f32[<=6,2], s32[<=6,2]) topk(x), k=2, largest=true",
    "reduce-window": "f32[<=5,3] reduce-window(x, zero), window={size=2x1}, to_apply=add",
    "dynamic-slice": "f32[1,3] dynamic-slice(x, big, nil), dynamic_slice_sizes={1,3}",
    "dynamic-reshape": "f32[<=18] dynamic-reshape(x, count)",
    "set size": "f32[<=6,3] set-dimension-size(x, two), dimensions={0}",
    "tuple": "(f32[<=6,3], s32[]) tuple(x, two)",
    "while": "(f32[<=6,3], s32[]) while(state), condition=cond, body=body",
    "conditional": "f32[<=6,3] conditional(yes, x, x), true_computation=twice, false_computation=same",
}


@pytest.mark.sampled
@pytest.mark.parametrize("name", ROOTS)
@pytest.mark.parametrize("size", [1, 4, 6])
def test_as_the_interpreter(name, size):
    module = xl.parse(f"""HloModule m
    {REGIONS}
    ENTRY e {{
      x = f32[<=6,3] parameter(0)
      m = f32[3,<=6] transpose(x), dimensions={{1,0}}
      zero = f32[] constant(0)
      one = f32[] constant(1)
      nil = s32[] constant(0)
      two = s32[] constant(2)
      big = s32[] constant(7)
      yes = pred[] constant(true)
      n = s32[] get-dimension-size(x), dimensions={{0}}
      three = s32[] constant(3)
      count = s32[] multiply(n, three)
      state = (f32[<=6,3], s32[]) tuple(x, nil)
      ROOT r = {ROOTS[name]}
    }}""")
    x = np.random.default_rng(size).standard_normal((size, 3)).astype(np.float32)
    ours, theirs = xl.compile(module)(x), xl.evaluate(module, x)
    for a, b in zip(*((v if isinstance(v, tuple) else (v,)) for v in (ours, theirs)), strict=True):
        assert a.shape == b.shape and a.dtype == b.dtype
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("largest", ["true", "false"])
@pytest.mark.parametrize("dtype", ["s8", "u16", "s32", "f32", "f64", "bf16", "pred"])
def test_nothing_beyond_the_size_is_of_the_first(dtype, largest):
    module = xl.parse(f"""HloModule m
    ENTRY e {{
      x = {dtype}[9] parameter(0)
      n = s32[] parameter(1)
      cut = {dtype}[<=9] set-dimension-size(x, n), dimensions={{0}}
      ROOT t = ({dtype}[3], s32[3]) topk(cut), k=3, largest={largest}
    }}""")
    kind = module.entry.parameters[0].shape.dtype.numpy
    worst = {"true": [0, 1], "false": [1, 0]}[largest]
    x = np.array([*[worst[0]] * 4, *[worst[1]] * 5]).astype(kind)
    if np.issubdtype(kind, np.floating):
        x[:4] = np.copysign(np.nan, -1 if largest == "true" else 1)
    values, places = xl.compile(module)(x, np.int32(4))
    assert places.tolist() == [0, 1, 2]
    assert values.tobytes() == x[:3].tobytes()


def test_a_size_above_the_bound_is_refused():
    executable = xl.compile(xl.parse("HloModule m\nENTRY e { x = f32[<=4] parameter(0) ROOT n = f32[<=4] negate(x) }"))
    with pytest.raises(xl.ShapeError, match="must be"):
        executable(np.ones(5, np.float32))


def test_no_bound_is_said():
    module = xl.parse("HloModule m\nENTRY e { x = f32[?] parameter(0) ROOT n = f32[?] negate(x) }")
    with pytest.raises(xl.LoweringError, match="without a bound"):
        xl.compile(module)


def test_sizes_that_nothing_needs():
    module = xl.parse("""HloModule m
    ENTRY e {
      x = f32[4] parameter(0)
      two = s32[] constant(2)
      cut = f32[<=4] set-dimension-size(x, two), dimensions={0}
      y = f32[4] negate(x)
      ROOT t = (f32[4], s32[]) tuple(y, two)
    }""")
    y, n = xl.compile(module)(np.ones(4, np.float32))
    np.testing.assert_array_equal(y, -np.ones(4))
    assert n == 2


def test_sizes_inside_a_scan():
    module = xl.parse("""HloModule m
    add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT s = f32[] add(a, b) }
    body {
      x = f32[4] parameter(0)
      n = s32[] parameter(1)
      cut = f32[<=4] set-dimension-size(x, n), dimensions={0}
      zero = f32[] constant(0)
      sum = f32[] reduce(cut, zero), dimensions={0}, to_apply=add
      one = s32[] constant(1)
      more = s32[] add(n, one)
      ROOT t = (f32[], s32[]) tuple(sum, more)
    }
    ENTRY e {
      x = f32[3,4] parameter(0)
      n = s32[] parameter(1)
      ROOT s = (f32[3], s32[]) scan(x, n), dimensions={0}, num_carries=1, to_apply=body
    }""")
    sums, n = xl.compile(module)(np.ones((3, 4), np.float32), np.int32(1))
    np.testing.assert_array_equal(sums, [1, 2, 3])
    assert n == 4


@pytest.mark.parametrize(("size", "kept"), [(-8, 0), (2, 2), (9, 4)])
def test_a_size_that_is_computed_is_between_none_and_the_bound(size, kept):
    module = xl.parse("""HloModule m
    ENTRY e { x = f32[4] parameter(0)  n = s32[] parameter(1)
      y = f32[<=4] set-dimension-size(x, n), dimensions={0}
      k = s32[] get-dimension-size(y), dimensions={0}  ROOT r = (f32[<=4], s32[]) tuple(y, k) }""")
    arguments = np.arange(4, dtype=np.float32), np.int32(size)
    for values, count in (xl.compile(module)(*arguments), xl.evaluate(module, *arguments)):
        assert count == kept and values.tolist() == [0, 1, 2, 3][:kept]
