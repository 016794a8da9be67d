"""A product that is added to something is rounded together with the sum; one in a difference, before."""

import numpy as np
import pytest

import xloom as xl

RANDOM = np.random.default_rng(0)
X, Y, Z, W = (RANDOM.standard_normal(1000).astype(np.float32) for _ in range(4))


def compiled(expression: str):
    module = xl.parse(f"""
HloModule m
ENTRY e {{
  x = f32[1000] parameter(0)
  y = f32[1000] parameter(1)
  z = f32[1000] parameter(2)
  w = f32[1000] parameter(3)
  p = f32[1000] multiply(x, y)
  {expression}
}}""")
    return xl.compile(module)(X, Y, Z, W)


def test_a_product_and_a_sum_round_once():
    exact = X.astype(np.float64) * Y
    np.testing.assert_array_equal(compiled("ROOT r = f32[1000] add(p, z)"), (exact + Z).astype(np.float32))


def test_a_product_and_a_difference_round_both():
    np.testing.assert_array_equal(compiled("ROOT r = f32[1000] subtract(z, p)"), Z - X * Y)
    np.testing.assert_array_equal(compiled("ROOT r = f32[1000] subtract(p, z)"), X * Y - Z)


def test_two_products_round_both():
    operands = "q = f32[1000] multiply(z, w)"
    expected = X * Y - Z * W
    np.testing.assert_array_equal(compiled(f"{operands}\n  ROOT r = f32[1000] subtract(p, q)"), expected)


def test_a_product_that_is_also_a_result_is_the_one_that_is_added():
    text = "s = f32[1000] add(p, z)\n  ROOT t = (f32[1000], f32[1000]) tuple(p, s)"
    product, total = compiled(text)
    np.testing.assert_array_equal(product, X * Y)
    np.testing.assert_array_equal(total, product + Z)


def test_equal_products_differ_by_nothing():
    operands = "q = f32[1000] multiply(y, x)"
    np.testing.assert_array_equal(compiled(f"{operands}\n  ROOT r = f32[1000] subtract(p, q)"), 0)


@pytest.mark.parametrize("dtype", ["f32", "f64"])
def test_a_difference_of_equal_numbers_is_zero(dtype):
    """Whoever asks whether y - max(y) is 0 looks for the largest; a rounded product may be an operand of its own."""
    module = xl.parse(f"""HloModule m
        largest {{ a = {dtype}[] parameter(0) b = {dtype}[] parameter(1) ROOT c = {dtype}[] maximum(a, b) }}
        ENTRY e {{
          x = {dtype}[1000] parameter(0)
          rounded = {dtype}[1000] parameter(1)
          scale = {dtype}[] constant(0.9375)
          scales = {dtype}[1000] broadcast(scale), dimensions={{}}
          y = {dtype}[1000] multiply(x, x)
          z = {dtype}[1000] multiply(y, scales)
          low = {dtype}[] constant(-inf)
          m = {dtype}[] reduce(z, low), dimensions={{0}}, to_apply=largest
          ms = {dtype}[1000] broadcast(m), dimensions={{}}
          below = {dtype}[1000] subtract(z, ms)
          off = {dtype}[1000] subtract(y, rounded)
          ROOT r = ({dtype}[1000], {dtype}[1000]) tuple(below, off)
        }}""")
    x = np.random.default_rng(0).normal(size=1000).astype("f4" if dtype == "f32" else "f8")
    below, off = (np.asarray(a) for a in xl.compile(module)(x, x * x))
    assert np.count_nonzero(below == 0) == 1
    assert not np.any(off)


@pytest.mark.parametrize(("shape", "dimension"), [("1000,2", 1), ("2,1000", 0)])
def test_a_sum_of_products_rounds_one_of_two(shape: str, dimension: int):
    module = xl.parse(f"""HloModule m
        added {{ a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] add(a, b) }}
        ENTRY e {{
          x = f32[{shape}] parameter(0)
          y = f32[{shape}] parameter(1)
          p = f32[{shape}] multiply(x, y)
          zero = f32[] constant(0)
          ROOT r = f32[1000] reduce(p, zero), dimensions={{{dimension}}}, to_apply=added
        }}""")
    total = np.asarray(xl.compile(module)(np.stack([X, Z], dimension), np.stack([Y, W], dimension)))
    first, second = X.astype(np.float64) * Y, Z.astype(np.float64) * W
    once = [(first + Z * W).astype(np.float32), (X * Y + second).astype(np.float32)]
    assert np.all((total == once[0]) | (total == once[1]))
    assert np.any(total != X * Y + Z * W)
