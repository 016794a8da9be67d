import numpy as np
import pytest

from tests.cpu.test_reduce_window import check, windowed

RNG = np.random.default_rng(0)
GREATER = "p = {t}[] parameter(0) q = {t}[] parameter(1) ROOT c = pred[] compare(p, q), direction=GE"
SMALLER = "p = {t}[] parameter(0) q = {t}[] parameter(1) ROOT c = pred[] compare(p, q), direction=LT"
ADD = "x = {t}[] parameter(0) y = {t}[] parameter(1) ROOT z = {t}[] add(x, y)"
OTHER = "x = {t}[] parameter(0) y = {t}[] parameter(1) s = {t}[] add(x, x) ROOT z = {t}[] subtract(s, y)"


def program(dims, window, dtype="s32", select=GREATER, scatter=ADD):
    return f"""HloModule m
select {{ {select.replace("{t}", dtype)} }}
scatter {{ {scatter.replace("{t}", dtype)} }}
ENTRY e {{ x = {dtype}{dims} parameter(0) u = {windowed(dtype, dims, window)} parameter(1) init = {dtype}[] parameter(2)
  ROOT r = {dtype}{dims} select-and-scatter(x, u, init), window={{{window}}}, select=select, scatter=scatter }}"""


FORMS = [
    ("[]", ""),
    ("[7]", "size=1"),
    ("[9]", "size=3 stride=2 pad=1_2"),
    ("[9]", "size=3 pad=3_3"),
    ("[9]", "size=3 pad=2_1 rhs_reversal=1"),
    ("[2,7,8,3]", "size=1x3x3x1 stride=1x2x2x1 pad=0_0x1_1x0_1x0_0"),
    ("[2,3,7,8]", "size=1x1x3x2 stride=1x1x1x2"),
    ("[2,6,5,300]", "size=1x2x2x1 stride=1x2x1x1"),
    ("[5,140]", "size=2x1"),
    ("[4,5,6]", "size=2x2x3 stride=2x1x3"),
    ("[5,3,4]", "size=2x1x2"),
    ("[3,0]", "size=1x2"),
    ("[50,9,200]", "size=3x3x1 stride=1x2x1"),
    ("[300,201]", "size=3x4 stride=2x3"),
    ("[3,5,7,9]", "size=1x2x3x3 stride=1x2x1x2 pad=0_0x0_0x-1_0x-3_-1"),
    ("[40,900]", "size=1x3 stride=1x2"),
    ("[6,1500]", "size=2x1 stride=3x1"),
    ("[9,70]", "size=1x9 stride=1x9"),
    ("[200]", "size=33"),
]


@pytest.mark.sampled
@pytest.mark.parametrize("select", [GREATER, SMALLER], ids=["greater", "smaller"])
@pytest.mark.parametrize("scatter", [ADD, OTHER], ids=["add", "other"])
@pytest.mark.parametrize(("dims", "window"), FORMS, ids=str)
def test_forms(dims, window, select, scatter):
    check(program(dims, window, "s32", select, scatter))


@pytest.mark.parametrize("dtype", ["s4", "u8", "s16", "u64", "f8e5m2", "bf16", "f16", "f32", "f64"])
@pytest.mark.parametrize("dims", ["[2,6,6,5]", "[2,6,6,1]"])
def test_types(dtype, dims):
    check(program(dims, "size=1x2x3x1 stride=1x2x1x1", dtype))


def test_nan_is_selected_as_the_computation_says():
    x = RNG.normal(size=(3, 40)).astype(np.float32)
    x[RNG.random(x.shape) < 0.3] = np.nan
    check(program("[3,40]", "size=1x4 stride=1x2", "f32"), x, np.ones((3, 19), np.float32), np.float32(0))
