"""LU factors against SciPy's LAPACK: the same pivots, and the same first zero."""

import numpy as np
import pytest
from scipy.linalg import lapack

import xloom as xl

LETTERS = {"f32": "s", "f64": "d", "c64": "c", "c128": "z"}


def factors(dtype: str, a: np.ndarray) -> list[np.ndarray]:
    b, m, n = a.shape
    matrix = f"{dtype}[{b},{m},{n}]{{1,2,0}}"
    text = (
        f"HloModule m\nENTRY e {{\n a = {matrix} parameter(0)\n"
        f" ROOT c = ({matrix}, s32[{b},{min(m, n)}], s32[{b}]) custom-call(a), "
        f'custom_call_target="lapack_{LETTERS[dtype]}getrf_ffi", operand_layout_constraints={{{matrix}}}, '
        'api_version=API_VERSION_TYPED_FFI, backend_config="{}"\n}\n'
    )
    module = xl.parse(text)
    return [np.asarray(x) for x in xl.compile(module)(a)]


def expected(dtype: str, a: np.ndarray) -> list[np.ndarray]:
    each = [getattr(lapack, f"{LETTERS[dtype]}getrf")(x) for x in a]
    return [np.stack([e[0] for e in each]), np.stack([e[1] for e in each]) + 1, np.array([e[2] for e in each])]


@pytest.mark.sampled
@pytest.mark.parametrize("dtype", list(LETTERS))
@pytest.mark.parametrize(
    "dims",
    [(1, 1, 1), (3, 2, 2), (2, 3, 3), (2, 1, 5), (2, 5, 1), (2, 8, 8), (2, 9, 9), (2, 5, 13), (2, 13, 5)]
    + [(2, 31, 33), (1, 64, 64), (1, 40, 100), (1, 100, 40), (2, 200, 200)],
)
def test_sizes(dtype: str, dims: tuple[int, int, int]) -> None:
    kind = xl.parse(f"HloModule m\nENTRY e {{ ROOT a = {dtype}[] parameter(0) }}").entry.root.shape.dtype
    rng = np.random.default_rng(0)
    a = rng.normal(size=dims) + (1j * rng.normal(size=dims) if kind.is_complex else 0)
    a = a.astype(kind.numpy)
    found, right = factors(dtype, a), expected(dtype, a)
    np.testing.assert_array_equal(found[1], right[1])
    np.testing.assert_array_equal(found[2], right[2])
    tolerance = 1e-4 if kind.real.bits == 32 else 1e-12
    np.testing.assert_allclose(found[0], right[0], rtol=0, atol=tolerance * np.abs(right[0]).max())


@pytest.mark.parametrize(
    ("rows", "info"),
    [([[0, 0], [0, 0]], 1), ([[1, 2], [2, 4]], 2), ([[0, 1], [0, 2]], 1), ([[1, 1, 1], [1, 1, 1], [1, 1, 2]], 2)],
)
def test_singular(rows: list[list[int]], info: int) -> None:
    a = np.array([rows, np.eye(len(rows))], np.float32)
    both, pivots, found = factors("f32", a)
    assert found.tolist() == [info, 0]
    assert np.isfinite(both).all()
    lower = np.tril(both, -1) + np.eye(len(rows))
    product = lower[0] @ np.triu(both[0])
    for k, row in reversed(list(enumerate(pivots[0] - 1))):
        product[[k, row]] = product[[row, k]]
    np.testing.assert_allclose(product, a[0], atol=1e-6)


def test_ties_take_the_first_row() -> None:
    a = np.tile(np.array([1.0, -1.0, 1.0, -1.0] * 10)[None, :, None], (1, 1, 3)).astype(np.float32)
    a[0, :, 1] = np.arange(40) % 7 == 3
    a[0, :, 2] = np.arange(40) % 5 == 2
    found, right = factors("f32", a), expected("f32", a)
    np.testing.assert_array_equal(found[1], right[1])


@pytest.mark.parametrize("place", [0, 5])
def test_nan_stays_in_what_it_reaches(place: int) -> None:
    a = np.random.default_rng(1).normal(size=(2, 20, 20)).astype(np.float32)
    a[0, place, 0] = np.nan
    both, pivots, _ = factors("f32", a)
    assert np.isnan(both[0, -1, -1]) and np.isfinite(both[1]).all()
    assert ((pivots >= 1) & (pivots <= 20)).all()


def test_matrices_in_rows_are_lapacks() -> None:
    # which sees the transposes there
    a = np.array([[[1.0, 2.0], [3.0, 4.0]]], np.float32)
    text = (
        "HloModule m\nENTRY e {\n a = f32[1,2,2] parameter(0)\n"
        " ROOT c = (f32[1,2,2], s32[1,2], s32[1]) custom-call(a), "
        'custom_call_target="lapack_sgetrf_ffi", api_version=API_VERSION_TYPED_FFI, backend_config="{}"\n}\n'
    )
    pytest.importorskip("jaxlib")
    found = np.asarray(xl.compile(xl.parse(text))(a)[0])
    np.testing.assert_allclose(found, expected("f32", a.swapaxes(1, 2))[0].swapaxes(1, 2), rtol=1e-6)


def test_permutations_of_pivots() -> None:
    pivots = np.array([[1, 1, 2], [0, 3, 2]], np.int32)
    text = (
        "HloModule m\nENTRY e {\n a = s32[2,3] parameter(0)\n"
        ' ROOT c = s32[2,4] custom-call(a), custom_call_target="cu_lu_pivots_to_permutation", '
        'api_version=API_VERSION_TYPED_FFI, backend_config="{}"\n}\n'
    )
    assert np.asarray(xl.compile(xl.parse(text))(pivots)).tolist() == [[1, 0, 2, 3], [0, 3, 2, 1]]


@pytest.mark.parametrize("routine", ["getrf", "geqrf", "orgqr", "ormqr"])
def test_a_call_without_a_matrix_compiles_and_fails_when_it_runs(routine: str) -> None:
    module = xl.parse(
        f'HloModule m\nENTRY e {{ ROOT c = () custom-call(), custom_call_target="lapack_s{routine}_ffi", '
        'custom_call_has_side_effect=true, api_version=API_VERSION_TYPED_FFI, backend_config="{}" }\n'
    )
    program = xl.compile(module)
    with pytest.raises(xl.CustomCallError, match=r"INVALID_ARGUMENT.*Wrong number of arguments"):
        program()
