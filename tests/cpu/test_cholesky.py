"""Cholesky factors against the interpreter; the triangle that must not be read is NaN."""

import numpy as np
import pytest
from kernels import run_kernel

import xloom as xl


def factors(dtype: str, batch: str, n: int, lower: bool, negative: int | None = None) -> tuple:
    square = f"{dtype}[{batch}{n},{n}]"
    text = f"HloModule m\nENTRY e {{ a = {square} parameter(0)\nROOT l = {square} cholesky(a), lower={lower} }}"
    module = xl.parse(text.replace("=True", "=true").replace("=False", "=false"))
    shape = module.entry.parameters[0].shape
    rng = np.random.default_rng(n)
    x = rng.normal(size=shape.dims)
    if shape.dtype.is_complex:
        x = x + 1j * rng.normal(size=shape.dims)
    a = x @ np.conj(np.swapaxes(x, -1, -2)) + n * np.eye(n)
    if negative is not None:
        a.reshape(-1, n, n)[0, negative, negative] = -1
    read = np.tril(np.ones((n, n), bool))
    read = read if lower else read.T
    expected = xl.evaluate(module, np.where(read, a, 0).astype(shape.dtype.numpy))
    got = run_kernel(module.to_text(), np.where(read, a, np.nan).astype(shape.dtype.numpy), split=3)
    return expected, got


@pytest.mark.sampled
@pytest.mark.parametrize("dtype", ["f32", "f64", "c64", "c128"])
@pytest.mark.parametrize("lower", [True, False])
@pytest.mark.parametrize(
    ("batch", "n"), [("", 1), ("3,", 2), ("", 5), ("2,2,", 17), ("", 64), ("", 100), ("", 0), ("", 261), ("2,", 200)]
)
def test_sizes(dtype: str, lower: bool, batch: str, n: int) -> None:
    expected, got = factors(dtype, batch, n, lower)
    tolerance = 2e-6 if dtype in ("f32", "c64") else 1e-14
    assert got.dtype == expected.dtype
    np.testing.assert_allclose(got, expected, rtol=0, atol=tolerance * np.abs(expected).max(initial=0))


@pytest.mark.parametrize("dtype", ["f32", "c128"])
@pytest.mark.parametrize("negative", [0, 70, 199])
def test_not_positive_definite(dtype: str, negative: int) -> None:
    expected, got = factors(dtype, "", 200, True, negative)
    assert np.isnan(expected.real).all()
    np.testing.assert_array_equal(got, expected)


def test_one_bad_matrix_of_a_batch() -> None:
    expected, got = factors("f32", "3,", 9, False, 4)
    np.testing.assert_array_equal(np.isnan(got), np.isnan(expected))
    np.testing.assert_allclose(got[1:], expected[1:], rtol=1e-5, atol=1e-5)
