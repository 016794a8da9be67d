"""Weights that are rearranged before they are widened, so that they can be kept narrow."""

from __future__ import annotations

from collections.abc import Collection

from xloom.hlo.computation import Computation
from xloom.hlo.dtype import Kind
from xloom.hlo.instruction import Instruction
from xloom.hlo.shape import array_shape
from xloom.passes.rewrite import Rewriter
from xloom.torch.frozen.division import computed_of

_REARRANGES = frozenset({"transpose", "reshape", "copy", "reverse", "slice"})


def widen_last(computation: Computation, static: Collection[int]) -> None:
    """Of what is computed of the `static` parameters alone, floats are converted to wider ones last."""
    weights, rewriter = computed_of(computation, static), Rewriter(computation)
    for i in computation.post_order():
        if i.opcode in _REARRANGES and i in weights and _is_widened(i.operands[0]):
            # f(convert(w)) == convert(f(w))
            narrow = i.operands[0].operands[0]
            moved = computation.add(i.clone([narrow]))
            moved.shape = array_shape(narrow.shape.dtype, i.shape.dims)
            i.replace_all_uses_with(rewriter.converted(moved, i.shape.dtype))


def _is_widened(i: Instruction) -> bool:
    kinds = {s.dtype.kind for s in (i.shape, *(o.shape for o in i.operands)) if s.is_array}
    return i.opcode == "convert" and kinds == {Kind.FLOAT} and i.operands[0].shape.dtype.bits < i.shape.dtype.bits
