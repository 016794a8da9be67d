"""torch's strides: those of row-major arrays, and which are those of arrays that fill their memory."""

from __future__ import annotations

import math
from collections.abc import Sequence


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


def inverse(order: Sequence[int]) -> tuple[int, ...]:
    """The order that takes it back."""
    return tuple(sorted(range(len(order)), key=order.__getitem__))
