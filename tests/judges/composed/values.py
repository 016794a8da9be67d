"""The values of a random program while it is made, and the arguments that it is run on."""

from __future__ import annotations

import random
from dataclasses import dataclass

import ml_dtypes
import numpy as np

_INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
_REALS = ("float64", "float32", "bfloat16", "float16")
_COMPLEX = ("complex64", "complex128")
KINDS = {  # what the letters of the table stand for
    "f": frozenset(_REALS),
    "c": frozenset(_COMPLEX),
    "i": frozenset(_INTEGERS),
    "b": frozenset(("bool",)),
    "r": frozenset(_REALS + _INTEGERS),
    "n": frozenset(_REALS + _INTEGERS + _COMPLEX),
    "w": frozenset(("float64", "float32", *_COMPLEX)),  # what factorizations take
    "v": frozenset(("float64", "float32")),
    "a": frozenset((*_REALS, *_INTEGERS, *_COMPLEX, "bool")),
    "k": frozenset(("key",)),
}


@dataclass(frozen=True)
class Value:
    """A value of a program."""

    number: int
    shape: tuple[int, ...]
    dtype: str  # "key" for the two words of a key
    growth: int = 0  # 0 for numbers about one; a sum adds 3, a product 2

    @property
    def size(self) -> int:
        return int(np.prod(self.shape))

    def is_a(self, letter: str) -> bool:
        """Whether a letter of the table stands for it."""
        return self.dtype in KINDS[letter]

    def kind(self) -> str:
        """f, c, i, b or k."""
        return next(letter for letter in "fcibk" if self.is_a(letter))


def dtype_of(name: str) -> np.dtype:
    """bfloat16 included."""
    return np.dtype(ml_dtypes.bfloat16 if name == "bfloat16" else name)


def argument(choose: random.Random, shape: tuple[int, ...], name: str) -> np.ndarray:
    """An array with one of several distributions."""
    numbers = np.random.default_rng(choose.getrandbits(32))
    if name == "key":
        return numbers.integers(0, 1 << 32, 2, np.uint32)
    dtype = dtype_of(name)
    if dtype.kind == "b":
        return numbers.random(shape) < 0.5
    if dtype.kind in "iu":
        least = 0 if dtype.kind == "u" else -9
        if choose.random() < 0.15:
            info = np.iinfo(dtype)
            return numbers.integers(info.min, info.max, shape, dtype, endpoint=True)
        return numbers.integers(least, 10, shape).astype(dtype)
    x = numbers.standard_normal(shape)
    if dtype.kind == "c":
        return (x + 1j * numbers.standard_normal(shape)).astype(dtype)
    how = choose.random()
    if how < 0.12:
        x = np.round(x * 2)  # with ties
    elif how < 0.2:
        x = x * 300
    elif how < 0.3:
        x = numbers.random(shape)
    elif how < 0.36:
        x = np.sort(x, axis=-1) if shape else x
    elif how < 0.4:
        x = np.where(numbers.random(shape) < 0.1, numbers.choice((np.inf, -np.inf, np.nan, 0.0, -0.0), shape), x)
    return np.asarray(x).astype(dtype)


_SIZES = (1, 2, 3, 4, 5, 6, 7, 8, 9, 16, 17)


def shapes(choose: random.Random) -> list[tuple[int, ...]]:
    """Shapes that fit each other, for the arguments of one program."""
    kind = choose.random()
    if kind < 0.03:  # large enough for threads
        n, m = choose.choice(((20_000, 3), (300, 257), (1 << 17, 1), (64, 1025)))
        return [(n,), (n,), (m,), (n, m), (n, m), (m, n)]
    n, m, b = (choose.choice(_SIZES) for _ in range(3))
    if kind < 0.05:
        n = 0
    elif kind < 0.18:
        n = choose.choice((33, 64, 100, 257, 1000))
    return [
        (n,),
        (n,),
        (m,),
        (n, m),
        (n, m),
        (m, n),
        (n, n) if n < 300 else (n,),
        (b, n, m) if n * m < 600 else (n, m),
        (),
    ]
