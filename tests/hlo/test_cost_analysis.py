"""What XLA's cost analysis counts, and that ours counts the same."""

from typing import Any

import pytest

import xloom as xl
from xloom.hlo.cost_analysis import cost_analysis

_SUM = "sum { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT c = f32[] add(a, b) }"
_LESS = " less { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT c = pred[] compare(a, b), direction=LT }"
_LOOP = """
more { s = (s32[], f32[8,8]) parameter(0)  i = s32[] get-tuple-element(s), index=0  k = s32[] constant(9)
  ROOT p = pred[] compare(i, k), direction=LT }
body { s = (s32[], f32[8,8]) parameter(0)  i = s32[] get-tuple-element(s), index=0
  x = f32[8,8] get-tuple-element(s), index=1  one = s32[] constant(1)  j = s32[] add(i, one)
  y = f32[8,8] dot(x, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}  t = f32[8,8] tanh(y)
  ROOT r = (s32[], f32[8,8]) tuple(j, t) }"""

PROGRAMS = {
    "loop": (
        _LOOP,
        "x = f32[8,8] parameter(0)  i = s32[] constant(0)  t = (s32[], f32[8,8]) tuple(i, x)  "
        "ROOT w = (s32[], f32[8,8]) while(t), condition=more, body=body",
    ),
    "reduce": (
        _SUM,
        "x = f32[8,8] parameter(0)  z = f32[] constant(0)  ROOT r = f32[8] reduce(x, z), dimensions={1}, to_apply=sum",
    ),
    "reduce-window": (
        _SUM,
        "x = f32[8,8] parameter(0)  z = f32[] constant(0)  "
        "ROOT r = f32[4,4] reduce-window(x, z), window={size=2x2 stride=2x2}, to_apply=sum",
    ),
    "sort": (_LESS, "x = f32[8,8] parameter(0)  ROOT r = f32[8,8] sort(x), dimensions={1}, to_apply=less"),
    "fft": ("", "x = f32[8,8] parameter(0)  ROOT r = c64[8,5] fft(x), fft_type=RFFT, fft_length={8}"),
    "padded convolution": (
        "",
        "x = f32[1,8,8,2] parameter(0)  k = f32[3,3,2,4] parameter(1)  "
        "ROOT r = f32[1,8,8,4] convolution(x, k), window={size=3x3 pad=1_1x1_1}, dim_labels=b01f_01io->b01f",
    ),
    "dilated convolution": (
        "",
        "x = f32[1,8,8,2] parameter(0)  k = f32[3,3,2,4] parameter(1)  "
        "ROOT r = f32[1,17,8,4] convolution(x, k), "
        "window={size=3x3 pad=2_2x3_3 lhs_dilate=2x3 rhs_dilate=1x2 stride=1x3}, dim_labels=b01f_01io->b01f",
    ),
    "slices": (
        "",
        "x = f32[8,8] parameter(0)  i = s32[] parameter(1)  "
        "d = f32[2,8] dynamic-slice(x, i, i), dynamic_slice_sizes={2,8}  s = f32[2,4] slice(d), slice={[0:2],[0:4]}  "
        "ROOT r = f32[2,4] exponential(s)",
    ),
    "updates": (
        _SUM,
        "x = f32[16,8] parameter(0)  u = f32[2,8] parameter(1)  i = s32[] parameter(2)  "
        "d = f32[16,8] dynamic-update-slice(x, u, i, i)  j = s32[2] parameter(3)  "
        "ROOT r = f32[16,8] scatter(d, j, u), update_window_dims={1}, inserted_window_dims={0}, "
        "scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=sum",
    ),
    "select-and-scatter": (
        _SUM + _LESS,
        "x = f32[8,8] parameter(0)  s = f32[4,4] parameter(1)  z = f32[] constant(0)  "
        "ROOT r = f32[8,8] select-and-scatter(x, s, z), window={size=2x2 stride=2x2}, select=less, scatter=sum",
    ),
    "conditional": (
        "f { p = f32[8] parameter(0)  ROOT y = f32[8] add(p, p) } g { p = f32[8] parameter(0)  ROOT y = f32[8] tanh(p) }",
        "x = f32[8] parameter(0)  p = pred[] parameter(1)  "
        "ROOT y = f32[8] conditional(p, x, x), true_computation=f, false_computation=g",
    ),
    "fusion": (
        "f { p = f32[8] parameter(0)  q = f32[8] tanh(p)  ROOT y = f32[8] add(q, p) }",
        "x = f32[8] parameter(0)  ROOT y = f32[8] fusion(x), kind=kLoop, calls=f",
    ),
    "custom call": (
        "",
        'x = f32[8] parameter(0)  y = f32[8] negate(x)  ROOT z = f32[8] custom-call(y), custom_call_target="unknown"',
    ),
    "linear algebra": (
        "",
        "x = f32[8,8] parameter(0)  c = f32[8,8] cholesky(x)  t = f32[8,8] transpose(x), dimensions={1,0}  "
        "ROOT r = f32[8,8] triangular-solve(c, t), left_side=true, lower=true, transpose_a=NO_TRANSPOSE",
    ),
    "random": ("", "x = u64[2] parameter(0)  ROOT y = (u64[2], u32[8]) rng-bit-generator(x), algorithm=rng_default"),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_counts_what_xla_counts(name):
    xla_client: Any = pytest.importorskip("jaxlib.xla_client")
    _hlo = pytest.importorskip("jaxlib._hlo")
    computations, entry = PROGRAMS[name]
    module = xl.parse(f"HloModule m\n{computations}\nENTRY main {{ {entry} }}")
    known_to_xla = _hlo.HloModule.from_serialized_hlo_module_proto(module.to_proto())
    theirs = xla_client._xla.hlo_module_cost_analysis(xla_client.make_cpu_client(), known_to_xla)
    assert cost_analysis(module) == {name: count for name, count in theirs.items() if count}
