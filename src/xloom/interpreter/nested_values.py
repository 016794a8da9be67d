"""Values with tuples in them: what is in them in pre-order, what is made of each array, and values out of arrays."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from xloom.hlo.shape import Shape
from xloom.interpreter.registry import TOKEN, Value


def leaves(value: Value) -> list[Value]:
    """All that is no tuple, tokens too."""
    return [leaf for part in value for leaf in leaves(part)] if isinstance(value, tuple) else [value]


def arrays(value: Value) -> list[Any]:
    """The same without tokens, which some devices have None for."""
    return [leaf for leaf in leaves(value) if not _is_token(leaf)]


def with_each(value: Value, change: Callable[[Any], Any]) -> Value:
    """The value with each array changed; tokens stay."""
    if isinstance(value, tuple | list):
        return tuple(with_each(part, change) for part in value)
    return value if _is_token(value) else change(value)


def nested(shape: Shape, arrays: Iterator[Any], token: Any = TOKEN) -> Value:
    """A value of a shape, whose arrays an iterator gives."""
    if shape.is_tuple:
        return tuple(nested(element, arrays, token) for element in shape.elements)
    return next(arrays) if shape.is_array else token


def _is_token(value: Value) -> bool:
    return value is None or value is TOKEN
