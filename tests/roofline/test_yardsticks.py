"""What the machine's limits are measured with does what it says."""

import ctypes

import numpy as np
import pytest

from xloom.roofline import yardsticks
from xloom.roofline.yardsticks import Yardstick, arithmetic, memory, reading


@pytest.mark.parametrize("yardstick", [memory, arithmetic, reading])
def test_yardsticks_run(yardstick):
    found = yardstick()
    found.run()
    assert isinstance(found, Yardstick) and found.amount > 1e8


def test_triad_is_computed():
    b, c, a = np.arange(256, dtype=np.float32), np.ones(256, np.float32), np.zeros(256, np.float32)
    function = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 3, *[ctypes.c_int64] * 2)(yardsticks._address("triad"))
    function(a.ctypes.data, b.ctypes.data, c.ctypes.data, 256, 2)
    assert np.array_equal(a, b + 3)


def test_multiply_adds_are_computed():
    lanes, sums = yardsticks._vectors()
    out = np.zeros(lanes, np.float32)
    ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64)(yardsticks._address("multiply_add"))(out.ctypes.data, 3)
    assert np.array_equal(out, np.full(lanes, 1.75 * sums))  # x / 2 + 1, three times from 0, in every sum


def test_an_array_is_summed():
    a, out = np.arange(256, dtype=np.float32), np.zeros(16, np.float32)
    function = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 2, *[ctypes.c_int64] * 2)(yardsticks._address("total"))
    function(a.ctypes.data, out.ctypes.data, 256, 2)
    assert out.sum() == a.sum()
