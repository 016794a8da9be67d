"""Programs with arrays of bounded dynamic size: padded on the way in, cut on the way out."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from xloom.errors import ShapeError
from xloom.hlo.module import Module
from xloom.hlo.shape import Shape
from xloom.interpreter.registry import TOKEN
from xloom.interpreter.values import from_argument
from xloom.passes.dynamic.values import dynamic_leaves, leaves


class DynamicExecutable:
    """Runs the static form of `module` that the pass `dynamic-padding` has made."""

    key = None
    """No machine code is kept under the module that it comes from."""

    def __init__(self, module: Module, padded: Any):
        self.module = module
        self.memory = padded.memory
        self._padded = padded
        self._parameters = [(p.name, p.shape) for p in module.entry.parameters]
        self._result = module.entry.root.shape

    @property
    def outfeed(self) -> list[Any]:
        """What runs have fed out, in order."""
        return self._padded.outfeed

    def __call__(self, *arguments: Any, **keywords: Any) -> Any:
        """As `Executable`; arrays have their run-time sizes. Raises ShapeError for those that exceed a bound."""
        if len(arguments) != len(self._parameters):
            raise ShapeError(f"{self.module.name} takes {len(self._parameters)} arguments, found {len(arguments)}")
        values, sizes = [], []
        for argument, (name, shape) in zip(arguments, self._parameters, strict=True):
            value = from_argument(argument, shape, name)
            arrays = list(_leaves(value))
            sizes += [np.asarray(arrays[leaf].shape[d], np.int32) for leaf, d in dynamic_leaves(shape)]
            values.append(_rebuilt(value, shape, _at_bounds))
        result, *counts = self._padded(*values, *sizes, **keywords)
        places = dynamic_leaves(self._result)
        cut: dict[int, dict[int, int]] = {}
        for (leaf, d), count in zip(places, counts, strict=True):
            cut.setdefault(leaf, {})[d] = int(count)
        numbers = iter(range(len(leaves(self._result))))
        return _rebuilt(result, self._result, lambda array, shape: _cut(array, cut.get(next(numbers), {})))


def _leaves(value: Any) -> Iterator[np.ndarray]:
    if isinstance(value, tuple):
        for element in value:
            yield from _leaves(element)
    elif value is not TOKEN:
        yield value


def _rebuilt(value: Any, shape: Shape, change: Callable[[np.ndarray, Shape], np.ndarray]) -> Any:
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
