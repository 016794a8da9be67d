"""The model of `benchmarks.distributed_scaling`: what it says where that can be known."""

import pytest

from benchmarks.distributed_scaling import efficiency, sum_seconds


def test_a_process_alone_sends_nothing():
    assert sum_seconds(1, 1e8, 1e-6, 1e9) == 0
    assert efficiency(1, 0.01, 0.0, strong=True) == 1


def test_large_sums_move_each_byte_twice():
    assert sum_seconds(64, 1e8, 0.0, 1e9) == pytest.approx(2 * 63 / 64 * 0.1)


def test_small_sums_are_sent_whole():
    assert sum_seconds(4, 1000, 1e-6, 1e9) == pytest.approx(3 * 2e-6)


def test_strong_scaling_leaves_less_to_compute():
    assert efficiency(4, 0.4, 0.1, strong=True) == pytest.approx(0.5)
    assert efficiency(4, 0.4, 0.1, strong=False) == pytest.approx(0.8)
