"""QR factors, products of reflections and products with them against SciPy's LAPACK: the same signs, and the same NaN."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from scipy.linalg import lapack

import xloom as xl
from tests.cuda.kernel_programs import lapack_call
from xloom.cpu.kernels.call_rules import call_rule

KINDS = {"f32": np.float32, "f64": np.float64, "c64": np.complex64, "c128": np.complex128}
LETTERS = dict(zip(KINDS, "sdcz", strict=True))


def matrices(dtype: str, *dims: int, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    a = rng.normal(size=dims)
    return (a + 1j * rng.normal(size=dims) if dtype.startswith("c") else a).astype(KINDS[dtype])


def by_kernel(
    routine: str, dtype: str, arrays: Sequence[np.ndarray], results: Sequence[Sequence[int]], **options: str
) -> list[np.ndarray]:
    """What a call of LAPACK gives, which is done by a kernel of ours."""

    def shape(dims: Sequence[int]) -> str:
        return f"{dtype}[{','.join(map(str, dims))}]"

    attributes = ", ".join(f"{name} = {value}" for name, value in options.items())
    module = xl.parse(lapack_call(routine, dtype, [shape(a.shape) for a in arrays], [*map(shape, results)], attributes))
    assert call_rule(module.entry.root) is not None
    found = xl.compile(module)(*arrays)
    return [np.asarray(x) for x in (found if len(results) > 1 else [found])]


def of(routine: str, dtype: str):
    if dtype.startswith("c"):
        routine = routine.replace("or", "un")
    return routine, getattr(lapack, LETTERS[dtype] + routine)


def geqrf(dtype: str, a: np.ndarray) -> list[np.ndarray]:
    return by_kernel("geqrf", dtype, [a], [a.shape, (len(a), min(a.shape[1:]))])


def factors(dtype: str, a: np.ndarray) -> list[np.ndarray]:
    """SciPy's."""
    each = [getattr(lapack, f"{LETTERS[dtype]}geqrf")(x) for x in a]
    return [np.stack([e[k] for e in each]) for k in range(2)]


def assert_close(found: np.ndarray, right: np.ndarray, dtype: str) -> None:
    np.testing.assert_array_equal(np.isnan(found), np.isnan(right))
    finite = np.isfinite(right)
    size = np.abs(right[finite]).max(initial=1)
    tolerance = 2e-4 if KINDS[dtype](0).real.itemsize == 4 else 1e-12
    np.testing.assert_allclose(found[finite], right[finite], rtol=0, atol=tolerance * size)


SIZES = [(1, 1, 1), (3, 2, 2), (2, 3, 3), (2, 1, 5), (2, 5, 1), (2, 8, 8), (2, 17, 17), (2, 5, 13), (2, 13, 5)]
SIZES += [(2, 3, 100), (2, 31, 33), (1, 64, 64), (1, 100, 40), (1, 256, 250), (1, 250, 256)]


@pytest.mark.sampled
@pytest.mark.parametrize("dtype", list(KINDS))
@pytest.mark.parametrize("dims", SIZES)
def test_sizes(dtype: str, dims: tuple[int, int, int]) -> None:
    a = matrices(dtype, *dims)
    right = factors(dtype, a)
    for x, y in zip(geqrf(dtype, a), right, strict=True):
        assert_close(x, y, dtype)
    batch, m, n = dims
    if m < n:
        return
    routine, expected = of("orgqr", dtype)
    for count in {n, (n + 1) // 2}:
        some = np.ascontiguousarray(right[1][:, :count])
        (found,) = by_kernel(routine, dtype, [right[0], some], [a.shape])
        assert_close(found, np.stack([expected(x, t)[0] for x, t in zip(right[0], some, strict=True)]), dtype)
    routine, expected = of("ormqr", dtype)
    for columns, transpose in ((1, True), (5, False), (40, True), (40, False)):
        c = matrices(dtype, batch, m, columns, seed=1)
        (found,) = by_kernel(routine, dtype, [*right, c], [c.shape], left="true", transpose=str(transpose).lower())
        letter = ("C" if dtype.startswith("c") else "T") if transpose else "N"
        parts = zip(*right, c, strict=True)
        assert_close(found, np.stack([expected("L", letter, x, t, y, 64 * columns)[0] for x, t, y in parts]), dtype)


def changed(dtype: str, place: Any, value: float) -> np.ndarray:
    a = matrices(dtype, 2, 6, 5)
    a[place] = value
    return a


EXTREME = {"f32": 1e30, "c64": 1e30, "f64": 1e200, "c128": 1e200}
SPECIAL = {
    "zeros": lambda dtype: np.zeros((2, 6, 5), KINDS[dtype]),
    "a column of zeros": lambda dtype: changed(dtype, (0, slice(None), 2), 0),
    "nothing below the diagonal": lambda dtype: changed(dtype, (0, slice(1, None), 0), 0),
    "a zero on the diagonal": lambda dtype: changed(dtype, (0, 0, 0), 0),
    "a negative zero on the diagonal": lambda dtype: changed(dtype, (0, 0, 0), -0.0),
    "identities": lambda dtype: -np.tile(np.eye(6, 5, dtype=KINDS[dtype]), (2, 1, 1)),
    "NaN": lambda dtype: changed(dtype, (0, 3, 2), np.nan),
    "NaN on the diagonal": lambda dtype: changed(dtype, (0, 1, 1), np.nan),
    "NaN in the last place": lambda dtype: changed(dtype, (0, 5, 4), np.nan),
    "great": lambda dtype: matrices(dtype, 2, 6, 5) * KINDS[dtype](EXTREME[dtype]),
    "small": lambda dtype: matrices(dtype, 2, 6, 5) / KINDS[dtype](EXTREME[dtype]),
    "small below the diagonal": lambda dtype: changed(dtype, (0, slice(1, None), 0), 1 / EXTREME[dtype]),
    "small on the diagonal": lambda dtype: changed(dtype, (0, 0), 1 / EXTREME[dtype]),
}


@pytest.mark.parametrize("dtype", list(KINDS))
@pytest.mark.parametrize("name", SPECIAL)
def test_special_numbers(dtype: str, name: str) -> None:
    a = SPECIAL[name](dtype)
    right = factors(dtype, a)
    scale = np.abs(np.nan_to_num(a)).max() or 1
    found = geqrf(dtype, a)
    if np.isnan(a).any():  # in columns behind it panels make more of them than LAPACK, a reflection at a time
        bad = int(np.isnan(a).any(axis=(0, 1)).argmax())
        assert np.isnan(found[0][0, :, bad:][np.isnan(right[0][0, :, bad:])]).all()
        found[0][0, :, bad:], found[1][0, bad:] = right[0][0, :, bad:], right[1][0, bad:]
    assert_close(found[1], right[1], dtype)
    for x, y in (
        (np.triu(found[0]) / scale, np.triu(right[0]) / scale),
        (np.tril(found[0], -1), np.tril(right[0], -1)),
    ):
        assert_close(x, y, dtype)
    routine, expected = of("orgqr", dtype)
    (q,) = by_kernel(routine, dtype, right, [a.shape])
    assert_close(q, np.stack([expected(x, t)[0] for x, t in zip(*right, strict=True)]), dtype)


def test_columns_of_different_sizes() -> None:
    sizes = np.array([1e30, 1e-30, 1, 1e-38, 1e15], np.float32)
    a = matrices("f32", 2, 6, 5)
    found, right = geqrf("f32", a * sizes), factors("f32", a)
    assert_close(np.triu(found[0]) / sizes, np.triu(right[0]), "f32")
    assert_close(found[1], right[1], "f32")


def test_what_is_behind_the_reflections_is_not_read() -> None:
    a, taus = factors("f64", matrices("f64", 1, 20, 18))
    routine, expected = of("orgqr", "f64")
    few = np.ascontiguousarray(taus[:, :5])
    right = expected(a[0], few[0])[0]
    a[:, :, 5:] = np.nan
    (found,) = by_kernel(routine, "f64", [a, few], [a.shape])
    assert_close(found[0], right, "f64")
