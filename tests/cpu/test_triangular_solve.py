"""Triangular systems against the interpreter; what must not be read is NaN."""

import itertools

import numpy as np
import pytest
from kernels import run_kernel

import xloom as xl

ATTRIBUTES = list(
    itertools.product((True, False), (True, False), ("NO_TRANSPOSE", "TRANSPOSE", "ADJOINT"), (True, False))
)


def check(dtype: str, batch: str, n: int, m: int, left: bool, lower: bool, transpose: str, unit: bool) -> None:
    square = f"{dtype}[{batch}{n},{n}]"
    right = f"{dtype}[{batch}{n},{m}]" if left else f"{dtype}[{batch}{m},{n}]"
    flags = f"left_side={left}, lower={lower}, unit_diagonal={unit}".lower()
    text = (
        f"HloModule m\nENTRY e {{ a = {square} parameter(0)\nb = {right} parameter(1)\n"
        f"ROOT x = {right} triangular-solve(a, b), {flags}, transpose_a={transpose} }}"
    )
    module = xl.parse(text)
    rng = np.random.default_rng(n + m)
    a, b = (random(rng, p.shape) for p in module.entry.parameters)
    a = a / max(1, n) ** 0.5 + 2 * np.eye(n, dtype=a.dtype)
    read = np.tril(np.ones((n, n), bool), -1 if unit else 0)
    read = read if lower else read.T
    expected = xl.evaluate(module, np.where(read, a, 0).astype(a.dtype), b)
    got = run_kernel(text, np.where(read, a, np.nan).astype(a.dtype), b, split=3)
    tolerance = 1e-5 if dtype in ("f32", "c64") else 1e-13
    assert isinstance(got, np.ndarray)
    assert got.dtype == expected.dtype
    np.testing.assert_allclose(got, expected, rtol=tolerance, atol=tolerance * np.abs(expected).max(initial=0))


def random(rng: np.random.Generator, shape) -> np.ndarray:
    x = rng.normal(size=shape.dims)
    if shape.dtype.is_complex:
        x = x + 1j * rng.normal(size=shape.dims)
    return x.astype(shape.dtype.numpy)


@pytest.mark.sampled
@pytest.mark.parametrize("dtype", ["f32", "c128"])
@pytest.mark.parametrize(("left", "lower", "transpose", "unit"), ATTRIBUTES)
def test_attributes(dtype: str, left: bool, lower: bool, transpose: str, unit: bool) -> None:
    check(dtype, "", 7, 5, left, lower, transpose, unit)


@pytest.mark.sampled
@pytest.mark.parametrize("dtype", ["f32", "f64", "c64", "c128"])
@pytest.mark.parametrize(
    ("batch", "n", "m"),
    [("", 1, 1), ("2,3,", 20, 70), ("", 33, 1), ("0,", 3, 3), ("", 0, 3), ("2,", 3, 0), ("", 300, 70)],
)
def test_sizes(dtype: str, batch: str, n: int, m: int) -> None:
    check(dtype, batch, n, m, True, True, "NO_TRANSPOSE", False)
    check(dtype, batch, n, m, False, True, "ADJOINT", False)


def test_large_and_small_pivots() -> None:
    text = (
        "HloModule m\nENTRY e { a = c64[2,2] parameter(0)\nb = c64[2,1] parameter(1)\n"
        "ROOT x = c64[2,1] triangular-solve(a, b), left_side=true, lower=true, transpose_a=NO_TRANSPOSE }"
    )
    a = np.array([[3e30 + 4e30j, 0], [0, 3e-30]], np.complex64)
    b = np.array([[1e30], [1e-30j]], np.complex64)
    np.testing.assert_allclose(run_kernel(text, a, b), xl.evaluate(xl.parse(text), a, b), rtol=1e-6)


@pytest.mark.parametrize("m", [1, 3, 5, 16, 40, 64, 100])
@pytest.mark.parametrize("left", [True, False])
def test_the_solution_may_lie_where_the_right_side_does(left: bool, m: int) -> None:
    dims = f"9,{m}" if left else f"{m},9"
    module = xl.parse(
        f"HloModule m\nENTRY e {{ a = f32[9,9] parameter(0) b = f32[{dims}] parameter(1) c = f32[{dims}] negate(b)\n"
        f"x = f32[{dims}] triangular-solve(a, c), left_side={left}, lower=true, transpose_a=NO_TRANSPOSE\n"
        f"ROOT y = f32[{dims}] triangular-solve(a, x), left_side={left}, lower=true, transpose_a=TRANSPOSE }}".replace(
            "True", "true"
        ).replace("False", "false")
    )
    a, b = (np.random.default_rng(m).normal(size=p.shape.dims).astype(np.float32) for p in module.entry.parameters)
    a += 5 * np.eye(9, dtype=np.float32)
    executable = xl.compile(module)
    np.testing.assert_allclose(executable(a, b), xl.evaluate(module, a, b), rtol=1e-4, atol=1e-5)
    if m in (1, 16, 64) and left:
        assert executable.memory.temporary_bytes == 0
