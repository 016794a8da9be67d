import ml_dtypes
import numpy as np
import pytest

import xloom as xl
import xloom.cpu.kernels
from tests.cpu.kernels import run_kernel
from xloom.cpu.kernels.sort.keys import plain_keys
from xloom.hlo.dtype import DTYPES

RNG = np.random.default_rng(0)
LESS = "p = {t}[] parameter(0) q = {t}[] parameter(1) ROOT c = pred[] compare(p, q), direction={d}"
CANONICAL = """p = {t}[] parameter(0) np = pred[] compare(p, p), direction=NE
  nan = {t}[] constant(nan) zero = {t}[] constant(0) ep = pred[] compare(p, zero), direction=EQ
  sp = {t}[] select(ep, zero, p) kp = {t}[] select(np, nan, sp)
  q = {t}[] parameter(1) nq = pred[] compare(q, q), direction=NE eq = pred[] compare(q, zero), direction=EQ
  sq = {t}[] select(eq, zero, q) kq = {t}[] select(nq, nan, sq)
  ROOT c = pred[] compare(kp, kq), direction={d}, type=TOTALORDER"""
# even numbers first, then by size
PARITY = """p = {t}[] parameter(0) q = {t}[] parameter(1) two = {t}[] constant(2)
  rp = {t}[] remainder(p, two) rq = {t}[] remainder(q, two)
  first = pred[] compare(rp, rq), direction=LT  same = pred[] compare(rp, rq), direction=EQ
  less = pred[] compare(p, q), direction={d}
  ROOT c = pred[] select(same, less, first)"""


# the same in a form in which no keys are recognised
ANY = PARITY.replace("ROOT c", "d") + " n = pred[] not(d) ROOT c = pred[] not(n)"


def program(dims, dtypes, dimension, region, direction="LT"):
    """The region has the first operand's elements as `p` and `q`; the other operands only go along."""
    region = region.replace("{t}", dtypes[0]).replace("{d}", direction)
    rest = " ".join(f"r{k} = {t}[] parameter({k})" for k, t in enumerate([t for t in dtypes for _ in "ab"]) if k >= 2)
    parameters = " ".join(f"x{k} = {t}{dims} parameter({k})" for k, t in enumerate(dtypes))
    names = ", ".join(f"x{k}" for k in range(len(dtypes)))
    shape = ", ".join(t + dims for t in dtypes)
    shape = f"({shape})" if len(dtypes) > 1 else shape
    return f"""HloModule m
less {{ {rest} {region} }}
ENTRY e {{ {parameters} ROOT s = {shape} sort({names}), dimensions={{{dimension}}}, is_stable=true, to_apply=less }}"""


def values(shape, k):
    dtype, dims = shape.dtype, shape.dims
    if k > 0 and dtype.bits >= 32:
        return np.arange(max(1, shape.size)).reshape(dims).astype(dtype.numpy)
    if dtype.is_float and dtype.bits >= 16:
        special = RNG.choice([np.nan, -np.nan, 0.0, -0.0, np.inf, -np.inf, 1e-40], dims)
        return np.where(RNG.random(dims) < 0.3, special, RNG.normal(size=dims)).astype(dtype.numpy)
    if dtype.is_complex:
        return (RNG.integers(-3, 3, dims) + 1j * RNG.integers(-3, 3, dims)).astype(dtype.numpy)
    if dtype.is_float or dtype.name == "pred":
        return RNG.integers(0, 2, dims).astype(dtype.numpy)
    info = ml_dtypes.iinfo(dtype.numpy)
    if dtype.bits < 8:
        return RNG.integers(int(info.min), int(info.max) + 1, dims).astype(dtype.numpy)
    if RNG.random() < 0.5:
        return RNG.integers(info.min, info.max, dims, dtype=dtype.numpy)
    return RNG.integers(0, 9, dims).astype(dtype.numpy)


def check(text, split=3, data=None):
    module = xl.parse(text)
    data = data or [values(p.shape, k) for k, p in enumerate(module.entry.parameters)]
    expected = xl.evaluate(module, *data)
    found = run_kernel(text, *data, split=split)
    if not isinstance(expected, tuple):
        expected, found = (expected,), (found,)
    for e, f in zip(expected, found, strict=True):
        found_bits, expected_bits = (np.frombuffer(np.asarray(v).tobytes(), np.uint8) for v in (f, e))
        np.testing.assert_array_equal(found_bits, expected_bits)


TYPES = ["pred", "s4", "u2", "s8", "u8", "s16", "u32", "s64", "u64", "f8e5m2", "f8e4m3fn", "bf16", "f16", "f32", "f64"]


@pytest.mark.sampled
@pytest.mark.parametrize("dims", ["[9,40]", "[700]", "[20000]"], ids=["network", "rows", "pieces"])
@pytest.mark.parametrize("direction", ["LT", "GT"])
@pytest.mark.parametrize("dtype", TYPES)
def test_types(dtype, direction, dims):
    region = LESS + ", type=TOTALORDER" if dtype[0] in "fb" else LESS
    check(program(dims, [dtype], dims.count(","), region, direction))


@pytest.mark.parametrize("dtype", ["f4e2m1fn", "f6e3m2fn", "f8e8m0fnu", "f8e4m3fnuz", "f8e5m2fnuz"])
def test_all_values_of_floats_with_few_nans(dtype):
    kind = DTYPES[dtype]
    text = program(f"[{1 << kind.bits}]", [dtype], 0, LESS + ", type=TOTALORDER")
    x = RNG.permutation(1 << kind.bits).astype(np.uint8).view(kind.numpy)
    for found in (run_kernel(text, x), xl.evaluate(xl.parse(text), x)):
        numbers = np.asarray(found).astype(np.float32)
        if dtype.endswith("fnuz"):  # NaN has the sign
            numbers = np.nan_to_num(numbers, nan=-np.inf)
        np.testing.assert_array_equal(numbers, np.sort(numbers))


@pytest.mark.sampled
@pytest.mark.parametrize("others", [[], ["s32"], ["f64"], ["s8", "c64"], ["f64", "u8", "c128"]], ids=len)
@pytest.mark.parametrize("dims", ["[10]", "[2,3,1]", "[10,33]", "[3,700]", "[9001]", "[1,2,17000]"])
def test_canonical_floats_with_others(dims, others):
    check(program(dims, ["f32", *others], dims.count(","), CANONICAL))


@pytest.mark.parametrize("dims", ["[9,11,5]", "[2,300,12]", "[2,9000,3]"])
@pytest.mark.parametrize("dtypes", [["f32"], ["f32", "s32"], ["f64", "s32", "s64"]], ids=len)
def test_other_dimensions(dims, dtypes):
    check(program(dims, dtypes, 1, CANONICAL))


@pytest.mark.parametrize("dims", ["[7]", "[5,100]", "[4096]", "[4097]", "[2,12345]", "[40000]"])
@pytest.mark.parametrize("dtypes", [["s32"], ["s16", "s32"], ["s32", "c128", "s64"]], ids=len)
def test_any_comparator(dims, dtypes):
    check(program(dims, dtypes, dims.count(","), ANY))


def test_wide_keys_by_comparison():
    check(program("[3,50]", ["f64", "s32"], 1, CANONICAL))
    check(
        program(
            "[3,50]",
            ["c64"],
            1,
            """p = {t}[] parameter(0) q = {t}[] parameter(1) a = f32[] real(p)
      b = f32[] real(q) c = f32[] imag(p) d = f32[] imag(q) lt = pred[] compare(a, b), direction=LT
      eq = pred[] compare(a, b), direction=EQ l2 = pred[] compare(c, d), direction=LT
      and = pred[] and(eq, l2) ROOT or = pred[] or(lt, and)""",
        )
    )


@pytest.mark.parametrize("dims", ["[100]", "[12,100]", "[5000]", "[30000]"])
@pytest.mark.parametrize("form", ["or", "select"])
def test_two_keys(dims, form):
    region = """p = s32[] parameter(0) q = s32[] parameter(1) u = u16[] parameter(2) v = u16[] parameter(3)
      first = pred[] compare(q, p), direction=LT  same = pred[] compare(p, q), direction=EQ
      less = pred[] compare(u, v), direction=LT """
    region += {
        "or": "and = pred[] and(less, same) ROOT or = pred[] or(and, first)",
        "select": "ROOT or = pred[] select(same, less, first)",
    }[form]
    text = f"""HloModule m
less {{ {region} }}
ENTRY e {{ x = s32{dims} parameter(0) y = u16{dims} parameter(1)
  ROOT s = (s32{dims}, u16{dims}) sort(x, y), dimensions={{{dims.count(",")}}}, to_apply=less }}"""
    module = xl.parse(text)
    keys = plain_keys(module.entry.root["to_apply"])
    assert keys and [k.descending for k in keys] == [True, False]
    shape = module.entry.parameters[0].shape.dims
    check(text, data=[RNG.integers(-3, 3, shape).astype(np.int32), RNG.integers(0, 9, shape).astype(np.uint16)])


@pytest.mark.parametrize(
    ("region", "plain"),
    [
        (LESS, True),
        (CANONICAL, True),
        (PARITY, True),
        (ANY, False),
        (LESS.replace("(p, q)", "(p, p)"), False),
        (LESS.replace("{d}", "LE"), False),
        (
            "p = {t}[] parameter(0) q = {t}[] parameter(1) d = {t}[] negate(q) ROOT c = pred[] compare(p, d), direction=LT",
            False,
        ),
    ],
)
def test_which_comparators_have_keys(region, plain):
    keys = plain_keys(xl.parse(program("[4]", ["f32"], 0, region)).entry.root["to_apply"])
    assert (keys is not None) == plain


def test_equal_keys_move_nothing():
    text = program("[20000]", ["s32"], 0, LESS)
    check(text, data=[np.full(20000, 7, np.int32)])
    check(text, data=[np.arange(20000, dtype=np.int32) % 7])


def test_empty_and_scalar():
    check(program("[3,0]", ["f32"], 1, LESS))
    check(program("[3,0]", ["f32", "s8"], 0, LESS))
    check(
        program("[4,1]", ["f32", "s8"], 1, LESS),
        data=[np.arange(4, dtype=np.float32).reshape(4, 1), np.ones((4, 1), np.int8)],
    )
