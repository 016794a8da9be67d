"""Zeros around and between elements of a convolution's input times what is not finite: NaN, in every way to sum."""

from pathlib import Path

import numpy as np
import pytest

import xloom as xl
from tests.cpu.kernels import run_kernel
from tests.cpu.test_convolution import program
from tests.cpu.test_dot import values
from tests.cpu.test_target import run

WINDOWS = {
    "same": ((2, 9, 11, 5), (3, 3, 5, 7), "size=3x3 pad=1_1x1_1", "b01f_01io->b01f"),
    "vectors of features": ((1, 14, 14, 20), (3, 3, 20, 37), "size=3x3 pad=1_1x1_1", "b01f_01io->b01f"),
    "planes": ((2, 16, 12, 21), (24, 16, 3, 3), "size=3x3 pad=1_1x1_1", "bf01_oi01->bf01"),
    "vectors of places": ((1, 3, 12, 40), (5, 3, 3, 3), "size=3x3 pad=1_1x1_1", "bf01_oi01->bf01"),
    "other labels": ((9, 2, 5, 11), (3, 7, 5, 2), "size=3x2 pad=0_2x-1_1", "0bf1_0oi1->f01b"),
    "crop and pad": ((1, 12, 12, 4), (3, 3, 4, 6), "size=3x3 pad=-2_3x4_-3", "b01f_01io->b01f"),
    "one place": ((1, 2, 2, 4), (1, 1, 4, 6), "size=1x1 pad=3_3x-2_4", "b01f_01io->b01f"),
    "strides": ((1, 13, 16, 3), (5, 4, 3, 16), "size=5x4 stride=2x3 pad=3_2x3_3", "b01f_01io->b01f"),
    "spread": ((1, 12, 10, 6), (3, 3, 6, 18), "size=3x3 pad=2_2x3_3 rhs_dilate=2x3", "b01f_01io->b01f"),
    "holes": ((1, 7, 9, 12), (4, 4, 12, 20), "size=4x4 pad=2_2x2_2 lhs_dilate=2x2", "b01f_01io->b01f"),
    "only holes": ((1, 40, 5), (40, 3, 1), "size=1 stride=2 pad=-1_0 lhs_dilate=2", "bf0_io0->bf0"),
    "places of holes": ((1, 9, 5), (3, 5, 16), "size=3 stride=2 pad=1_1 lhs_dilate=2", "b0f_0io->b0f"),
    "all dilated": (
        (1, 7, 9, 4), (3, 4, 4, 8),
        "size=3x4 stride=3x2 pad=4_5x7_2 lhs_dilate=4x6 rhs_dilate=2x3 rhs_reversal=1x0", "b01f_01io->b01f",
    ),
    "reversed": ((1, 2, 8, 24), (3, 2, 3, 2), "size=3x2 pad=1_1x1_1 rhs_reversal=1x1", "bf01_oi01->bf01"),
    "one element": ((2, 1, 1, 20), (3, 3, 20, 16), "size=3x3 pad=1_1x1_1", "b01f_01io->b01f"),
    "few elements": ((1, 2, 3, 8), (5, 3, 8, 16), "size=5x3 pad=2_2x1_1", "b01f_01io->b01f"),
    "far apart": ((1, 20, 5, 6), (6, 20, 3, 3), "size=3x3 pad=9_9x9_9 rhs_dilate=9x9", "bf01_oi01->bf01"),
    "no element": ((1, 0, 5, 3), (3, 3, 3, 16), "size=3x3 pad=3_2x1_1", "b01f_01io->b01f"),
    "line": ((2, 50, 8), (5, 8, 12), "size=5 pad=2_2", "b0f_0io->b0f"),
    "space": ((1, 5, 6, 7, 4), (2, 3, 3, 4, 6), "size=2x3x3 pad=0_1x1_1x1_1", "b012f_012io->b012f"),
    "long sums": ((1, 190, 9, 7), (40, 190, 3, 3), "size=3x3 pad=1_1x1_1", "bf01_oi01->bf01"),
    "large kernel": ((1, 7, 6, 160), (3, 3, 160, 140), "size=3x3 pad=1_1x1_1", "b01f_01io->b01f"),
    "gradient": ((4, 10, 10, 40), (4, 8, 8, 33), "size=8x8 pad=1_1x1_1", "f01b_i01o->01bf"),
    "gradient of planes": ((3, 18, 16, 16), (3, 35, 16, 16), "size=16x16 pad=1_1x1_1", "fb01_io01->fb01"),
    "gradient of many": ((1, 5, 6, 16), (1, 5, 6, 144), "size=5x6 pad=1_1x1_1", "f01b_i01o->01bf"),
}  # fmt: skip
GROUPS = {
    "adjacent": ((2, 12, 13, 32), (3, 3, 1, 32), "size=3x3 pad=1_1x1_1", "b01f_01io->b01f", "feature", 32),
    "boxes": ((1, 24, 9, 9), (24, 1, 3, 3), "size=3x3 pad=1_1x1_1", "bf01_oi01->bf01", "feature", 24),
    "boxes with holes": (
        (1, 17, 9, 30), (17, 1, 3, 2), "size=3x2 stride=3x1 pad=1_2x1_1 lhs_dilate=3x2 rhs_dilate=2x3 rhs_reversal=1x0",
        "bf01_oi01->bf01", "feature", 17,
    ),
    "side by side": ((1, 9, 9, 64), (3, 3, 4, 64), "size=3x3 pad=1_1x1_1", "b01f_01io->b01f", "feature", 16),
    "apart": ((1, 9, 9, 60), (3, 3, 20, 72), "size=3x3 pad=1_1x1_1", "b01f_01io->b01f", "feature", 3),
    "images": ((4, 6, 6, 5), (3, 3, 5, 8), "size=3x3 pad=1_1x1_1", "b01f_01io->b01f", "batch", 2),
    "correlation": ((3, 20, 14, 13), (3, 20, 14, 13), "size=14x13 pad=3_3x3_3", "fb01_io01->fb01", "batch", 20),
    "correlation of fours": ((3, 9, 8, 40), (3, 9, 8, 40), "size=9x8 pad=1_1x1_1", "f01b_i01o->01bf", "batch", 10),
}  # fmt: skip
CASES = {
    **{name: (*case, "") for name, case in WINDOWS.items()},
    **{name: (*case, f", {kind}_group_count={n}") for name, (*case, kind, n) in GROUPS.items()},
}
TYPES = ["f64", "bf16", "f16", "c64", "f8e5m2", "f8e4m3fnuz"]
TYPED = ["same", "planes", "holes", "few elements", "gradient of many", "adjacent", "boxes", "correlation"]


def is_nan(x):
    """Where a value, or each part of it, is NaN."""
    x = np.asarray(x)
    parts = (np.real(x), np.imag(x)) if np.iscomplexobj(x) else (x.astype(np.float64),)
    return np.stack([np.isnan(part) for part in parts])


def check(name, dtype="f32"):
    """NaN where the interpreter has it, of a kernel with a few elements that are not finite, and of such an input."""
    lhs, rhs, window, labels, more = CASES[name]
    text = program(lhs, rhs, window, labels, more, (dtype,) * 3)
    random = np.random.default_rng(len(name))
    x, w = values(random, lhs, dtype), values(random, rhs, dtype)
    infinite = np.nan if dtype[0] == "c" else np.inf  # NumPy's complex products are NaN where they could be infinite
    spoilt = w.copy()
    spoilt.reshape(-1)[[0, w.size // 2, w.size - 1]] = infinite, -infinite, np.nan
    compare(text, x, spoilt)
    x.reshape(-1)[x.size // 2 : x.size // 2 + 1] = infinite
    compare(text, x, w)


def compare(text, x, w):
    """Both ways."""
    got, want = run_kernel(text, x, w, split=2), xl.evaluate(xl.parse(text), x, w)
    np.testing.assert_array_equal(is_nan(got), is_nan(want))


@pytest.mark.sampled
@pytest.mark.parametrize("name", CASES)
def test_windows(name):
    check(name)


@pytest.mark.sampled
@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("name", TYPED)
def test_types(name, dtype):
    check(name, dtype)


@pytest.mark.parametrize("name", ["same", "holes"])
def test_type_without_nan(name):
    lhs, rhs, window, labels, more = CASES[name]
    text = program(lhs, rhs, window, labels, more, ("f4e2m1fn",) * 3)
    random = np.random.default_rng(0)
    x, w = values(random, lhs, "f4e2m1fn"), values(random, rhs, "f4e2m1fn")
    got, want = run_kernel(text, x, w), xl.evaluate(xl.parse(text), x, w)
    np.testing.assert_array_equal(np.asarray(got).astype(np.float32), np.asarray(want).astype(np.float32))


PROGRAM = f"""
import sys
sys.path.insert(0, {str(Path(__file__).parents[2])!r})
from tests.cpu import test_convolution_zeros as zeros
for name in zeros.TYPED:
    zeros.check(name)
"""


def test_narrower_vectors():
    """Where other zeros are multiplied."""
    ran = run("x86-64-v3", PROGRAM)
    if "but the host lacks" in ran.stderr:
        pytest.skip("the host cannot do that much")
    assert not ran.returncode, ran.stderr
