"""What is known of one program after it was measured."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any, Literal

Status = Literal["ok", "not compiled", "differs", "failed"]
Bound = Literal["", "FMA", "memory"]


@dataclass(frozen=True)
class Times:
    """Of one side, in seconds and bytes."""

    run: float  # a call, by the clock
    cpu: float  # a call, over all threads
    compile: float  # ours: with what the package brings, and nothing cached
    peak_bytes: int


@dataclass(frozen=True)
class Result:
    """One program. `xla` and `ours` are there when the status is "ok"."""

    name: str
    status: Status
    message: str = ""
    xla: Times | None = None
    ours: Times | None = None
    cached_compile: float = 0.0  # ours, from the cache on disk
    ratio: float = 0.0  # XLA's time / ours, the median of alternated pairs
    ratio_low: float = 0.0  # quartiles of the pairs
    ratio_high: float = 0.0
    cpu_ratio: float = 0.0  # the same of processor time
    bound: Bound = ""  # by what, where that is known
    reached: float = 0.0  # of what the machine does in the same time: the median of alternated pairs

    @property
    def family(self) -> str:
        """What kind of program it is."""
        return self.name.split("/")[0]

    def to_json(self) -> dict[str, Any]:
        """As plain data."""
        return asdict(self)

    @staticmethod
    def from_json(data: dict[str, Any]) -> Result:
        """From what `to_json` gave."""
        sides = {k: Times(**data[k]) if data[k] else None for k in ("xla", "ours")}
        return Result(**{**data, **sides})


def geometric_mean(values: Iterable[float]) -> float:
    """NaN of nothing."""
    logs = [math.log(v) for v in values]
    return math.exp(sum(logs) / len(logs)) if logs else math.nan
