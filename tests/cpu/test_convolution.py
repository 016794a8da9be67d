"""Kernels of convolution against the interpreter."""

import ml_dtypes
import numpy as np
import pytest

import xloom as xl
from tests.cpu.kernels import run_kernel
from tests.cpu.test_dot import TYPES, values
from xloom.hlo.dtype import DTYPES
from xloom.infer.registry import infer_shape


def program(lhs, rhs, window, labels, more, types):
    """The text of a convolution, whose shape is inferred from a first version of it."""

    def text(out):
        shapes = [f"{t}[{','.join(map(str, d))}]" for t, d in zip(types, (lhs, rhs, out), strict=True)]
        attributes = (f"window={{{window}}}, " if window else "") + f"dim_labels={labels}{more}"
        return f"""HloModule m
ENTRY e {{
  a = {shapes[0]} parameter(0)
  b = {shapes[1]} parameter(1)
  ROOT d = {shapes[2]} convolution(a, b), {attributes}
}}"""

    root = xl.parse(text((1,) * len(lhs))).entry.root
    return text(infer_shape("convolution", [o.shape for o in root.operands], root.attrs).dims)


def check(lhs, rhs, window, labels, more="", types=("f32", "f32", "f32")):
    """`lhs` and `rhs` are dimensions in the order of the labels."""
    rng = np.random.default_rng(0)
    a, b = values(rng, lhs, types[0]), values(rng, rhs, types[1])
    text = program(lhs, rhs, window, labels, more, types)
    got, want = np.asarray(run_kernel(text, a, b, split=3)), np.asarray(xl.evaluate(xl.parse(text), a, b))
    kind = DTYPES[types[2]]
    if kind.is_integer or types[2] == "pred":
        np.testing.assert_array_equal(got.astype(np.int64), want.astype(np.int64))
        return
    depth = max(1, int(np.prod(rhs)))
    epsilon = float(ml_dtypes.finfo(kind.real.numpy).eps) + (1e-15 if kind.real.bits == 64 else 1e-7) * depth**0.5
    wide = np.complex128 if kind.is_complex else np.float64
    np.testing.assert_allclose(got.astype(wide), want.astype(wide), rtol=epsilon, atol=epsilon * depth**0.5)


CASES = {
    "3x3": ((2, 9, 11, 5), (3, 3, 5, 7), "size=3x3 pad=1_1x1_1", "b01f_01io->b01f"),
    "wide": ((1, 14, 14, 20), (3, 3, 20, 70), "size=3x3 pad=1_1x1_1", "b01f_01io->b01f"),
    "few outputs": ((2, 9, 11, 32), (3, 3, 3, 32), "size=3x3 pad=1_1x1_1", "b01f_01oi->b01f"),
    "few outputs spread": (
        (1, 9, 10, 64), (7, 7, 3, 64), "size=7x7 pad=3_4x3_4 lhs_dilate=2x2 rhs_reversal=1x1", "b01f_01oi->b01f",
    ),
    "one output": ((2, 9, 17, 48), (1, 5, 3, 48), "size=5x3 pad=2_2x1_1", "b01f_o01i->bf01"),
    "few outputs of lines": ((1, 9, 10, 64), (3, 3, 64, 3), "size=3x3 pad=1_1x1_1", "b01f_01io->b01f"),
    "gradient of one place": ((16, 3, 96, 104), (24, 3, 96, 104), "size=96x104", "bf01_oi01->fb01"),
    "patches": ((2, 32, 5, 6), (32, 3, 4, 4), "size=4x4 pad=3_3x3_3 lhs_dilate=4x4", "bf01_io01->bf01"),
    "few outputs nchw": ((2, 32, 9, 10), (32, 3, 3, 3), "size=3x3 pad=1_2x1_2 lhs_dilate=2x2", "bf01_io01->bf01"),
    "no window": ((5, 16), (2, 16), "", "bf_oi->bf"),
    "a feature that moves as the window": ((2, 2, 1, 2), (1, 3, 1, 1), "size=1x3 pad=0_0x1_0 lhs_dilate=2x1", "b1f0_01oi->b1f0"),
    "valid": ((2, 17, 18, 3), (5, 2, 3, 33), "size=5x2", "b01f_01io->b01f"),
    "stride": ((1, 23, 30, 3), (7, 7, 3, 16), "size=7x7 stride=2x3 pad=3_2x3_3", "b01f_01io->b01f"),
    "1x1": ((2, 6, 7, 40), (1, 1, 40, 48), "size=1x1", "b01f_01io->b01f"),
    "1x1 stride": ((2, 9, 9, 10), (1, 1, 10, 12), "size=1x1 stride=2x2", "b01f_01io->b01f"),
    "nchw": ((2, 16, 12, 21), (24, 16, 3, 3), "size=3x3 pad=1_1x1_1", "bf01_oi01->bf01"),
    "nchw few": ((2, 3, 12, 40), (5, 3, 3, 3), "size=3x3 pad=1_1x1_1", "bf01_oi01->bf01"),
    "nchw few valid": ((1, 3, 12, 9), (2, 3, 3, 3), "size=3x3", "bf01_oi01->bf01"),
    "nchw rows of vectors": ((2, 9, 5, 32), (19, 9, 3, 3), "size=3x3 pad=1_1x1_1", "bf01_oi01->bf01"),
    "nchw three vectors": ((1, 9, 4, 50), (17, 9, 3, 3), "size=3x3 pad=1_1x0_0", "bf01_oi01->bf01"),
    "nchw long window": ((1, 16, 12, 40), (9, 16, 3, 9), "size=3x9", "bf01_oi01->bf01"),
    "nchw reversed": ((2, 16, 12, 21), (16, 25, 3, 3), "size=3x3 pad=1_1x1_1 rhs_reversal=1x1", "bf01_io01->bf01"),
    "nchw reversed pairs": ((2, 9, 50), (9, 40, 2), "size=2 pad=1_1 lhs_dilate=2 rhs_reversal=1", "bf0_io0->bf0"),
    "nchw reversed two by three": (
        (2, 9, 12, 21), (9, 40, 2, 3), "size=2x3 pad=1_1x1_1 rhs_reversal=1x0", "bf01_io01->bf01",
    ),
    "filter gradient of whole images": (
        (2, 17, 12, 33), (2, 21, 10, 7), "size=21x10 pad=2_2x0_0", "f01b_i01o->01fb",
    ),
    "filter gradient of odd lines": ((3, 9, 28), (3, 35, 27), "size=27", "fb0_io0->fb0"),
    "nchw half reversed": ((2, 9, 12, 21), (9, 7, 3, 4), "size=3x4 pad=1_1x1_1 rhs_reversal=0x1", "bf01_io01->bf01"),
    "nchw many features": ((1, 130, 6, 7), (70, 130, 3, 3), "size=3x3 pad=1_1x1_1", "bf01_oi01->bf01"),
    "nchw 1x1": ((2, 40, 6, 7), (48, 40, 1, 1), "size=1x1", "bf01_oi01->bf01"),
    "nchw 1x1 crop": ((1, 20, 8, 9), (33, 20, 1, 1), "size=1x1 pad=0_-2x0_0", "bf01_oi01->bf01"),
    "nchw 1x1 large": ((2, 430, 3, 5), (460, 430, 1, 1), "size=1x1", "bf01_oi01->bf01"),
    "nchw 1x1 large image": ((1, 430, 3, 5), (460, 430, 1, 1), "size=1x1", "bf01_oi01->bf01"),
    "nchw 1x1 stride": ((2, 20, 9, 37), (33, 20, 1, 1), "size=1x1 stride=2x2", "bf01_oi01->bf01"),
    "nchw 1x1 stride crop": ((2, 20, 9, 38), (33, 20, 1, 1), "size=1x1 stride=3x2 pad=-1_0x-3_0", "bf01_oi01->bf01"),
    "nchw 1x1 stride gradient": (
        (3, 18, 9, 37), (3, 35, 5, 19), "size=5x19 pad=0_0x0_0 rhs_dilate=2x2", "fb01_io01->fb01",
    ),
    "few outputs of a large kernel": ((1, 10, 9, 450), (3, 3, 450, 60), "size=3x3 pad=1_1x1_1", "b01f_01io->b01f"),
    "nchw stride": ((2, 9, 12, 21), (4, 9, 3, 3), "size=3x3 stride=2x2 pad=1_1x1_1", "bf01_oi01->bf01"),
    "mixed labels": ((9, 2, 5, 11), (3, 7, 5, 2), "size=3x2 pad=0_2x-1_1", "0bf1_0oi1->f01b"),
    "swapped space": ((2, 9, 11, 5), (3, 2, 5, 7), "size=2x3 pad=1_1x1_0", "b10f_10io->b10f"),
    "crop": ((1, 12, 12, 4), (3, 3, 4, 6), "size=3x3 pad=-2_-1x-1_-3", "b01f_01io->b01f"),
    "crop and pad": ((1, 12, 12, 4), (3, 3, 4, 6), "size=3x3 pad=-2_3x4_-3", "b01f_01io->b01f"),
    "only padding": ((1, 2, 2, 4), (1, 1, 4, 6), "size=1x1 pad=3_3x-2_4", "b01f_01io->b01f"),
    "spread": ((1, 20, 20, 6), (3, 3, 6, 18), "size=3x3 pad=2_2x3_3 rhs_dilate=2x3", "b01f_01io->b01f"),
    "transposed": ((1, 7, 9, 12), (4, 4, 12, 20), "size=4x4 pad=2_2x2_2 lhs_dilate=2x2", "b01f_01io->b01f"),
    "transposed odd": ((2, 7, 5, 3), (3, 5, 3, 20), "size=3x5 pad=1_2x4_1 lhs_dilate=2x3", "b01f_01io->b01f"),
    "all dilated": (
        (1, 7, 9, 4), (3, 4, 4, 8),
        "size=3x4 stride=3x2 pad=4_5x7_2 lhs_dilate=4x6 rhs_dilate=2x3 rhs_reversal=1x0", "b01f_01io->b01f",
    ),
    "reversed": ((1, 8, 8, 4), (3, 2, 4, 6), "size=3x2 pad=1_1x1_1 rhs_reversal=1x1", "b01f_01io->b01f"),
    "reversed nchw": ((1, 2, 8, 24), (3, 2, 3, 2), "size=3x2 pad=1_1x1_1 rhs_reversal=1x1", "bf01_oi01->bf01"),
    "0d": ((7, 30), (30, 40), "", "bf_io->bf"),
    "1d": ((2, 50, 8), (5, 8, 12), "size=5 pad=2_2", "b0f_0io->b0f"),
    "3d": ((1, 5, 6, 7, 4), (2, 3, 3, 4, 6), "size=2x3x3 pad=0_1x1_1x1_1", "b012f_012io->b012f"),
    "empty window": ((1, 5, 5, 4), (0, 3, 4, 6), "size=0x3", "b01f_01io->b01f"),
    "only between elements": ((1, 40, 5), (40, 3, 1), "size=1 stride=2 pad=-1_0 lhs_dilate=2", "bf0_io0->bf0"),
    "no batch": ((0, 5, 5, 4), (3, 3, 4, 6), "size=3x3", "b01f_01io->b01f"),
    "no features": ((2, 5, 5, 0), (3, 3, 0, 6), "size=3x3", "b01f_01io->b01f"),
    "large kernel": ((1, 7, 6, 160), (3, 3, 160, 140), "size=3x3 pad=1_1x1_1", "b01f_01io->b01f"),
    "large kernel stride": ((2, 9, 9, 160), (3, 3, 160, 140), "size=3x3 stride=2x2", "b01f_01io->b01f"),
    "large spread kernel": ((2, 9, 9, 160), (3, 3, 160, 140), "size=3x3 rhs_dilate=2x1 pad=2_2x1_1", "b01f_01io->b01f"),
    "large filter gradient": ((4, 30, 28, 40), (4, 28, 28, 66), "size=28x28 pad=0_0x1_1", "f01b_i01o->01bf"),
    "long sums": ((2, 190, 9, 7), (40, 190, 3, 3), "size=3x3 pad=1_1x1_1", "bf01_oi01->bf01"),
    "long sums stride": ((2, 230, 9, 11), (35, 230, 3, 3), "size=3x3 stride=2x2 pad=1_1x1_1", "bf01_oi01->bf01"),
    "long sums transposed": ((1, 430, 4, 5), (430, 33, 3, 3), "size=3x3 pad=1_2x1_2 lhs_dilate=2x2", "bf01_io01->bf01"),
    "filter gradient nchw": ((5, 18, 26, 26), (5, 35, 26, 26), "size=26x26 pad=1_1x1_1", "fb01_io01->fb01"),
    "filter gradient stride": ((3, 9, 31, 31), (3, 20, 16, 16), "size=16x16 pad=1_1x1_1 rhs_dilate=2x2", "fb01_io01->fb01"),
    "wide filter gradient": ((1, 9, 7, 16), (1, 7, 9, 130), "size=7x9 pad=0_1x2_2", "f01b_i01o->01bf"),
    "filter gradient of spread": (
        (4, 5, 7, 40), (4, 8, 12, 33), "size=8x12 pad=0_1x1_2 lhs_dilate=2x2", "f01b_i01o->01bf",
    ),
    "filter gradient of spread nchw": (
        (2, 35, 5, 7), (2, 20, 13, 14), "size=13x14 pad=4_2x0_1 lhs_dilate=3x2 rhs_reversal=1x0", "fb01_io01->fb01",
    ),
    "filter gradient": ((4, 10, 10, 40), (4, 8, 8, 33), "size=8x8 pad=1_1x1_1", "f01b_i01o->01bf"),
}  # fmt: skip
GROUPS = {
    "depthwise": ((1, 12, 13, 32), (3, 3, 1, 32), "size=3x3 pad=1_1x1_1", "b01f_01io->b01f", 32),
    "depthwise 3": ((2, 9, 9, 3), (3, 3, 1, 3), "size=3x3 pad=1_1x1_1", "b01f_01io->b01f", 3),
    "depthwise 70": ((2, 9, 9, 70), (3, 3, 1, 70), "size=3x3 stride=2x2 pad=1_1x1_1", "b01f_01io->b01f", 70),
    "multiplier": ((1, 9, 9, 30), (3, 3, 1, 60), "size=3x3 pad=1_1x1_1", "b01f_01io->b01f", 30),
    "multiplier 3": ((1, 9, 9, 10), (3, 3, 1, 30), "size=3x3 pad=1_1x1_1", "b01f_01io->b01f", 10),
    "fours": ((1, 9, 9, 64), (3, 3, 4, 64), "size=3x3 pad=1_1x1_1", "b01f_01io->b01f", 16),
    "few fours": ((1, 9, 9, 12), (3, 3, 4, 12), "size=3x3 pad=1_1x1_1", "b01f_01io->b01f", 3),
    "many fours": ((1, 5, 19, 120), (1, 3, 4, 120), "size=1x3 pad=0_0x1_1", "b01f_01io->b01f", 30),
    "large groups": ((1, 9, 9, 60), (3, 3, 20, 72), "size=3x3 pad=1_1x1_1", "b01f_01io->b01f", 3),
    "depthwise nchw": ((1, 8, 9, 33), (8, 1, 3, 3), "size=3x3 pad=1_1x1_1", "bf01_oi01->bf01", 8),
    "grouped nchw": ((2, 24, 9, 10), (32, 12, 3, 3), "size=3x3 pad=1_1x1_1", "bf01_oi01->bf01", 2),
    "pointwise groups nchw": ((2, 24, 9, 10), (32, 12, 1, 1), "size=1x1", "bf01_oi01->bf01", 2),
    "one column": ((9, 1, 32, 1), (64, 2, 3, 3), "size=3x3 pad=1_1x1_1", "0bf1_oi01->b01f", 16),
    "dilated depthwise": ((1, 9, 9, 20), (3, 3, 1, 20), "size=3x3 pad=2_1x2_1 lhs_dilate=2x2", "b01f_01io->b01f", 20),
    "depthwise 1d": ((2, 150, 33), (4, 1, 33), "size=4 pad=3_0", "b0f_0io->b0f", 33),
    "depthwise 1d nchw": ((2, 33, 500), (33, 1, 31), "size=31 pad=15_15", "bf0_oi0->bf0", 33),
    "depthwise 3d": ((1, 6, 20, 7, 20), (3, 3, 3, 1, 20), "size=3x3x3 pad=1_1x1_1x1_1", "b012f_012io->b012f", 20),
    "depthwise 3d nchw": ((1, 20, 6, 20, 7), (20, 1, 3, 3, 3), "size=3x3x3 pad=1_1x1_1x1_1", "bf012_oi012->bf012", 20),
    "depthwise 5x5": ((2, 14, 13, 37), (5, 5, 1, 37), "size=5x5 pad=2_2x2_2", "b01f_01io->b01f", 37),
    "depthwise 5x5 nchw": ((1, 37, 14, 14), (37, 1, 5, 5), "size=5x5 pad=2_2x2_2", "bf01_oi01->bf01", 37),
    "depthwise 7x7": ((1, 20, 7, 7), (20, 1, 7, 7), "size=7x7 pad=3_3x3_3", "bf01_oi01->bf01", 20),
    "depthwise stride": ((2, 40, 20, 19), (40, 1, 3, 3), "size=3x3 stride=2x2 pad=1_1x1_0", "bf01_oi01->bf01", 40),
    "depthwise crop": ((1, 12, 12, 16), (3, 3, 1, 16), "size=3x3 pad=-2_3x4_-3", "b01f_01io->b01f", 16),
    "depthwise crop nchw": ((1, 16, 12, 12), (16, 1, 3, 3), "size=3x3 pad=-2_3x4_-3", "bf01_oi01->bf01", 16),
    "depthwise boxes": ((1, 16, 90, 70), (16, 1, 3, 3), "size=3x3 pad=1_1x1_1", "bf01_oi01->bf01", 16),
    "depthwise turned": ((2, 9, 11, 20), (20, 1, 3, 3), "size=3x3 pad=1_1x1_1", "b01f_oi01->bf01", 20),
    "depthwise all dilated": (
        (1, 17, 9, 30), (17, 1, 3, 2), "size=3x2 stride=3x1 pad=1_2x1_1 lhs_dilate=3x2 rhs_dilate=2x3 rhs_reversal=1x0",
        "bf01_oi01->bf01", 17,
    ),
}  # fmt: skip
BATCH_GROUPS = {
    "two": ((4, 6, 6, 5), (3, 3, 5, 8), "size=3x3 pad=1_1x1_1", "b01f_01io->b01f", 2),
    "depthwise gradient stride": (
        (3, 17, 15, 40), (3, 9, 8, 40), "size=9x8 pad=1_1x1_1 rhs_dilate=2x2", "f01b_i01o->01bf", 40,
    ),
    "depthwise gradient nchw": ((3, 20, 14, 13), (3, 20, 14, 13), "size=14x13 pad=3_3x3_3", "fb01_io01->fb01", 20),
    "depthwise gradient boxes": ((2, 16, 90, 80), (2, 16, 90, 80), "size=90x80 pad=1_1x1_1", "fb01_io01->fb01", 16),
    "depthwise gradient 1d": ((2, 200, 33), (200, 2, 33), "size=200 pad=3_0", "f0b_0io->0bf", 33),
    "depthwise gradient 7x7": ((3, 7, 7, 70), (3, 7, 7, 70), "size=7x7 pad=3_3x3_3", "f01b_i01o->01bf", 70),
    "depthwise gradient 7x7 nchw": ((3, 37, 7, 7), (3, 37, 7, 7), "size=7x7 pad=3_3x3_3", "fb01_io01->fb01", 37),
    "depthwise gradient few": ((2, 28, 28, 37), (2, 28, 28, 37), "size=28x28 pad=1_1x1_1", "f01b_i01o->01bf", 37),
    "depthwise gradient blocks": (
        (3, 40, 41, 86), (3, 20, 21, 86), "size=20x21 pad=1_1x1_1 rhs_dilate=2x2", "f01b_i01o->01bf", 86,
    ),
    "depthwise gradient 3d": (
        (2, 6, 7, 8, 40), (2, 6, 7, 8, 40), "size=6x7x8 pad=1_1x1_1x1_1", "f012b_i012o->012bf", 40,
    ),
    "depthwise gradient 1d side by side": ((2, 90, 33), (2, 90, 33), "size=90 pad=3_0", "f0b_i0o->0bf", 33),
    "depthwise gradient pieces": (
        (1, 37, 29, 28), (1, 37, 15, 14), "size=15x14 pad=2_2x2_3 rhs_dilate=2x2", "fb01_io01->fb01", 37,
    ),
    "gradient of fours": ((3, 9, 8, 40), (3, 9, 8, 40), "size=9x8 pad=1_1x1_1", "f01b_i01o->01bf", 10),
    "gradient of fours stride": (
        (2, 9, 8, 24), (2, 4, 4, 24), "size=4x4 pad=0_0x1_0 rhs_dilate=2x2", "f01b_i01o->01bf", 6,
    ),
    "gradient of eights nchw": ((2, 48, 7, 9), (2, 48, 7, 9), "size=7x9 pad=1_1x2_1", "fb01_io01->fb01", 6),
    "gradient of sixteens": ((2, 7, 9, 32), (2, 7, 9, 32), "size=7x9 pad=1_1x2_2", "f01b_i01o->01bf", 2),
    "gradient of twos 1d": ((2, 90, 34), (2, 90, 34), "size=90 pad=1_2", "f0b_i0o->0bf", 17),
    "depthwise gradient": ((16, 8, 8, 2), (6, 6, 2, 16), "size=6x6", "b01f_01io->01bf", 16),
}  # fmt: skip


@pytest.mark.sampled
@pytest.mark.parametrize("name", CASES)
def test_forms(name):
    check(*CASES[name])


@pytest.mark.parametrize("name", GROUPS)
def test_feature_groups(name):
    lhs, rhs, window, labels, groups = GROUPS[name]
    check(lhs, rhs, window, labels, f", feature_group_count={groups}")


@pytest.mark.parametrize("name", BATCH_GROUPS)
def test_batch_groups(name):
    lhs, rhs, window, labels, groups = BATCH_GROUPS[name]
    check(lhs, rhs, window, labels, f", batch_group_count={groups}")


@pytest.mark.sampled
@pytest.mark.parametrize("types", TYPES, ids="-".join)
@pytest.mark.parametrize(
    "name", ["3x3", "nchw", "nchw 1x1", "long sums", "nchw few", "nchw rows of vectors", "transposed odd", "valid"]
)
def test_types(name, types):
    check(*CASES[name], types=types)


@pytest.mark.parametrize("types", [("bf16", "bf16", "bf16"), ("s8", "s8", "s8")], ids="-".join)
def test_narrow_results_are_written_alone(types):
    """Nine places a tile, the last of which is transposed on its own."""
    check((1, 1, 7, 20), (8, 1, 3, 3), "size=3x3", "bf01_oi01->bf01", types=types)


@pytest.mark.sampled
@pytest.mark.parametrize("out", ["bf16", "f32"])
@pytest.mark.parametrize(
    "name",
    ["wide", "1x1", "1x1 stride", "spread", "transposed", "large kernel", "large spread kernel", "nchw many features",
     "nchw reversed", "filter gradient", "filter gradient nchw", "wide filter gradient", "large filter gradient",
     "mixed labels", "1d"],
)  # fmt: skip
def test_pairs(name, out):
    """Of bf16, two products at once."""
    check(*CASES[name], types=("bf16", "bf16", out))


@pytest.mark.parametrize("types", [("bf16", "bf16", "bf16"), ("s8", "s8", "s32"), ("c64", "c64", "c64")], ids="-".join)
@pytest.mark.parametrize("name", ["depthwise", "fours", "large groups", "depthwise nchw", "depthwise stride"])
def test_types_in_groups(name, types):
    lhs, rhs, window, labels, groups = GROUPS[name]
    check(lhs, rhs, window, labels, f", feature_group_count={groups}", types)


@pytest.mark.sampled
@pytest.mark.parametrize("seed", range(30))
def test_random(seed):
    """Windows, layouts and groups drawn at random."""
    rng = np.random.default_rng(seed)

    def pick(*choices):
        return choices[rng.integers(len(choices))]

    space = int(rng.integers(1, 4))
    groups, batch_groups = pick((1, 1), (1, 1), (3, 1), (8, 1), (1, 2))
    features, outputs = pick(1, 3, 4, 9), groups * batch_groups * pick(1, 2, 4, 17)
    sizes, extents, window = [], [], {"size": [], "stride": [], "pad": [], "lhs_dilate": [], "rhs_dilate": []}
    for _ in range(space):
        sizes.append(int(rng.integers(1, 4)))
        extents.append(int(rng.integers(3, 12)))
        base, spread = pick(1, 1, 2, 3), pick(1, 1, 2)
        low, high = int(rng.integers(-1, 4)), int(rng.integers(0, 4)) + spread * sizes[-1]
        for name, value in zip(window, (sizes[-1], pick(1, 1, 2, 3), f"{low}_{high}", base, spread), strict=True):
            window[name].append(str(value))
    window["rhs_reversal"] = [str(rng.integers(2)) for _ in range(space)]
    digits = "".join(map(str, range(space)))
    labels = ["".join(rng.permutation(list(ends + digits))) for ends in ("bf", "io", "bf")]
    meanings = [
        {"b": 2 * batch_groups, "f": features * groups} | dict(zip(digits, extents, strict=True)),
        {"i": features, "o": outputs} | dict(zip(digits, sizes, strict=True)),
    ]
    lhs, rhs = ([m[c] for c in label] for m, label in zip(meanings, labels, strict=False))
    text = " ".join(f"{name}={'x'.join(v)}" for name, v in window.items())
    more = f", feature_group_count={groups}, batch_group_count={batch_groups}"
    check(lhs, rhs, text, f"{labels[0]}_{labels[1]}->{labels[2]}", more)


@pytest.mark.parametrize("window", ["size=1x1", "size=1x1 stride=2x2", "size=1x1 stride=1x3"])
@pytest.mark.parametrize(
    "labels,kernel", [("b01f_01io->b01f", (1, 1, 300, 170)), ("b01f_01oi->b01f", (1, 1, 170, 300))]
)
def test_large_kernels_of_one_place(window, labels, kernel):
    check((2, 9, 7, 300), kernel, window, labels)
    check((2, 9, 7, 300), kernel, window, labels, types=("bf16", "bf16", "f32"))


@pytest.mark.parametrize("width", [4, 5, 7, 13, 14, 15, 17, 29, 57])
@pytest.mark.parametrize(
    "window,kernel",
    [
        ("size=3x3 pad=1_1x1_1", 3), ("size=3x3 stride=2x2 pad=0_1x0_1", 3), ("size=3x3 stride=2x2 pad=1_1x1_1", 3),
        ("size=5x5 pad=2_2x4_1", 5), ("size=5x5 stride=1x2 pad=2_2x3_3", 5), ("size=7x7 pad=3_3x3_3", 7),
        ("size=3x3 pad=2_2x2_2 rhs_dilate=2x2", 3), ("size=7x7 pad=6_6x6_6", 7), ("size=3x3 pad=0_0x5_5", 3),
        ("size=3x3 pad=1_1x-1_1", 3), ("size=3x3 pad=2_1x1_2 lhs_dilate=2x2 rhs_reversal=1x1", 3),
        ("size=5x5 stride=2x3 pad=2_3x4_1 lhs_dilate=3x2", 5), ("size=4x4 pad=1_1x1_1 lhs_dilate=1x4", 4),
    ],
)  # fmt: skip
@pytest.mark.parametrize("layout", ["adjacent", "planes"])
def test_lines_of_groups_side_by_side(window, kernel, width, layout):
    if layout == "adjacent":
        check((2, 7, width, 37), (kernel, kernel, 1, 37), window, "b01f_01io->b01f", ", feature_group_count=37")
    else:
        check((2, 37, 7, width), (37, 1, kernel, kernel), window, "bf01_oi01->bf01", ", feature_group_count=37")


@pytest.mark.parametrize("kernel,width", [(7, 5), (9, 7), (11, 9), (13, 11)])
def test_windows_that_reach_out_at_both_ends_of_a_line(kernel, width):
    """Of some outputs, which are of neither end of it alone."""
    pad = kernel - 1
    window = f"size={kernel}x{kernel} pad={pad}_{pad}x{pad}_{pad}"
    check((2, 7, width, 37), (kernel, kernel, 1, 37), window, "b01f_01io->b01f", ", feature_group_count=37")


@pytest.mark.parametrize("dims", [(1, 9, 7, 130), (3, 6, 6, 130)])
@pytest.mark.parametrize("outputs", [33, 130, 261])
@pytest.mark.parametrize("types", [("f32", "f32", "f32"), ("f64", "f64", "f64"), ("c64", "c64", "c64")], ids="-".join)
def test_pieces_of_panels_whose_rows_lie_apart(dims, outputs, types):
    check(dims, (3, 3, 130, outputs), "size=3x3 pad=1_1x1_1", "b01f_01io->b01f", types=types)
    check(dims, (3, 3, 130, outputs), "size=3x3 stride=2x1", "b01f_01io->b01f", types=types)


@pytest.mark.parametrize("low", [2, 200])
def test_a_window_that_meets_nothing_but_padding_along_a_dimension(low):
    """With base dilation the input is copied first, with its padding and no more of it than there is."""
    window = f"size=1x1x3 stride=3x3x1 pad=1_2x{low}_-{low}x0_0 lhs_dilate=1x1x3"
    check((3, 2, 3, 2, 3), (33, 2, 1, 1, 3), window, "bf012_oi012->bf012")
