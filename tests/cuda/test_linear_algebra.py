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


def lapack(name, dtype, operands, results, attributes="", aliased="{0}: (0, {})"):
    """A module with a call of LAPACK's as JAX makes it: columns lie one after another."""
    letter = {"f32": "s", "f64": "d", "c64": "c"}[dtype]

    def shape(text):
        rank = text.count(",") + 1 if "[]" not in text else 0
        order = [*range(rank)][::-1]
        if rank > 1:
            order[:2] = order[1::-1]
        return f"{text}{{{','.join(map(str, order))}}}"

    given = ", ".join(f"p{k}" for k in range(len(operands)))
    parameters = " ".join(f"p{k} = {text} parameter({k})" for k, text in enumerate(operands))
    made = f"({', '.join(map(shape, results))})" if len(results) > 1 else shape(results[0])
    constraints = ", ".join(map(shape, operands))
    return xl.parse(
        f"ENTRY e {{ {parameters} ROOT r = {made} custom-call({given}), "
        f'custom_call_target="lapack_{letter}{name}_ffi", operand_layout_constraints={{{constraints}}}, '
        f"api_version=API_VERSION_TYPED_FFI, backend_config={{{attributes}}} }}"
    )


@pytest.mark.parametrize(("dtype", "m", "n"), [("f32", 70, 70), ("f64", 40, 7), ("c64", 5, 37), ("f32", 1, 1)])
def test_lu_factors(dtype, m, n):
    least = min(m, n)
    module = lapack("getrf", dtype, [f"{dtype}[2,{m},{n}]"], [f"{dtype}[2,{m},{n}]", f"s32[2,{least}]", "s32[2]"])
    a = normal(dtype, 2, m, n)
    a[1, :, 0] = 0
    executable = emulated(module)
    found, pivots, info = executable(a)
    assert list(info) == [0, 1]
    lower, upper = np.tril(found[0], -1)[:, :least] + np.eye(m, least), np.triu(found[0])[:least]
    product = (lower @ upper).astype(NUMPY[dtype])
    for k, pivot in reversed(list(enumerate(pivots[0]))):
        product[[k, pivot - 1]] = product[[pivot - 1, k]]
    np.testing.assert_allclose(product, a[0], atol=1e-4)
    assert np.abs(np.tril(found[0], -1)).max(initial=0) <= 1 + 1e-5 + 0.5 * (dtype == "c64")


def test_lapack_s_cholesky_factors_say_which_pivot_is_not_positive():
    a = positive("f32", 3, 40, 40)
    a[1, 35, 35] = -1
    module = lapack("potrf", "f32", ["f32[3,40,40]"], ["f32[3,40,40]", "s32[3]"], "uplo = 76 : ui8")
    found, info = emulated(module)(a)
    np.testing.assert_allclose(found[0], np.linalg.cholesky(a[0]), rtol=1e-4, atol=1e-4)
    assert list(info) == [0, 36, 0]


@pytest.mark.parametrize(("dtype", "m", "n"), [("f32", 45, 40), ("f64", 40, 7), ("c64", 5, 37), ("f32", 1, 1)])
def test_qr_factors(dtype, m, n):
    least, letters = min(m, n), "un" if dtype == "c64" else "or"
    whole, taus = f"{dtype}[2,{m},{n}]", f"{dtype}[2,{least}]"
    a = normal(dtype, 2, m, n)
    a[1, :, 0] = 0
    factors, numbers = emulated(lapack("geqrf", dtype, [whole], [whole, taus]))(a)
    square = np.zeros((2, m, m), NUMPY[dtype])
    square[..., :least] = factors[..., :least]
    q = emulated(lapack(f"{letters}gqr", dtype, [f"{dtype}[2,{m},{m}]", taus], [f"{dtype}[2,{m},{m}]"]))(
        square, numbers
    )
    np.testing.assert_allclose(q @ np.triu(factors), a, atol=1e-4)
    np.testing.assert_allclose(np.conj(np.swapaxes(q, 1, 2)) @ q, np.broadcast_to(np.eye(m), q.shape), atol=1e-5)
