"""Sums with arrays that are zero but for a part, as updates of that part.

The gradient of a loop that reads a part of an array in each step adds such an array in each step.
"""

from __future__ import annotations

from collections.abc import Callable

from xloom.hlo.attributes import SliceDimension
from xloom.hlo.dtype import s32
from xloom.hlo.instruction import Instruction
from xloom.hlo.module import Module
from xloom.hlo.shape import array_shape
from xloom.passes.base import Pass, register
from xloom.passes.match import is_splat
from xloom.passes.negative_zeros import NegativeZeros
from xloom.passes.rewrite import Rewriter, RuleTable, rewrite

_PART = 4
"""How many times as much an array has as what is updated, at least."""


@register
class UpdateAccumulation(Pass):
    """Adds to a part of an array where the rest of what is added is zero."""

    name = "update-accumulation"
    opcodes = ("while",)  # an array that no loop keeps would be copied first

    def run(self, module: Module) -> bool:
        """See the class."""
        return rewrite(module, _rules(NegativeZeros(module)))


def _rules(negative_zeros: NegativeZeros) -> RuleTable:
    rule = RuleTable()

    # x + u(0) == u'(x), where u writes a part of zeros, and u' adds that to x, which has no -0.0: it would become 0.0
    @rule("add")
    def _sum_with_update(i: Instruction, rw: Rewriter) -> Instruction | None:
        for x, y in (i.operands, reversed(i.operands)):
            if (updates := _updates(y)) and negative_zeros.is_excluded(x):
                for update in updates:
                    x = _ADDED[update.opcode](update, x, rw)
                return x
        return None

    return rule


def _updates(y: Instruction) -> list[Instruction]:
    """The updates of zeros that make `y`, or whose sum it is; none where there are others, or one has other readers.

    Of where several write, the sum is then made in another order: not of narrow floats, which would show it.
    """
    found: list[Instruction] = []
    stack = [y]
    while stack:
        y = stack.pop()
        if len(y.users) != 1:
            return []
        if y.opcode == "add" and (y.shape.dtype.bits >= 32 or y.shape.dtype.is_integer):
            stack += reversed(y.operands)
        elif y.opcode in _ADDED and _is_part_of_zeros(y):
            found.append(y)
        else:
            return []
    return found


def _is_part_of_zeros(update: Instruction) -> bool:
    zeros, part = update.operands[0], update.operands[-1] if update.opcode == "scatter" else update.operands[1]
    if update.opcode == "pad":
        zeros, part = part, zeros
        if any(low < 0 or high < 0 or interior for low, high, interior in update["padding"]):
            return False
    if update.opcode == "scatter" and not _adds(update):
        return False
    return is_splat(zeros, 0) and part.shape.size * _PART <= update.shape.size


def _adds(scatter: Instruction) -> bool:
    """True where each element is a sum, whose order nobody sees."""
    combiner, dtype = scatter["to_apply"], scatter.shape.dtype
    plain = combiner.root.opcode == "add" and set(combiner.root.operands) == set(combiner.parameters)
    return len(scatter.operands) == 3 and plain and (dtype.bits >= 32 or dtype.is_integer or scatter["unique_indices"])


# x + dynamic-update-slice(0, u, i) == dynamic-update-slice(x, dynamic-slice(x, i) + u, i)
def _dynamic_update_slice(update: Instruction, x: Instruction, rw: Rewriter) -> Instruction:
    _, part, *starts = update.operands
    old = rw.make("dynamic-slice", part.shape, [x, *starts], dynamic_slice_sizes=part.shape.dims)
    return rw.make("dynamic-update-slice", x.shape, [x, rw.make("add", part.shape, [old, part]), *starts])


# x + pad(u, 0) == dynamic-update-slice(x, slice(x) + u, constants)
def _pad(update: Instruction, x: Instruction, rw: Rewriter) -> Instruction:
    part, lows = update.operands[0], [p.low for p in update["padding"]]
    limits = tuple(SliceDimension(low, low + n, 1) for low, n in zip(lows, part.shape.dims, strict=True))
    new = rw.make("add", part.shape, [rw.make("slice", part.shape, [x], slice=limits), part])
    starts = [rw.constant(array_shape(s32, ()), low) for low in lows]
    return rw.make("dynamic-update-slice", x.shape, [x, new, *starts])


# x + scatter(0, i, u, add) == scatter(x, i, u, add)
def _scatter(update: Instruction, x: Instruction, rw: Rewriter) -> Instruction:
    return rw.make("scatter", x.shape, [x, *update.operands[1:]], **update.attrs)


_ADDED: dict[str, Callable[[Instruction, Instruction, Rewriter], Instruction]] = {
    "dynamic-update-slice": _dynamic_update_slice,
    "pad": _pad,
    "scatter": _scatter,
}
