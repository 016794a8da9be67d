"""Integers that the program computes of positions alone: places that are known without running it."""

from __future__ import annotations

from xloom.codegen.loop_ir.affine import Affine, constant
from xloom.codegen.loop_ir.nodes import Constant, Index, Node, Op
from xloom.hlo.dtype import DType, Kind

_CASTS = frozenset(["alias", "convert", "index-cast"])


def index_expression(node: Node) -> Affine | None:
    """An integer as an index expression, where it is one."""
    found = _expression(node)
    return found if found is not None and _holds(node.dtype, found) else None


def _expression(node: Node) -> Affine | None:
    if isinstance(node, Index):
        return node.value
    if isinstance(node, Constant):
        return constant(int(node.value)) if node.dtype.is_integer else None
    if not isinstance(node, Op) or not node.dtype.is_integer:
        return None
    operands = [index_expression(operand) for operand in node.operands]
    if node.opcode in _CASTS:
        return operands[0]
    if node.opcode not in ("add", "subtract", "multiply"):
        return None
    x, y = operands
    if x is None or y is None:
        return None
    if node.opcode == "multiply":
        return x * y.const if y.is_constant else y * x.const if x.is_constant else None
    return x + y if node.opcode == "add" else x - y


def _holds(dtype: DType, expression: Affine) -> bool:
    """True when no value of the expression is too large for the type."""
    signed = dtype.kind is Kind.SIGNED
    least, greatest = (-(2 ** (dtype.bits - 1)), 2 ** (dtype.bits - 1)) if signed else (0, 2**dtype.bits)
    return least <= expression.low and expression.high < greatest
