"""What the device has done: counters, and the operators that ran elsewhere."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, fields


@dataclass
class Metrics:
    """Counts since the start or the last `clear`."""

    operators: int = 0
    """Operators that were recorded."""
    signatures: int = 0
    """Distinct (operator, shapes, dtypes, attributes), each of which was lowered once to learn its result."""
    programs: int = 0
    """Programs that were compiled."""
    runs: int = 0
    """Programs that were started."""
    donated: int = 0
    """Arguments of programs, whose memory results have taken."""
    steps: int = 0
    """How often `sync` was called."""
    compile_seconds: float = 0.0
    transfers: int = 0
    """Tensors that came from the host."""
    bytes_to_device: int = 0
    bytes_to_host: int = 0
    waits: int = 0
    """How often a value was needed on the host."""
    numbers: int = 0
    """How often it was a number that Python asked for."""
    on_host: Counter[str] = field(default_factory=Counter)
    """Operators whose result's shape depends on values: they are computed on the host."""
    decomposed: Counter[str] = field(default_factory=Counter)
    """Operators made of others by torch's own decompositions."""
    fallbacks: Counter[str] = field(default_factory=Counter)
    """Operators without a lowering that ran on the CPU: of packages under torch.compile, and of ATen where
    XLOOM_TORCH_FALLBACK=1 allows it."""
    own_sizes: Counter[str] = field(default_factory=Counter)
    """Why graphs with dynamic shapes have a program for each size, where sizes could not share one."""


METRICS = Metrics()


def clear() -> None:
    """Sets all counters to nothing."""
    fresh = Metrics()
    for each in fields(Metrics):
        setattr(METRICS, each.name, getattr(fresh, each.name))


def metrics_report() -> str:
    """The counters as text."""
    lines = []
    for each in fields(Metrics):
        value = getattr(METRICS, each.name)
        if not isinstance(value, Counter):
            lines.append(f"{each.name}: {value:.3f}" if isinstance(value, float) else f"{each.name}: {value}")
            continue
        lines.append(f"{each.name}: {sum(value.values())}")
        lines.extend(f"  {name}: {count}" for name, count in value.most_common())
    return "\n".join(lines)


def counter_names() -> list[str]:
    """The names of the counters that are not 0."""
    return [each.name for each in fields(Metrics) if getattr(METRICS, each.name)]


def counter_value(name: str) -> float | None:
    """The value of one; None when there is no such counter."""
    value = getattr(METRICS, name, None)
    return sum(value.values()) if isinstance(value, Counter) else value
