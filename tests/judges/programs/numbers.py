"""Random arrays of every element type, special values among them."""

from __future__ import annotations

import ml_dtypes
import numpy as np

from xloom.hlo.dtype import DType


def random_array(generator: np.random.Generator, dtype: DType, dims: tuple[int, ...], special: float) -> np.ndarray:
    """Values of moderate size; each is a special one (NaN, extreme, denormal, signed zero) with probability `special`."""
    if dtype.is_complex:
        parts = [random_array(generator, dtype.real, dims, special) for _ in range(2)]
        out = np.empty(dims, dtype.numpy)
        out.real, out.imag = parts
        return out
    if dtype.name == "pred":
        return np.asarray(generator.integers(0, 2, dims)).astype(np.bool_)
    plain = _integers(generator, dtype, dims) if dtype.is_integer else _floats(generator, dtype, dims)
    if special == 0:
        return plain
    choices = _special_integers(dtype) if dtype.is_integer else _special_floats(dtype)
    chosen = choices[generator.integers(0, len(choices), dims)]
    return np.where(generator.random(dims) < special, chosen, plain).astype(dtype.numpy)


def _integers(generator: np.random.Generator, dtype: DType, dims: tuple[int, ...]) -> np.ndarray:
    low, high = integer_range(dtype)
    if generator.random() < 0.7:
        low, high = max(low, -9), min(high, 9)
    wide = generator.integers(low, high, dims, np.uint64 if low == 0 else np.int64, endpoint=True)
    return np.asarray(wide).astype(np.int8 if dtype.bits < 8 else dtype.numpy).astype(dtype.numpy)


def _floats(generator: np.random.Generator, dtype: DType, dims: tuple[int, ...]) -> np.ndarray:
    kind = generator.integers(0, 4)
    if kind == 0:
        x = generator.integers(-8, 9, dims) / 2
    elif kind == 1:
        x = generator.uniform(-1, 1, dims)
    else:
        x = generator.standard_normal(dims) * (1 if kind == 2 else 4)
    return np.asarray(x, np.float64).astype(np.float32 if dtype.bits < 64 else np.float64).astype(dtype.numpy)


def integer_range(dtype: DType) -> tuple[int, int]:
    """The least and the greatest value of an integer type."""
    if dtype.name.startswith("u"):
        return 0, (1 << dtype.bits) - 1
    return -(1 << (dtype.bits - 1)), (1 << (dtype.bits - 1)) - 1


def _special_integers(dtype: DType) -> np.ndarray:
    low, high = integer_range(dtype)
    values = [low, high, 0, 1, high // 2, min(high, dtype.bits), dtype.bits - 1 if dtype.bits > 4 else 3, max(low, -1)]
    carrier = np.array(values, np.uint64 if low == 0 else np.int64)
    return carrier.astype(np.int8 if dtype.bits < 8 else dtype.numpy).astype(dtype.numpy)


def _special_floats(dtype: DType) -> np.ndarray:
    info = ml_dtypes.finfo(dtype.numpy)
    values = [0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 2.5, info.max, info.min, info.tiny, -float(info.tiny)]
    values += [info.smallest_subnormal, 1 + float(info.eps), float(info.tiny) / 2]
    values += [np.nan, np.inf, -np.inf]  # types without infinities have NaN there, or their greatest value
    with np.errstate(all="ignore"):
        return np.array([float(v) for v in values], np.float64).astype(dtype.numpy)
