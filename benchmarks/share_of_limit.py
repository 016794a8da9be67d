"""How near a program comes to what the machine can do, in tables of shapes: bandwidth, or multiply-adds."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

import xloom as xl
from benchmarks.result import geometric_mean
from benchmarks.timing import alternate, median_wall, ratios
from xloom.roofline.yardsticks import Yardstick, arithmetic, memory


class Share(NamedTuple):
    """The share of the limit, seconds, and XLA's time over ours (NaN where it was not asked)."""

    of_limit: float
    seconds: float
    xla: float

    def __str__(self) -> str:
        more = f"{1e3 * self.seconds:.2f}ms" if np.isnan(self.xla) else f"({self.xla:.1f})"
        return f"{self.of_limit:.2f} {more}"


class Limits:
    """The machine's limits, measured by turns with each program; and what was found."""

    def __init__(self, repeats: int, with_xla: bool):
        self._repeats, self._with_xla = repeats, with_xla
        self._marks: list[Yardstick] = [memory(), arithmetic()]
        self._found: list[Share] = []
        print("share of the limit" + (" (XLA's time over ours)" if with_xla else ""))

    def measure(self, lowered: Any, arguments: Sequence[np.ndarray], nbytes: int, multiply_adds: int) -> Share:
        """Of a program lowered by JAX, which at the least moves so many bytes and does so many f32 multiply-adds."""
        executable = xl.compile(xl.from_stablehlo(lowered.as_text()))
        runs = [mark.run for mark in self._marks] + [lambda: executable(*arguments)]
        if self._with_xla:
            theirs, arrays = lowered.compile(), [jnp.asarray(a) for a in arguments]
            runs.append(lambda: theirs(*arrays).block_until_ready())
        bandwidth, adds, ours, *xla = alternate(*runs, repeats=self._repeats)
        reading = statistics.median(ratios(bandwidth, ours)) * nbytes / self._marks[0].amount
        adding = statistics.median(ratios(adds, ours)) * 2 * multiply_adds / self._marks[1].amount
        factor = statistics.median(ratios(xla[0], ours)) if xla else float("nan")
        self._found.append(Share(max(reading, adding), median_wall(ours), factor))
        return self._found[-1]

    def conclude(self) -> None:
        """Prints the means, and the least."""
        shares = [found.of_limit for found in self._found]
        print(f"geometric mean {geometric_mean(shares):.2f}, least {min(shares):.2f}")
        if self._with_xla:
            factors = [found.xla for found in self._found]
            print(f"XLA's time over ours: geometric mean {geometric_mean(factors):.2f}, least {min(factors):.2f}")
