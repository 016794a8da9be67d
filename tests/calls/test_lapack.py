"""Programs of JAX's linear algebra: jaxlib's LAPACK handlers, against SciPy."""

import subprocess
import sys

import numpy as np
import pytest

import xloom as xl
from xloom.calls import registry
from xloom.calls.sanitizer import sanitize
from xloom.cpu.prepare import prepared

jax = pytest.importorskip("jax")
scipy_linalg = pytest.importorskip("scipy.linalg")
lax = jax.lax.linalg
jnp = jax.numpy

DTYPES = {"s": np.float32, "d": np.float64, "c": np.complex64, "z": np.complex128}
N = 6


def compiled(m, *arguments):
    return xl.compile(m)(*arguments)


@pytest.fixture(params=[xl.evaluate, compiled], ids=["interpreter", "compiled"])
def run(request):
    return request.param


def matrix(dtype, *dims, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.standard_normal(dims)
    if np.issubdtype(dtype, np.complexfloating):
        x = x + 1j * rng.standard_normal(dims)
    return x.astype(dtype)


def square(dtype):
    return (matrix(dtype, N, N),)


def tall(dtype):
    return (matrix(dtype, 8, 5),)


def hermitian(dtype):
    x = matrix(dtype, N, N)
    return (x + x.conj().T,)


def positive(dtype):
    x = matrix(dtype, N, N)
    return (x @ x.conj().T + N * np.eye(N, dtype=dtype),)


def system(dtype):
    return matrix(dtype, N, N) + 4 * np.eye(N, dtype=dtype), matrix(dtype, N, 3, seed=1)


def tridiagonal_system(dtype):
    parts = [matrix(dtype, N, seed=k) for k in range(3)]
    parts[0][0] = parts[2][-1] = 0
    return parts[0], parts[1] + 4, parts[2], matrix(dtype, N, 2, seed=3)


def reflectors(dtype):
    a, taus = scipy_linalg.lapack.get_lapack_funcs("geqrf", (matrix(dtype, N, 4),))(matrix(dtype, N, 4))[:2]
    return np.ascontiguousarray(a), taus, matrix(dtype, N, 3, seed=1)


def dense(lower, middle, upper):
    return np.diag(middle) + np.diag(lower[1:], -1) + np.diag(upper[:-1], 1)


def lapack(name, x, **options):
    return scipy_linalg.get_lapack_funcs(name, (x,))(x, **options)


def schur(x):
    return scipy_linalg.schur(x, output="complex" if np.iscomplexobj(x) else "real")


def apply_reflectors(a, taus, c):
    name = "unmqr" if np.iscomplexobj(a) else "ormqr"
    return lapack_with(name, a, "L", "N", a, taus, c, lwork=1024)[0]


def lapack_with(name, x, *arguments, **options):
    return scipy_linalg.get_lapack_funcs(name, (x,))(*arguments, **options)


def tridiagonal(x):
    name = "hetrd" if np.iscomplexobj(x) else "sytrd"
    _, diagonal, beside, taus, _ = lapack(name, x, lower=1)
    return diagonal, beside, taus


def all_of_svd(x, driver):
    u, s, v = scipy_linalg.svd(x, full_matrices=False, lapack_driver=driver)
    return u, s, v


QR_ALGORITHM = lax.SvdAlgorithm.QR

# the routine's name, or that for real and for complex numbers: arguments, program, and SciPy's answer
CASES = {
    "potrf": (positive, lax.cholesky, lambda x: scipy_linalg.cholesky(x, lower=True)),
    "getrf": (square, lambda x: lax.lu(x)[:2], lambda x: scipy_linalg.lu_factor(x)),
    "trsm": (
        system,
        lambda a, b: lax.triangular_solve(a, b, left_side=True, lower=True),
        lambda a, b: scipy_linalg.solve_triangular(a, b, lower=True),
    ),
    "geqrf orgqr/ungqr": (
        tall,
        lambda x: lax.qr(x, full_matrices=False),
        lambda x: scipy_linalg.qr(x, mode="economic"),
    ),
    "geqp3": (
        tall,
        lambda x: lax.qr(x, full_matrices=False, pivoting=True),
        lambda x: scipy_linalg.qr(x, mode="economic", pivoting=True),
    ),
    "ormqr/unmqr": (reflectors, lax.ormqr, apply_reflectors),
    "gesdd": (tall, lambda x: lax.svd(x, full_matrices=False), lambda x: all_of_svd(x, "gesdd")),
    "gesvd": (
        tall,
        lambda x: lax.svd(x, full_matrices=False, algorithm=QR_ALGORITHM),
        lambda x: all_of_svd(x, "gesvd"),
    ),
    "syevd/heevd": (
        hermitian,
        lambda x: lax.eigh(x, sort_eigenvalues=False)[::-1],
        lambda x: scipy_linalg.eigh(x, driver="evd"),
    ),
    "geev": (
        square,
        lambda x: lax.eig(x, compute_left_eigenvectors=True),
        lambda x: scipy_linalg.eig(x, left=True, right=True),
    ),
    "gees": (square, lax.schur, schur),
    "gehrd": (square, lax.hessenberg, lambda x: lapack("gehrd", x)[:2]),
    "sytrd/hetrd": (hermitian, lambda x: lax.tridiagonal(x)[1:], tridiagonal),
    "gtsv": (
        tridiagonal_system,
        lax.tridiagonal_solve,
        lambda lower, middle, upper, b: np.linalg.solve(dense(lower, middle, upper), b),
    ),
}


def program(function, *arguments):
    with jax.enable_x64(True):
        return xl.from_stablehlo(jax.jit(function).lower(*arguments).as_text())


def targets(m):
    return {i["custom_call_target"] for i in m.instructions if i.opcode == "custom-call"}


def names(case, prefix):
    for word in case.split():
        real, _, other = word.partition("/")
        yield f"lapack_{prefix}{other if other and prefix in 'cz' else real}_ffi"


def close(found, expected):
    if isinstance(found, tuple):
        assert len(found) == len(expected)
        for f, e in zip(found, expected, strict=True):
            close(f, e)
        return
    expected = np.asarray(expected)
    precision = np.finfo(found.dtype).eps if found.dtype.kind in "fc" else 0
    assert found.shape == expected.shape
    assert np.allclose(found, expected, atol=500 * precision * max(1, abs(expected).max()), rtol=0)


@pytest.mark.sampled
@pytest.mark.parametrize("prefix", DTYPES)
@pytest.mark.parametrize("case", CASES)
def test_each_routine_in_each_type(run, case, prefix):
    make, function, reference = CASES[case]
    arguments = make(DTYPES[prefix])
    m = program(function, *arguments)
    assert set(names(case, prefix)) <= targets(m)
    close(run(m, *arguments), reference(*arguments))


def test_perturbed_tridiagonal_systems(run):
    lower, middle, upper, b = arguments = tridiagonal_system(np.float64)
    m = program(lambda *given: lax.tridiagonal_solve(*given, perturb_singular=True), *arguments)
    assert "tridiagonal_solve_perturbed_ffi" in targets(m)
    close(run(m, *arguments), np.linalg.solve(dense(lower, middle, upper), b))


def test_nothing_that_jaxlib_has_is_left_out():
    from jaxlib import lapack

    tested = {name for case in CASES for prefix in DTYPES for name in names(case, prefix)}
    tested.add("tridiagonal_solve_perturbed_ffi")
    assert tested == {name for name, _, _ in lapack.registrations()["cpu"]}
    assert len(tested) == 61


@pytest.mark.sampled
@pytest.mark.parametrize(
    "function, count",
    [
        (jnp.linalg.cholesky, 1),
        (jnp.linalg.qr, 1),
        (jnp.linalg.svd, 1),
        (jnp.linalg.eigh, 1),
        (jnp.linalg.eigvals, 1),
        (jnp.linalg.solve, 2),
        (jnp.linalg.inv, 1),
        (jnp.linalg.det, 1),
        (jnp.linalg.pinv, 1),
        (jnp.linalg.matrix_rank, 1),
        (jax.scipy.linalg.expm, 1),
        (jax.scipy.linalg.sqrtm, 1),
    ],
    ids=lambda f: getattr(f, "__name__", ""),
)
def test_batches_by_name(run, function, count):
    x = matrix(np.float64, N, N)
    x = x @ x.T / N + np.eye(N)
    arguments = (np.stack([x, 2 * x]), np.stack([np.eye(N)[:, :2]] * 2))[:count]
    m = program(jax.vmap(function), *arguments)
    with jax.enable_x64(True):
        expected = jax.tree.leaves(jax.jit(jax.vmap(function))(*arguments))
    found = run(m, *arguments)
    close(found, tuple(map(np.asarray, expected)) if isinstance(found, tuple) else np.asarray(expected[0]))


def test_derivatives(run):
    def loss(x):
        return jnp.sum(jnp.linalg.cholesky(x)) + jnp.linalg.slogdet(x)[1]

    (x,) = positive(np.float64)
    with jax.enable_x64(True):
        expected = np.asarray(jax.grad(loss)(x))
    close(run(program(jax.grad(loss), x), x), expected)


def test_what_has_no_answer_is_nan(run):
    x = -np.eye(4, dtype=np.float32)
    assert np.isnan(run(program(jnp.linalg.cholesky, x), x)[0, 0])


def test_a_handler_is_registered_when_it_is_asked_for():
    registry.remove("lapack_dpotrf_ffi")
    assert not any(r.name == "lapack_dpotrf_ffi" for r in registry.registered())
    assert registry.is_registered("lapack_dpotrf_ffi")
    assert not registry.is_registered("lapack_dnothing_ffi")
    assert not registry.is_registered("lapack_dpotrf_ffi", "CUDA")
    with pytest.raises(xl.CustomCallError, match="lapack_dpotrf_ffi"):
        registry.lookup("lapack_dpotrf_ff")


def test_sparse_matrix_products(run):
    sparse = pytest.importorskip("jax.experimental.sparse")
    x = matrix(np.float32, 5, 7)
    x[x < 0.3] = 0
    csr = sparse.BCSR.fromdense(x)
    b = matrix(np.float32, 7, 3, seed=1)
    m = program(lambda a, b: a @ b, csr, b)
    assert targets(m) == {"cpu_csr_sparse_dense_ffi"}
    close(run(m, *map(np.asarray, jax.tree.leaves(csr)), b), x @ b)


def solve(dims, *, dtype="f32", side="L", lower=True, transpose="N", unit=False):
    """A call of LAPACK's trsm, by the dimensions of its right side."""
    n = dims[-2 if side == "L" else -1]
    order = f"{len(dims) - 2},{len(dims) - 1}" + "".join(f",{d}" for d in reversed(range(len(dims) - 2)))
    a, b = (f"{dtype}[{','.join(map(str, d))}]" for d in ((*dims[:-2], n, n), dims))
    flags = {"diag": "NU"[unit], "side": side, "trans_x": transpose, "uplo": "UL"[lower]}
    config = ", ".join(f"{k} = {ord(v)} : ui8" for k, v in flags.items())
    letter = {"f32": "s", "f64": "d", "c64": "c", "c128": "z"}[dtype]
    return xl.parse(f"""HloModule m
    ENTRY e {{ p = {a} parameter(0) q = {b} parameter(1)
      ROOT x = {b}{{{order}}} custom-call(p, q), custom_call_target="lapack_{letter}trsm_ffi",
        operand_layout_constraints={{{a}{{{order}}}, {b}{{{order}}}}}, output_to_operand_aliasing={{{{}}: (1, {{}})}},
        api_version=API_VERSION_TYPED_FFI, backend_config={{{config}}} }}""")


@pytest.mark.parametrize("unit", [False, True])
@pytest.mark.parametrize("transpose", "NTC")
@pytest.mark.parametrize("lower", [False, True])
@pytest.mark.parametrize("side", "LR")
@pytest.mark.parametrize("dtype", ["f32", "c128"])
def test_an_operator_stands_for_trsm(dtype, side, lower, transpose, unit):
    m = solve((2, 5, 5), dtype=dtype, side=side, lower=lower, transpose=transpose, unit=unit)
    a, b = (matrix(o.shape.dtype.numpy, 2, 5, 5, seed=k) for k, o in enumerate(m.entry.root.operands))
    a += 3 * np.eye(5)
    close(compiled(m, a, b), xl.evaluate(m, a, b))
    assert [i.opcode for i in prepared(m).instructions] == ["parameter", "parameter", "triangular-solve"]


def test_lapack_solves_what_it_solves_faster():
    assert targets(prepared(solve((600, 600)))) == {"lapack_strsm_ffi"}
    assert not targets(prepared(solve((600, 3))))


def test_other_code_under_the_name_of_trsm_is_called():
    arguments = np.eye(3, dtype=np.float32), np.ones((3, 3), np.float32)
    assert compiled(solve((3, 3)), *arguments)[0, 0] == 1

    @xl.custom_call("lapack_strsm_ffi")
    def mine(out, a, b):
        out[...] = 7

    assert compiled(solve((3, 3)), *arguments)[0, 0] == 7
    registry.remove("lapack_strsm_ffi")
    assert compiled(solve((3, 3)), *arguments)[0, 0] == 1


def test_the_sanitizer_watches_all_calls():
    with sanitize():
        assert targets(prepared(solve((3, 3)))) == {"lapack_strsm_ffi"}


def test_inverses_need_no_memory_but_that_of_the_factors():
    x = matrix(np.float32, 128, 128)
    peak = xl.compile(program(jnp.linalg.inv, x)).memory.peak_bytes
    assert peak < 3.1 * x.nbytes


@pytest.mark.parametrize(
    "function, arrays",
    [
        (jnp.linalg.det, 2),
        (jnp.linalg.eigvals, 6),  # with the room that the routine is given for complex vectors
        (lambda x: jnp.linalg.svd(x, compute_uv=False), 4),
        (jnp.linalg.svd, 4),
        (lambda x: jax.scipy.linalg.schur(x)[0], 3),
    ],
    ids=["det", "eigvals", "singular-values", "svd", "schur"],
)
def test_matrices_in_another_layout_need_no_memory_of_their_own(function, arrays):
    x = matrix(np.float32, 64, 64)
    assert xl.compile(program(function, x)).memory.peak_bytes < (arrays + 0.2) * x.nbytes


def test_arrays_may_lie_anywhere(run):
    arguments = tuple(np.concatenate([x.ravel()[:1], x.ravel()])[1:].reshape(x.shape) for x in tridiagonal_system("f4"))
    assert any(x.ctypes.data % 16 for x in arguments)
    lower, middle, upper, b = arguments
    m = program(lax.tridiagonal_solve, *arguments)
    close(run(m, *arguments), np.linalg.solve(dense(lower, middle, upper), b))


def test_routines_are_taken_without_all_of_scipy():
    """And who imports SciPy afterwards finds it whole."""
    program = """if True:
        import sys
        import numpy as np
        import xloom as xl
        module = xl.parse('''ENTRY e { x = f32[3,3] parameter(0)
            c = (f32[3,3], s32[]) custom-call(x), custom_call_target="lapack_spotrf_ffi",
                operand_layout_constraints={f32[3,3]{0,1}}, api_version=API_VERSION_TYPED_FFI,
                backend_config={uplo = 76 : ui8}
            ROOT r = f32[3,3] get-tuple-element(c), index=0 }''')
        assert xl.compile(module)(4 * np.eye(3, dtype=np.float32))[0, 0] == 2
        assert "scipy.linalg" not in sys.modules
        import scipy.linalg.cython_lapack
        assert scipy.linalg.cython_lapack.__pyx_capi__ and scipy.linalg.det([[1, 2], [3, 4]]) < 0
    """
    subprocess.run([sys.executable, "-c", program], check=True)
