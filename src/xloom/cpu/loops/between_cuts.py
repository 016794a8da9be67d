"""The parts of a loop between places that the program computes, in each of which guards are decided."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import reduce
from itertools import pairwise

from llvmlite import ir

from xloom.codegen.loop_ir.affine import Affine, Var
from xloom.codegen.loop_ir.computed_cuts import ComputedCuts
from xloom.codegen.loop_ir.nodes import Condition
from xloom.cpu.loops.emission import Elements
from xloom.llvm.intrinsics import intrinsic
from xloom.llvm.types import I64

_Part = tuple[ir.Value, ir.Value, dict[Condition, bool]]


def between_cuts(
    elements: Elements, cuts: Sequence[ComputedCuts], var: Var, first: ir.Value, last: ir.Value
) -> Iterator[tuple[ir.Value, ir.Value]]:
    """Where each part of the iterations from `first` to `last` begins and ends; what is emitted then is its loop."""
    if not cuts:
        yield first, last
        return
    cut, *others = cuts
    with elements.scope():
        parts = _parts if cut.sum.factor(var) else _alternatives
        for begin, end, decisions in parts(elements, cut, var, first, last):
            elements.decided.update(decisions)
            yield from between_cuts(elements, others, var, begin, end)
        for condition in cut.conditions:
            del elements.decided[condition]


def _parts(elements: Elements, cut: ComputedCuts, var: Var, first: ir.Value, last: ir.Value) -> Iterator[_Part]:
    """One after another."""
    b, factor = elements.b, cut.sum.factor(var)
    # factor * x + rest >= limit from x on, or up to it
    rest = elements.index(cut.sum - Affine(0, ((var, factor),)))
    places = [b.sub(I64(limit), rest) if factor > 0 else b.sub(rest, I64(limit - 1)) for limit in cut.limits]
    inside = [intrinsic(b, "smin", intrinsic(b, "smax", place, first), last) for place in places]
    decisions = [decided for _, _, decided in cut.spans(elements.ranges)]
    if factor < 0:
        inside.reverse()
        decisions.reverse()
    for (begin, end), decided in zip(pairwise([first, *inside, last]), decisions, strict=True):
        yield begin, end, decided


def _alternatives(elements: Elements, cut: ComputedCuts, _: Var, first: ir.Value, last: ir.Value) -> Iterator[_Part]:
    """All of the iterations or none, as the sum is the same along the loop."""
    b, value = elements.b, elements.index(cut.sum)
    spans = list(cut.spans(elements.ranges))
    for decided in {tuple(d.items()): d for _, _, d in spans}.values():
        tests = [
            b.icmp_unsigned("<", b.sub(value, I64(low)), I64(high - low)) for low, high, d in spans if d == decided
        ]
        yield first, b.select(reduce(b.or_, tests), last, first), decided
