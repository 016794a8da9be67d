"""Gathers and scatters of one window are slices: these are done in place, and fused with what is around them."""

from __future__ import annotations

import math
from collections.abc import Sequence

from xloom.hlo.attributes import SliceDimension
from xloom.hlo.dtype import pred, s64
from xloom.hlo.instruction import Instruction
from xloom.hlo.module import Module
from xloom.hlo.shape import Shape, array_shape
from xloom.passes.base import Pass, register
from xloom.passes.match import is_constant
from xloom.passes.rewrite import Rewriter, RuleTable, rewrite

rule = RuleTable()


@register
class SingleWindowSimplification(Pass):
    """Rewrites gathers and scatters of one window as dynamic slices."""

    name = "single-window-simplification"
    opcodes = rule.by_opcode

    def run(self, module: Module) -> bool:
        """See the class."""
        return rewrite(module, rule)


def _starts(i: Instruction, rw: Rewriter, indices: Instruction, dims: Sequence[int], rank: int) -> list[Instruction]:
    """A scalar for each dimension of the operand: an index, or 0, as of batches of which there is one."""
    scalar = array_shape(indices.shape.dtype, ())
    row = rw.make("reshape", array_shape(indices.shape.dtype, (len(dims),)), [indices])
    zero = rw.constant(scalar, 0)
    found = [zero] * rank
    for k, d in enumerate(dims):
        one = rw.make("slice", array_shape(indices.shape.dtype, (1,)), [row], slice=(SliceDimension(k, k + 1, 1),))
        found[d] = rw.make("reshape", scalar, [one])
    return found


def _is_one(indices: Shape, index_vector_dim: int) -> bool:
    """True when an array of indices has one vector."""
    return math.prod(n for d, n in enumerate(indices.dims) if d != index_vector_dim) == 1


# gather(x, [i]) == reshape(dynamic-slice(x, i)): both clamp i so that the window fits
@rule("gather")
def _gather(i: Instruction, rw: Rewriter) -> Instruction | None:
    x, indices = i.operands
    if not i.shape.size or not _is_one(indices.shape, i["index_vector_dim"]):
        return None
    sizes = tuple(i["slice_sizes"])
    starts = _starts(i, rw, indices, i["start_index_map"], x.shape.rank)
    window = rw.make("dynamic-slice", array_shape(x.shape.dtype, sizes), [x, *starts], dynamic_slice_sizes=sizes)
    return rw.make("reshape", i.shape, [window])


# scatter(x, [i], u) == dynamic-update-slice(x, i's window fits ? f(x's window, u) : x's window, i): that which does not
# fit is clamped, and written as it was
@rule("scatter")
def _scatter(i: Instruction, rw: Rewriter) -> Instruction | None:
    if len(i.operands) != 3:
        return None
    x, indices, update = i.operands
    if x.shape.dtype is not update.shape.dtype or not update.shape.size:
        return None
    if not _is_one(indices.shape, i["index_vector_dim"]):
        return None
    opcode = _combiner(i)
    if opcode is None:
        return None
    left_out = {*i["inserted_window_dims"], *i["input_batching_dims"]}
    sizes = iter([update.shape.dims[d] for d in i["update_window_dims"]])
    dims = tuple(1 if d in left_out else next(sizes) for d in range(x.shape.rank))
    window = array_shape(x.shape.dtype, dims)
    starts = _starts(i, rw, indices, i["scatter_dims_to_operand_dims"], x.shape.rank)
    new = rw.make("reshape", window, [update])
    limits = [n - k for n, k in zip(x.shape.dims, dims, strict=True)]
    fits = None if is_constant(indices) and _fit(i, indices, limits) else _test(i, rw, starts, limits)
    if opcode or fits is not None:
        old = rw.make("dynamic-slice", window, [x, *starts], dynamic_slice_sizes=dims)
        new = rw.make(opcode, window, [old, new]) if opcode else new
        if fits is not None:
            everywhere = rw.make("broadcast", array_shape(pred, dims), [fits], dimensions=())
            new = rw.make("select", window, [everywhere, new, old])
    return rw.make("dynamic-update-slice", i.shape, [x, new, *starts])


def _combiner(i: Instruction) -> str | None:
    """The opcode that makes the new element of the old one and an update; empty if that is the update itself."""
    root = i["to_apply"].root
    old, new = i["to_apply"].parameters
    if root is new:
        return ""
    plain = root.op.elementwise and len(root.operands) == 2 and not root.attrs and root.shape == old.shape
    return root.opcode if plain and tuple(root.operands) == (old, new) else None


def _fit(i: Instruction, indices: Instruction, limits: Sequence[int]) -> bool:
    constant = indices.operands[0] if indices.opcode == "broadcast" else indices
    values = constant.literal.value.reshape(-1)
    numbers = [int(values[k % len(values)]) for k in range(indices.shape.size)]
    return all(0 <= n <= limits[d] for n, d in zip(numbers, i["scatter_dims_to_operand_dims"], strict=True))


def _test(i: Instruction, rw: Rewriter, starts: Sequence[Instruction], limits: Sequence[int]) -> Instruction:
    """Whether the window fits, a pred."""
    scalar, truth = array_shape(s64, ()), array_shape(pred, ())
    found = rw.constant(truth, True)
    for d in i["scatter_dims_to_operand_dims"]:
        start = rw.converted(starts[d], s64)
        for direction, limit in (("GE", 0), ("LE", limits[d])):
            test = rw.make("compare", truth, [start, rw.constant(scalar, limit)], direction=direction)
            found = rw.make("and", truth, [found, test])
    return found
