"""Arrays in larger ones, and out of them, once they are there: row-major, whatever layout they had."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from xloom.hlo.shape import Shape, array_shape
from xloom.passes.dynamic.resizable import Extent
from xloom.passes.dynamic.sizes import Affine
from xloom.pjrt.buffer import Buffer, logical
from xloom.pjrt.future import Future


def at_bounds(buffer: Buffer, dims: Mapping[int, Affine], bound: int) -> Buffer:
    """The array with zeros behind it, along the dimensions that depend on a size."""
    own = buffer.shape
    wanted = [dims[d].at(bound) if d in dims else n for d, n in enumerate(own.dims)]

    def put(array: np.ndarray) -> np.ndarray:
        out = np.zeros(wanted, array.dtype)
        out[tuple(map(slice, array.shape))] = array
        return out

    return _moved(buffer, array_shape(own.dtype, wanted), put)


def cut(buffer: Buffer, extents: Mapping[int, Extent], size: int) -> Buffer:
    """What is there of an array at its bounds for one size."""
    own = buffer.shape
    dims = list(own.dims)
    for d, extent in extents.items():
        dims[d] = extent.size.at(size) * (1 if extent.period is None else dims[d] // extent.period)

    def take(array: np.ndarray) -> np.ndarray:
        for d, extent in extents.items():
            here, rest = array.shape[:d], array.shape[d + 1 :]
            period = array.shape[d] if extent.period is None else extent.period
            periods = 1 if extent.period is None else array.shape[d] // period
            array = array.reshape(*here, periods, period, *rest)
            array = array[(slice(None),) * (d + 1) + (slice(extent.size.at(size)),)]
            array = array.reshape(*here, dims[d], *rest)
        return np.ascontiguousarray(array)

    return _moved(buffer, array_shape(own.dtype, dims), take)


def _moved(buffer: Buffer, shape: Shape, move: Callable[[np.ndarray], np.ndarray]) -> Buffer:
    future = Future()

    def begin(source: Future) -> None:
        try:
            array = logical(buffer.on_host(source.result()), buffer.shape)
            future.set(buffer.memory_space.put(move(array)))
        except BaseException as error:  # what went wrong before, or memory that is full
            future.fail(error)

    buffer.ready.on_ready(begin)
    return Buffer(shape, buffer.memory_space, future)
