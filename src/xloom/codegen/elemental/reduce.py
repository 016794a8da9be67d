"""Reductions, as loops that accumulate."""

from __future__ import annotations

from typing import Any

from xloom.codegen.elemental.arg_extremum import arg_extremum
from xloom.codegen.elemental.lowering import IndexTuple, Tracer, element_of, joined
from xloom.codegen.loop_ir.affine import Affine
from xloom.codegen.loop_ir.nodes import AccumulatorValue, Node, Reduced, Reduction
from xloom.codegen.loop_ir.scalar_ops import alias
from xloom.hlo.computation import Computation
from xloom.hlo.instruction import Instruction
from xloom.trampoline import Nested, each


def plain_operator(computation: Computation) -> str:
    """The opcode of a computation that is one commutative operator of its two scalar parameters, else ""."""
    root, parameters = computation.root, computation.parameters
    if len(parameters) == 2 and root.op.commutes and set(root._operands) == set(parameters):
        return root.opcode
    return ""


def reduction_of(t: Tracer, instruction: Instruction, index: IndexTuple, key: Any = None) -> Nested[Reduction]:
    """The reduction that a reduce is at `index` of its result; reductions of one `key` run over the same loops."""
    operands = instruction._operands
    count = len(operands) // 2
    dims, reduced = operands[0].shape.dims, instruction["dimensions"]
    kept = iter(index)
    loops = {d: t.loops((key or instruction, d), dims[d], "k") for d in sorted(reduced)}
    operand_index: list[Affine] = [joined(loops[d]) if d in loops else next(kept) for d in range(len(dims))]
    inits = tuple((yield each(t.element(o, ()) for o in operands[count:])))
    # each a node of its own, even where two operands are the same
    elements = tuple(map(alias, (yield each(t.element(o, tuple(operand_index)) for o in operands[:count]))))
    body = instruction["to_apply"]
    arguments = tuple(AccumulatorValue(i.dtype, k) for k, i in enumerate(inits))
    bodies = t.region(body, [*arguments, *elements])
    plain = plain_operator(body) if count == 1 else ""
    variables = tuple(v for d in sorted(reduced) for v in loops[d] if v.size != 1)
    reduction = Reduction(variables, inits, arguments, bodies, elements, plain)
    return (
        reduction if count != 2 else arg_extremum(reduction, is_used=[_is_used(instruction, k) for k in range(count)])
    )


def _is_used(instruction: Instruction, number: int) -> bool:
    users = instruction.users
    is_root = instruction.parent is not None and instruction.parent.root is instruction
    return is_root or any(u.opcode != "get-tuple-element" or u["index"] == number for u in users)


@element_of("reduce")
def reduce(t: Tracer, instruction: Instruction, index: IndexTuple) -> Nested[Node]:
    """The value of the reduction."""
    reduction = yield reduction_of(t, instruction, index)
    return Reduced(reduction.inits[0].dtype, reduction, 0)
