"""The part of a reduction's loop whose elements are not masked, found when it runs; the others are added at once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from llvmlite import ir

from xloom.codegen.emission.accumulators import Merging, State, Sum
from xloom.codegen.loop_ir.affine import Affine, Var
from xloom.codegen.loop_ir.masked_range import FAR, Mask, MaskedRange, masked_range
from xloom.codegen.loop_ir.nest import LoopNest, reductions_of
from xloom.codegen.loop_ir.nodes import Node, Reduction
from xloom.cpu.loops.emission import Elements
from xloom.hlo.dtype import Kind, s64
from xloom.llvm.intrinsics import intrinsic
from xloom.llvm.scalar import conversion
from xloom.llvm.types import I1, I64


def is_one_masked_result(nest: LoopNest) -> bool:
    """True of reductions to a single result each, of elements that may all be masked but for a few."""
    stage, *others = nest.stages
    if nest.outer or others or stage.vars or not (reductions := reductions_of(stage)):
        return False
    return any(masked_range(reductions, var) for var in reductions[0].vars)


@contextmanager
def unmasked_part(
    elements: Elements, masked: MaskedRange, var: Var, begin: ir.Value, end: ir.Value
) -> Iterator[tuple[ir.Value, ir.Value]]:
    """From where up to where of a loop's iterations all masks hold, as they do in what is emitted meanwhile."""
    b = elements.b
    first, last = begin, end
    for mask in masked.masks:
        low, high = _bounds(elements, mask, var)
        first = first if low is None else intrinsic(b, "smax", first, low)
        last = last if high is None else intrinsic(b, "smin", last, high)
    first = intrinsic(b, "smin", first, end)
    last = intrinsic(b, "smax", last, first)
    with elements.known({id(mask.node): I1(1) for mask in masked.masks}):
        yield first, last


def _bounds(elements: Elements, mask: Mask, var: Var) -> tuple[ir.Value | None, ir.Value | None]:
    """The first iteration of a loop where a mask holds, and the first after it where it does not."""
    b, factor = elements.b, mask.place.factor(var)
    rest = elements.index(mask.place - Affine(0, ((var, factor),)))
    dtype = mask.limit.dtype
    limit = elements.value(mask.limit)
    if dtype.bits < 64:
        limit = conversion.converted(b, limit, dtype, s64)
    elif dtype.kind is Kind.UNSIGNED:
        limit = intrinsic(b, "umin", limit, I64(FAR))
    else:
        limit = intrinsic(b, "smax", intrinsic(b, "smin", limit, I64(FAR)), I64(-FAR))
    # place = x + rest, or rest - x: at the limit where x is
    at = b.sub(limit, rest) if factor > 0 else b.sub(rest, limit)
    after = b.add(at, I64(1))
    if mask.direction == "EQ":
        return at, after
    upwards = mask.direction in ("GE", "GT") if factor > 0 else mask.direction in ("LE", "LT")
    if mask.direction in ("GE", "LE"):
        return (at, None) if upwards else (None, after)
    return (after, None) if upwards else (None, at)


@contextmanager
def outside(elements: Elements, begin: ir.Value, end: ir.Value, first: ir.Value, last: ir.Value) -> Iterator[ir.Value]:
    """How many iterations from `begin` to `end` are not from `first` to `last`; what is emitted is for one and more."""
    b = elements.b
    count = b.sub(b.sub(end, begin), b.sub(last, first))
    with b.if_then(b.icmp_signed(">", count, I64(0))), elements.scope():
        yield count


def take_outside(elements: Elements, reduction: Reduction, node: Node, state: Sequence[State], count: ir.Value) -> None:
    """So many equal elements, one at least, into the accumulators of a reduction."""
    b, representation = elements.b, state[0].representation
    value = elements.wider(node) if isinstance(representation, Sum) else elements.value(node)
    if reduction.plain == "add":
        kept = representation.kept
        times = conversion.converted(b, count, s64, kept)
        value = b.fmul(value, times) if kept.is_float else b.mul(value, times)
    elif isinstance(representation, Merging):
        value = representation.encoded(b, value)
    elements.combine(reduction, state, [value])
