"""Linear algebra of JAX in exported programs: LAPACK's routines at link time, without jaxlib."""

import subprocess
import sys
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

import xloom as xl

jax = pytest.importorskip("jax")
jnp = jax.numpy


@cache
def library() -> Path:
    """SciPy's, which has a prefix before the names."""
    spec = find_spec("scipy")
    found = [] if spec is None else sorted(Path(spec.origin or "").parents[1].glob("scipy.libs/libscipy_openblas-*.so"))
    if not found:
        pytest.skip("this SciPy brings no LAPACK")
    return found[0]


def matrices(dtype):
    r = np.random.default_rng(0)

    def made(*dims):
        real = r.standard_normal(dims)
        return (real + 1j * r.standard_normal(dims) if np.issubdtype(dtype, np.complexfloating) else real).astype(dtype)

    return made(2, 6, 6), made(2, 7, 4), made(2, 6, 3)


def everything(square, tall, right):
    """Results that do not depend on which vectors a routine picks, and some that do: the library is the same."""
    linalg, lax = jax.scipy.linalg, jax.lax.linalg
    hermitian = square @ square.conj().mT + 6 * jnp.eye(6, dtype=square.dtype)
    tridiagonal, diagonal, beside, scales = lax.tridiagonal(hermitian)
    below, above = square[:, 0].at[:, 0].set(0), square[:, 1].at[:, -1].set(0)
    return {
        "cholesky": jnp.linalg.cholesky(hermitian),
        "eigh": jnp.linalg.eigh(hermitian),
        "svd": jnp.linalg.svd(tall, full_matrices=True),
        "svd, wide": jnp.linalg.svd(tall.mT, full_matrices=False),
        "singular values": jnp.linalg.svd(tall, compute_uv=False),
        "svd by QR": lax.svd(tall, algorithm=lax.SvdAlgorithm.QR),
        "qr": jnp.linalg.qr(tall, mode="complete"),
        "qr with pivots": linalg.qr(tall, pivoting=True, mode="economic"),
        "a product with Q": lax.ormqr(tall, tall[:, 0] / 9, tall, left=True, transpose=True),
        "lu": linalg.lu_factor(tall),
        "solve": jnp.linalg.solve(square, right),
        "eig": lax.eig(square),
        "schur": lax.schur(square),
        "hessenberg": lax.hessenberg(square),
        "tridiagonal": (tridiagonal, diagonal, beside, scales),
        "tridiagonal solve": lax.tridiagonal_solve(below, jnp.full_like(below, 9), above, right),
    }


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.complex64, np.complex128])
def test_all_of_jax_linear_algebra(tmp_path, dtype):
    with jax.enable_x64(True):
        arguments = matrices(dtype)
        exported = xl.export(jax.jit(everything), arguments, name="everything")
        expected, tree = jax.tree.flatten(jax.jit(everything)(*arguments))
    saved = exported.save(tmp_path / "libeverything.so", lapack=library())
    found = xl.load_exported(saved.program)(*arguments)
    paths = jax.tree_util.tree_flatten_with_path(jax.tree.unflatten(tree, expected))[0]
    bound = 1e-4 if np.finfo(dtype).bits == 32 else 1e-12
    for (path, wanted), value in zip(paths, found, strict=True):
        message = jax.tree_util.keystr(path)
        assert value.dtype == wanted.dtype and value.shape == wanted.shape, message
        np.testing.assert_allclose(value, np.asarray(wanted), rtol=bound, atol=bound, err_msg=message)


def test_a_large_system_and_matrices_without_elements(tmp_path):
    a = np.tril(np.random.default_rng(1).standard_normal((600, 600)).astype(np.float32)) + 40 * np.eye(600, dtype="f")
    b, none = np.ones((600, 600), np.float32), np.ones((3, 0, 0), np.float32)

    def f(a, b, none):
        return jax.scipy.linalg.solve_triangular(a, b, lower=True), jnp.linalg.cholesky(none)

    exported = xl.export(jax.jit(f), (a, b, none), name="f")
    assert "It calls LAPACK: strsm." in exported.header()
    x, empty = xl.load_exported(exported.save(tmp_path / "libf.so", lapack=library()).program)(a, b, none)
    np.testing.assert_allclose(a @ x, b, atol=1e-5)
    assert empty.shape == (3, 0, 0)


def test_what_has_no_factor_is_nan(tmp_path):
    exported = xl.export(jax.jit(jnp.linalg.cholesky), (np.eye(3, dtype=np.float32),), name="f")
    loaded = xl.load_exported(exported.save(tmp_path / "libf.so", lapack=library()).program)
    assert np.isnan(loaded(-np.eye(3, dtype=np.float32))).any()
    assert np.array_equal(loaded(4 * np.eye(3, dtype=np.float32)), 2 * np.eye(3))


MAIN = """
#include <stdio.h>
#include "f.h"
int main(void) {
  const float a[4] = {4, 2, 2, 3};
  float factor[4];
  f *program;
  if (f_create(&program) != F_OK) return 2;
  f_arguments arguments = {a};
  f_results results = {factor};
  if (f_run(program, &arguments, &results) != F_OK) { puts(f_message(program)); return 3; }
  for (int k = 0; k < 4; ++k) printf("%.6f ", factor[k]);
  f_destroy(program);
}"""


def test_an_object_file_is_linked_with_lapack_from_c(tmp_path):
    exported = xl.export(jax.jit(jnp.linalg.cholesky), (np.eye(2, dtype=np.float32),), name="f")
    exported.save(tmp_path / "plain.o")
    told = subprocess.run(["nm", "-u", tmp_path / "plain.o"], capture_output=True, text=True, check=True)
    assert "U spotrf_\n" in told.stdout and "getrf" not in told.stdout
    exported.save(tmp_path / "f.o", lapack=library())
    (tmp_path / "main.c").write_text(MAIN)
    command = [
        "cc",
        "-Wall",
        "-Werror",
        "main.c",
        "f.o",
        library(),
        f"-Wl,-rpath,{library().parent}",
        "-lm",
        "-o",
        "main",
    ]
    subprocess.run(command, cwd=tmp_path, check=True)
    done = subprocess.run([tmp_path / "main"], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["2.000000", "0.000000", "1.000000", "1.414214"]


def test_the_library_is_to_be_named(tmp_path):
    exported = xl.export(jax.jit(jnp.linalg.eigvalsh), (np.eye(2, dtype=np.float32),))
    with pytest.raises(xl.LoweringError, match="calls LAPACK's ssyevd") as caught:
        exported.save(tmp_path / "libf.so")
    assert "--lapack openblas" in str(caught.value)
    with pytest.raises(xl.LoweringError, match="there is no library 'nosuchlapack' here"):
        exported.save(tmp_path / "libf.so", lapack="nosuchlapack")
    (tmp_path / "a.c").write_text("int a;")
    subprocess.run(["cc", "-shared", "-o", tmp_path / "a.so", tmp_path / "a.c"], check=True)
    with pytest.raises(xl.LoweringError, match="does not have LAPACK's ssyevd"):
        exported.save(tmp_path / "libf.so", lapack=tmp_path / "a.so")
    (tmp_path / "text.so").write_text("no library")
    with pytest.raises(xl.LoweringError, match="is no library"):
        exported.save(tmp_path / "libf.so", lapack=tmp_path / "text.so")


def test_integers_of_64_bits_are_refused(tmp_path):
    wide = sorted(Path(np.__file__).parents[1].glob("numpy.libs/libscipy_openblas64_*.so"))
    if not wide:
        pytest.skip("this NumPy brings no such LAPACK")
    exported = xl.export(jax.jit(jnp.linalg.eigvalsh), (np.eye(2, dtype=np.float32),))
    with pytest.raises(xl.LoweringError, match="integers have 64 bits"):
        exported.save(tmp_path / "libf.so", lapack=wide[0])


def test_what_jaxlib_alone_has_is_refused():
    def f(d, b):
        return jax.lax.linalg.tridiagonal_solve(d, d, d, b, perturb_singular=True)

    with pytest.raises(xl.LoweringError, match="cannot call 'tridiagonal_solve_perturbed_ffi'"):
        xl.export(jax.jit(f), (np.ones(4, np.float32), np.ones((4, 1), np.float32)))


def test_the_command(tmp_path):
    text = jax.jit(jnp.linalg.cholesky).lower(np.eye(3, dtype=np.float32)).as_text()
    (tmp_path / "factor.mlir").write_text(text)
    command = [sys.executable, "-m", "xloom.cli.main", "export", "factor.mlir", "--lapack", str(library())]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    loaded = xl.load_exported(tmp_path / "libfactor.so")
    assert np.array_equal(loaded(4 * np.eye(3, dtype=np.float32)), 2 * np.eye(3))
