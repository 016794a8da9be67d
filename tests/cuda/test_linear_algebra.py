"""Triangular systems and factors on the emulated GPU, of one block of rows and of several."""

import ml_dtypes
import numpy as np
import pytest

import xloom as xl
from tests.cuda.emulation import agrees
from tests.cuda.kernel_programs import cholesky, triangular_solve
from xloom.cuda.emulator.executable import emulated

NUMPY = {"f32": np.float32, "f64": np.float64, "c64": np.complex64, "bf16": ml_dtypes.bfloat16}


def normal(dtype, *dims):
    generator = np.random.default_rng(0)
    numbers = generator.standard_normal(dims)
    if dtype == "c64":
        numbers = numbers + 1j * generator.standard_normal(dims)
    return numbers.astype(NUMPY[dtype])


def well_conditioned(dtype, *dims):
    return (normal(dtype, *dims) / dims[-1] + 2 * np.eye(dims[-1])).astype(NUMPY[dtype])


def positive(dtype, *dims):
    x = normal(dtype, *dims)
    return (x @ np.conj(np.swapaxes(x, -1, -2)) + dims[-1] * np.eye(dims[-1])).astype(NUMPY[dtype])


@pytest.mark.parametrize("lower", [True, False])
@pytest.mark.parametrize("left", [True, False])
@pytest.mark.parametrize("transpose", ["NO_TRANSPOSE", "TRANSPOSE", "ADJOINT"])
def test_triangular_systems(lower, left, transpose):
    dims = (2, 37, 5) if left else (2, 5, 37)
    text = triangular_solve("c64", dims, left=left, lower=lower, transpose=transpose)
    agrees(text, well_conditioned("c64", 2, 37, 37), normal("c64", *dims))


@pytest.mark.parametrize(("dtype", "dims"), [("f32", (70, 70)), ("f64", (20, 3)), ("bf16", (3, 9, 4)), ("f32", (1, 1))])
def test_triangular_systems_of_other_types(dtype, dims):
    square = (*dims[:-2], dims[-2], dims[-2])
    agrees(triangular_solve(dtype, dims, unit=True), well_conditioned(dtype, *square), normal(dtype, *dims))


@pytest.mark.parametrize("lower", [True, False])
@pytest.mark.parametrize(("dtype", "dims"), [("f32", (100, 100)), ("c64", (2, 40, 40)), ("f64", (3, 5, 5))])
def test_cholesky_factors(dtype, dims, lower):
    agrees(cholesky(dtype, dims, lower=lower), positive(dtype, *dims))


def test_what_is_not_positive_definite_is_nan():
    a = positive("f32", 2, 40, 40)
    a[1, 35, 35] = -1
    factor = emulated(xl.parse(cholesky("f32", (2, 40, 40))))(a)
    np.testing.assert_allclose(factor[0], np.linalg.cholesky(a[0]), rtol=1e-4, atol=1e-4)
    assert np.isnan(factor[1]).all()
