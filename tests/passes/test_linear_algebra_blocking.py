"""Factors and solutions by blocks are those of the whole; what is not to be read is NaN."""

import numpy as np
import pytest

import xloom as xl
from xloom.passes import LinearAlgebraBlocking

PASS = LinearAlgebraBlocking(factored=4, solved=4, block=3)
DTYPES = ["f32", "f64", "c64", "c128"]


def blocked(text):
    """A module, and what the pass makes of it."""
    whole = xl.parse(text)
    by_blocks = whole.clone()
    assert PASS.run(by_blocks)
    xl.verify(by_blocks)
    assert [i.opcode for i in by_blocks.instructions].count(whole.entry.root.opcode) > 1
    return whole, by_blocks


def random(dims, dtype, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.standard_normal(dims)
    return (x + 1j * rng.standard_normal(dims) if np.issubdtype(dtype, np.complexfloating) else x).astype(dtype)


def agree(found, wanted):
    tolerance = 1e-4 if found.real.dtype == np.float32 else 1e-12
    np.testing.assert_allclose(found, wanted, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("n", [5, 6, 10])
@pytest.mark.parametrize("lower", [False, True])
@pytest.mark.parametrize("dtype", DTYPES)
def test_factors(dtype, lower, n):
    kind = f"{dtype}[2,{n},{n}]"
    whole, by_blocks = blocked(
        f"HloModule m\nENTRY e {{ a = {kind} parameter(0)\nROOT x = {kind} cholesky(a), lower={str(lower).lower()} }}"
    )
    x = random((2, n, n), whole.entry.root.shape.dtype.numpy)
    a = x @ np.conj(np.swapaxes(x, -1, -2)) + n * np.eye(n, dtype=x.dtype)
    a[1, n - 2, n - 2] = -1  # of two matrices, one has no factor
    wanted = xl.evaluate(whole, a)
    unread = np.triu(np.ones((n, n), bool), 1)
    a[:, unread if lower else unread.T] = np.nan
    found = xl.evaluate(by_blocks, a)
    assert np.isnan(found[1]).all()
    agree(found[0], wanted[0])


@pytest.mark.parametrize("unit", [False, True])
@pytest.mark.parametrize("transpose", ["NO_TRANSPOSE", "TRANSPOSE", "ADJOINT"])
@pytest.mark.parametrize("left", [False, True])
@pytest.mark.parametrize("lower", [False, True])
@pytest.mark.parametrize("dtype", DTYPES)
def test_systems(dtype, left, lower, transpose, unit):
    n, sides = 8, 33
    square, right = f"{dtype}[2,{n},{n}]", f"{dtype}[2,{n},{sides}]" if left else f"{dtype}[2,{sides},{n}]"
    flags = f"left_side={left}, lower={lower}, unit_diagonal={unit}".lower()
    whole, by_blocks = blocked(
        f"HloModule m\nENTRY e {{ a = {square} parameter(0)\nb = {right} parameter(1)\n"
        f"ROOT x = {right} triangular-solve(a, b), {flags}, transpose_a={transpose} }}"
    )
    a, b = (random(p.shape.dims, p.shape.dtype.numpy, k) for k, p in enumerate(whole.entry.parameters))
    a = (a / n + 2 * np.eye(n)).astype(a.dtype)
    read = np.tril(np.ones((n, n), bool), -1 if unit else 0)
    read = read if lower else read.T
    wanted = xl.evaluate(whole, np.where(read, a, 0).astype(a.dtype), b)
    agree(xl.evaluate(by_blocks, np.where(read, a, np.nan).astype(a.dtype), b), wanted)


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("ROOT x = f64[1100,1100] cholesky(a), lower=true", 5),
        ("ROOT x = f64[1100,40] triangular-solve(a, b), left_side=true, lower=true, transpose_a=NO_TRANSPOSE", 5),
        ("ROOT x = f64[1100,8] triangular-solve(c, d), left_side=true, lower=true, transpose_a=NO_TRANSPOSE", 1),
    ],
)
def test_what_is_large(text, count):
    module = xl.parse(
        "HloModule m\nENTRY e { a = f64[1100,1100] parameter(0)\nb = f64[1100,40] parameter(1)\n"
        f"c = f64[1100,1100] parameter(2)\nd = f64[1100,8] parameter(3)\n{text} }}"
    )
    opcode = module.entry.root.opcode
    LinearAlgebraBlocking().run(module)
    assert sum(i.opcode == opcode for i in module.instructions) == count
