import math

import jax
import numpy as np
import pytest

import xloom as xl
from tests.cpu.kernels import run_kernel
from xloom.hlo.attributes import WindowDimension

RNG = np.random.default_rng(0)
PLAIN = "x = {t}[] parameter(0) y = {t}[] parameter(1) ROOT z = {t}[] {op}(x, y)"
# neither associative nor commutative: shows any change of order
OTHER = """x = {t}[] parameter(0) y = {t}[] parameter(1) three = {t}[] constant(3) s = {t}[] multiply(x, three)
  ROOT z = {t}[] subtract(s, y)"""


def program(dims, window, dtype="f32", op="add", region=PLAIN, out=None):
    out = out or dtype
    region = region.replace("{t}", out).replace("{op}", op)
    return f"""HloModule m
fold {{ {region} }}
ENTRY e {{ x = {dtype}{dims} parameter(0) init = {out}[] parameter(1)
  ROOT r = {windowed(out, dims, window)} reduce-window(x, init), window={{{window}}}, to_apply=fold }}"""


def windowed(dtype, dims, window):
    """The shape of the windows."""
    sizes = [int(d) for d in dims.strip("[]").split(",") if d]
    fields = dict(field.split("=") for field in window.split())

    def values(name, default):
        return fields[name].split("x") if name in fields else [default] * len(sizes)

    out = []
    names = {"size": "1", "stride": "1", "pad": "0_0", "rhs_dilate": "1", "lhs_dilate": "1"}
    for n, size, stride, pad, dilation, gaps in zip(sizes, *(values(*n) for n in names.items()), strict=True):
        low, high = map(int, pad.split("_"))
        w = WindowDimension(int(size), int(stride), low, high, int(dilation), int(gaps))
        out.append(str(w.output_size(n)))
    return f"{dtype}[{','.join(out)}]"


def check(text, *data, exact=True):
    module = xl.parse(text)
    if not data:
        data = [numbers(p.shape) for p in module.entry.parameters]
    expected, found = xl.evaluate(module, *data), run_kernel(text, *data, split=3)
    if not isinstance(expected, tuple):
        expected, found = (expected,), (found,)
    for e, f in zip(expected, found, strict=True):
        e, f = (np.asarray(v).astype(np.complex128) for v in (e, f))
        if exact:
            np.testing.assert_array_equal(f, e)
        else:
            np.testing.assert_allclose(f, e, rtol=1e-5, atol=1e-5 * max(1, np.abs(e).max(initial=0)))


def numbers(shape):
    dtype, dims = shape.dtype, shape.dims
    if dtype.is_complex:
        return (RNG.integers(-3, 3, dims) + 1j * RNG.integers(-3, 3, dims)).astype(dtype.numpy)
    low = 0 if dtype.kind.value in ("unsigned", "pred") else -2
    if dtype.bits < 8:  # memory holds them extended
        return np.asarray(RNG.integers(low, 2, dims)).astype(np.int8).view(dtype.numpy)
    return np.asarray(RNG.integers(low, 2, dims)).astype(dtype.numpy)


FORMS = [
    ("[]", ""),
    ("[9]", "size=3"),
    ("[9]", "size=3 stride=2 pad=1_2"),
    ("[9]", "size=1 stride=4"),
    ("[5000]", "size=4 pad=2_1"),
    ("[9]", "size=3 pad=-2_3"),
    ("[9]", "size=2 pad=3_-4 stride=3"),
    ("[9]", "size=3 rhs_dilate=3 pad=4_4"),
    ("[9]", "size=4 lhs_dilate=3 pad=2_1"),
    ("[9]", "size=3 lhs_dilate=2 rhs_dilate=3 pad=-1_5 stride=2"),
    ("[9]", "size=3 pad=5_5"),
    ("[9]", "size=3 pad=2_1 rhs_reversal=1"),
    ("[2,7,8,3]", "size=1x3x2x1 stride=1x2x2x1"),
    ("[2,7,8,3]", "size=1x3x3x1 stride=1x1x1x1 pad=0_0x1_1x1_1x0_0"),
    ("[2,3,7,8]", "size=1x1x3x3 stride=1x1x1x1 pad=0_0x0_0x1_1x1_1"),
    ("[2,7,8,3]", "size=1x3x3x2 stride=1x1x3x1 pad=0_0x1_1x-1_3x1_0 rhs_dilate=1x2x1x1 lhs_dilate=1x1x2x1"),
    ("[4,5,6]", "size=2x5x2 rhs_reversal=1x1x1 pad=1_0x4_4x0_1"),
    ("[3,40]", "size=1x12 pad=0_0x5_6"),
    ("[12,6]", "size=12x1 pad=5_6x0_0"),
    ("[3,0]", "size=1x2 pad=0_0x3_3"),
    ("[3,4]", "size=1x7"),
]


@pytest.mark.sampled
@pytest.mark.parametrize("region", [PLAIN, OTHER], ids=["add", "other"])
@pytest.mark.parametrize(("dims", "window"), FORMS, ids=str)
def test_forms(dims, window, region):
    check(program(dims, window, "s32", region=region))


CUMULATIVE = [
    ("[1]", "size=1"),
    ("[50]", "size=50 pad={pad}"),
    ("[3,40]", "size=1x40 pad=0_0x{pad}"),
    ("[40,3]", "size=40x1 pad={pad}x0_0"),
    ("[2,20,150]", "size=1x20x1 pad=0_0x{pad}x0_0"),
    ("[2,20,3,3]", "size=1x25x1x1 pad=0_0x{pad}x0_0x0_0"),
]


@pytest.mark.parametrize("back", [False, True])
@pytest.mark.parametrize("region", [PLAIN, OTHER], ids=["add", "other"])
@pytest.mark.parametrize(("dims", "window"), CUMULATIVE, ids=str)
def test_cumulative(dims, window, region, back):
    size = max(int(n) for n in window.split()[0].split("=")[1].split("x"))
    check(program(dims, window.format(pad=f"0_{size - 1}" if back else f"{size - 1}_0"), "s32", region=region))


@pytest.mark.sampled
@pytest.mark.parametrize("pad", ["69_0", "0_69"])
@pytest.mark.parametrize("op", ["add", "multiply", "maximum", "minimum"])
@pytest.mark.parametrize("dtype", ["s8", "u16", "s32", "u64", "bf16", "f32", "f64"])
def test_cumulative_operators(dtype, op, pad):
    check(program("[2,70]", f"size=1x70 pad=0_0x{pad}", dtype, op))


LARGE = [
    ("[3000]", "size=100 pad=40_59"),
    ("[300]", "size=33 pad=-3_50 stride=5"),
    ("[3,90]", "size=1x64 pad=0_0x70_70"),
    ("[90,5]", "size=37x1 pad=20_16x0_0"),
    ("[2,700,150]", "size=1x40x1 stride=1x3x1"),
    ("[2,40,50,3]", "size=1x9x13x1 stride=1x2x3x1 pad=0_0x4_4x5_8x0_0"),
    ("[4,5,6]", "size=4x3x6 pad=3_3x0_2x5_5"),
    ("[9,8]", "size=40x2 pad=40_40x0_0"),
    ("[2,20,9]", "size=1x40x1 stride=1x2x1 pad=0_0x60_60x0_0"),
    ("[3,500]", "size=1x48 stride=1x16 pad=0_0x5_20"),
    ("[40,70]", "size=3x4 stride=2x4 pad=1_0x1_3"),
]


@pytest.mark.sampled
@pytest.mark.parametrize("op", ["add", "maximum"])
@pytest.mark.parametrize("dtype", ["s32", "f32", "u8", "f64"])
@pytest.mark.parametrize(("dims", "window"), LARGE, ids=str)
def test_large_windows(dims, window, dtype, op):
    check(program(dims, window, dtype, op))


@pytest.mark.sampled
@pytest.mark.parametrize("op", ["maximum", "minimum"])
@pytest.mark.parametrize("dtype", ["bf16", "f16", "f32", "f64"])
@pytest.mark.parametrize(
    ("dims", "window"),
    [
        ("[2,9,11,70]", "size=1x3x3x1 stride=1x2x2x1 pad=0_0x1_1x0_1x0_0"),
        ("[3,13,40]", "size=1x3x3 stride=1x2x2 pad=0_0x0_1x1_1"),
        ("[3,300]", "size=1x9 pad=0_0x12_3"),
        ("[5,6,7]", "size=3x3x3 pad=4_1x1_4x3_3"),
    ],
    ids=str,
)
def test_extrema_of_special_numbers(dims, window, dtype, op):
    module = xl.parse(program(dims, window, dtype, op))
    shape = module.entry.parameters[0].shape
    x = RNG.normal(size=shape.dims)
    for special in (0.0, -0.0, math.inf, -math.inf, math.nan, -np.float64("nan")):
        x[RNG.random(x.shape) < 0.05] = special
    init = shape.dtype.numpy.type(-math.inf if op == "maximum" else math.inf)
    x = x.astype(shape.dtype.numpy)
    expected = np.asarray(xl.evaluate(module, x, init)).astype(np.float64)
    result = np.asarray(xl.compile(module)(x, init)).astype(np.float64)
    np.testing.assert_array_equal(result, expected)
    np.testing.assert_array_equal(np.signbit(result[expected == 0]), np.signbit(expected[expected == 0]))


def test_windows_larger_than_a_stack():
    check(program("[2500,40]", "size=2049x1", "s64"))


@pytest.mark.parametrize("op", ["and", "or", "xor"])
@pytest.mark.parametrize("dtype", ["pred", "s32"])
def test_cumulative_bits(dtype, op):
    check(program("[2,70]", "size=1x70 pad=0_0x69_0", dtype, op))


@pytest.mark.parametrize("pad", ["1299_0", "0_1299"])
@pytest.mark.parametrize("columns", [2, 16, 17])
@pytest.mark.parametrize(("dtype", "op"), [("s32", "add"), ("c64", "add"), ("bf16", "maximum")])
def test_cumulative_columns(dtype, op, columns, pad):
    check(program(f"[1300,{columns}]", f"size=1300x1 pad={pad}x0_0", dtype, op), exact=dtype != "c64")


def test_cumulative_sum_of_numbers():
    x = RNG.normal(size=5000).astype(np.float32)
    check(program("[5000]", "size=5000 pad=4999_0"), x, np.float32(2), exact=False)
    x[1000] = np.nan
    check(program("[5000]", "size=5000 pad=0_4999", op="maximum"), x, np.float32(-math.inf))


@pytest.mark.parametrize("op", ["maximum", "minimum"])
@pytest.mark.parametrize("dtype", ["f32", "f64"])
@pytest.mark.parametrize("special", [-0.0, math.inf, -math.inf, -np.float64("nan")], ids=str)
def test_cumulative_extremum_of_special_numbers(special, dtype, op):
    x = np.where(np.arange(70) < 30, 0.0, RNG.normal(size=70))
    x[[3, 17, 40]] = special
    x = x.astype({"f32": np.float32, "f64": np.float64}[dtype])
    module = xl.parse(program("[70]", "size=70 pad=69_0", dtype, op))
    init = x.dtype.type(-math.inf if op == "maximum" else math.inf)
    result, wanted = xl.compile(module)(x, init), getattr(np, op).accumulate(x)
    np.testing.assert_array_equal(result, wanted)
    if special == 0:  # -0 is less than 0
        zeros = wanted == 0
        np.testing.assert_array_equal(
            np.signbit(result[zeros]), getattr(np, op).accumulate(np.copysign(1, x))[zeros] < 0
        )


@pytest.mark.parametrize("op", ["add", "maximum"])
@pytest.mark.parametrize("dtype", ["pred", "s4", "u2", "s8", "u16", "s64", "f8e4m3fn", "bf16", "f16", "f32", "f64"])
def test_types(dtype, op):
    check(program("[4,6,5]", "size=2x3x1 stride=2x1x1 pad=1_0x0_1x0_0", dtype, op))


def test_complex():
    check(program("[4,6,5]", "size=2x3x1 stride=2x1x1 pad=1_0x0_1x0_0", "c64", "multiply"))


def test_initial_value_of_another_type():
    check(program("[4,6,5]", "size=2x3x1 pad=1_0x0_1x0_0", "bf16", "add", out="f32"))


def test_several_operands():
    check(
        """HloModule m
fold { a = f32[] parameter(0) i = s32[] parameter(1) c = f32[] parameter(2) j = s32[] parameter(3)
  p = pred[] compare(c, a), direction=GT  v = f32[] select(p, c, a)  k = s32[] select(p, j, i)
  ROOT t = (f32[], s32[]) tuple(v, k) }
ENTRY e { x = f32[5,7] parameter(0) n = s32[5,7] parameter(1) a = f32[] parameter(2) b = s32[] parameter(3)
  ROOT r = (f32[5,4], s32[5,4]) reduce-window(x, n, a, b), window={size=3x3 stride=1x2 pad=1_1x1_1}, to_apply=fold }""",
        RNG.normal(size=(5, 7)).astype(np.float32),
        np.arange(35, dtype=np.int32).reshape(5, 7),
        np.float32(-math.inf),
        np.int32(-1),
    )


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("dims", [(1 << 18,), (3, 5000, 2), (3, 5000), (1025,)])
def test_errors_of_long_cumulative_folds_do_not_add_up(dims, reverse):
    axis = 1 if len(dims) > 1 else 0
    x = RNG.normal(size=dims).astype(np.float32)
    lowered = jax.jit(lambda x: jax.lax.cumlogsumexp(x, axis=axis, reverse=reverse)).lower(x)
    y = np.flip(x, axis) if reverse else x
    expected = np.logaddexp.accumulate(y.astype(np.float64), axis)
    result = xl.compile(xl.from_stablehlo(lowered.as_text()))(x)
    np.testing.assert_allclose(result, np.flip(expected, axis) if reverse else expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("dtype", ["bf16", "f16"])
@pytest.mark.parametrize("dims", [(64, 600), (3, 5000), (1, 200)])
def test_narrow_sums_of_many_do_not_come_to_a_halt(dims, dtype):
    """Rounded at each step, they would: at 256 in bf16, for ones."""
    n = dims[1]
    text = f"""add {{ a = {dtype}[] parameter(0) b = {dtype}[] parameter(1) ROOT c = {dtype}[] add(a, b) }}
ENTRY e {{ x = {dtype}[{dims[0]},{n}] parameter(0) z = {dtype}[] constant(0)
  ROOT r = {dtype}[{dims[0]},{n}] reduce-window(x, z), window={{size=1x{n} pad=0_0x{n - 1}_0}}, to_apply=add }}"""
    module = xl.parse(text)
    dtype = module.entry.root.shape.dtype.numpy
    x = np.ones(dims, dtype)
    expected = np.cumsum(np.ones(dims), 1).astype(dtype)
    np.testing.assert_array_equal(xl.compile(module)(x), expected)
