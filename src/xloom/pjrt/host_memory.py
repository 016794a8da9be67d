"""Memory that is not Python's, whose owner is told when it is not used any more."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from xloom.hlo.shape import Shape


class HostMemory:
    """What arrays over the memory keep alive."""

    def __init__(self, interface: dict[str, Any], done: Callable[[], Any], is_alone: Callable[[], bool]):
        self.__array_interface__ = interface
        self._done = done
        self.is_alone = is_alone
        """Whether the memory is used through this object alone."""

    def __del__(self) -> None:
        self._done()


def _never() -> bool:
    return False


def host_array(
    address: int,
    shape: Shape,
    strides: Sequence[int],
    done: Callable[[], Any],
    is_alone: Callable[[], bool] = _never,
) -> np.ndarray:
    """The array at an address, with strides in bytes if it is not dense. Calls `done` once it is unreferenced."""
    dtype = shape.dtype.numpy
    if not shape.size:
        done()
        return np.empty(shape.dims, dtype)
    interface = {
        "version": 3,
        "data": (address, False),
        "shape": shape.dims,
        "strides": tuple(strides) or None,
        "typestr": f"|V{dtype.itemsize}",
    }
    return np.asarray(HostMemory(interface, done, is_alone)).view(dtype)
