"""Narrow floats have all digits of f32 between operators of one loop nest, and those of their type where it shows."""

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


@pytest.mark.parametrize("dtype", LARGE)
def test_rounded_on_demand(dtype):
    module = xl.parse(program("", "{dtype}[64] subtract(sum, x)", dtype))
    run_passes(module, "result-rounding")
    x = np.full(64, LARGE[dtype]).astype(module.parameter_shapes[0].dtype.numpy)
    assert (xl.compile(module)(x) == 0).all()
