"""Where guards change along a loop that compare its variable with what the program computes: known at run time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from xloom.codegen.loop_ir.affine import Affine, Ranges, Var, range_of
from xloom.codegen.loop_ir.nodes import Condition, If, Node, has_changing_numbers
from xloom.codegen.loop_ir.pieces import holds, reached

SHORT = 24
"""Iterations of a loop of which parts would hardly be vectors."""
PARTS = 16
"""Into how many a loop is cut at most: each sum cuts those of the one before."""


@dataclass(frozen=True)
class ComputedCuts:
    """A sum of variables, the loop's once added or taken away or not in it; and the guards' conditions on it."""

    sum: Affine
    conditions: tuple[Condition, ...]
    limits: tuple[int, ...]
    """The values of the sum from which on a condition holds, or does no more; ascending."""

    def spans(self, known: Ranges) -> Iterator[tuple[int, int, dict[Condition, bool]]]:
        """From where up to where the sum may be without a change, the end not included, and which conditions hold."""
        least, greatest = range_of(self.sum, known)
        for low, high in pairwise([least, *self.limits, greatest + 1]):
            yield low, high, {c: bool(holds(c, (low + c[0].const, high - 1 + c[0].const))) for c in self.conditions}


def computed_cuts(roots: Sequence[Node], var: Var, known: Ranges, inside: Sequence[Var] = ()) -> list[ComputedCuts]:
    """What guards of these nodes compare along a loop, other than its variable alone, in parts that are not too many.

    With what such a guard asks besides that is the same all along. `inside` are loops that are done in each iteration.
    """
    if var.size < SHORT:
        return []
    found: dict[Affine, dict[Condition, None]] = {}
    for node in reached(roots, known).values():
        if isinstance(node, If) and any(_is_place(c[0], var) for c in node.conditions):
            for condition in node.conditions:
                if holds(condition, range_of(condition[0], known)) is None:
                    found.setdefault(condition[0] - condition[0].const, {})[condition] = None
    cuts: list[ComputedCuts] = []
    parts = 1
    for total, conditions in found.items():
        if any(total.factor(v) for v in inside) or has_changing_numbers(total, (var, *inside)):
            continue
        cut = _cuts(total, tuple(conditions), known)
        if (_is_place(total, var) or not total.factor(var)) and parts * (len(cut.limits) + 1) <= PARTS:
            parts *= len(cut.limits) + 1
            cuts.append(cut)
    return cuts


def _cuts(total: Affine, conditions: tuple[Condition, ...], known: Ranges) -> ComputedCuts:
    least, greatest = range_of(total, known)
    limits = {limit - expression.const for expression, *both in conditions for limit in both}
    return ComputedCuts(total, conditions, tuple(sorted(limit for limit in limits if least < limit <= greatest)))


def _is_place(expression: Affine, var: Var) -> bool:
    """True where it comes to a value at one place of the loop, which is not known before the program runs."""
    return len(expression.terms) > 1 and abs(expression.factor(var)) == 1
