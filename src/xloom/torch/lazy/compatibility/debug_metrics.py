"""torch_xla's names of what the device has counted: `torch_xla.debug.metrics`.

Its counters of fallbacks, and what it measures of programs and transfers, have counterparts here. The rest are parts of
its own machinery. Only compilations have times, as execution is asynchronous.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from xloom.torch import metrics
from xloom.torch.metrics import METRICS

_NUMBER = "aten::_local_scalar_dense"
"""Under this name torch_xla counts numbers that Python asked for, among the operators that ran on the CPU."""

_SHORT = ("CompileTime", "ExecuteTime", "TransferToDeviceTime", "TransferFromDeviceTime")


class Measured(NamedTuple):
    """How often something happened, and its total: nanoseconds or bytes."""

    samples: int
    total: float


def _measured() -> dict[str, Measured]:
    found = {
        "CompileTime": Measured(METRICS.programs, METRICS.compile_seconds * 1e9),
        "ExecuteTime": Measured(METRICS.runs, math.nan),
        "TransferToDeviceTime": Measured(METRICS.transfers, math.nan),
        "TransferFromDeviceTime": Measured(METRICS.waits, math.nan),
        "OutboundData": Measured(METRICS.transfers, METRICS.bytes_to_device),
        "InboundData": Measured(METRICS.waits, METRICS.bytes_to_host),
    }
    return {name: each for name, each in found.items() if each.samples}


def _counters() -> dict[str, int]:
    found = {
        "MarkStep": METRICS.steps,
        "UncachedCompile": METRICS.programs,
        "CachedCompile": METRICS.runs - METRICS.programs,
    }
    return {name: count for name, count in found.items() if count > 0} | _fallbacks()


def _fallbacks() -> dict[str, int]:
    found = {"::".join(operator.split(".")[:2]): count for operator, count in METRICS.fallbacks.items()}
    return found | ({_NUMBER: METRICS.numbers} if METRICS.numbers else {})


def counter_names() -> list[str]:
    """The names of the counters that are not 0: xloom's, and torch_xla's of the same."""
    return metrics.counter_names() + list(_counters())


def counter_value(name: str) -> float | None:
    """The value of one; None when there is no such counter, or it is 0 as nothing counted."""
    return _counters().get(name, metrics.counter_value(name))


def executed_fallback_ops() -> list[str]:
    """The operators that ran on the CPU; as in torch_xla, a number that Python asked for is one."""
    return list(_fallbacks())


def metric_names() -> list[str]:
    """What `metric_data` knows."""
    return list(_measured())


def metric_data(name: str) -> tuple[int, float, list[tuple[float, float]]] | None:
    """How often, and nanoseconds or bytes in all; NaN for times that were not taken; single samples are not kept."""
    found = _measured().get(name)
    return None if found is None else (found.samples, found.total, [])


def metrics_report() -> str:
    """All of it as text, xloom's own counters and their operators at the end."""
    return "\n".join([*map(_metric, _measured()), *map(_counter, _counters()), metrics.metrics_report()])


def short_metrics_report(counter_names: Sequence[str] | None = None, metric_names: Sequence[str] | None = None) -> str:
    """The counters and metrics that are asked for, or the usual ones; fallbacks in any case."""
    chosen = [*metrics.counter_names(), *_counters()] if counter_names is None else [*counter_names, *_fallbacks()]
    measured = [name for name in _SHORT if name in _measured()] if metric_names is None else metric_names
    return "\n".join([*map(_metric, measured), *map(_counter, dict.fromkeys(chosen))])


def _metric(name: str) -> str:
    samples, total, _ = metric_data(name) or (0, 0.0, [])
    return f"Metric: {name}\n  TotalSamples: {samples}\n  Accumulator: {total:.0f}"


def _counter(name: str) -> str:
    return f"Counter: {name}\n  Value: {counter_value(name)}"
