"""Elementwise operators: element i of the operands."""

from __future__ import annotations

from llvmlite import ir

from xloom.codegen.elemental.lowering import IndexTuple, Tracer, apply, element_of
from xloom.codegen.loop_ir.affine import constant
from xloom.codegen.loop_ir.nodes import Apply, Index, Node
from xloom.errors import LoweringError
from xloom.hlo.dtype import DType, Kind, s64
from xloom.hlo.instruction import Instruction
from xloom.llvm.scalar import conversion, elementwise  # noqa: F401 - registers the scalar rules
from xloom.llvm.scalar.rules import RULES
from xloom.llvm.types import Value
from xloom.trampoline import Nested, each


@element_of(*RULES)
def scalar_rule(t: Tracer, instruction: Instruction, index: IndexTuple) -> Nested[Node]:
    """The operator of the operands' elements; scalar operands of select and clamp repeat."""
    rank = len(index)
    operands = yield each(t.element(o, index if o.shape.rank == rank else ()) for o in instruction._operands)
    return apply(instruction, operands)


@element_of("opt-barrier", "domain", "add-dependency")
def identity(t: Tracer, instruction: Instruction, index: IndexTuple) -> Nested[Node]:
    """The first operand."""
    return (yield t.element(instruction._operands[0], index))


@element_of("map")
def map_(t: Tracer, instruction: Instruction, index: IndexTuple) -> Nested[Node]:
    """The scalar computation of the operands' elements."""
    arguments = yield each(t.element(o, index) for o in instruction._operands)
    return t.region(instruction["to_apply"], arguments)[0]


def _width(dtype: DType) -> int:
    return 8 if dtype.kind is Kind.PRED else dtype.bits


@element_of("bitcast-convert")
def bitcast_convert(t: Tracer, instruction: Instruction, index: IndexTuple) -> Nested[Node]:
    """The same bits; a narrower type has a minor dimension of the parts, a wider one takes it away."""
    operand, target = instruction._operands[0], instruction.shape.dtype
    source = operand.shape.dtype
    if source is target:
        return (yield t.element(operand, index))
    if source.is_complex or target.is_complex:
        raise LoweringError("bitcast-convert of complex numbers to another type", where=operand.name)
    ratio = _width(source) / _width(target)
    if ratio == 1:
        element = yield t.element(operand, index)
        return Apply(target, "bitcast-convert", _recast(source, target), (element,))
    if ratio > 1:
        *outer, part = index

        def pick(b: ir.IRBuilder, value: Value, number: ir.Value) -> Value:
            bits = conversion.to_bits(b, value, source)
            shift = b.mul(number, ir.IntType(64)(_width(target)))
            amount = b.trunc(shift, bits.type) if bits.type.width < 64 else shift
            kind = ir.IntType(max(8, _width(target)))
            low = b.lshr(bits, amount)
            return conversion.from_bits(b, b.trunc(low, kind) if kind.width < bits.type.width else low, target)

        element = yield t.element(operand, tuple(outer))
        return Apply(target, "bitcast-convert", pick, (element, Index(s64, part)))
    count = round(1 / ratio)
    parts = yield each(t.element(operand, (*index, constant(k))) for k in range(count))

    def join(b: ir.IRBuilder, *values: Value) -> Value:
        kind = ir.IntType(max(8, _width(target)))
        mask = (1 << _width(source)) - 1
        out = kind(0)
        for k, value in enumerate(values):
            bits = conversion.to_bits(b, value, source)
            wide = b.zext(bits, kind) if bits.type.width < kind.width else bits
            out = b.or_(out, b.shl(b.and_(wide, kind(mask)), kind(k * _width(source))))
        return conversion.from_bits(b, out, target)

    return Apply(target, "bitcast-convert", join, tuple(parts))


def _recast(source: DType, target: DType):
    return lambda b, value: conversion.from_bits(b, conversion.to_bits(b, value, source), target)
