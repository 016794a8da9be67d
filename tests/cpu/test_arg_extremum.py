"""Where the greatest or least element is, first: also of several NaN, and in rows whose parts are joined."""

import ml_dtypes
import numpy as np
import pytest

import xloom as xl
from xloom.cpu.lower import lowered
from xloom.cpu.prepare import prepared
from xloom.hlo.dtype import from_numpy
from xloom.llvm.target import process_target

# what JAX's arg-max keeps, and PyTorch's
JAX = """wins = pred[] compare(a, b), direction=DIRECTION
  nan = pred[] compare(a, a), direction=NE
  keep = pred[] or(wins, nan)
  v = T[] select(keep, a, b)
  same = pred[] compare(a, b), direction=EQ
  first = pred[] compare(i, j), direction=LT
  both = pred[] and(same, first)
  place = pred[] or(keep, both)
  w = s32[] select(place, i, j)"""
TORCH = """wins = pred[] compare(a, b), direction=DIRECTION
  nan = pred[] compare(a, a), direction=NE
  other = pred[] compare(b, b), direction=NE
  number = pred[] not(other)
  alone = pred[] and(nan, number)
  equal = pred[] compare(a, b), direction=EQ
  nans = pred[] and(nan, other)
  same = pred[] or(equal, nans)
  first = pred[] compare(j, i), direction=GT
  both = pred[] and(first, same)
  some = pred[] or(wins, alone)
  keep = pred[] or(both, some)
  v = T[] select(keep, a, b)
  w = s32[] select(keep, i, j)"""


def program(
    dtype: np.dtype, dims: tuple[int, int], dimension: int, body: str, *, least: bool = False, both: bool = False
) -> xl.Module:
    name = from_numpy(dtype).name
    size = dims[1 - dimension]
    init = {"f": "-inf", "V": "-inf", "b": "false"}.get(dtype.kind, "-100")
    init = init.replace("-", "") if least else init
    body = body.replace("DIRECTION", "LT" if least else "GT").replace("T[]", f"{name}[]")
    root = f"ROOT r = ({name}[{size}], s32[{size}]) tuple(x0, x1)" if both else f"ROOT r = s32[{size}] copy(x1)"
    return xl.parse(f"""
HloModule m
better {{
  a = {name}[] parameter(0)
  i = s32[] parameter(1)
  b = {name}[] parameter(2)
  j = s32[] parameter(3)
  {body}
  ROOT t = ({name}[], s32[]) tuple(v, w)
}}
ENTRY e {{
  x = {name}[{dims[0]},{dims[1]}] parameter(0)
  places = s32[{dims[0]},{dims[1]}] iota(), iota_dimension={dimension}
  init = {name}[] constant({init})
  zero = s32[] constant(0)
  found = ({name}[{size}], s32[{size}]) reduce(x, places, init, zero), dimensions={{{dimension}}}, to_apply=better
  x0 = {name}[{size}] get-tuple-element(found), index=0
  x1 = s32[{size}] get-tuple-element(found), index=1
  {root}
}}""")


def numbers(dtype: np.dtype, dims: tuple[int, int], dimension: int) -> np.ndarray:
    """Many equal ones, rows of nothing but infinity, and several NaN."""
    random = np.random.default_rng(0)
    x = random.integers(-3, 3, dims).astype(np.float64)
    if dtype.kind not in "fV":
        return x.astype(dtype)
    x[random.random(dims) < 3 / dims[dimension]] = np.nan
    whole = x if dimension == 1 else x.T
    whole[0], whole[1] = -np.inf, np.inf
    return x.astype(dtype)


def is_in_order(module: xl.Module) -> bool:
    """Whether a comparison serves both for greater and for equal."""
    *_, compiled = lowered(prepared(module), process_target())
    texts = [compiled.main, *(m.text for m in compiled.modules.values())]
    return any(f"fcmp {symbol}" in text for text in texts for symbol in ("oge", "ole"))


@pytest.mark.parametrize("body", [JAX, TORCH], ids=["jax", "torch"])
@pytest.mark.parametrize("least", [False, True])
@pytest.mark.parametrize(
    ("dims", "dimension"), [((9, 7), 1), ((5, 100), 1), ((3, 5000), 1), ((300, 40), 0), ((2, 1 << 17), 1)]
)
def test_the_first_of_equal_ones(body: str, least: bool, dims: tuple[int, int], dimension: int):
    x = numbers(np.dtype(np.float32), dims, dimension)
    module = program(x.dtype, dims, dimension, body, least=least)
    assert is_in_order(module)
    found = (np.argmin if least else np.argmax)(x, dimension)
    np.testing.assert_array_equal(xl.compile(module)(x), found)


@pytest.mark.parametrize("dtype", [np.float64, np.float16, ml_dtypes.bfloat16, np.int8, np.int32, np.bool_])
@pytest.mark.parametrize("body", [JAX, TORCH], ids=["jax", "torch"])
def test_types(dtype: type, body: str):
    x = numbers(np.dtype(dtype), (4, 300), 1)
    values, places = xl.compile(program(x.dtype, x.shape, 1, body, both=True))(x)
    wide = x if x.dtype.kind != "V" else x.astype(np.float32)
    np.testing.assert_array_equal(places, np.argmax(wide, 1))
    np.testing.assert_array_equal(values.astype(wide.dtype), np.max(wide, 1))


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("compare(i, j), direction=LT", "compare(i, j), direction=GT"),  # the last of equal ones
        ("compare(a, a), direction=NE", "compare(b, b), direction=NE"),  # another way with NaN
        ("compare(a, b), direction=EQ", "compare(a, b), direction=EQ, type=TOTALORDER"),
    ],
)
def test_others_stay_as_they_are(before: str, after: str):
    assert before in JAX
    module = program(np.dtype(np.float32), (4, 100), 1, JAX.replace(before, after))
    assert not is_in_order(module)
    x = np.random.default_rng(0).integers(-3, 3, (4, 100)).astype(np.float32)
    np.testing.assert_array_equal(xl.compile(module)(x), xl.evaluate(module, x))


def test_places_that_begin_before_what_there_is_count():
    text = str(program(np.dtype(np.float32), (4, 100), 1, JAX)).replace("constant(0)", "constant(7)")
    module = xl.parse(text)
    x = np.full((4, 100), -np.inf, np.float32)
    np.testing.assert_array_equal(xl.compile(module)(x), xl.evaluate(module, x))


def test_of_no_rows():
    module = xl.parse("""HloModule m
    least { a = f64[] parameter(0)  i = s32[] parameter(1)  b = f64[] parameter(2)  j = s32[] parameter(3)
      wins = pred[] compare(a, b), direction=LT  v = f64[] select(wins, a, b)  w = s32[] select(wins, i, j)
      ROOT r = (f64[], s32[]) tuple(v, w) }
    ENTRY e { x = f64[0,8,2] parameter(0)  n = s32[0,8,2] iota(), iota_dimension=0  inf = f64[] constant(inf)
      z = s32[] constant(7)
      ROOT r = (f64[8,2], s32[8,2]) reduce(x, n, inf, z), dimensions={0}, to_apply=least }""")
    x = np.zeros((0, 8, 2))
    for found, expected in zip(xl.compile(module)(x), xl.evaluate(module, x), strict=True):
        np.testing.assert_array_equal(found, expected)


def test_the_first_nan_of_a_reshaped_product():
    """One dimension that a reshape makes of two is two loops, whose parts are joined in no order."""
    text = """HloModule m
most { x = f32[] parameter(0) i = s64[] parameter(1) y = f32[] parameter(2) j = s64[] parameter(3)
  gt = pred[] compare(x, y), direction=GT nan = pred[] compare(x, x), direction=NE keep = pred[] or(gt, nan)
  eq = pred[] compare(x, y), direction=EQ lt = pred[] compare(i, j), direction=LT first = pred[] and(eq, lt)
  pick = pred[] or(keep, first) v = f32[] select(keep, x, y) w = s64[] select(pick, i, j)
  ROOT t = (f32[], s64[]) tuple(v, w) }
ENTRY e { a = f32[9,9] parameter(0) b = f32[9,9] parameter(1) p = f32[9,9] multiply(a, b) r = f32[81] reshape(p)
  n = s64[81] iota(), iota_dimension=0 low = f32[] constant(-inf) zero = s64[] constant(0)
  ROOT m = (f32[], s64[]) reduce(r, n, low, zero), dimensions={0}, to_apply=most }"""
    module, numbers = xl.parse(text), np.random.default_rng(0)
    run = xl.compile(module)
    for _ in range(20):
        a, b = numbers.standard_normal((2, 9, 9)).astype(np.float32)
        a.reshape(-1)[numbers.integers(81, size=4)] = np.nan
        assert int(run(a, b)[1]) == int(xl.evaluate(module, a, b)[1]) == int(np.argmax(a * b))
