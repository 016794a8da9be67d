"""Triangular systems and factors on the emulated GPU, of one block of rows and of several."""

import ml_dtypes
import numpy as np
import pytest

import xloom as xl
from tests.cuda.emulation import agrees
from tests.cuda.kernel_programs import cholesky, lapack_call, triangular_solve
from xloom.cuda.emulator.executable import emulated
from xloom.cuda.lower import lowered
from xloom.cuda.ptx import ptx_of
from xloom.cuda.ptxas import assembled, tool
from xloom.interpreter import evaluate
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


def lapack(*arguments):
    """A module with a call of LAPACK's."""
    return xl.parse(lapack_call(*arguments))


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


@pytest.mark.parametrize(("dtype", "n"), [("f32", 40), ("f64", 7), ("c64", 12), ("f32", 1), ("f32", 2)])
def test_tridiagonal_systems(dtype, n):
    row, right = f"{dtype}[3,{n}]", f"{dtype}[3,{n},5]"
    module = lapack("gtsv", dtype, [row, row, row, right], [row, row, row, right, "s32[3]"])
    lower, diagonal, upper = (normal(dtype, 3, 3, n)[k] for k in range(3))
    diagonal[1] /= 8  # so that rows are exchanged
    if n > 2:
        upper[2, 2] = diagonal[2, 3] = lower[2, 4] = 0  # a singular one: the column has nothing but zeros
    b = normal(dtype, 3, n, 5)
    *_, found, info = emulated(module)(lower, diagonal, upper, b)
    assert list(info[:2]) == [0, 0]
    assert bool(info[2]) == (n > 2)
    for k in range(2 + (n < 3)):
        matrix = np.diag(diagonal[k]) + np.diag(upper[k, :-1], 1) + np.diag(lower[k, 1:], -1)
        np.testing.assert_allclose(matrix @ found[k], b[k], atol=1e-3)


@pytest.mark.parametrize(("count", "rows"), [(40, 40), (3, 300), (1, 1)])
def test_the_order_of_rows_that_pivots_make(count, rows):
    module = xl.parse(
        f"ENTRY e {{ p = s32[2,{count}] parameter(0) ROOT r = s32[2,{rows}] custom-call(p), "
        'custom_call_target="cu_lu_pivots_to_permutation", api_version=API_VERSION_TYPED_FFI, backend_config={} }'
    )
    pivots = np.random.default_rng(0).integers(np.arange(count), rows, (2, count)).astype(np.int32)
    for found, given in zip(emulated(module)(pivots), pivots, strict=True):
        np.testing.assert_array_equal(found, rows_exchanged(np.arange(rows)[:, None], given + 1)[:, 0])


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


@pytest.mark.parametrize("left", [True, False])
@pytest.mark.parametrize("transpose", [True, False])
@pytest.mark.parametrize(("dtype", "m", "n", "columns"), [("f32", 40, 33, 70), ("c64", 9, 4, 3), ("f64", 5, 5, 1)])
def test_products_with_reflections(dtype, m, n, columns, left, transpose):
    whole, taus = f"{dtype}[2,{m},{n}]", f"{dtype}[2,{n}]"
    other = f"{dtype}[2,{m},{columns}]" if left else f"{dtype}[2,{columns},{m}]"
    letters = "un" if dtype == "c64" else "or"
    vectors, numbers = emulated(lapack("geqrf", dtype, [whole], [whole, taus]))(normal(dtype, 2, m, n))
    square = np.zeros((2, m, m), NUMPY[dtype])
    square[..., :n] = vectors
    q = emulated(lapack(f"{letters}gqr", dtype, [f"{dtype}[2,{m},{m}]", taus], [f"{dtype}[2,{m},{m}]"]))(
        square, numbers
    )
    how = f"left = {str(left).lower()}, transpose = {str(transpose).lower()}"
    x = normal(dtype, 2, m, columns) if left else normal(dtype, 2, columns, m)
    found = emulated(lapack(f"{letters}mqr", dtype, [whole, taus, other], [other], how))(vectors, numbers, x)
    q = np.conj(np.swapaxes(q, 1, 2)) if transpose else q
    np.testing.assert_allclose(found, q @ x if left else x @ q, atol=1e-4)


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


def eigensystems(dtype, batch, n, *, left=True, right=True):
    """The operands, results and attributes of LAPACK's geev."""
    values = [f"{REAL[dtype]}[{batch},{n}]"] * 2 if dtype != "c64" else [f"c64[{batch},{n}]"]
    vectors = [f"{'c128' if dtype == 'f64' else 'c64'}[{batch},{n},{n}]"] * 2
    sides = ", ".join(
        f"compute_{side} = {ord('V' if is_wanted else 'N')} : ui8"
        for side, is_wanted in (("left", left), ("right", right))
    )
    return [f"{dtype}[{batch},{n},{n}]"], [*values, *vectors, f"s32[{batch}]"], sides


def hard_matrices(n):
    """Defective ones, some whose eigenvalues are equal, and one whose steps go round in circles."""
    jordan, turned = 2 * np.eye(n) + np.eye(n, k=1), np.linalg.qr(normal("f64", n, n))[0]
    pairs = np.zeros((n, n))
    for k in range(0, n - 1, 2):
        pairs[k : k + 2, k : k + 2] = [[0, -1], [1, 0]]
    repeated = np.diag([1.0] * (n // 2) + [3.0] * (n - n // 2))
    return [
        jordan, jordan.T, turned @ jordan @ turned.T, turned @ repeated @ turned.T, np.eye(n, k=1), np.zeros((n, n)),
        np.eye(n), np.ones((n, n)), np.roll(np.eye(n), 1, axis=0), pairs, turned - turned.T,
    ]  # fmt: skip


@pytest.mark.parametrize("dtype", ["f32", "f64", "c64"])
@pytest.mark.parametrize("n", [1, 2, 3, 5, 12])
def test_eigensystems(dtype, n):
    matrices = np.stack([*normal(dtype, 3, n, n), *hard_matrices(n)]).astype(NUMPY[dtype])
    matrices[1] *= np.float32(1e-36)
    *values, left, right, info = emulated(lapack("geev", dtype, *eigensystems(dtype, len(matrices), n)))(matrices)
    assert not info.any()
    values = values[0] + 1j * values[1] if len(values) == 2 else values[0]
    close = 4 * n * CLOSE[dtype]
    for k, (a, w, u, v) in enumerate(zip(matrices, values, left, right, strict=True)):
        size = max(np.abs(a).max(), 1e-37)
        a, w = wide(a, size), wide(w, size)
        np.testing.assert_allclose(a @ v, v * w, atol=close)
        np.testing.assert_allclose(np.conj(u.T) @ a, w[:, None] * np.conj(u.T), atol=close)
        for vectors in (u, v):
            np.testing.assert_allclose(np.linalg.norm(vectors, axis=0), 1, atol=close)
        np.testing.assert_allclose(w.sum(), np.trace(a), atol=close)
        if k < 3:  # of others, eigenvalues move much more than numbers are rounded
            want = np.linalg.eigvals(a)
            np.testing.assert_allclose(np.abs(w[:, None] - want).min(0), 0, atol=10 * close)
        if dtype != "c64":
            first, second = w[w.imag > 0], w[w.imag < 0]
            np.testing.assert_array_equal(first, np.conj(second))
            for vectors in (u, v):
                assert not vectors[:, w.imag == 0].imag.any()
                np.testing.assert_array_equal(vectors[:, w.imag > 0], np.conj(vectors[:, w.imag < 0]))


@pytest.mark.parametrize("dtype", ["f32", "c64"])
@pytest.mark.parametrize("side", ["left", "right", ""])
def test_eigenvectors_of_one_side_or_none(dtype, side):
    a, shapes = (
        normal(dtype, 2, 7, 7),
        {s: eigensystems(dtype, 2, 7, left=s != "right", right=s != "left") for s in ("left", "right")},
    )
    shapes[""] = eigensystems(dtype, 2, 7, left=False, right=False)
    whole = emulated(lapack("geev", dtype, *eigensystems(dtype, 2, 7)))(a)
    found = emulated(lapack("geev", dtype, *shapes[side]))(a)
    is_meant = [True] * (len(whole) - 3) + [side == "left", side == "right", True]
    for want, got, meant in zip(whole, found, is_meant, strict=True):
        if meant:
            np.testing.assert_array_equal(got, want)


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


SIZES = [1e-40, 1e-30, 1e30, 3e37]
"""Of numbers whose squares are no numbers of f32."""


def sized(dtype, size, *dims):
    """Numbers of that size at most, of very different sizes in the last column."""
    a = normal(dtype, *dims) / 8
    a[..., -1] *= np.float32(1e-6)
    return (a * np.float32(size)).astype(NUMPY[dtype])


def rows_exchanged(a, pivots):
    """A copy whose rows are as LAPACK's pivots say."""
    a = a.copy()
    for k, pivot in enumerate(pivots):
        a[[k, pivot - 1]] = a[[pivot - 1, k]]
    return a


def wide(a, size):
    """The same over `size`, with so many bits that nothing overflows."""
    return a.astype(np.complex128 if a.dtype.kind == "c" else np.float64) / size


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("dtype", ["f32", "c64"])
def test_factors_of_great_and_of_tiny_numbers(dtype, size):
    n, close = 9, 1e-3 if size < 1e-38 else 1e-5  # tiny ones have few bits
    whole, row = f"{dtype}[1,{n},{n}]", f"{dtype}[1,{n}]"
    a = sized(dtype, size, 1, n, n)
    module = lapack("geqrf", dtype, [whole], [whole, row])
    (factors, taus), (wanted, wanted_taus) = emulated(module)(a), evaluate(module, a)
    np.testing.assert_allclose(wide(np.triu(factors), size), wide(np.triu(wanted), size), atol=close)
    np.testing.assert_allclose(np.tril(factors, -1), np.tril(wanted, -1), atol=100 * close)
    np.testing.assert_allclose(taus, wanted_taus, atol=100 * close)
    module = lapack("getrf", dtype, [whole], [whole, f"s32[1,{n}]", "s32[1]"])
    (found,), (pivots,), info = emulated(module)(a)
    lower, upper = np.tril(found, -1) + np.eye(n), wide(np.triu(found), size)
    assert info == evaluate(module, a)[2]
    np.testing.assert_allclose(lower @ upper, wide(rows_exchanged(a[0], pivots), size), atol=close)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("dtype", ["f32", "c64"])
def test_spectra_of_great_and_of_tiny_numbers(dtype, size):
    n, close = 5, 1e-3 if size < 1e-38 else 1e-5
    whole, row = f"{dtype}[1,{n},{n}]", f"f32[1,{n}]"
    (a,) = sized(dtype, size, 1, n, n)
    module = lapack("gesdd", dtype, [whole], [whole, row, whole, whole, "s32[1]"], "mode = 65 : ui8")
    _, (values,), (left,), (right,), info = emulated(module)(a[None])
    assert not info.any()
    np.testing.assert_allclose(wide(values, size), np.linalg.svd(wide(a, size))[1], atol=close)
    np.testing.assert_allclose((left * wide(values, size)) @ right, wide(a, size), atol=close)
    routine, a = "heevd" if dtype == "c64" else "syevd", a + np.conj(a.T)
    module = lapack(routine, dtype, [whole], [whole, row, "s32[1]"], "mode = 86 : ui8, uplo = 76 : ui8")
    (vectors,), (values,), info = emulated(module)(a[None])
    assert not info.any()
    np.testing.assert_allclose(wide(values, size), np.linalg.eigvalsh(wide(a, size)), atol=close)
    np.testing.assert_allclose((vectors * wide(values, size)) @ np.conj(vectors.T), wide(a, size), atol=close)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
@pytest.mark.parametrize("name", ["gesdd", "geev", "syevd", "getrf", "geqrf", "potrf"])
def test_numbers_that_are_not_finite_are_told_of_and_no_fault_of_a_kernel(name, bad):
    whole, row, one = "f32[2,5,5]", "f32[2,5]", "s32[2]"
    made, attributes = {
        "gesdd": ([whole, row, whole, whole, one], "mode = 65 : ui8"),
        "geev": eigensystems("f32", 2, 5)[1:],
        "syevd": ([whole, row, one], "mode = 86 : ui8, uplo = 76 : ui8"),
        "getrf": ([whole, "s32[2,5]", one], ""),
        "geqrf": ([whole, row], ""),
        "potrf": ([whole, one], "uplo = 76 : ui8"),
    }[name]
    a = positive("f32", 2, 5, 5)
    a[1, 3, 2] = bad
    found = emulated(lapack(name, "f32", [whole], made, attributes))(a)
    meant = found[1:] if name == "gesdd" else found  # whose first result is not to be read
    assert all(np.isfinite(each[0]).all() for each in meant)
    if name in ("gesdd", "geev", "syevd", "potrf"):
        assert not found[-1][0]
        assert found[-1][1]


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("dtype", ["f32", "c64"])
def test_systems_and_cholesky_factors_of_great_and_of_tiny_numbers(dtype, size):
    a = (positive(dtype, 9, 9) / 32 * np.float32(size)).astype(NUMPY[dtype])
    agrees(cholesky(dtype, (9, 9)), a)
    right = (normal(dtype, 9, 4) * np.float32(size)).astype(NUMPY[dtype])
    agrees(triangular_solve(dtype, (9, 4)), a, right)


CALLS = {
    "getrf": (("{0}[4,256,200]",), ("{0}[4,256,200]", "s32[4,200]", "s32[4]"), ""),
    "geqrf": (("{0}[4,256,200]",), ("{0}[4,256,200]", "{0}[4,200]"), ""),
    "syevd": (("{0}[4,200,200]",), ("{0}[4,200,200]", "{1}[4,200]", "s32[4]"), "mode = 86 : ui8, uplo = 76 : ui8"),
    "gesdd": (
        ("{0}[4,256,200]",),
        ("{0}[4,256,200]", "{1}[4,200]", "{0}[4,256,256]", "{0}[4,200,200]", "s32[4]"),
        "mode = 65 : ui8",
    ),
    "ormqr": (
        ("{0}[4,256,200]", "{0}[4,200]", "{0}[4,256,70]"),
        ("{0}[4,256,70]",),
        "left = true, transpose = true",
    ),
    "gtsv": (
        (*["{0}[4,200]"] * 3, "{0}[4,200,3]"),
        (*["{0}[4,200]"] * 3, "{0}[4,200,3]", "s32[4]"),
        "",
    ),
    "sytrf": (("{0}[4,200,200]",), ("{0}[4,200,200]", "s32[4,200]", "s32[4]"), ""),
    "sytrs": (("{0}[4,200,200]", "s32[4,200]", "{0}[4,200,3]"), ("{0}[4,200,3]",), ""),
}


@pytest.mark.skipif(tool("ptxas") is None, reason="ptxas comes with the extra `cuda`")
@pytest.mark.sampled
@pytest.mark.parametrize("dtype", REAL)
@pytest.mark.parametrize("target", ["sm_80", "sm_90a", "sm_100", "sm_120"])
@pytest.mark.parametrize("name", [*CALLS, "geev"])
def test_kernels_spill_no_registers(name, target, dtype):
    machine, real = target_named(target), REAL[dtype]
    *arrays, attributes = eigensystems(dtype, 4, 200) if name == "geev" else CALLS[name]
    operands, made = ([each.format(dtype, real) for each in given] for given in arrays)
    routine = name.replace("sy", "he").replace("or", "un") if dtype == "c64" else name
    module = lapack(routine, dtype, operands, made, attributes)
    for kernel in lowered(module, machine).kernels:
        found = assembled(ptx_of(kernel, machine), machine)
        assert found.spilled_bytes == found.stack_bytes == 0
