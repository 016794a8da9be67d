"""Random numbers of the hidden state: what they are, and that the state moves on."""

import numpy as np
import pytest
from kernels import run_kernel

import xloom as xl


def numbers(dtype: str, distribution: str, a: float, b: float, size: int = 20_003) -> np.ndarray:
    text = (
        f"HloModule m\nENTRY e {{ a = {dtype}[] parameter(0)\nb = {dtype}[] parameter(1)\n"
        f"ROOT r = {dtype}[{size}] rng(a, b), distribution={distribution} }}"
    )
    kind = xl.parse(text).entry.root.shape.dtype.numpy
    x = run_kernel(text, np.array(a, kind), np.array(b, kind), split=3)
    assert isinstance(x, np.ndarray)
    return x.astype(np.float64)


@pytest.mark.parametrize("dtype", ["f32", "f64", "bf16"])
def test_uniform_floats(dtype: str) -> None:
    x = numbers(dtype, "rng_uniform", -1, 3)
    assert x.min() >= -1
    assert x.max() <= 3
    np.testing.assert_allclose([x.mean(), x.std()], [1, 4 / 12**0.5], atol=0.03)
    assert abs(np.corrcoef(x[:-1], x[1:])[0, 1]) < 0.03


@pytest.mark.parametrize(("dtype", "a", "b"), [("s32", -5, 6), ("u8", 3, 9), ("s64", -2, 2), ("u4", 0, 7)])
def test_uniform_integers(dtype: str, a: int, b: int) -> None:
    x = numbers(dtype, "rng_uniform", a, b)
    values, counts = np.unique(x, return_counts=True)
    assert values.tolist() == list(range(a, b))
    np.testing.assert_allclose(counts / x.size, 1 / (b - a), atol=0.02)


def test_uniform_of_an_empty_range_is_its_start() -> None:
    assert (numbers("s32", "rng_uniform", 4, 4, 5) == 4).all()


def test_uniform_pred() -> None:
    assert abs(numbers("pred", "rng_uniform", 0, 1).mean() - 0.5) < 0.02


@pytest.mark.parametrize("dtype", ["f32", "f64", "f16"])
def test_normal(dtype: str) -> None:
    x = (numbers(dtype, "rng_normal", 1, 2) - 1) / 2
    np.testing.assert_allclose([x.mean(), x.std(), (x**3).mean(), (x**4).mean()], [0, 1, 0, 3], atol=0.2)
    assert abs(np.corrcoef(x[:-32], x[32:])[0, 1]) < 0.03


def test_state_starts_where_the_interpreter_does() -> None:
    text = "HloModule m\nENTRY e { ROOT r = u64[2] rng-get-and-update-state(), delta=5 }"
    np.testing.assert_array_equal(run_kernel(text, split=3), xl.evaluate(xl.parse(text)))
