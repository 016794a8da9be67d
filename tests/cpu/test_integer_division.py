"""Quotients and remainders of integers, in vectors and alone."""

import numpy as np
import pytest

import xloom as xl
from xloom.hlo.dtype import from_numpy
from xloom.interpreter import evaluate

TYPES = [np.int8, np.uint8, np.int16, np.uint16, np.int32, np.uint32, np.int64, np.uint64]


def module_of(dtype: type, dims: str) -> xl.Module:
    name = from_numpy(dtype).name
    return xl.parse(f"""
HloModule m
ENTRY e {{
  x = {name}[{dims}] parameter(0)
  y = {name}[{dims}] parameter(1)
  q = {name}[{dims}] divide(x, y)
  r = {name}[{dims}] remainder(x, y)
  ROOT t = ({name}[{dims}], {name}[{dims}]) tuple(q, r)
}}""")


def pairs(dtype: type) -> tuple[np.ndarray, np.ndarray]:
    info = np.iinfo(dtype)
    if info.bits == 8:
        numbers = np.arange(info.min, info.max + 1).astype(dtype)
    else:  # around limits, powers of two, and multiples of one another
        rng = np.random.default_rng(0)
        near = [s * (1 << k) + d for k in range(info.bits) for d in (-1, 0, 1) for s in (-1, 1)]
        near += [int(n) for n in rng.integers(info.min, info.max, 40, dtype, endpoint=True)]
        numbers = np.array(sorted({n for n in near if info.min <= n <= info.max}), dtype)
    x, y = (a.ravel() for a in np.meshgrid(numbers, numbers))
    multiples = (x.astype(object) // np.where(y == 0, 1, y).astype(object)) * y.astype(object)
    below = np.clip(multiples - 1, info.min, info.max)
    return np.concatenate([x, below.astype(dtype)]), np.concatenate([y, y])


@pytest.mark.parametrize("dtype", TYPES)
def test_many(dtype):
    x, y = pairs(dtype)
    module = module_of(dtype, str(x.size))
    for got, expected in zip(xl.compile(module)(x, y), evaluate(module, x, y), strict=True):
        np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize("dtype", TYPES)
def test_one(dtype):
    module = module_of(dtype, "")
    divide, info = xl.compile(module), np.iinfo(dtype)
    for x in (info.min, info.max, 0, 100):
        for y in (info.min, info.max, 0, 1, 7):
            a, b = np.array(x, dtype), np.array(y, dtype)
            assert [int(v) for v in divide(a, b)] == [int(v) for v in evaluate(module, a, b)]
