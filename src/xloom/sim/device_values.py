"""Values on a device: arrays in its memory, which the host cannot look into."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from xloom.interpreter.registry import TOKEN, Value


class DeviceArray:
    """An array in device memory. The host knows its type and shape; `Simulator.to_host` copies it."""

    def __init__(self, array: np.ndarray):
        self._on_device = array
        self.dtype = array.dtype
        self.shape = array.shape

    def __repr__(self) -> str:
        return f"DeviceArray({self.dtype}{list(self.shape)})"

    def __array__(self, *_: Any, **__: Any) -> np.ndarray:
        raise TypeError("the host cannot read device memory: copy the array with Simulator.to_host")


def on_device(value: Value) -> Value:
    """What device code sees of a value."""
    return _mapped(value, DeviceArray, lambda v: v._on_device)


def for_host(value: Value) -> Value:
    """What the host sees of a value on the device."""
    return _mapped(value, np.ndarray, DeviceArray)


def copied(value: Value, take: Callable[[int], np.ndarray]) -> Value:
    """A dense copy of each array, in memory that `take` gives."""

    def copy(array: np.ndarray) -> np.ndarray:
        new = take(array.nbytes).view(array.dtype).reshape(array.shape)
        new[...] = array
        return new

    return _mapped(value, (np.ndarray, np.generic), lambda v: copy(np.asarray(v)))


def nbytes(value: Value) -> int:
    """Bytes of all arrays."""
    if isinstance(value, tuple):
        return sum(nbytes(v) for v in value)
    return 0 if value is TOKEN or value is None else np.asarray(value).nbytes


def _mapped(value: Value, kind: type | tuple[type, ...], change: Callable[[Any], Any]) -> Value:
    if isinstance(value, tuple):
        return tuple(_mapped(v, kind, change) for v in value)
    return change(value) if isinstance(value, kind) else value
