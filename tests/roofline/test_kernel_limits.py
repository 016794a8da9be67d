"""What is said to limit a kernel."""

from dataclasses import replace

import pytest

from xloom.roofline.kernel_times import KernelTime, times_of
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


def _span(name: str, microseconds: float) -> dict:
    args = {"instructions": name, "opcode": "dot", "bytes": 4, "flops": 8, "element_bytes": 4}
    return {"dur": microseconds, "args": args}


def test_a_run_that_others_disturb_puts_no_kernel_first():
    usual = [_span("short", 10.0), _span("looped", 30.0), _span("looped", 50.0)]
    disturbed = [_span("short", 9000.0), *usual[1:]]
    looped, short = times_of([usual, disturbed, usual])
    assert (looped.name, looped.runs, short.runs) == ("looped", 2.0, 1.0)
    assert (short.total, short.seconds) == pytest.approx((1e-5, 1e-5))
    assert (looped.total, looped.seconds, looped.best) == pytest.approx((8e-5, 4e-5, 3e-5))
