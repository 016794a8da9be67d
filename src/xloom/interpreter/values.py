"""Values: from literals and arguments, and their checks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from xloom.errors import ShapeError
from xloom.hlo.literal import Literal
from xloom.hlo.shape import Shape
from xloom.interpreter.registry import TOKEN, Value

_LISTED = 8
"""Parameters that a message lists, at most."""


def from_literal(literal: Literal) -> Value:
    """The value of a literal."""
    if literal.shape.is_tuple:
        return tuple(from_literal(e) for e in literal.elements)
    return literal.value if literal.shape.is_array else TOKEN


def miscounted(program: str, parameters: Iterable[tuple[str, Shape]], found: int) -> ShapeError:
    """The error for more or fewer arguments than a program takes; it lists those."""
    takes = [f"{name}: {shape.to_text(False)}" for name, shape in parameters]
    listed = ", ".join(takes[:_LISTED]) + (", ..." if len(takes) > _LISTED else "")
    return ShapeError(
        f"{program} takes {len(takes)} arguments, found {found}", hint=f"it takes {listed or 'none'}, in this order"
    )


def from_argument(argument: Any, shape: Shape, name: str) -> Value:
    """An argument as a value of `shape`. Raises ShapeError that names it when it does not fit."""
    if isinstance(argument, Literal):
        argument = from_literal(argument)
    if shape.is_tuple:
        if not isinstance(argument, Sequence) or len(argument) != len(shape.elements):
            raise ShapeError(
                f"argument {name} must be a tuple of {len(shape.elements)}, found {type(argument).__name__}",
                hint=f"its shape is {shape.to_text(False)}",
            )
        return tuple(
            from_argument(a, s, f"{name}[{k}]") for k, (a, s) in enumerate(zip(argument, shape.elements, strict=True))
        )
    if not shape.is_array:
        return TOKEN
    plain = isinstance(argument, (bool, int, float, complex))
    array = np.asarray(argument, shape.dtype.numpy) if plain else np.asarray(argument)
    fits = array.ndim == shape.rank and all(
        a == d or (shape.is_dynamic_dimension(k) and (a <= d or d < 0))
        for k, (a, d) in enumerate(zip(array.shape, shape.dims, strict=False))
    )
    if array.dtype != shape.dtype.numpy or not fits:
        raise ShapeError(
            f"argument {name} must be {shape.to_text(False)}, found {array.dtype}{list(array.shape)}",
            hint="convert it, or change the program",
        )
    return array


def zeros(shape: Shape) -> Value:
    """A value of `shape` that is all zeros."""
    if shape.is_tuple:
        return tuple(zeros(e) for e in shape.elements)
    return np.zeros(shape.dims, shape.dtype.numpy) if shape.is_array else TOKEN


def random_argument(shape: Shape, generator: np.random.Generator) -> Value:
    """A plausible argument: small integers, floats of a normal distribution."""
    if shape.is_tuple:
        return tuple(random_argument(e, generator) for e in shape.elements)
    if not shape.is_array:
        return TOKEN
    dtype = shape.dtype
    if dtype.name == "pred":
        return generator.integers(0, 2, shape.dims).astype(np.bool_)
    if dtype.is_integer:
        high = min(8, (1 << (dtype.bits - 1)) - 1) if dtype.bits > 1 else 0
        low = -high if dtype.name.startswith("s") else 0
        return generator.integers(low, high + 1, shape.dims).astype(np.int32).astype(dtype.numpy)
    real = generator.standard_normal(shape.dims)
    if dtype.is_complex:
        return (real + 1j * generator.standard_normal(shape.dims)).astype(dtype.numpy)
    return np.asarray(real).astype(np.float32).astype(dtype.numpy)
