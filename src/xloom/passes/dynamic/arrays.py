"""Arrays of dynamic size, and the arrays at their bounds that stand for them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from xloom.hlo.shape import Shape
from xloom.interpreter.nested_values import arrays as arrays_of
from xloom.interpreter.registry import Value
from xloom.passes.dynamic.values import dynamic_leaves, leaves


def at_bounds(values: Sequence[Value], shapes: Sequence[Shape]) -> list[Value]:
    """The arguments of a padded program: arrays at their bounds, then all sizes."""
    sizes: list[Value] = []
    for value, shape in zip(values, shapes, strict=True):
        arrays = arrays_of(value)
        sizes += [np.asarray(arrays[leaf].shape[d], np.int32) for leaf, d in dynamic_leaves(shape)]
    return [*(_rebuilt(v, s, _at_bounds) for v, s in zip(values, shapes, strict=True)), *sizes]


def cut(result: Value, shape: Shape) -> Value:
    """What a padded program gives, in run-time sizes: its result is followed by these."""
    value, *counts = result
    sizes: dict[int, dict[int, int]] = {}
    for (leaf, d), count in zip(dynamic_leaves(shape), counts, strict=True):
        sizes.setdefault(leaf, {})[d] = int(count)
    numbers = iter(range(len(leaves(shape))))
    return _rebuilt(value, shape, lambda array, _: _cut(array, sizes.get(next(numbers), {})))


def _rebuilt(value: Value, shape: Shape, change: Callable[[np.ndarray, Shape], np.ndarray]) -> Value:
    if shape.is_tuple:
        return tuple(_rebuilt(v, s, change) for v, s in zip(value, shape.elements, strict=True))
    return change(value, shape) if shape.is_array else value


def _at_bounds(array: np.ndarray, shape: Shape) -> np.ndarray:
    if array.shape == shape.dims:
        return array
    out = np.zeros(shape.dims, array.dtype)
    out[tuple(map(slice, array.shape))] = array
    return out


def _cut(array: np.ndarray, sizes: dict[int, int]) -> np.ndarray:
    return array[tuple(slice(sizes.get(d)) for d in range(array.ndim))]
