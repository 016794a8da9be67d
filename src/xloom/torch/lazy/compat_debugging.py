"""The parts of torch_xla that scripts look at what was recorded with: eager mode, metrics, and the text of programs."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager

import torch

from xloom.torch import metrics
from xloom.torch.lazy import execution
from xloom.torch.lazy.capture import recorded
from xloom.torch.lazy.eager import eager
from xloom.torch.metrics import METRICS

_eager = ExitStack()
_TIMES = {"CompileTime": "programs", "ExecuteTime": "runs"}
"""torch_xla's names of measured times: which counter says how often."""


def eager_mode(enable: bool) -> None:
    """Runs operators one by one from now on, or no longer."""
    _eager.close()
    if enable:
        _eager.enter_context(eager())


def is_eager_mode() -> bool:
    """Whether it does."""
    return execution.is_eager()


@contextmanager
def eager_mode_context(enable: bool) -> Iterator[None]:
    """`eager_mode` for a while."""
    before = is_eager_mode()
    eager_mode(enable)
    try:
        yield
    finally:
        eager_mode(before)


def tensors_hlo(tensors: Sequence[torch.Tensor]) -> str:
    """The program that the tensors are waiting for, as HLO text."""
    return str(recorded(tensors, "xla"))


def metric_names() -> list[str]:
    """What `metric_data` knows."""
    return [name for name, counter in _TIMES.items() if getattr(METRICS, counter)]


def metric_data(name: str) -> tuple[int, float, list[tuple[float, float]]] | None:
    """How often, and nanoseconds in all, NaN for runs, which nobody times; single samples are not kept."""
    if name not in metric_names():
        return None
    spent = METRICS.compile_seconds * 1e9 if name == "CompileTime" else math.nan
    return getattr(METRICS, _TIMES[name]), spent, []


def executed_fallback_ops() -> list[str]:
    """The operators that ran on the CPU."""
    return [name for name in metrics.counter_names() if name.startswith("aten::")]


def short_metrics_report(counter_names: Sequence[str] | None = None, metric_names: Sequence[str] | None = None) -> str:
    """The counters that are asked for, or all that are not 0."""
    names = metrics.counter_names() if counter_names is None else counter_names
    return "\n".join(f"{name}: {metrics.counter_value(name)}" for name in names)
