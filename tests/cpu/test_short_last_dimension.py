"""Arrays whose last dimension is short: its elements are done in each step of the dimension before."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import xloom as xl


def check(function, *arguments):
    module = xl.from_stablehlo(jax.jit(function).lower(*arguments).as_text())
    result = np.asarray(xl.compile(module)(*arguments))
    expected = np.asarray(xl.evaluate(module, *arguments))
    assert result.dtype == expected.dtype
    np.testing.assert_array_equal(result, expected)


def arrays(count, shape, dtype):
    random = np.random.default_rng(count)
    return [random.integers(0, 100, shape).astype(dtype) for _ in range(count)]


@pytest.mark.sampled
@pytest.mark.parametrize("count", [2, 3, 4, 7, 8, 9, 17])
@pytest.mark.parametrize("dtype", [np.float32, np.uint8, np.complex64, np.bool_])
def test_stacks(count, dtype):
    check(lambda *a: jnp.stack(a, -1), *arrays(count, (5, 131), dtype))


@pytest.mark.parametrize("count", [2, 3, 8])
def test_a_stack_that_is_the_only_dimension_of_its_loops(count):
    check(lambda *a: jnp.stack(a, -1), *arrays(count, (3,), np.float32))


@pytest.mark.parametrize("channels", [2, 3, 4, 5])
def test_channels(channels):
    (x,), (scale,) = arrays(1, (300, channels), np.float32), arrays(1, (channels,), np.float32)
    check(lambda x, scale: x[:, ::-1] * scale, x, scale)
    check(lambda x, scale: jnp.concatenate([x[:, :1] - 1, x[:, 1:] + 2], 1) * scale, x, scale)


def test_channels_within_rows():
    # the rows of a reduction, and what is made of it
    (x,), (scale,) = arrays(1, (16, 100, 3), np.float32), arrays(1, (3,), np.float32)
    check(lambda x, scale: (x - x.max((1, 2), keepdims=True)) * scale, x, scale)
