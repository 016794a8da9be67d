"""Which tiles convolutions are computed in, where others take much longer."""

import numpy as np
import pytest

from tests.cpu.kernels import kernel_of, run_kernel
from tests.cpu.test_convolution import check, program
from xloom.cpu.kernels.convolution import depthwise_filter_gradient, emission, tile_product
from xloom.cpu.kernels.convolution.window_pointers import SHORT
from xloom.cpu.kernels.matmul.packing import Packing
from xloom.hlo.dtype import bf16
from xloom.llvm.target import process_target

WIDE = pytest.mark.skipif(process_target().registers.nbytes < 64, reason="other tiles for narrower registers")


def chosen(monkeypatch, lhs, rhs, window, labels, more="", dtype="f32"):
    """The way of a convolution."""
    found, convolve = [], emission.convolve

    def seen(kernel, way, *rest):
        found.append(way)
        convolve(kernel, way, *rest)

    monkeypatch.setattr(emission, "convolve", seen)
    kernel_of(program(lhs, rhs, window, labels, more, (dtype,) * 3))
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
    assert way.tile.rows > process_target().registers.count // 4


@WIDE
@pytest.mark.parametrize(("features", "rows"), [(1008, 14), (1024, 7), (512, 14)])
def test_rows_that_share_a_place_in_the_cache_are_few(monkeypatch, features, rows):
    """4 KiB apart, more than eight evict one another."""
    way = chosen(monkeypatch, (1, 14, 14, features), (1, 1, features, 64), "size=1x1", "b01f_01io->b01f")
    assert way.tile.rows == rows


@pytest.mark.skipif(not process_target().has_bfloat_products, reason="no products of bf16")
@pytest.mark.parametrize("images", [1, 3])
def test_kernel_gradients_of_bf16_are_in_pairs(monkeypatch, images):
    """Of places that are adjacent, where the images are no even number."""
    dims = images, 32, 10, 10
    way = chosen(monkeypatch, dims, dims, "size=10x10 pad=1_1x1_1", "fb01_io01->fb01", dtype="bf16")
    assert way.tile.arithmetic.pack_factor == 2


@pytest.mark.skipif(not process_target().has_bfloat_products, reason="no products of bf16")
def test_kernel_gradients_of_many_bf16_features_are_products(monkeypatch):
    """In pairs too, of operands that are not copied."""
    products, multiply = [], emission._multiply
    monkeypatch.setattr(emission, "_multiply", lambda *rest: (products.append(rest[2:]), multiply(*rest)))
    dims = (1, 5, 6, 16), (1, 5, 6, 144)
    kernel_of(program(*dims, "size=5x6", "f01b_i01o->01bf", "", ("bf16",) * 3))
    [(a, b, _)] = products
    assert (a.kind, a.dtype, b.kind, b.dtype) == ("operand", bf16, "operand", bf16)


@pytest.mark.parametrize(
    ("kernel", "window", "labels"),
    [
        ((64, 64, 2), "size=2 rhs_reversal=1", "bf0_io0->bf0"),
        ((64, 64, 3), "size=3", "bf0_io0->bf0"),
        ((64, 64, 99), "size=99", "fb0_io0->fb0"),
    ],
)
def test_kernels_are_packed_in_vectors(monkeypatch, kernel, window, labels):
    """Whose rows are not adjacent, nor many places of the depth."""
    monkeypatch.setattr(Packing, "_elements", None)
    chosen(monkeypatch, (64, 64, 101), kernel, window, labels)


@pytest.mark.parametrize("streamed", [False, True])
def test_gradients_of_depthwise_filters_are_sums_of_shares(monkeypatch, streamed):
    """Of images that the last cache holds, and of larger ones, whose lines are read once."""
    plans, gradient = [], emission.depthwise_filter_gradient
    monkeypatch.setattr(emission, "depthwise_filter_gradient", lambda *rest: (plans.append(rest[1]), gradient(*rest)))
    if streamed:
        monkeypatch.setattr(depthwise_filter_gradient, "_STREAMED", 0)
    dims, groups = (5, 11, 12, 214), ", batch_group_count=214"
    check(dims, dims, "size=11x12 pad=1_1x1_1", "f01b_i01o->01bf", groups)
    [plan] = plans
    assert plan.blocks > 1
    assert (plan.shares > 6, plan.segment > 1) == (streamed, streamed)


@pytest.mark.parametrize("each", [4, pytest.param(16, marks=WIDE)])
def test_kernel_gradients_in_groups_have_a_feature_a_lane(monkeypatch, each):
    """Where tiles of a group would be narrow, or of too few sums."""
    plans, correlate = [], emission.correlate
    monkeypatch.setattr(emission, "correlate", lambda *rest: (plans.append(rest[1]), correlate(*rest)))
    dims, groups = (2, 10, 10, 64), f", batch_group_count={64 // each}"
    kernel_of(program(dims, dims, "size=10x10 pad=1_1x1_1", "f01b_i01o->01bf", groups, ("f32",) * 3))
    [plan] = plans
    assert (plan.lanes.size, plan.rotations, plan.rows) == (64, each, {4: 12, 16: 16}[each])


@pytest.mark.parametrize(
    ("lhs", "rhs", "labels"),
    [
        ((1, 2, 20, 32), (5, 3, 32, 32), "b01f_01io->b01f"),
        pytest.param((1, 2, 12, 256), (5, 3, 256, 256), "b01f_01io->b01f", marks=WIDE),
        ((1, 16, 2, 20), (32, 16, 5, 3), "bf01_oi01->bf01"),
        ((1, 5, 2, 32), (32, 5, 5, 9), "bf01_oi01->bf01"),
    ],
)
def test_lines_of_padding_are_not_multiplied(monkeypatch, lhs, rhs, labels):
    """So nothing comes of what would meet only them, until that is made NaN."""
    monkeypatch.setattr(emission, "multiply_zeros", lambda *_: None)
    monkeypatch.setattr(emission, "_LARGEST_KERNEL", 1)  # products multiply all of a copy of the input
    width = rhs[labels.index("1", labels.index("_")) - labels.index("_") - 1]
    text = program(lhs, rhs, f"size=5x{width} pad=2_2x1_1", labels, "", ("f32",) * 3)
    line = labels.index("0", labels.index("_")) - labels.index("_") - 1
    kernel = np.moveaxis(np.ones(rhs, np.float32), line, 0)
    kernel[[0, 4]] = np.nan
    assert np.isfinite(run_kernel(text, np.ones(lhs, np.float32), np.moveaxis(kernel, 0, line))).all()


def test_scalars_that_taps_share_are_loaded_again(monkeypatch):
    """Where rows of a tile meet what others meet a tap later, and there are no registers to keep it."""
    unrolled, walk = [], tile_product.walk_window
    monkeypatch.setattr(tile_product, "walk_window", lambda *rest: (unrolled.append(rest[-1]), walk(*rest)))
    chosen(monkeypatch, (1, 16, 24, 24), (64, 16, 3, 3), "size=3x3", "bf01_oi01->bf01")
    chosen(monkeypatch, (1, 24, 24, 16), (3, 3, 16, 64), "size=3x3", "b01f_01io->b01f")
    assert unrolled == [1, SHORT if process_target().registers.count > 16 else 1]


@pytest.mark.parametrize(
    ("images", "outputs", "stride", "features_last"),
    [(2, 1, 1, False), (2, 24, 1, False), (1, 24, 1, True), (2, 24, 2, True), (2, 300, 1, True)],
)
def test_features_are_last_for_large_kernels_strides_and_one_image(monkeypatch, images, outputs, stride, features_last):
    """A copy with them last would make results of few features wait for single lanes."""
    window = f"size=3x3 stride={stride}x{stride} pad=1_1x1_1"
    way = chosen(monkeypatch, (images, 100, 14, 14), (outputs, 100, 3, 3), window, "bf01_oi01->bf01")
    assert (way.feature.a == 1) is features_last


@WIDE
@pytest.mark.parametrize(("features", "fetches"), [(64, False), (512, True)])
def test_a_kernel_that_no_near_cache_holds_is_fetched_ahead(features, fetches):
    dims = (1, 7, 7, features), (3, 3, features, features)
    text = program(*dims, "size=3x3 pad=1_1x1_1", "b01f_01io->b01f", "", ("f32",) * 3)
    assert ("llvm.prefetch" in str(kernel_of(text).module)) == fetches
