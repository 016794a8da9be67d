"""torch's strides: those of row-major arrays, and which are those of arrays that fill their memory."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np


def contiguous_strides(dims: Sequence[int]) -> tuple[int, ...]:
    """torch's strides of a dense row-major array."""
    strides, step = [1] * len(dims), 1
    for k in range(len(dims) - 1, -1, -1):
        strides[k] = step
        step *= max(dims[k], 1)
    return tuple(strides)


def dense_order(dims: Sequence[int], strides: Sequence[int]) -> tuple[int, ...] | None:
    """The order of dimensions in which those strides are dense, slowest first; None when they are not."""
    order = tuple(sorted(range(len(dims)), key=lambda k: (-strides[k], dims[k] == 1, k)))
    dense = contiguous_strides([dims[k] for k in order])
    same = all(strides[k] == step or dims[k] == 1 for k, step in zip(order, dense, strict=True))
    return order if same or not math.prod(dims) else None


def extent(dims: Sequence[int], strides: Sequence[int]) -> int:
    """How many elements there are from a tensor's first element to its last."""
    return sum((size - 1) * stride for size, stride in zip(dims, strides, strict=True)) + 1 if math.prod(dims) else 0


def overlap(dims: Sequence[int], strides: Sequence[int]) -> bool:
    """Whether two elements of such a tensor lie at one place."""
    if not math.prod(dims):
        return False
    steps = sorted((stride, size) for size, stride in zip(dims, strides, strict=True) if size > 1)
    if steps and not steps[0][0]:
        return True
    reach = 0
    for stride, size in steps:
        if stride <= reach:  # else each place along this dimension is beyond all those of the ones before
            places = elements(dims, strides)
            return len(np.unique(places)) < len(places)
        reach += (size - 1) * stride
    return False


def elements(dims: Sequence[int], strides: Sequence[int], offset: int = 0) -> np.ndarray:
    """The addresses of a tensor's elements, in row-major order."""
    places = np.array(offset, np.int64)
    for size, stride in zip(dims, strides, strict=True):
        places = places[..., None] + np.arange(size) * stride
    return places.reshape(-1)


def inverse(order: Sequence[int]) -> tuple[int, ...]:
    """The order that takes it back."""
    return tuple(sorted(range(len(order)), key=order.__getitem__))
