"""Which sizes go together: where all numbers of a program are affine in one of them, its sizes share programs.

So a cache, a mask and a position that grow by one at each step are one size.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import Generic, TypeVar

import numpy as np

from xloom.errors import LoweringError
from xloom.torch.size_bounds import SMALLEST, bound_of, samples_of

Program = TypeVar("Program")

EXACT = 2
"""How many sizes have programs of their own, before further ones share them."""
SEEN = 8
"""So many sizes are remembered to find a formula by."""
FORMULAS = 32
"""How many formulas of one structure are remembered; the oldest one goes."""
LEAST = 2
"""What a size that changes is in a shared program at least: of 1, an operator may broadcast."""
ENDLESS = 1 << 60
"""A size that nothing has."""
OTHERWISE = "each size has a program of its own"


class Formula(Generic[Program]):
    """All numbers, as affine in one of them, and the programs by bound: None where there can be none."""

    def __init__(self, place: int, scale: np.ndarray, offset: np.ndarray):
        self.place, self.scale, self.offset = place, scale, offset
        self.programs: dict[int, Program | None] = {}
        self.smallest = SMALLEST
        """The smallest bound."""
        self.first: int | None = None
        self.serves_several = False
        """Whether more than its first size has come up."""

    def at(self, size: int) -> np.ndarray:
        """The numbers of a size."""
        return self.scale * size + self.offset

    def size(self, numbers: np.ndarray) -> int:
        """The size that they are of."""
        return int(numbers[self.place])

    def bound(self, size: int) -> int:
        """The bound of the program that a size runs in."""
        return bound_of(size, self.smallest)

    def fits(self, numbers: np.ndarray) -> bool:
        """Whether it gives these."""
        size = self.size(numbers)
        return size >= LEAST and np.array_equal(self.at(size), numbers)

    def serves(self, numbers: np.ndarray) -> bool:
        """Whether it gives these, which it keeps in mind."""
        if not self.fits(numbers):
            return False
        self.serves_several |= self.size(numbers) != self.first
        return True

    def limits(self, least: np.ndarray, most: np.ndarray) -> tuple[int, int]:
        """The smallest and the largest size of which no number is below its least, or above its most."""
        scale = np.where(self.scale, self.scale, 1)
        ends = np.stack([(bound - self.offset) / scale for bound in (least, most)])[:, self.scale != 0]
        low, high = np.ceil(ends.min(0)), np.floor(ends.max(0))
        return int(max(low, default=LEAST)), int(min(high, default=ENDLESS))

    def same_signs(self, numbers: np.ndarray) -> tuple[int, int]:
        """The smallest and the largest size of which no number is negative, but those that are so here: as an index, or
        as a size, it would mean something else."""
        return self.limits(np.where(numbers < 0, -ENDLESS, 0), np.where(numbers < 0, -1, ENDLESS))

    def samples(self, size: int, dims: int, least: int = LEAST, most: int = ENDLESS) -> list[int]:
        """Sizes that show what depends on one, the largest first and the smallest next: those of one bound, as far as
        there are such from `least` to `most`.

        The first `dims` numbers are those of arrays, of which none is to be without elements."""
        scale, offset = self.scale[:dims], self.offset[:dims]
        if (scale < 0).any():
            raise LoweringError("an array becomes smaller where another one becomes larger", hint=OTHERWISE)
        nominal, smallest, _ = samples_of(self.bound(size), self.smallest)
        # where sizes end, what takes a part of an array takes all of it
        bound = nominal if most >= nominal else most - (size < most)
        first = smallest - nominal + bound
        first = first if least <= first else least + (size > least)
        grows = scale > 0
        first = max(first, *(-(-(LEAST - offset[grows]) // scale[grows])).tolist(), LEAST)
        between = max(bound - 3, first + 1)
        if not between < bound:
            raise LoweringError("there are too few sizes below the bound", hint=OTHERWISE)
        return [bound, first, between]


class Family(Generic[Program]):
    """The numbers that one structure has had."""

    def __init__(self) -> None:
        self.seen: list[np.ndarray] = []
        self._formulas: list[Formula[Program]] = []

    def formula(self, numbers: np.ndarray, dims: int) -> Formula[Program] | None:
        """What gives these numbers, and those of two that were there before; or changes as one does that has programs.

        One of the first `dims` numbers is the size, where any of them changes."""
        for known in self._formulas:
            if known.serves(numbers):
                return known
        # where each of several lines began is on a line too, which nothing else may be on
        free = [each for each in self.seen if not any(f.serves_several and f.fits(each) for f in self._formulas)]
        pairs = combinations(free, EXACT)
        made = next((f for f in (_through(numbers, pair, dims) for pair in pairs) if f is not None), None)
        self.seen = [*self.seen[-SEEN:], numbers]
        if made is None:
            ways = (f for f in self._formulas if any(f.programs.values()) and numbers[f.place] >= LEAST)
            made = next((along(f.place, f.scale, numbers) for f in ways), None)
        else:
            made.serves_several = True
        return None if made is None else self.add(made, numbers)

    def add(self, formula: Formula[Program], numbers: np.ndarray) -> Formula[Program]:
        """Remembers it for these numbers, as the first to be asked."""
        formula.first = formula.size(numbers)
        self._formulas = [formula, *self._formulas[: FORMULAS - 1]]
        return formula


def along(place: int, scale: np.ndarray, numbers: np.ndarray) -> Formula:
    """The formula that changes in this way, and gives these numbers."""
    return Formula(place, scale, numbers - scale * numbers[place])


def _through(numbers: np.ndarray, others: Sequence[np.ndarray], dims: int) -> Formula | None:
    first, second = others
    steps = numbers - first
    sizes = np.flatnonzero(steps[:dims]).tolist() or np.flatnonzero(steps).tolist()
    if not sizes:
        return None
    place = min(sizes, key=lambda k: (abs(steps[k]), 0 if k < dims else -numbers[k]))
    scale, rest = np.divmod(steps, steps[place])
    made = along(place, scale, numbers)
    is_one = not rest.any() and all(map(made.fits, (numbers, first, second)))
    return made if is_one and second[place] not in (first[place], numbers[place]) else None
