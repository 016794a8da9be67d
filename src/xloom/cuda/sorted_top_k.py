"""The first k of each row as sorts, which all threads share, where rows are long or few."""

from __future__ import annotations

from xloom.hlo.attributes import SliceDimension
from xloom.hlo.computation import Computation
from xloom.hlo.dtype import pred, s32
from xloom.hlo.instruction import Instruction
from xloom.hlo.module import Module
from xloom.hlo.shape import array_shape, tuple_shape
from xloom.passes.base import Pass, register
from xloom.passes.op_expansion import expand_ops
from xloom.passes.rewrite import Rewriter, RuleTable

rule = RuleTable()


@register
class SortedTopK(Pass):
    """Rewrites topk as the beginning of a stable sort of values and their numbers."""

    name = "sorted-top-k"

    def run(self, module: Module) -> bool:
        """See the class."""
        return expand_ops(module, rule)


# topk(x, k) == slice(sort((x, iota), x > y), [:k]); > in the total order of floats
@rule("topk")
def _sorted(i: Instruction, rw: Rewriter) -> Instruction | None:
    x, last = i.operands[0], i.operands[0].shape.rank - 1
    if not x.shape.size:
        return None
    numbers = array_shape(s32, x.shape.dims)
    given = [x, rw.make("iota", numbers, iota_dimension=last)]
    whole = tuple_shape([array_shape(o.shape.dtype, x.shape.dims) for o in given])
    order = _order(rw, i)
    made = rw.make("sort", whole, given, dimensions=(last,), is_stable=True, to_apply=order)
    cut = tuple(SliceDimension(0, i["k"] if d == last else size) for d, size in enumerate(x.shape.dims))
    parts = []
    for number, element in enumerate(i.shape.elements):
        part = rw.make("get-tuple-element", whole.elements[number], [made], index=number)
        parts.append(rw.make("slice", element, [part], slice=cut))
    return rw.make("tuple", i.shape, parts)


def _order(rw: Rewriter, i: Instruction) -> Computation:
    """A new computation: whether an element comes before another, whatever their numbers are."""
    module, dtype = rw.computation.module, i.operands[0].shape.dtype
    assert module is not None
    body = module.add(Computation("order"))
    body.execution_thread = rw.computation.execution_thread
    types = [dtype, dtype, s32, s32]
    x, y, *_ = (
        body.add(Instruction(name, "parameter", array_shape(t, ()), (), {"parameter_number": k}))
        for k, (name, t) in enumerate(zip(("x", "y", "i", "j"), types, strict=True))
    )
    how = {"direction": "GT" if i["largest"] else "LT", **({"type": "TOTALORDER"} if dtype.is_float else {})}
    body.root = body.add(Instruction("before", "compare", array_shape(pred, ()), [x, y], how))
    return body
