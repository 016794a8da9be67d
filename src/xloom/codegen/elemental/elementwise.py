"""Elementwise operators: element i of the operands."""

from __future__ import annotations

from xloom.codegen.elemental.lowering import SCALAR, IndexTuple, Tracer, apply, element_of
from xloom.codegen.loop_ir.affine import constant
from xloom.codegen.loop_ir.nodes import Index, Node
from xloom.codegen.loop_ir.scalar_ops import scalar_op
from xloom.errors import LoweringError
from xloom.hlo.dtype import s64
from xloom.hlo.instruction import Instruction
from xloom.llvm.scalar import conversion, elementwise  # noqa: F401 - registers the scalar rules
from xloom.llvm.scalar.loop_ops import bits_of
from xloom.llvm.scalar.operator import Operator
from xloom.trampoline import Nested, each


@element_of(SCALAR)
def scalar_rule(t: Tracer, instruction: Instruction, index: IndexTuple) -> Nested[Node]:
    """The operator of the operands' elements; scalar operands of select and clamp repeat."""
    rank = len(index)
    operands = yield each(t.element(o, index if o.shape.rank == rank else ()) for o in instruction._operands)
    return apply(instruction, operands)


@element_of("opt-barrier", "domain", "add-dependency")
def identity(t: Tracer, instruction: Instruction, index: IndexTuple) -> Nested[Node]:
    """The first operand's element at the same index."""
    return (yield t.element(instruction._operands[0], index))


@element_of("map")
def map_(t: Tracer, instruction: Instruction, index: IndexTuple) -> Nested[Node]:
    """The scalar computation of the operands' elements."""
    arguments = yield each(t.element(o, index) for o in instruction._operands)
    return t.region(instruction["to_apply"], arguments)[0]


@element_of("bitcast-convert")
def bitcast_convert(t: Tracer, instruction: Instruction, index: IndexTuple) -> Nested[Node]:
    """The bits of the operand; a narrower type has a minor dimension of the parts, a wider one takes it away."""
    operand, target = instruction._operands[0], instruction.shape.dtype
    source = operand.shape.dtype
    if source is target:
        return (yield t.element(operand, index))
    if source.is_complex or target.is_complex:
        raise LoweringError("bitcast-convert of complex numbers to another type", where=operand.name)
    ratio = bits_of(source) / bits_of(target)
    if ratio == 1:
        element = yield t.element(operand, index)
        return scalar_op(Operator("bitcast-element", target, (source,)), (element,))
    if ratio > 1:
        *outer, part = index
        element = yield t.element(operand, tuple(outer))
        return scalar_op(Operator("bitcast-part", target, (source, s64)), (element, Index(s64, part)))
    count = round(1 / ratio)
    parts = yield each(t.element(operand, (*index, constant(k))) for k in range(count))
    return scalar_op(Operator("bitcast-parts", target, (source,) * count), parts)
