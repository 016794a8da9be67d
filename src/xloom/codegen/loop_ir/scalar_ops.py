"""Scalar operators of the loop IR: the elementwise opcodes of HLO, and a few of its own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeGuard

from xloom.codegen.loop_ir.nodes import Constant, Node, Op
from xloom.codegen.ops import OP_ROWS, Trait
from xloom.hlo.dtype import DType, bf16, f16, f32, f64, pred
from xloom.llvm.scalar.operator import Operator
from xloom.llvm.scalar.rewrites import rewritten
from xloom.llvm.scalar.rules import ROUNDED


def scalar_op(operator: Operator, operands: Sequence[Node]) -> Op:
    """A node of an operator and its operands, rewritten if there is something better."""
    rotated = _rotation(operator, operands)
    if rotated is not None:
        return rotated
    operator = rewritten(operator, operands)
    opcode, dtype = operator.opcode, operator.dtype
    traits = OP_ROWS[opcode].traits if opcode in OP_ROWS else Trait.NONE
    rounded_later, passes = opcode in ROUNDED, Trait.PASSES_VALUE in traits
    takes = ((rounded_later or passes) and Trait.DISCONTINUOUS not in traits) or (
        opcode == "convert" and dtype in (f32, f64)
    )
    has = dtype in (bf16, f16) and (rounded_later or (passes and any(map(_has_excess, operands))))
    return Op(dtype, operator, tuple(operands), has, takes)


def _rotation(operator: Operator, operands: Sequence[Node]) -> Op | None:
    """(x << n) | (x >> (width - n)) of integers, which processors do at once: the choices of two shifts are gone."""
    dtype = operator.dtype
    if operator.opcode != "or" or not dtype.is_integer or dtype.bits < 8:
        return None
    for left, right in (operands, operands[::-1]):
        if not (_is(left, "shift-left") and _is(right, "shift-right-logical")):
            continue
        (x, count), (other, missing) = left.operands, right.operands
        if x is other and _is(missing, "subtract") and missing.operands[1] is count:
            width = missing.operands[0]
            if isinstance(width, Constant) and int(width.value) == dtype.bits:
                return Op(dtype, Operator("rotate-left", dtype, (dtype, dtype)), (x, count))
    return None


def _is(node: Node, opcode: str) -> TypeGuard[Op]:
    return isinstance(node, Op) and node.opcode == opcode


def _has_excess(node: Node) -> bool:
    return isinstance(node, Op) and node.has_excess_precision


def alias(node: Node) -> Op:
    """The node again, as another one."""
    return Op(node.dtype, Operator("alias", node.dtype, (node.dtype,)), (node,))


def index_cast(node: Node, dtype: DType) -> Op:
    """An index as a number of another type."""
    return Op(dtype, Operator("index-cast", dtype, (node.dtype,)), (node,))


def float_compare(predicate: str, x: Node, y: Node) -> Op:
    """LLVM's predicate of two numbers: `>` and the like, false of a NaN; `ord`, `uno`: whether none is one, or any."""
    operator = Operator("predicate", pred, (x.dtype, y.dtype), (("predicate", predicate),))
    return Op(pred, operator, (x, y))


def logical(opcode: str, x: Node, y: Node) -> Op:
    """`and` or `or` of two predicates."""
    return Op(pred, Operator(opcode, pred, (pred, pred)), (x, y))


def select(condition: Node, on_true: Node, on_false: Node) -> Op:
    """One of two values of a type: `on_true` where the condition holds."""
    types = (pred, on_true.dtype, on_false.dtype)
    return Op(on_true.dtype, Operator("select", on_true.dtype, types), (condition, on_true, on_false))
