"""A program of the sweep, and its arguments by the short names of types."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

from benchmarks.programs.arguments import Argument
from benchmarks.programs.registry import Program

TYPES = {
    "pred": np.dtype(np.bool_),
    "s8": np.dtype(np.int8),
    "s16": np.dtype(np.int16),
    "s32": np.dtype(np.int32),
    "s64": np.dtype(np.int64),
    "u8": np.dtype(np.uint8),
    "u32": np.dtype(np.uint32),
    "f8e5m2": np.dtype(ml_dtypes.float8_e5m2),
    "f8e4m3fn": np.dtype(ml_dtypes.float8_e4m3fn),
    "f16": np.dtype(np.float16),
    "bf16": np.dtype(ml_dtypes.bfloat16),
    "f32": np.dtype(np.float32),
    "f64": np.dtype(np.float64),
    "c64": np.dtype(np.complex64),
    "c128": np.dtype(np.complex128),
}
REALS = ("f32", "f64", "bf16", "f16")
SMALL = ("f8e5m2", "f8e4m3fn")
COMPLEX = ("c64", "c128")
WIDE = {TYPES[name] for name in ("s64", "f64", "c128")}


@dataclass(frozen=True)
class Case(Program):
    """One program of the sweep."""

    wide: bool = False  # needs types of 64 bits, which a process of JAX has or has not


class Family:
    """The cases of a file."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.cases: list[Case] = []

    def add(
        self,
        name: str,
        function: Callable[..., Any],
        *arguments: Argument,
        wide: bool = False,
        tolerance: float | None = None,
    ) -> None:
        """An argument of 64 bits makes the case `wide` unasked."""
        wide = wide or any(a.dtype in WIDE for a in arguments)
        self.cases.append(Case(f"{self.name}/{name}", function, arguments, tolerance=tolerance, wide=wide))

    def program(
        self, *arguments: Argument, tolerance: float | None = None
    ) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        """Adds the function it decorates, under the function's own name."""

        def register(function: Callable[..., Any]) -> Callable[..., Any]:
            self.add(function.__name__.strip("_").replace("_", "-"), function, *arguments, tolerance=tolerance)
            return function

        return register


def array(*shape: int, dtype: str = "f32", low: float | None = None, high: float | None = None) -> Argument:
    """Evenly from `low` up to `high`; without them, normally distributed, or integers of either sign below 50."""
    kind = TYPES[dtype].kind

    def fill(generator: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
        if kind == "b":
            return generator.random(shape) > 0.5
        if kind in "iu":
            least = 0 if kind == "u" else -50
            return generator.integers(least if low is None else int(low), 50 if high is None else int(high), shape)
        if kind == "c":
            return generator.standard_normal(shape) + 1j * generator.standard_normal(shape)
        if low is not None and high is not None:
            return generator.uniform(low, high, shape)
        return generator.standard_normal(shape)

    return Argument(shape, TYPES[dtype], fill)


def positive(*shape: int) -> Argument:
    """Numbers from a half to four."""
    return array(*shape, low=0.5, high=4.0)


def positive_definite(*shape: int, dtype: str = "f32") -> Argument:
    """Well-conditioned Hermitian matrices."""

    def fill(generator: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
        factor = array(*shape, dtype=dtype).fill(generator, shape)
        return factor @ np.swapaxes(factor.conj(), -1, -2) + shape[-1] * np.eye(shape[-1])

    return Argument(shape, TYPES[dtype], fill)


def size_name(shape: Iterable[int]) -> str:
    """As in 16x32."""
    return "x".join(map(str, shape)) or "scalar"
