"""How far a device's values may be from the CPU's, and which of them is farther."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from xloom.hlo.instruction import Instruction
from xloom.interpreter.last_place import unit_in_last_place
from xloom.interpreter.perturbed import LONG_SUMS, ULPS
from xloom.passes.carried_hlo import carries_hlo

_ROUNDINGS = 4
"""How many times as far as one rightly rounded operator may be, for two algorithms."""
_OF_LARGEST = 64
"""Units of the largest element that sums in another order may be off, and kernels of several operators."""


@dataclass(frozen=True)
class Tolerance:
    """What may be between two values: so many units in the last place."""

    ulps: float = 0.0
    dtype: np.dtype | None = None
    """The type whose units they are, if a device computes in a narrower one than the value has."""
    of_largest: bool = False
    """Units of the array's largest element: where terms cancel, a sum is off by units of the terms."""


EXACT = Tolerance()


def usual(instruction: Instruction) -> Tolerance:
    """What two algorithms for an instruction, in its own type, may differ by."""
    opcode = instruction.opcode
    if opcode in LONG_SUMS or carries_hlo(instruction):
        return Tolerance(_OF_LARGEST, of_largest=True)
    return Tolerance(_ROUNDINGS * ULPS.get(opcode, 0))


@dataclass(frozen=True)
class Difference:
    """The first element that is too far from what it should be, and how many there are."""

    index: tuple[int, ...]
    found: object
    expected: object
    ulps: float
    """The distance, in the units of the tolerance."""
    count: int
    size: int

    def __str__(self) -> str:
        at = "[" + ",".join(map(str, self.index)) + "]"
        far = f", {self.ulps:.3g} ULPs away" if np.isfinite(self.ulps) else ""
        count = f"{self.count} of {self.size} elements differ"
        return f"{at} is {self.found!s}, and {self.expected!s} on the CPU{far} ({count})"


def first_difference(found: np.ndarray, expected: np.ndarray, tolerance: Tolerance) -> Difference | None:
    """Of arrays of one shape and dtype; NaN equals NaN, and -0 equals 0."""
    found, expected = np.asarray(found), np.asarray(expected)
    far = _distance(found, expected, tolerance)
    wrong = far > tolerance.ulps
    if not wrong.any():
        return None
    index = tuple(int(k) for k in np.argwhere(wrong)[0])
    return Difference(index, found[index], expected[index], float(far[index]), int(wrong.sum()), wrong.size)


def _distance(found: np.ndarray, expected: np.ndarray, tolerance: Tolerance) -> np.ndarray:
    """Units in the last place between elements; infinity where there is no number for it."""
    if found.dtype.kind == "c":
        parts = [(f(found), f(expected)) for f in (np.real, np.imag)]
        return np.maximum(*[_distance(f, e, tolerance) for f, e in parts])
    if found.dtype.kind in "biu" or found.dtype.name.startswith(("int", "uint")):
        return np.where(found == expected, 0.0, np.inf)
    with np.errstate(all="ignore"):
        x, y = found.astype(np.float64), expected.astype(np.float64)
        same = (x == y) | (np.isnan(x) & np.isnan(y))
        sizes = np.abs(y)
        if tolerance.of_largest and sizes.size:
            sizes = np.full(sizes.shape, np.max(sizes, where=np.isfinite(sizes), initial=0.0))
        away = np.abs(x - y) / unit_in_last_place(sizes, tolerance.dtype or found.dtype)
        return np.where(same, 0.0, np.where(np.isnan(away), np.inf, away))
