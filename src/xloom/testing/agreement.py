"""Whether a kernel's value can be a rounding of what was to be computed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from xloom.interpreter.last_place import unit_in_last_place
from xloom.interpreter.perturbed import is_float

ULPS: Mapping[str, float] = {"float64": 16, "float32": 16, "float16": 4, "bfloat16": 2}
"""Units in the last place that a result may be off in any case, by the name of NumPy's type; 1 for narrower floats."""
SPREAD = 2.0
"""How many times as far as other roundings of the same operators take it."""


class Mismatch(NamedTuple):
    """The first element that differs: its index, both values, the distance in ULPs; and how many differ."""

    index: tuple[int, ...]
    actual: object
    expected: object
    ulps: float
    count: int


def mismatch(
    actual: np.ndarray,
    expected: np.ndarray,
    others: Callable[[], Sequence[np.ndarray]],
    ulps: Mapping[str, float],
    rtol: float = 0.0,
    atol: float = 0.0,
) -> tuple[Mismatch | None, float]:
    """Where an array is not what it was to be, and how many ULPs it is off where it is.

    `others` gives the array with other roundings, and is only asked where it differs by more than `ulps` of its type
    and by more than `atol + rtol |expected|`.
    """
    distance = ulps_between(actual, expected)
    wrong = ~_near(actual, expected, _allowance(expected, ulps, rtol, atol))
    if wrong.any():
        spread = np.zeros(expected.shape)
        for other in others():
            wrong &= ~_near(actual, other, np.zeros(expected.shape))
            spread = np.maximum(spread, _distance(other, expected))
        wrong &= ~_near(actual, expected, SPREAD * spread)
    off = float(np.max(distance, where=~wrong & np.isfinite(distance), initial=0))
    if not wrong.any():
        return None, off
    index = tuple(int(k) for k in np.unravel_index(int(np.flatnonzero(wrong)[0]), wrong.shape))
    far = float(distance[index])
    found = Mismatch(index, actual[index], expected[index], far if np.isfinite(far) else 0.0, int(wrong.sum()))
    return found, off


def _parts(array: np.ndarray) -> list[np.ndarray]:
    return [np.real(array), np.imag(array)] if array.dtype.kind == "c" else [array]


def _wide(array: np.ndarray) -> np.ndarray:
    return array.astype(np.float64) if is_float(array) else array


def _distance(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """The greater one of the parts; 0 where one is not finite, or they are no numbers with a distance."""
    with np.errstate(all="ignore"):
        found = [np.abs(_wide(a).astype(np.float64) - _wide(b).astype(np.float64)) for a, b in _pairs(one, other)]
    return np.max([np.where(np.isfinite(d), d, 0) for d in found], axis=0)


def _pairs(one: np.ndarray, other: np.ndarray) -> list[tuple[np.ndarray, np.ndarray]]:
    return list(zip(_parts(one), _parts(other), strict=True))


def _near(one: np.ndarray, other: np.ndarray, allowed: np.ndarray) -> np.ndarray:
    near = np.ones(one.shape, bool)
    for a, b in _pairs(one, other):
        x, y = _wide(a), _wide(b)
        if not is_float(a):
            distance = np.abs(x.astype(np.float64) - y.astype(np.float64))
            near &= (x == y) | ((distance <= allowed) & (allowed > 0))
            continue
        with np.errstate(all="ignore"):
            near &= (x == y) | (np.isnan(x) & np.isnan(y)) | (np.abs(x - y) <= allowed)
    return near


def _allowance(expected: np.ndarray, ulps: Mapping[str, float], rtol: float, atol: float) -> np.ndarray:
    allowed = np.zeros(expected.shape)
    for part in _parts(expected):
        if is_float(part):
            size = np.abs(_wide(part))
            size = np.where(np.isfinite(size), size, 0)
            count = ulps.get(part.dtype.name, 1)
            allowed = np.maximum(allowed, np.maximum(count * unit_in_last_place(size, part.dtype), atol + rtol * size))
    return allowed


def ulps_between(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """The distance in units in the last place, NaN where one is NaN; of integers the difference."""
    found = np.zeros(one.shape)
    for a, b in _pairs(one, other):
        if not is_float(a):
            found = np.maximum(found, np.abs(a.astype(np.float64) - b.astype(np.float64)))
            continue
        with np.errstate(all="ignore"):
            x, y = _wide(a), _wide(b)
            far = np.abs(x - y) / unit_in_last_place(np.where(np.isfinite(y), np.abs(y), 0), b.dtype)
        found = np.maximum(found, np.where(x == y, 0, far))
    return found
