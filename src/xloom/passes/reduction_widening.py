"""Reductions of many narrow floats, computed in f32 and rounded once."""

from __future__ import annotations

import math

from xloom.hlo.computation import Computation
from xloom.hlo.dtype import bf16, f16, f32
from xloom.hlo.instruction import Instruction
from xloom.hlo.literal import Literal
from xloom.hlo.module import Module
from xloom.hlo.shape import Shape, tuple_shape
from xloom.passes.base import Pass, register
from xloom.passes.op_expansion import expand_ops
from xloom.passes.rewrite import Rewriter, RuleTable

rule = RuleTable()
_FEW = 16
"""Elements of a window whose roundings hardly add up."""
_EXACT = frozenset({
    "parameter", "constant", "tuple", "get-tuple-element", "copy", "select", "compare", "maximum", "minimum", "negate",
    "abs", "and", "or", "not", "xor",
})  # fmt: skip
"""What gives a narrow float, if any, that is an operand or the same but for its sign."""


@register
class ReductionWidening(Pass):
    """Computes reductions of many floats narrower than f32 in f32, as XLA:CPU does.

    Rounded at each step, a sum stays as it is as soon as elements are less than half of its last digit.
    """

    name = "reduction-widening"
    opcodes = rule.by_opcode

    def run(self, module: Module) -> bool:
        """See the class."""
        return expand_ops(module, rule)


def _is_narrow(shape: Shape) -> bool:
    return shape.is_array and shape.dtype in (bf16, f16)


def _wide(shape: Shape) -> Shape:
    if shape.is_tuple:
        return tuple_shape([_wide(s) for s in shape.elements])
    return shape.with_dtype(f32) if _is_narrow(shape) else shape


# reduce-window(x, f) == convert(reduce-window(convert(x), f in f32));  reduce likewise
@rule("reduce-window", "reduce")
def _widened(i: Instruction, rw: Rewriter) -> Instruction | None:
    body = i["to_apply"]
    if not any(map(_is_narrow, i.shape.elements if i.shape.is_tuple else [i.shape])):
        return None
    if _reduced_count(i) <= _FEW or not _may_be_wider(body) or (i.opcode == "reduce" and _is_one_operator(body)):
        return None  # of one operator, backends keep what they add up in f32 themselves
    operands = [rw.converted(o, f32) if _is_narrow(o.shape) else o for o in i.operands]
    attrs = {**i.attrs, "to_apply": _in_f32(body)}
    wide = rw.make(i.opcode, _wide(i.shape), operands, **attrs)
    if not i.shape.is_tuple:
        return rw.make("convert", i.shape, [wide])
    parts = [rw.make("get-tuple-element", s, [wide], index=k) for k, s in enumerate(wide.shape.elements)]
    given = zip(parts, i.shape.elements, strict=True)
    return rw.make("tuple", i.shape, [rw.make("convert", s, [p]) if _is_narrow(s) else p for p, s in given])


def _reduced_count(i: Instruction) -> int:
    """How many elements are reduced to one."""
    if i.opcode == "reduce-window":
        return math.prod(w.size for w in i["window"])
    return math.prod(i.operands[0].shape.dims[d] for d in i["dimensions"])


def _is_one_operator(body: Computation) -> bool:
    return len(body.parameters) == 2 and set(body.root.operands) == set(body.parameters)


def _may_be_wider(body: Computation) -> bool:
    """True where steps round narrow floats, and do nothing that depends on their bits."""
    found = body.post_order()
    if any(not (i.op.elementwise or i.opcode in _EXACT) or i.opcode in ("bitcast-convert", "map") for i in found):
        return False
    return any(_is_narrow(i.shape) and i.opcode not in _EXACT for i in found)


def _in_f32(body: Computation) -> Computation:
    """The same computation with f32 for narrow floats."""
    assert body.module is not None
    new = body.module.add(Computation(f"{body.name}.f32"))
    new.execution_thread = body.execution_thread
    made: dict[Instruction, Instruction] = {}
    for i in body.post_order():
        attrs = dict(i.attrs)
        if i.opcode == "constant" and _is_narrow(i.shape):
            attrs["literal"] = Literal(_wide(i.shape), i.literal.value.astype(f32.numpy))
        made[i] = new.add(Instruction(i.name, i.opcode, _wide(i.shape), [made[o] for o in i.operands], attrs))
    new.root = made[body.root]
    return new
