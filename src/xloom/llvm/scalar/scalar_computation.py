"""Scalar computations (of a reduce, a map, a comparator ...) emitted where they are applied."""

from __future__ import annotations

from collections.abc import Sequence

from llvmlite import ir

from xloom.errors import LoweringError
from xloom.hlo.call_graph import callees_first
from xloom.hlo.computation import Computation
from xloom.hlo.instruction import Instruction
from xloom.hlo.stack_frames import place
from xloom.llvm.scalar.conversion import rounded_result
from xloom.llvm.scalar.operator import operator_of
from xloom.llvm.scalar.rewrites import rewritten
from xloom.llvm.scalar.rules import ROUNDED, RULES
from xloom.llvm.types import Value, constant
from xloom.trampoline import Nested, run


def apply(b: ir.IRBuilder, computation: Computation, arguments: Sequence[Value]) -> list[Value]:
    """The values of the root (one, or one a tuple element) for scalar `arguments`, emitted at the builder."""
    return run(_applied(b, computation, arguments))


def _applied(b: ir.IRBuilder, computation: Computation, arguments: Sequence[Value]) -> Nested[list[Value]]:
    values: dict[Instruction, list[Value]] = {}
    for instruction in computation.post_order():
        if instruction.opcode in _INLINED:
            callee, operands = instruction.called_computations[0], [values[o][0] for o in instruction._operands]
            values[instruction] = yield _applied(b, callee, operands)
        else:
            values[instruction] = _value(b, instruction, arguments, values)
    return values[computation.root]


def evaluated(b: ir.IRBuilder, instruction: Instruction, *operands: Value) -> Value:
    """The result of a scalar operator, in its type."""
    operator = rewritten(operator_of(instruction), instruction._operands)
    value, dtype = RULES[operator.opcode](b, operator, *operands), operator.dtype
    return rounded_result(b, value, dtype) if dtype.is_float and operator.opcode in ROUNDED else value


def is_scalar_region(computation: Computation) -> bool:
    """True when `apply` can emit it."""
    return all(
        i.opcode in RULES or i.opcode in _INLINED or i.opcode in _GLUE or (i.opcode in _SAME and i.shape.is_scalar)
        for called in callees_first([computation])
        for i in called
    )


_GLUE = frozenset({"parameter", "constant", "tuple", "get-tuple-element"})
_INLINED = frozenset({"call", "map", "fusion"})
_SAME = frozenset({"broadcast", "reshape", "transpose", "bitcast", "opt-barrier", "reverse", "slice"})


def _value(
    b: ir.IRBuilder, instruction: Instruction, arguments: Sequence[Value], values: dict[Instruction, list[Value]]
) -> list[Value]:
    opcode, operands = instruction.opcode, instruction._operands
    if opcode == "parameter":
        return [arguments[instruction["parameter_number"]]]
    if opcode == "constant":
        return [constant(instruction.literal.item(), instruction.shape.dtype)]
    if opcode == "tuple":
        return [values[o][0] for o in operands]
    if opcode == "get-tuple-element":
        return [values[operands[0]][instruction["index"]]]
    if opcode in _SAME and operands[0].shape.is_scalar:
        return values[operands[0]]
    if opcode not in RULES or not instruction.shape.is_scalar:
        raise no_scalar_code(instruction)
    return [evaluated(b, instruction, *(values[o][0] for o in operands))]


def no_scalar_code(instruction: Instruction) -> LoweringError:
    """The error for what a reduce, a scatter, a sort ... cannot do for each element."""
    return LoweringError(
        f"{instruction.opcode} in what is done for each element of a reduce, a window, a scatter or a sort",
        where=place(instruction),
        hint="write it of elementwise operators, or run the program on the interpreter: xloom.evaluate",
    )
