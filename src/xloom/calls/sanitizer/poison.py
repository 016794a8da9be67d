"""The pattern that outputs start with, and the elements where it still is after the call."""

from __future__ import annotations

import numpy as np

from xloom.hlo.dtype import DType

# Signalling NaNs: no arithmetic gives them, and what adds to an output that was never written becomes NaN.
_SIGNALLING = {"f16": 0x7D25, "bf16": 0x7FA5, "f32": 0x7FA57FA5, "f64": 0x7FF4A5A5A5A5A5A5}
_CERTAIN_BITS = 32
"""So many bits in a row do not have the pattern by chance."""


def poison(data: np.ndarray, dtype: DType) -> None:
    """Fills the bytes of an output."""
    data[...] = _pattern(data.size, dtype)


def unwritten(data: np.ndarray, dtype: DType) -> np.ndarray:
    """The numbers of the elements, in memory order, that still are poison.

    Elements narrower than 32 bits that may have any value are only told when neighbours are too: four bytes in a row.
    """
    elements = _same(data, dtype, 0)
    if dtype.name == "pred" or dtype.real.name in _SIGNALLING:
        return np.flatnonzero(elements)
    return np.flatnonzero(_in_runs(elements, -(-_CERTAIN_BITS // (8 * dtype.numpy.itemsize))))


def poisoned(data: np.ndarray, dtype: DType, flipped: bool = False) -> np.ndarray:
    """The numbers of all elements that have the pattern, or its inverse: maybe they were written so."""
    return np.flatnonzero(_same(data, dtype, 0xFF if flipped else 0))


def _same(data: np.ndarray, dtype: DType, flip: int) -> np.ndarray:
    width = dtype.numpy.itemsize
    same = data == _pattern(data.size, dtype) ^ flip
    part = width // 2 if dtype.is_complex else width
    return same.reshape(-1, part).all(axis=1).reshape(-1, width // part).any(axis=1)


def _pattern(nbytes: int, dtype: DType) -> np.ndarray:
    name = dtype.real.name
    if name in _SIGNALLING:
        width = dtype.real.numpy.itemsize
        return np.full(nbytes // width, _SIGNALLING[name], f"<u{width}").view(np.uint8)
    pattern = np.frombuffer(np.random.default_rng(0).bytes(nbytes), np.uint8)
    return pattern | 2 if dtype.name == "pred" else pattern  # neither false nor true


def _in_runs(marks: np.ndarray, length: int) -> np.ndarray:
    """The marks that are in a row of at least `length`, or of all there are."""
    length = min(length, marks.size)
    if length < 2:
        return marks
    begins = np.lib.stride_tricks.sliding_window_view(marks, length).all(axis=1)
    kept = np.zeros_like(marks)
    for k in range(length):
        kept[k : k + begins.size] |= begins
    return kept
