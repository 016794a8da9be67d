"""Rows whose length is no multiple of a vector's, up to their last element and not beyond it."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import xloom as xl
from xloom.cpu.printers import loops_text
from xloom.hlo.dtype import from_numpy


@pytest.mark.sampled
@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.int8, np.complex64, np.bool_])
@pytest.mark.parametrize("length", [9, 15, 25, 31, 63, 94, 127])
def test_rows(dtype, length):
    random = np.random.default_rng(length)
    x, y = (random.integers(0, 9, (40, n)).astype(dtype) for n in (length, length + 3))

    def function(x, y):
        z = y[:, 1:-2]
        out = ((x & z) | ~x) ^ z ^ x[:1] if dtype is np.bool_ else (x * z + x - z) * x[:1] - z * z
        return jnp.zeros((42, length + 5), dtype).at[1:-1, 2:-3].set(out)

    module = xl.from_stablehlo(jax.jit(function).lower(x, y).as_text())
    np.testing.assert_array_equal(np.asarray(xl.compile(module)(x, y)), np.asarray(xl.evaluate(module, x, y)))


def test_a_fold_over_few_elements_is_a_stage_of_longer_rows():
    module = xl.parse("""
    add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] add(a, b) }
    ENTRY e {
      x = f32[100,3] parameter(0)
      zero = f32[] constant(0)
      one = f32[100,100,3] broadcast(x), dimensions={0,2}
      other = f32[100,100,3] broadcast(x), dimensions={1,2}
      apart = f32[100,100,3] subtract(one, other)
      square = f32[100,100,3] multiply(apart, apart)
      distance = f32[100,100] reduce(square, zero), dimensions={2}, to_apply=add
      root = f32[100,100] sqrt(distance)
      ROOT r = f32[100] reduce(root, zero), dimensions={1}, to_apply=add
    }""")
    x = np.random.default_rng(0).standard_normal((100, 3)).astype(np.float32)
    executable = xl.compile(module)
    np.testing.assert_allclose(executable(x), xl.evaluate(module, x), rtol=1e-5)
    assert executable.memory.peak_bytes < 100 * 100 * 4  # the distances of all pairs are never in memory at once


@pytest.mark.sampled
@pytest.mark.parametrize("dtype", [np.int8, np.float16, np.float32, np.float64])
@pytest.mark.parametrize("length", [5, 6, 7, 9, 12])
@pytest.mark.parametrize("rows", [16, 300, 1037])
def test_rows_of_a_few_elements_and_what_is_broadcast_along_them(rows, length, dtype):
    random = np.random.default_rng(length)
    name = from_numpy(dtype).name
    module = xl.parse(f"""
HloModule m
ENTRY e {{
  x = {name}[2,{rows},{length}] parameter(0)
  row = {name}[{length}] parameter(1)
  column = {name}[2,{rows}] parameter(2)
  rows = {name}[2,{rows},{length}] broadcast(row), dimensions={{2}}
  columns = {name}[2,{rows},{length}] broadcast(column), dimensions={{0,1}}
  a = {name}[2,{rows},{length}] multiply(x, rows)
  b = {name}[2,{rows},{length}] subtract(a, columns)
  c = {name}[2,{rows},{length}] add(x, columns)
  p = pred[2,{rows},{length}] compare(b, x), direction=LT
  ROOT t = ({name}[2,{rows},{length}], {name}[2,{rows},{length}], pred[2,{rows},{length}]) tuple(b, c, p)
}}""")
    if 4 < length < 8 and rows > 16:
        assert "set apart" in loops_text(module)
    arguments = [random.integers(0, 9, dims).astype(dtype) for dims in ((2, rows, length), (length,), (2, rows))]
    for got, expected in zip(xl.compile(module)(*arguments), xl.evaluate(module, *arguments), strict=True):
        np.testing.assert_array_equal(np.asarray(got), np.asarray(expected))


@pytest.mark.parametrize("length", [23, 45])
def test_no_row_is_computed_twice_where_it_is_overwritten(length):
    x = np.arange(40 * length, dtype=np.float32).reshape(40, length) / 1000

    def step(y):
        return (y * 2 + 1) * (y - 3) - y * y * 1.5 + y

    def function(x):
        return jax.lax.fori_loop(0, 3, lambda i, x: x.at[1:-1, 1:-1].set(step(x[1:-1, 1:-1])), x)

    module = xl.from_stablehlo(jax.jit(function).lower(x).as_text())
    np.testing.assert_allclose(np.asarray(xl.compile(module)(x)), np.asarray(xl.evaluate(module, x)), rtol=1e-5)


def test_rows_are_set_apart_only_where_one_follows_the_other():
    """A layer that data choose for each element lies elsewhere in each row."""

    def function(layers, numbers):
        chosen = jnp.flip(numbers, 0) % 2
        return jnp.take_along_axis(layers, chosen[None], 0, mode="clip")[0]

    random = np.random.default_rng(0)
    layers = random.integers(0, 99, (2, 33, 7)).astype(np.int32)
    numbers = random.integers(0, 99, (33, 7)).astype(np.int32)
    module = xl.from_stablehlo(jax.jit(function).lower(layers, numbers).as_text())
    expected = np.take_along_axis(layers, numbers[None, ::-1] % 2, 0)[0]
    np.testing.assert_array_equal(xl.compile(module)(layers, numbers), expected)
