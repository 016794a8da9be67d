"""Triangular systems and factors on the emulated GPU, of one block of rows and of several."""

import ml_dtypes
import numpy as np
import pytest

import xloom as xl
from tests.cuda.emulation import agrees
from tests.cuda.kernel_programs import cholesky, triangular_solve
from xloom.cuda.emulator.executable import emulated
from xloom.cuda.lower import lowered
from xloom.cuda.ptx import ptx_of
from xloom.cuda.ptxas import assembled, tool
from xloom.llvm.target import target_named

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


def lapack(name, dtype, operands, results, attributes=""):
    """A module with a call of LAPACK's as JAX makes it: columns lie one after another."""
    letter = {"f32": "s", "f64": "d", "c64": "c"}[dtype]

    def shape(text):
        rank = text.count(",") + 1 if "[]" not in text else 0
        order = [*range(rank)][::-1]
        if rank == 3:  # matrices; vectors lie in order
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


REAL = {"f32": "f32", "f64": "f64", "c64": "f32"}
CLOSE = {"f32": 2e-5, "f64": 1e-12, "c64": 2e-5}


@pytest.mark.parametrize("uplo", "LU")
@pytest.mark.parametrize(("dtype", "n"), [("f32", 21), ("f64", 6), ("c64", 9), ("f32", 1)])
def test_eigenvalues(dtype, n, uplo):
    module = lapack(
        "heevd" if dtype == "c64" else "syevd",
        dtype,
        [f"{dtype}[3,{n},{n}]"],
        [f"{dtype}[3,{n},{n}]", f"{REAL[dtype]}[3,{n}]", "s32[3]"],
        f"mode = 86 : ui8, uplo = {ord(uplo)} : ui8",
    )
    x = normal(dtype, 3, n, n)
    whole = x + np.conj(np.swapaxes(x, 1, 2))
    whole[1] = 0
    whole[2] = np.eye(n) * 1e-25 - np.ones((n, n)) * 1e-25  # eigenvalues that are equal, and tiny ones
    half = np.tril(whole) if uplo == "L" else np.triu(whole)
    vectors, values, info = emulated(module)(half.astype(NUMPY[dtype]))
    assert not info.any()
    for a, v, w in zip(whole, vectors, values, strict=True):
        size = max(np.abs(a).max(), 1e-30)
        np.testing.assert_allclose(w / size, np.linalg.eigvalsh(a / size), atol=n * CLOSE[dtype])
        np.testing.assert_allclose(a / size @ v, v * (w / size), atol=n * CLOSE[dtype])
        np.testing.assert_allclose(np.conj(v.T) @ v, np.eye(n), atol=n * CLOSE[dtype])


@pytest.mark.parametrize("mode", "ASN")
@pytest.mark.parametrize(
    ("dtype", "m", "n"), [("f32", 11, 6), ("f32", 6, 11), ("f64", 7, 7), ("c64", 5, 3), ("c64", 3, 5)]
)
def test_singular_values(dtype, m, n, mode):
    least, whole = min(m, n), mode == "A"
    left, right = (m if whole else least), (n if whole else least)
    shapes = [f"{dtype}[2,{m},{n}]", f"{REAL[dtype]}[2,{least}]", f"{dtype}[2,{m},{left}]", f"{dtype}[2,{right},{n}]"]
    module = lapack("gesdd", dtype, shapes[:1], [*shapes, "s32[2]"], f"mode = {ord(mode)} : ui8")
    a = normal(dtype, 2, m, n)
    a[1, :, 1] = a[1, :, 0]  # a singular one
    a[1, 1] = a[1, 0]
    _, values, u, v, info = emulated(module)(a)
    assert not info.any()
    for k in range(2):
        wanted = np.linalg.svd(a[k], compute_uv=False)
        np.testing.assert_allclose(values[k], wanted, atol=10 * CLOSE[dtype])
        if mode == "N":
            continue
        again = (u[k][:, :least] * values[k]) @ v[k][:least]
        np.testing.assert_allclose(again, a[k], atol=10 * CLOSE[dtype])
        np.testing.assert_allclose(np.conj(u[k].T) @ u[k], np.eye(left), atol=10 * CLOSE[dtype])
        np.testing.assert_allclose(v[k] @ np.conj(v[k].T), np.eye(right), atol=10 * CLOSE[dtype])


CALLS = {
    "getrf": ("{0}[4,256,200]", ("{0}[4,256,200]", "s32[4,200]", "s32[4]"), ""),
    "geqrf": ("{0}[4,256,200]", ("{0}[4,256,200]", "{0}[4,200]"), ""),
    "syevd": ("{0}[4,200,200]", ("{0}[4,200,200]", "{1}[4,200]", "s32[4]"), "mode = 86 : ui8, uplo = 76 : ui8"),
    "gesdd": (
        "{0}[4,256,200]",
        ("{0}[4,256,200]", "{1}[4,200]", "{0}[4,256,256]", "{0}[4,200,200]", "s32[4]"),
        "mode = 65 : ui8",
    ),
}


@pytest.mark.skipif(tool("ptxas") is None, reason="ptxas comes with the extra `cuda`")
@pytest.mark.sampled
@pytest.mark.parametrize("dtype", REAL)
@pytest.mark.parametrize("target", ["sm_80", "sm_90a", "sm_100", "sm_120"])
@pytest.mark.parametrize("name", CALLS)
def test_kernels_spill_no_registers(name, target, dtype):
    operand, made, attributes = CALLS[name]
    machine, real = target_named(target), REAL[dtype]
    routine = "heevd" if (name, dtype) == ("syevd", "c64") else name
    module = lapack(routine, dtype, [operand.format(dtype)], [each.format(dtype, real) for each in made], attributes)
    for kernel in lowered(module, machine).kernels:
        found = assembled(ptx_of(kernel, machine), machine)
        assert found.spilled_bytes == found.stack_bytes == 0
