"""Fourier transforms on the emulated GPU: whole lines in shared memory, and long ones in two launches."""

import pytest

from tests.cuda.emulation import agrees, strategies
from tests.cuda.kernel_programs import transform
from xloom.cuda.kernels import fft as fft_kernel

KINDS = ("FFT", "IFFT", "RFFT", "IRFFT")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("dims", "rank"), [((3, 60), 1), ((2, 26), 1), ((300, 7), 1), ((3, 6, 10), 2), ((2, 3, 4, 5), 3)]
)
def test_each_dimension_is_a_launch(kind, dims, rank):
    executable = agrees(transform(kind, dims, rank))
    assert len(strategies(executable)) == rank
    assert all("lines of" in strategy for strategy in strategies(executable))


@pytest.mark.parametrize("kind", KINDS)
def test_f64(kind):
    agrees(transform(kind, (3, 48), is_wide=True))


@pytest.mark.parametrize("kind", KINDS)
def test_great_prime_factors_are_convolutions(kind):
    executable = agrees(transform(kind, (3, 34)))
    assert "by a convolution of 72" in strategies(executable)[0]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("dims", "rank"), [((3, 120), 1), ((2, 119), 1), ((2, 60, 9), 2), ((2, 60, 40), 2)])
def test_long_lines_are_matrices(monkeypatch, kind, dims, rank):
    monkeypatch.setattr(fft_kernel, "_SHARED", 36 * 8)
    executable = agrees(transform(kind, dims, rank))
    assert len(strategies(executable)) > rank


def test_what_is_long_and_has_no_fitting_factors_is_the_processor_s(monkeypatch):
    monkeypatch.setattr(fft_kernel, "_SHARED", 36 * 8)
    executable = agrees(transform("FFT", (2, 2 * 37)))
    assert "of the processor's kernel" in strategies(executable)[0]


def test_blocks_do_lines_in_turn(monkeypatch):
    monkeypatch.setattr("xloom.cuda.kernel.BLOCKS", 2)
    monkeypatch.setattr("xloom.cuda.kernels.fft_lines.blocks_for", lambda count, each: 2)
    agrees(transform("FFT", (9, 8)))
