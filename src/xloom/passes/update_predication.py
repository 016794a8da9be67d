"""Choices between an array and what an update makes of it, as updates that may do nothing.

Loops that `vmap` makes of loops whose conditions differ choose in each step between old and new state: of an array of
which a step writes one element, all would be read and written.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from xloom.hlo.dtype import DType, Kind, pred
from xloom.hlo.instruction import Instruction
from xloom.hlo.module import Module
from xloom.hlo.shape import array_shape
from xloom.passes.base import Pass, register
from xloom.passes.match import highest
from xloom.passes.rewrite import Rewriter, RuleTable, rewrite

rule = RuleTable()


@register
class UpdatePredication(Pass):
    """Makes the predicate of a choice between an array and its update one of the update alone."""

    name = "update-predication"
    opcodes = rule.by_opcode

    def run(self, module: Module) -> bool:
        """See the class."""
        return rewrite(module, rule)


class _Predicate(NamedTuple):
    """What an array is chosen by: an array that lies along some of its dimensions, and is the same along others."""

    source: Instruction
    along: Sequence[int]


# select(p, u(y), x) == u'(select(p, y, x)), where u' changes nothing where p is false: of all updates y is made of x by
@rule("select")
def _choice_of_update(i: Instruction, rw: Rewriter) -> Instruction | None:
    p, a, b = i.operands
    if p.shape.is_scalar:
        predicate = _Predicate(p, ())
    elif p.opcode == "broadcast":
        predicate = _Predicate(p.operands[0], p["dimensions"])
    else:
        return None
    if (updates := _updates(a, b)) and all(_PREDICABLE[u.opcode](u, predicate) for u in updates):
        return _predicated(updates, b, predicate, rw)
    if (updates := _updates(b, a)) and all(_PREDICABLE[u.opcode](u, predicate) for u in updates):
        source = rw.make("not", predicate.source.shape, [predicate.source])
        return _predicated(updates, a, _Predicate(source, predicate.along), rw)
    return None


def _updates(y: Instruction, x: Instruction) -> list[Instruction]:
    """The updates, last one first, that make `y` of `x`; none where there are others, or one has other readers."""
    found = []
    while y is not x:
        if y.opcode not in _PREDICABLE or len(y.users) != 1:
            return []
        found.append(y)
        y = y.operands[0]
    return found


def _predicated(updates: Sequence[Instruction], x: Instruction, p: _Predicate, rw: Rewriter) -> Instruction:
    for update in reversed(updates):
        x = _scatter(update, x, p, rw) if update.opcode == "scatter" else _dynamic_update_slice(update, x, p, rw)
    return x


# select(p, dynamic-update-slice(x, u, i), x) == dynamic-update-slice(x, select(p, u, dynamic-slice(x, i)), i)
def _dynamic_update_slice(update: Instruction, x: Instruction, p: _Predicate, rw: Rewriter) -> Instruction:
    _, new, *starts = update.operands
    chosen = rw.make("broadcast", new.shape.with_dtype(pred), [p.source], dimensions=tuple(p.along))
    old = rw.make("dynamic-slice", new.shape, [x, *starts], dynamic_slice_sizes=new.shape.dims)
    return rw.make("dynamic-update-slice", x.shape, [x, rw.make("select", new.shape, [chosen, new, old]), *starts])


def _has_whole_lines(update: Instruction, p: _Predicate) -> bool:
    """True where a slice has all of the array along the dimensions along which the predicate differs."""
    x, new = update.shape.dims, update.operands[1].shape
    return new.size > 0 and all(new.dims[d] == x[d] for d in p.along)


# select(p, scatter(x, i, u), x) == scatter(x, select(p, i, nowhere), u): a window that does not fit is left out
def _scatter(update: Instruction, x: Instruction, p: _Predicate, rw: Rewriter) -> Instruction:
    _, indices, new = update.operands
    batches = _batches(update)
    kept = [d for d in p.along if d in batches]
    dims = tuple(x.shape.dims[d] for d in kept)
    source = p.source if len(kept) == len(p.along) else rw.make("reshape", array_shape(pred, dims), [p.source])
    along = tuple(batches[d] for d in kept)
    chosen = rw.make("broadcast", indices.shape.with_dtype(pred), [source], dimensions=along)
    nowhere = rw.splat(indices.shape, _nowhere(indices.shape.dtype))
    masked = rw.make("select", indices.shape, [chosen, indices, nowhere])
    return rw.make("scatter", x.shape, [x, masked, new], **{**update.attrs, "indices_are_sorted": False})


def _batches(scatter: Instruction) -> dict[int, int]:
    """The dimensions of the indices that go along with such of the array."""
    return dict(zip(scatter["input_batching_dims"], scatter["scatter_indices_batching_dims"], strict=True))


def _nowhere(dtype: DType) -> int:
    return -1 if dtype.kind is Kind.SIGNED else highest(dtype)


def _may_go_nowhere(update: Instruction, p: _Predicate) -> bool:
    """True where the predicate differs only between batches, and some index is outside of every array."""
    if len(update.operands) != 3 or not update["scatter_dims_to_operand_dims"]:
        return False
    batches, dims = _batches(update), update.shape.dims
    along = [batches[d] for d in p.along if d in batches]
    if along != sorted(along) or any(dims[d] != 1 for d in p.along if d not in batches):
        return False
    nowhere = _nowhere(update.operands[1].shape.dtype)
    return nowhere < 0 or any(nowhere >= dims[d] for d in update["scatter_dims_to_operand_dims"])


_PREDICABLE = {"dynamic-update-slice": _has_whole_lines, "scatter": _may_go_nowhere}
"""The opcodes of updates, each with whether a predicate can be its own."""
