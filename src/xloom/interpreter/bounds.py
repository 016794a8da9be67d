"""What a program may rightly return: the interpreter's value, and how far rounding can move it.

The program is run several times: with every rounded result moved by a few units in its last place, up or down at
random; with denormals flushed to zero, which compilers for CPUs may do; with the signs of those zeros changed that
HLO leaves open; and with numbers whose sums or products may overflow once infinite, once moderate. Where the runs
agree nothing else is right; where they differ, a value may lie between them, or beyond by a few times their distance.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from xloom.hlo.module import Module
from xloom.interpreter.perturbed import Perturbed, is_float
from xloom.interpreter.registry import Value

RUNS = 10
_REACH = 6  # times the runs' distance


@dataclass
class Bounds:
    """The runs' values of one output; the first run's are the interpreter's own."""

    runs: list[np.ndarray]

    def wrong(self, got: np.ndarray, instead: np.ndarray | None = None) -> np.ndarray:
        """Where `got` is not right, `instead` being another right value, of a side that is compared with."""
        runs = self.runs if instead is None else [instead, *self.runs]
        if runs[0].dtype.kind == "c":
            # whether an infinite complex number has a NaN part, and which, is left open
            unbounded = ~np.isfinite(got) & np.any([~np.isfinite(r) for r in runs], axis=0)
            real, imag = (([f(r) for r in runs], f(got)) for f in (np.real, np.imag))
            wrong = _wrong(*real) | _wrong(*imag)
            return wrong & ~unbounded
        return _wrong(runs, got)

    def loose(self) -> np.ndarray:
        """Where the runs differ so much that next to nothing is wrong: by more than a hundredth."""
        wide = _wide(self.runs)
        low, high = wide.min(axis=0), wide.max(axis=0)
        with np.errstate(all="ignore"):
            near = high - low <= 0.01 * np.maximum(np.abs(high), np.abs(low))
        return ~(near | (low == high) | np.isnan(wide).all(axis=0))


def _wide(runs: list[np.ndarray]) -> np.ndarray:
    if runs[0].dtype.kind == "c":
        return np.abs(np.stack(runs))
    with np.errstate(all="ignore"):
        return np.stack([r.astype(np.float64) for r in runs])


def _wrong(runs: list[np.ndarray], got: np.ndarray) -> np.ndarray:
    if not is_float(runs[0]):
        return np.all([r != got for r in runs], axis=0)
    wide = _wide(runs)
    with np.errstate(all="ignore"):
        value = got.astype(np.float64)
        nan = np.isnan(wide)
        same = np.any((wide == value) & (np.signbit(wide) == np.signbit(value)), axis=0)
        low, high = np.min(np.where(nan, np.inf, wide), axis=0), np.max(np.where(nan, -np.inf, wide), axis=0)
        slack = _REACH * (high - low)
        # runs that are infinite or NaN now and then, and else not, leave everything open
        between = (value >= low - slack) & (value <= high + slack) & ~((low == 0) & (high == 0))
        kind = np.where(np.isfinite(wide), 0, wide)
        unbounded = np.any(~((kind == kind[0]) | np.isnan(kind) & np.isnan(kind[0])), axis=0)
        fine = same | between | unbounded | (np.isnan(value) & nan.any(axis=0))
    return ~np.asarray(fine)


def bounds(module: Module, arguments: Sequence[np.ndarray]) -> list[Bounds]:
    """The runs of a program: those of each output together."""
    with np.errstate(all="ignore"):
        outputs = [leaves(Perturbed(module, run).call(module.entry, arguments)) for run in range(RUNS)]
    return [Bounds(list(runs)) for runs in zip(*outputs, strict=True)]


def leaves(value: Value) -> list[np.ndarray]:
    """The arrays of a nested tuple, in order."""
    if isinstance(value, tuple):
        return [leaf for v in value for leaf in leaves(v)]
    return [np.asarray(value)]
