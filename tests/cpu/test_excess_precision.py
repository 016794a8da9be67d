"""Narrow floats have all digits of f32 between operators of one loop nest, and those of their type where it shows."""

import ml_dtypes
import numpy as np
import pytest

import xloom as xl
from xloom.passes import run_passes

# 256 + 1 is 256 in bf16, 2048 + 1 is 2048 in f16
LARGE = {"bf16": 256.0, "f16": 2048.0}


def program(body: str, root: str, dtype: str) -> str:
    return f"""HloModule m
      ENTRY main {{
        x = {dtype}[64] parameter(0)
        one = {dtype}[] constant(1)
        ones = {dtype}[64] broadcast(one), dimensions={{}}
        sum = {dtype}[64] add(x, ones)
        {body.format(dtype=dtype)}
        ROOT root = {root.format(dtype=dtype)}
      }}"""


@pytest.mark.parametrize("dtype", LARGE)
def test_kept_between_operators(dtype):
    module = xl.parse(program("", "{dtype}[64] subtract(sum, x)", dtype))
    x = np.full(64, LARGE[dtype]).astype(module.parameter_shapes[0].dtype.numpy)
    assert (xl.compile(module)(x) == 1).all()
    assert (xl.evaluate(module, x) == 0).all()


@pytest.mark.parametrize("dtype", LARGE)
@pytest.mark.parametrize(
    ("body", "root"),
    [
        ("", "pred[64] compare(sum, x), direction=NE"),
        ("", "s32[64] convert(sum)"),
        ("back = {dtype}[64] reduce-precision(sum), exponent_bits=5, mantissa_bits=7", "{dtype}[64] subtract(back, x)"),
        ("difference = {dtype}[64] subtract(sum, x)", "({dtype}[64], {dtype}[64]) tuple(sum, difference)"),
    ],
    ids=["compare", "convert", "reduce-precision", "stored"],
)
def test_rounded_where_it_shows(dtype, body, root):
    module = xl.parse(program(body, root, dtype))
    x = np.full(64, LARGE[dtype]).astype(module.parameter_shapes[0].dtype.numpy)
    np.testing.assert_array_equal(xl.compile(module)(x), xl.evaluate(module, x))


@pytest.mark.parametrize("root", ["f32[64] convert(sum)", "{dtype}[64] subtract(sum, x)", "{dtype}[64] add(sum, x)"])
@pytest.mark.parametrize("dtype", ["f8e4m3fn", "f8e5m2", "f8e4m3b11fnuz", "f8e3m4"])
def test_eight_bits_are_rounded_at_once(dtype, root):
    # as XLA:CPU does: 15 + 15 is more than some have
    module = xl.parse(program("", root, dtype))
    x = np.linspace(-15, 15, 64).astype(module.parameter_shapes[0].dtype.numpy)
    ours, theirs = (
        np.asarray(run(x)).astype(np.float32) for run in (xl.compile(module), lambda x: xl.evaluate(module, x))
    )
    np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize("dtype", LARGE)
def test_rounded_on_demand(dtype):
    module = xl.parse(program("", "{dtype}[64] subtract(sum, x)", dtype))
    run_passes(module, "result-rounding")
    x = np.full(64, LARGE[dtype]).astype(module.parameter_shapes[0].dtype.numpy)
    assert (xl.compile(module)(x) == 0).all()


@pytest.mark.parametrize("dtype", LARGE)
def test_rows_round_once(dtype):
    module = xl.parse(f"""HloModule m
      add {{ a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT s = f32[] add(a, b) }}
      ENTRY main {{
        x = {dtype}[64,256] parameter(0)
        zero = f32[] constant(0)
        one = {dtype}[] constant(1)
        ones = {dtype}[64,256] broadcast(one), dimensions={{}}
        less = {dtype}[64,256] subtract(x, ones)
        e = {dtype}[64,256] exponential(less)
        wide = f32[64,256] convert(e)
        sum = f32[64] reduce(wide, zero), dimensions={{1}}, to_apply=add
        sums = f32[64,256] broadcast(sum), dimensions={{0}}
        quotient = f32[64,256] divide(wide, sums)
        ROOT root = {dtype}[64,256] convert(quotient)
      }}""")
    kind = module.parameter_shapes[0].dtype.numpy
    x = np.random.default_rng(0).uniform(-2, 2, (64, 256)).astype(kind)
    exact = np.exp(x.astype(np.float64) - 1)
    exact /= exact.sum(axis=1, keepdims=True)
    error = np.abs(xl.compile(module)(x).astype(np.float64) / exact - 1)
    assert error.max() <= 0.505 * float(ml_dtypes.finfo(kind).eps)


@pytest.mark.parametrize("dtype", LARGE)
def test_greatest_is_one_of_its_column(dtype):
    """What is subtracted from its greatest is zero there, however many digits it has elsewhere."""
    module = xl.parse(f"""HloModule m
      greatest {{ a = {dtype}[] parameter(0)  b = {dtype}[] parameter(1)  ROOT m = {dtype}[] maximum(a, b) }}
      ENTRY main {{
        x = {dtype}[32,64] parameter(0)
        least = {dtype}[] constant(-inf)
        squares = {dtype}[32,64] multiply(x, x)
        most = {dtype}[64] reduce(squares, least), dimensions={{0}}, to_apply=greatest
        mosts = {dtype}[32,64] broadcast(most), dimensions={{1}}
        ROOT root = {dtype}[32,64] subtract(squares, mosts)
      }}""")
    x = np.random.default_rng(0).uniform(100, 200, (32, 64)).astype(module.parameter_shapes[0].dtype.numpy)
    assert (xl.compile(module)(x).max(axis=0) == 0).all()
