"""What is said to limit a kernel."""

from dataclasses import replace

import pytest

from xloom.roofline.kernel_times import KernelTime
from xloom.roofline.limits import Gauge, Limits

LIMITS = Limits(bandwidth=1e10, peak=1e11, reading=2e10)
KERNEL = KernelTime("k", "fusion", "", 1e-3, 1e-3, 1.0, 1 << 20, 1 << 20, "multiply, add")


@pytest.mark.parametrize(
    ("changes", "limit"),
    [
        ({"bytes": 15_000_000}, "memory"),
        ({"bytes": 30_000_000}, "caches"),
        ({"flops": 70_000_000}, "arithmetic"),
        ({"flops": 40_000_000, "element_bytes": 8}, "arithmetic"),
        ({"seconds": 1e-6}, "latency of a call"),
        ({"best": 5e-4}, "waits for threads"),
        ({"best": 9e-4, "bytes": 15_000_000}, "memory"),
        ({"opcode": "custom-call"}, "code outside"),
        ({"opcode": "all-reduce", "bytes": 15_000_000}, "waits for devices"),
        ({"fused": "multiply, exponential"}, "math functions"),
        ({"bytes": 4_000_000}, "caches, order of access"),
        ({"flops": 4_000_000}, "own instructions"),
    ],
)
def test_words(changes, limit):
    assert replace(KERNEL, **changes).limited_by(LIMITS) == limit


def test_a_gauge_keeps_the_best(monkeypatch):
    gauge = Gauge()
    gauge.look()
    first = gauge.limits
    gauge.look()
    second = gauge.limits
    assert second.bandwidth >= first.bandwidth > 0 and second.peak >= first.peak > 0 and second.memory > 0
