"""Arguments of programs: shape and type at once, contents on request, the same in every run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import jax
import numpy as np
from numpy.typing import DTypeLike

Fill = Callable[[np.random.Generator, tuple[int, ...]], np.ndarray]

_ALIGNMENT = 64  # what XLA asks of a buffer that it takes without a copy


@dataclass(frozen=True)
class Argument:
    """An array that is not made yet."""

    shape: tuple[int, ...]
    dtype: np.dtype
    fill: Fill

    @property
    def spec(self) -> jax.ShapeDtypeStruct:
        """What JAX needs to know to trace a function of it."""
        return jax.ShapeDtypeStruct(self.shape, self.dtype)

    def make(self, generator: np.random.Generator) -> np.ndarray:
        """The array, aligned so that neither side has to copy it."""
        contents = self.fill(generator, self.shape)
        size = contents.size * self.dtype.itemsize
        memory = np.empty(size + _ALIGNMENT, np.uint8)
        start = -memory.ctypes.data % _ALIGNMENT
        array = memory[start : start + size].view(self.dtype).reshape(self.shape)
        array[...] = contents
        return array


def normal(*shape: int, dtype: DTypeLike = np.float32, scale: float = 1.0) -> Argument:
    """Normally distributed numbers."""
    return Argument(shape, np.dtype(dtype), lambda g, s: g.standard_normal(s, np.float32) * np.float32(scale))


def uniform(*shape: int, low: float = 0.0, high: float = 1.0, dtype: DTypeLike = np.float32) -> Argument:
    """Evenly distributed numbers."""
    return Argument(shape, np.dtype(dtype), lambda g, s: g.uniform(low, high, s))


def integers(*shape: int, low: int = 0, high: int, dtype: DTypeLike = np.int32) -> Argument:
    """Integers from `low` up to, not including, `high`."""
    return Argument(shape, np.dtype(dtype), lambda g, s: g.integers(low, high, s))


def permutation(size: int) -> Argument:
    """The indices of an array, each once, in any order."""
    return Argument((size,), np.dtype(np.int32), lambda g, _: g.permutation(size))


def positive_definite(size: int) -> Argument:
    """A well-conditioned symmetric matrix."""

    def fill(generator: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
        a = generator.standard_normal(shape)
        return a @ a.T / size + np.eye(size)

    return Argument((size, size), np.dtype(np.float32), fill)


def lower_triangular(size: int) -> Argument:
    """A well-conditioned lower triangular matrix."""

    def fill(generator: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
        return np.tril(generator.standard_normal(shape) / size, -1) + np.eye(size)

    return Argument((size, size), np.dtype(np.float32), fill)


def scalar(value: float, dtype: DTypeLike = np.float32) -> Argument:
    """One number."""
    return Argument((), np.dtype(dtype), lambda _, s: np.full(s, value))


def key() -> Argument:
    """The data of a threefry key."""
    return Argument((2,), np.dtype(np.uint32), lambda g, s: g.integers(0, 2**32, s))
