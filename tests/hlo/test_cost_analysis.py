"""What XLA's cost analysis counts, and that ours counts the same."""

from typing import Any

import numpy as np
import pytest

import xloom as xl
from xloom.hlo.cost_analysis import cost_analysis

_SUM = "sum { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT c = f32[] add(a, b) }"
_LESS = "less { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT c = pred[] compare(a, b), direction=LT }"
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
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_counts_what_xla_counts(name):
    xla_client: Any = pytest.importorskip("jaxlib.xla_client")
    _hlo = pytest.importorskip("jaxlib._hlo")
    computations, entry = PROGRAMS[name]
    module = xl.parse(f"HloModule m\n{computations}\nENTRY main {{ {entry} }}")
    known_to_xla = _hlo.HloModule.from_serialized_hlo_module_proto(module.to_proto())
    theirs = xla_client._xla.hlo_module_cost_analysis(xla_client.make_cpu_client(), known_to_xla)
    ours = cost_analysis(module)
    counted = ("flops", "transcendentals")
    assert {n: ours.get(n, 0) for n in counted} == {n: theirs.get(n, 0) for n in counted}
    np.testing.assert_allclose(ours["bytes accessed"], theirs["bytes accessed"], rtol=0.1)
