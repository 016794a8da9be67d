"""Reductions in every form of loop: along rows, along columns, of everything, and as a part of a longer expression."""

import math

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest

import xloom as xl
from tests.cpu.optimised import optimised
from xloom.cpu.loops import row_reduction
from xloom.cpu.lower import lowered
from xloom.cpu.prepare import prepared
from xloom.cpu.printers import loops_text
from xloom.hlo import dtype as dtypes
from xloom.llvm.target import process_target

NEGATIVE_NAN = -np.float64("nan")


def program(dtype, opcode, dims, reduced, init):
    kept = [d for k, d in enumerate(dims) if k not in reduced]

    def shape(sizes):
        return f"{dtype}[{','.join(map(str, sizes))}]"

    return xl.parse(f"""HloModule m
    fold {{ a = {dtype}[] parameter(0) b = {dtype}[] parameter(1) ROOT m = {dtype}[] {opcode}(a, b) }}
    ENTRY e {{
      x = {shape(dims)} parameter(0)
      init = {dtype}[] constant({init})
      ROOT r = {shape(kept)} reduce(x, init), dimensions={{{",".join(map(str, reduced))}}}, to_apply=fold
    }}""")


def expected(opcode, x, axes):
    """Of doubles, with -0 below +0, and NaN above all for maxima and below all for minima."""
    sign = 1 if opcode == "maximum" else -1
    order = np.stack([np.isnan(x), np.where(np.isnan(x), 0, sign * x), sign * (0.5 - np.signbit(x))])
    moved = np.moveaxis(order, [a + 1 for a in axes], range(-len(axes), 0))
    flat = moved.reshape(3, *moved.shape[1 : 1 + x.ndim - len(axes)], -1)
    rank = np.lexsort(flat[::-1], axis=-1)[..., -1]
    values = np.moveaxis(x, axes, range(-len(axes), 0)).reshape(flat.shape[1:])
    return np.take_along_axis(values, rank[..., None], -1)[..., 0]


@pytest.mark.sampled
@pytest.mark.parametrize("opcode", ["maximum", "minimum"])
@pytest.mark.parametrize("dtype", ["f32", "f64", "bf16", "f16"])
@pytest.mark.parametrize("reduced", [(1,), (0,), (0, 1)])
@pytest.mark.parametrize("dims", [(40, 9), (300, 70), (70, 700)])
def test_extrema_of_floats(opcode, dtype, reduced, dims):
    kind = getattr(dtypes, dtype).numpy
    random = np.random.default_rng(len(dtype) + sum(dims))
    x = random.standard_normal(dims)
    zeros, nans = random.random(dims) < 0.5, random.random(dims) < 4 / (dims[0] + dims[1])
    x = np.where(zeros, np.copysign(0.0, x), -np.abs(x) if opcode == "maximum" else np.abs(x))
    x = np.where(random.random(dims) < 0.01, np.inf if opcode == "minimum" else -np.inf, x)
    for values in (x, np.where(nans, np.copysign(np.nan, x), x), np.full(dims, NEGATIVE_NAN)):
        values = values.astype(kind)
        init = "-inf" if opcode == "maximum" else "inf"
        result = np.asarray(xl.compile(program(dtype, opcode, dims, reduced, init))(values))
        want = expected(opcode, values.astype(np.float64), reduced)
        assert result.dtype == kind
        np.testing.assert_array_equal(result.astype(np.float64), want)
        number = ~np.isnan(want)
        np.testing.assert_array_equal(np.signbit(result.astype(np.float64))[number], np.signbit(want)[number])


@pytest.mark.parametrize("dtype", ["f32", "f64"])
@pytest.mark.parametrize("opcode", ["maximum", "minimum", "add", "multiply"])
@pytest.mark.parametrize("dims", [(1, 1100), (7, 1100), (6, 3, 1024), (261, 1025), (9, 9000)])
def test_rows_side_by_side(monkeypatch, dtype, opcode, dims):
    kind = getattr(dtypes, dtype).numpy
    x = np.random.default_rng(dims[-1]).uniform(0.99, 1.01, dims).astype(kind)
    x[..., 0, 100] = np.nan
    module = program(dtype, opcode, dims, (len(dims) - 1,), {"add": 3, "maximum": "-inf"}.get(opcode, 2))
    monkeypatch.setattr(row_reduction, "CACHED", 0)
    text = "".join(m.text for m in lowered(prepared(module), process_target())[-1].modules.values())
    assert "srem i64" in text or dims[0] == 1
    wide, start = x.astype(np.float64), {"add": 3, "maximum": -np.inf}.get(opcode, 2)
    want = getattr(np, opcode).reduce(wide, axis=-1, initial=start)
    np.testing.assert_allclose(np.asarray(xl.compile(module)(x)), want, rtol=1e-4 if dtype == "f32" else 1e-12)


@pytest.mark.parametrize("opcode", ["maximum", "minimum"])
def test_extrema_start_from_the_initial_value(opcode):
    x = np.full((8, 100), -1.0 if opcode == "maximum" else 1.0, np.float32)
    for init, want in (("nan", np.nan), ("-0.0", -0.0), ("0.0", 0.0)):
        result = np.asarray(xl.compile(program("f32", opcode, x.shape, (1,), init))(x))
        np.testing.assert_array_equal(result, np.full(8, want, np.float32))
        assert np.isnan(want) or (np.signbit(result) == np.signbit(want)).all()


def test_a_maximum_inside_an_expression():
    # of few elements, so that it is computed where it is used
    module = xl.parse("""HloModule m
    fold { a = f32[] parameter(0) b = f32[] parameter(1) ROOT m = f32[] maximum(a, b) }
    ENTRY e {
      x = f32[16,3] parameter(0)
      init = f32[] constant(-inf)
      m = f32[16] reduce(x, init), dimensions={1}, to_apply=fold
      mb = f32[16,3] broadcast(m), dimensions={0}
      ROOT r = f32[16,3] subtract(x, mb)
    }""")
    x = np.random.default_rng(0).standard_normal((16, 3)).astype(np.float32)
    np.testing.assert_array_equal(np.asarray(xl.compile(module)(x)), x - x.max(1, keepdims=True))


# few columns of many rows, which are reduced in pieces; rows in two loops; rows in numbers that no step divides;
# columns in two loops
COLUMNS = [
    ((6000, 24), (0,)),
    ((9001, 6), (0,)),
    ((50, 160, 24), (0, 1)),
    ((3, 3001, 40), (1,)),
    ((2, 90, 16, 70), (1, 3)),
    ((30, 200, 4, 3), (1,)),
    ((3, 2, 70, 2, 3), (2,)),
]


@pytest.mark.sampled
@pytest.mark.parametrize("dtype", ["f32", "bf16", "s32", "c64", "f64"])
@pytest.mark.parametrize(("dims", "reduced"), [*COLUMNS, ((1 << 18,), (0,)), ((64, 5000), (1,))])
def test_sums_count_the_initial_value_once(dtype, dims, reduced):
    kind = getattr(dtypes, dtype).numpy
    x = np.random.default_rng(0).integers(-3, 4, dims).astype(kind)
    init = "(5, 1)" if dtype == "c64" else "5"
    result = np.asarray(xl.compile(program(dtype, "add", dims, reduced, init))(x))
    wide = np.complex128 if dtype == "c64" else np.float64
    want = x.astype(wide).sum(reduced) + (5 + 1j if dtype == "c64" else 5)
    np.testing.assert_array_equal(result, want.astype(kind))


@pytest.mark.parametrize("opcode", ["and", "or", "xor"])
@pytest.mark.parametrize(("dims", "reduced"), COLUMNS)
def test_logic_along_columns(opcode, dims, reduced):
    x = np.random.default_rng(1).random(dims) < (0.001 if opcode == "or" else 0.999)
    init = "true" if opcode == "and" else "false"
    result = np.asarray(xl.compile(program("pred", opcode, dims, reduced, init))(x))
    ufunc = {"and": np.logical_and, "or": np.logical_or, "xor": np.logical_xor}[opcode]
    np.testing.assert_array_equal(result, ufunc.reduce(x, reduced))


@pytest.mark.parametrize(
    ("dims", "axis"),
    [
        ((6000, 24), 0),
        ((9001, 6), 0),
        ((3, 3001, 40), 1),
        ((400, 500), 0),
        ((400, 500), 1),
        *(((50, size), 1) for size in (31, 32, 33, 63, 100, 127, 128, 1024)),  # lanes, and what is left of them
    ],
)
def test_places_of_maxima(dims, axis):
    # two values per reduction, by a computation that is not one operator
    x = np.random.default_rng(2).integers(0, 1000, dims).astype(np.float32)
    module = xl.from_stablehlo(jax.jit(lambda x: jax.lax.argmax(x, axis, np.int32)).lower(x).as_text())
    np.testing.assert_array_equal(np.asarray(xl.compile(module)(x)), x.argmax(axis))


@pytest.mark.parametrize("dtype", ["f32", "c64"])
def test_a_sum_of_differences_keeps_nan(dtype):
    """Added in any order, x - x is still NaN for a NaN."""
    module = xl.parse(f"""HloModule m
    add {{ a = {dtype}[] parameter(0) b = {dtype}[] parameter(1) ROOT s = {dtype}[] add(a, b) }}
    ENTRY e {{
      x = {dtype}[9] parameter(0)
      d = {dtype}[9] subtract(x, x)
      z = {dtype}[] constant(0)
      ROOT r = {dtype}[] reduce(d, z), dimensions={{0}}, to_apply=add
    }}""")
    x = np.arange(9).astype(module.entry.parameters[0].shape.dtype.numpy)
    x[3] = np.inf
    with np.errstate(invalid="ignore"):
        assert np.isnan(xl.compile(module)(x))


@pytest.mark.parametrize(("dims", "kept"), [((64,), "[]"), ((8, 8), "[8]")])
@pytest.mark.parametrize("dtype", ["f32", "bf16", "f64"])
def test_an_extremum_of_converted_integers_keeps_nan(dtype, dims, kept):
    """0 times inf, of which LLVM believes that it has a sign; of a count of 0, 2 / 0 * 0."""
    whole = str(list(dims)).replace(" ", "")
    module = xl.parse(f"""HloModule m
    greatest {{ a = {dtype}[] parameter(0) b = {dtype}[] parameter(1) ROOT r = {dtype}[] maximum(a, b) }}
    least {{ a = {dtype}[] parameter(0) b = {dtype}[] parameter(1) ROOT r = {dtype}[] minimum(a, b) }}
    ENTRY e {{
      count = u8{whole} parameter(0)
      low = {dtype}[] constant(-inf)
      high = {dtype}[] constant(inf)
      zero = {dtype}[] constant(0)
      zeros = {dtype}{whole} broadcast(zero), dimensions={{}}
      n = {dtype}{whole} convert(count)
      two = {dtype}[] constant(2)
      twos = {dtype}{whole} broadcast(two), dimensions={{}}
      share = {dtype}{whole} divide(twos, n)
      back = {dtype}{whole} multiply(share, n)
      bounded = {dtype}{whole} maximum(back, zeros)
      first = {dtype}{kept} reduce(back, low), dimensions={{0}}, to_apply=greatest
      second = {dtype}{kept} reduce(bounded, high), dimensions={{0}}, to_apply=least
      ROOT r = tuple(first, second)
    }}""")
    greatest, least = xl.compile(module)(np.arange(64, dtype=np.uint8).reshape(dims))
    for got in (greatest, least):
        np.testing.assert_array_equal(np.isnan(np.asarray(got, np.float64)).ravel(), np.arange(np.size(got)) == 0)


@pytest.mark.parametrize("dims", [(100_000,), (300_001,), (37, 4000), (5000, 50), (70_000, 7)])
def test_the_place_of_the_maximum_of_all(dims):
    x = np.random.default_rng(1).integers(-300, 300, dims).astype(np.float32)  # many are greatest: the first is meant

    def place(x):
        numbers = jax.lax.broadcasted_iota(np.int32, dims, 0) * math.prod(dims[1:])
        if len(dims) > 1:
            numbers += jax.lax.broadcasted_iota(np.int32, dims, 1)

        def better(a, b):
            wins = (a[0] > b[0]) | ((a[0] == b[0]) & (a[1] < b[1]))
            return jax.lax.select(wins, a[0], b[0]), jax.lax.select(wins, a[1], b[1])

        initial = (np.float32(-np.inf), np.int32(np.iinfo(np.int32).max))
        return jax.lax.reduce((x, numbers), initial, better, tuple(range(len(dims))))[1]

    module = xl.from_stablehlo(jax.jit(place).lower(x).as_text())
    assert xl.compile(module)(x) == x.argmax()


@pytest.mark.sampled
@pytest.mark.parametrize("dtype", [np.int8, np.int16, np.int32, np.float32, ml_dtypes.bfloat16])
@pytest.mark.parametrize("size", [2, 3, 5, 7, 8, 10, 13, 16, 17, 20, 31, 32])
def test_rows_of_a_few_elements(size, dtype):
    x = np.random.default_rng(size).integers(-20, 20, (1037, size)).astype(dtype)  # whole blocks, vectors and the rest

    def function(x):
        doubled = x[:, :] * 2
        return jnp.max(doubled, 1), jnp.sum(x.astype(np.float32), 1), jnp.any(x > 15, 1), jnp.argmax(x, 1)

    module = xl.from_stablehlo(jax.jit(function).lower(x).as_text())
    for got, expected in zip(xl.compile(module)(x), xl.evaluate(module, x), strict=True):
        np.testing.assert_array_equal(np.asarray(got), np.asarray(expected))


@pytest.mark.parametrize("dtype", ["f32", "f64"])
@pytest.mark.parametrize(
    ("dims", "reduced"),
    [
        ((600_000,), (0,)),
        ((3, 200_000), (1,)),
        ((200_001, 3), (0,)),
        ((2, 300, 1000), (1, 2)),
        ((2, 3000, 100), (1, 2)),
    ],
)
def test_long_sums_err_little(dtype, dims, reduced):
    """Equal numbers are rounded the same way again and again: one after the other, the last digits of millions are lost."""
    count = math.prod(dims[d] for d in reduced)
    rest = [n for d, n in enumerate(dims) if d not in reduced]
    text = f"""HloModule m
sum {{ a = {dtype}[] parameter(0) b = {dtype}[] parameter(1) ROOT r = {dtype}[] add(a, b) }}
ENTRY e {{ x = {dtype}[{",".join(map(str, dims))}] parameter(0) z = {dtype}[] constant(0)
  ROOT r = {dtype}[{",".join(map(str, rest))}] reduce(x, z), dimensions={{{",".join(map(str, reduced))}}}, to_apply=sum }}"""
    x = np.full(dims, 0.1, {"f32": np.float32, "f64": np.float64}[dtype])
    found = xl.compile(xl.parse(text))(x)
    np.testing.assert_allclose(found, float(x.flat[0]) * count, rtol=32 * np.finfo(x.dtype).eps)


def _optimised(dims, reduced, opcode="add"):
    (module,) = lowered(prepared(program("f32", opcode, dims, reduced, 0)), process_target())[-1].modules.values()
    return str(optimised(module.text))


def test_long_sums_are_no_more_code_than_short_ones():
    """The runs of a sum are a loop, and each has as many steps: no copies of it, nor code for fewer steps."""
    short, long = (_optimised((size,), (0,)) for size in (1 << 21, 1 << 23))
    assert len(long.splitlines()) <= len(short.splitlines()) + 2  # a constant more or less
    assert long.count("phi <") <= 6


def test_whole_strips_of_rows_have_no_code_for_less():
    rows = [_optimised((size, 1 << 15), (1,), "maximum").count(" br ") for size in (1 << 10, (1 << 10) + 1)]
    assert rows[0] < rows[1]


_BETWEEN_OTHERS = {
    "rolled": lambda x: jnp.roll(x, 1, 1) + x + jnp.roll(x, -2, 1) * jnp.roll(x, 1, 0),
    "padded": lambda x: jnp.pad(x, ((0, 0), (3, 1)))[:, 2:-2] * jnp.pad(x, ((1, 0), (0, 0)))[:-1],
    "joined": lambda x: jnp.concatenate([x[:, :70], -x[:, 3:50], x * x], axis=1),
    "turned": lambda x: jnp.concatenate([x[:, ::-1], x[::-1]], axis=1),
}


@pytest.mark.parametrize("reduced", [None, 0, 1], ids=str)
@pytest.mark.parametrize("reduction", [jnp.sum, jnp.max, lambda x, axis: (x > 1).any(axis)], ids=["sum", "max", "any"])
@pytest.mark.parametrize("form", _BETWEEN_OTHERS)
def test_arrays_put_together(form, reduction, reduced):
    """What is reduced comes from other places at the ends of rows."""
    x = np.random.default_rng(3).standard_normal((40, 300)).astype(np.float32)
    lowered = jax.jit(lambda x: reduction(_BETWEEN_OTHERS[form](x), axis=reduced)).lower(x)
    found = xl.compile(xl.from_stablehlo(str(lowered.compiler_ir("stablehlo"))))(x)
    np.testing.assert_allclose(found, lowered.compile()(x), rtol=1e-4, atol=1e-4)


def test_ends_of_rows_are_loops_of_their_own():
    """A loop that asks in each step where it is loads its elements one by one."""
    x = jax.ShapeDtypeStruct((40, 300), jnp.bool_)
    step = jax.jit(lambda x: (x ^ jnp.roll(x, 1, 1) ^ jnp.roll(x, -1, 1)).any(1)).lower(x)
    module = xl.from_stablehlo(str(step.compiler_ir("stablehlo")))
    (kernel,) = lowered(prepared(module), process_target())[-1].modules.values()
    assert str(optimised(kernel.text)).count("= load i8,") < 20


def test_short_columns_in_two_loops_are_side_by_side():
    text = loops_text(program("f32", "maximum", (256, 300, 4, 3), (1,), "-inf"))
    assert "parallel for i1 in 0..256:\n    for i3 in 0..12:\n" in text


def test_few_columns_stay_in_registers():
    """A row that is shorter than a vector is all that there is: nothing is masked, nothing waits for memory."""
    text = _optimised((200, 100, 8), (1,))
    assert "alloca" not in text
    assert "masked" not in text


def test_few_results_of_two_dimensions():
    """They are as many as a vector has only when their dimensions are joined, which both who decides and who emits do."""
    module = xl.parse(
        "HloModule m least { a = f64[] parameter(0)  b = f64[] parameter(1)  ROOT c = f64[] minimum(a, b) } "
        "ENTRY e { x = f64[500,4,3] parameter(0)  z = f64[] constant(9)  "
        "ROOT r = f64[4,3] reduce(x, z), dimensions={0}, to_apply=least }"
    )
    x = np.random.default_rng(0).normal(size=(500, 4, 3))
    np.testing.assert_array_equal(np.asarray(xl.compile(module)(x)), x.min(0))


@pytest.mark.parametrize("dims", [(7, 7, 64, 3), (3, 5, 64, 2), (9, 64, 3), (2, 3, 4, 64, 3), (5, 64, 9)])
def test_rows_whose_loops_join_to_the_inner_one(dims, monkeypatch, tmp_path):
    """The number of rows would then be needed where they are told apart, and code for any number has none."""
    monkeypatch.setenv("XLOOM_CACHE_DIR", str(tmp_path))
    monkeypatch.delenv("XLOOM_CACHE", raising=False)
    x = np.random.default_rng(1).integers(-9, 9, dims).astype(np.float32)
    found = xl.compile(program("f32", "add", dims, (len(dims) - 2,), 0))(x)
    np.testing.assert_array_equal(found, x.sum(-2))
