"""Rows whose length is no multiple of a vector's, up to their last element and not beyond it."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import xloom as xl


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
