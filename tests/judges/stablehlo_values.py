"""Values in StableHLO's golden tests: MLIR literals as arrays, and the comparisons of its check dialect."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from xloom.hlo.dtype import DTYPES

_TENSOR = re.compile(r"tensor<((?:\d+x)*)(.+)>$")
_WORD = re.compile(r"[^\s,\[\]()]+")


def dtype_of(element: str) -> np.dtype:
    """NumPy's type for an MLIR element type. Raises KeyError for others."""
    if element == "i1":
        return np.dtype(np.bool_)
    if element.startswith("complex<"):
        return np.dtype(np.complex64 if "f32" in element else np.complex128)
    name = re.sub(r"^i(?=\d)", "s", re.sub(r"^ui", "u", element)).lower()
    return np.dtype(DTYPES[name].numpy)


def array_of(literal: str) -> np.ndarray:
    """The array in `dense<...> : tensor<...>`. Raises ValueError or KeyError for types that NumPy does not have."""
    body, _, tensor = literal.rpartition(" : ")
    match = _TENSOR.match(tensor.strip())
    if match is None:
        raise ValueError(f"no array for {tensor}")
    dims = tuple(int(d) for d in match[1].split("x") if d)
    dtype = dtype_of(match[2])
    size = int(np.prod(dims, dtype=np.int64))
    body = body.strip()[len("dense<") : -1]
    if body.startswith('"0x'):
        values = _from_bytes(bytes.fromhex(body[3:-1]), dtype, size)
    else:
        words = [_scalar(word, dtype) for word in _WORD.findall(body)]
        values = np.array(words, dtype if dtype.kind in "iu" else None)
        if dtype.kind == "c":
            values = values.astype(f"f{dtype.itemsize // 2}").view(dtype)
        with np.errstate(all="ignore"):
            values = values.astype(dtype)
    if len(values) == 1:
        values = np.repeat(values, size)
    return values.reshape(dims)


def _from_bytes(data: bytes, dtype: np.dtype, size: int) -> np.ndarray:
    if dtype.kind == "b" and len(data) != size:
        if len(data) == 1:
            return np.array([data[0] != 0])
        return np.unpackbits(np.frombuffer(data, np.uint8), bitorder="little")[:size].astype(bool)
    return np.frombuffer(data, dtype)


def _scalar(word: str, dtype: np.dtype) -> object:
    if word in ("true", "false"):
        return word == "true"
    part = np.dtype(f"f{dtype.itemsize // 2}") if dtype.kind == "c" else dtype
    if dtype.kind in "iub" or "int" in dtype.name:
        return int(word, 0)
    if word.startswith("0x"):
        return np.array(int(word, 16), f"u{part.itemsize}").view(part)[()].astype(np.float64)
    return float(word)


_FAR = 2**64 - 1  # what the reference calls the distance of a number and an infinity or a NaN


@dataclass
class Check:
    """One comparison: output `actual` of the program against an array, or another output."""

    kind: str  # eq, almost_eq (absolute), close (units in the last place)
    actual: int
    expected: np.ndarray | int
    tolerance: float = 1e-4
    min_ulp: int = 0
    max_ulp: int = 1

    def problem(self, outputs: list[np.ndarray]) -> tuple[str, bool]:
        """What is wrong, or an empty string; and whether it is a matter of rounding (within 1e-3)."""
        actual = np.asarray(outputs[self.actual])
        expected = outputs[self.expected] if isinstance(self.expected, int) else self.expected
        if actual.dtype != expected.dtype or actual.shape != expected.shape:
            return f"{actual.dtype}{list(actual.shape)} for {expected.dtype}{list(expected.shape)}", False
        wrong = np.zeros(actual.shape, bool)
        far = np.zeros(actual.shape, bool)
        for a, e in zip(_parts(actual), _parts(expected), strict=True):
            fine, near = self._compare(a, e)
            wrong |= ~fine
            far |= ~near & ~fine
        if not wrong.any():
            return "", True
        k = tuple(int(n) for n in np.argwhere(wrong)[0])
        message = f"{self.kind}: {wrong.sum()} of {wrong.size} differ, at {list(k)} {actual[k]} for {expected[k]}"
        return message, not far.any()

    def _compare(self, actual: np.ndarray, expected: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        if not _is_float(actual):
            return actual == expected, np.zeros(actual.shape, bool)
        a, e = actual.astype(np.float64), expected.astype(np.float64)
        with np.errstate(all="ignore"):
            same = (a == e) | (np.isnan(a) & np.isnan(e))
            finite = np.isfinite(a) & np.isfinite(e)
            near = same | (finite & (np.abs(a - e) <= 1e-3 * (1 + np.abs(e))))
            if self.kind == "close":
                distance = np.where(same, 0, np.where(finite, np.abs(_rank(actual) - _rank(expected)), _FAR))
                return (distance <= self.max_ulp) & (distance >= self.min_ulp), near
            if self.kind == "almost_eq":
                return same | (finite & (np.abs(a - e) <= self.tolerance)), near
            return same, near


def _parts(array: np.ndarray) -> list[np.ndarray]:
    return [np.real(array), np.imag(array)] if array.dtype.kind == "c" else [array]


def _is_float(array: np.ndarray) -> bool:
    return array.dtype.kind == "f" or array.dtype.name.startswith(("float", "bfloat"))


def _rank(array: np.ndarray) -> np.ndarray:
    """Integers in the order of the floats, one apart for neighbours, as Python's so that none overflows."""
    bits = np.asarray(array, order="C").view(f"u{array.dtype.itemsize}").astype(object)
    sign = 1 << (8 * array.dtype.itemsize - 1)
    return np.where(bits >= sign, sign - bits, bits)
