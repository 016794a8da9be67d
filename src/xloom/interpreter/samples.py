"""Random arguments to try a program on."""

from __future__ import annotations

import ml_dtypes
import numpy as np

from xloom.hlo.dtype import DType, Kind
from xloom.hlo.module import Module
from xloom.hlo.shape import Shape
from xloom.interpreter.registry import Value
from xloom.interpreter.values import random_argument


def random_arguments(module: Module, seed: int = 0, *, edges: bool = False, smaller: bool = False) -> list[Value]:
    """One value for each parameter of the entry, the same for the same seed.

    With `edges`, every fourth number or so is NaN, an infinity, a zero of either sign, or a limit of its type; with
    `smaller`, sizes that are dynamic are all the same part of their bounds.
    """
    generator = np.random.default_rng(seed)
    values = []
    for parameter in module.entry.parameters:
        value = random_argument(parameter.shape, generator)
        values.append(_with_edges(value, parameter.shape, generator) if edges else value)
    if smaller:
        part = generator.random()
        return [_cut(v, p.shape, part) for v, p in zip(values, module.entry.parameters, strict=True)]
    return values


def _cut(value: Value, shape: Shape, part: float) -> Value:
    if shape.is_tuple:
        return tuple(_cut(v, s, part) for v, s in zip(value, shape.elements, strict=True))
    if not shape.is_array:
        return value
    sizes = [round(n * part) if shape.is_dynamic_dimension(k) else n for k, n in enumerate(shape.dims)]
    return value[tuple(map(slice, sizes))]


def _with_edges(value: Value, shape: Shape, generator: np.random.Generator) -> Value:
    if shape.is_tuple:
        return tuple(_with_edges(v, s, generator) for v, s in zip(value, shape.elements, strict=True))
    if not shape.is_array or shape.dtype.kind is Kind.PRED:
        return value
    pool = _edges(shape.dtype)
    chosen = generator.random(value.shape) < 0.25
    return np.where(chosen, generator.choice(pool, value.shape), value).astype(shape.dtype.numpy)


def _edges(dtype: DType) -> np.ndarray:
    if dtype.is_integer:
        bits = dtype.bits - (dtype.kind is Kind.SIGNED)
        high = (1 << bits) - 1
        low = -high - 1 if dtype.kind is Kind.SIGNED else 0
        numbers: list[float] = [low, high, 0]
        return np.array(numbers, dtype=object).astype(dtype.numpy)
    limits = ml_dtypes.finfo(dtype.real.numpy)
    numbers = [np.nan, np.inf, -np.inf, 0.0, -0.0, float(limits.max), float(limits.smallest_subnormal), 1.0]
    with np.errstate(all="ignore"):
        return np.array(numbers).astype(dtype.numpy)
