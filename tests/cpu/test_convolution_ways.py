"""Which tiles convolutions are computed in, where others take much longer."""

import numpy as np
import pytest

from tests.cpu.kernels import run_kernel
from tests.cpu.test_convolution import program
from xloom.cpu.kernels.convolve import emission


def chosen(monkeypatch, lhs, rhs, window, labels, more="", dtype="f32"):
    """The way of a convolution of zeros."""
    found, convolve = [], emission.convolve

    def seen(kernel, way, *rest):
        found.append(way)
        convolve(kernel, way, *rest)

    monkeypatch.setattr(emission, "convolve", seen)
    module = program(lhs, rhs, window, labels, more, (dtype,) * 3)
    run_kernel(module, *(np.zeros(dims, np.float32) for dims in (lhs, rhs)))
    [way] = found
    return way


@pytest.mark.parametrize(
    ("lhs", "rhs", "labels"),
    [
        ((2, 12, 12, 64), (2, 12, 12, 64), "f01b_i01o->01bf"),
        ((2, 64, 12, 12), (2, 64, 12, 12), "fb01_io01->fb01"),
    ],
)
def test_rows_of_kernel_gradients_are_features(monkeypatch, lhs, rhs, labels):
    """Of both operands: a window has too few places for the vectors that are loaded to be used often."""
    way = chosen(monkeypatch, lhs, rhs, "size=12x12 pad=1_1x1_1", labels)
    assert (way.rows.dim, way.rows.most) == (None, 64)
    assert way.tile.rows > 8
