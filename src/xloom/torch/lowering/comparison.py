"""Comparisons, logic and bits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from xloom.hlo import dtype as dt
from xloom.hlo.instruction import Instruction
from xloom.torch.lowering.graph import Graph, Value
from xloom.torch.lowering.registry import lowers

_DIRECTIONS = {"eq": "EQ", "ne": "NE", "lt": "LT", "le": "LE", "gt": "GT", "ge": "GE"}
_LOGICAL = {"logical_and": "and_", "logical_or": "or_", "logical_xor": "xor"}
_BITS = {
    "bitwise_and": "and_",
    "bitwise_or": "or_",
    "bitwise_xor": "xor",
    "bitwise_left_shift": "shift_left",
    "bitwise_right_shift": "shift_right",
    "__lshift__": "shift_left",
    "__rshift__": "shift_right",
    "__and__": "and_",
    "__or__": "or_",
    "__xor__": "xor",
}


def _compare(direction: str) -> Callable[..., Any]:
    return lambda g, x, y: g.compare(*g.broadcast_operands(x, y), direction=direction)


def _logical(method: str) -> Callable[..., Any]:
    return lambda g, x, y: getattr(g, method)(*g.broadcast_operands(*[g.cast(o, dt.pred) for o in (x, y)]))


def _bits(method: str) -> Callable[..., Any]:
    def rule(g: Graph, x: Value, y: Value) -> Instruction:
        a, b = g.broadcast_operands(x, y)
        name = method
        if name == "shift_right":
            name = "shift_right_arithmetic" if a.shape.dtype.kind is dt.Kind.SIGNED else "shift_right_logical"
        return getattr(g, name)(a, b)

    return rule


for _name, _value in _DIRECTIONS.items():
    lowers(f"aten.{_name}.Tensor", f"aten.{_name}.Scalar")(_compare(_value))
for _name, _value in _LOGICAL.items():
    lowers(f"aten.{_name}.default")(_logical(_value))
for _name, _value in _BITS.items():
    kinds = ["Tensor", "Scalar"] if _name.startswith("__") else ["Tensor", "Scalar", "Scalar_Tensor"]
    kinds = ["Tensor", "Tensor_Scalar", "Scalar_Tensor"] if "_shift" in _name else kinds
    lowers(*[f"aten.{_name}.{k}" for k in kinds])(_bits(_value))


@lowers("aten.logical_not.default")
def logical_not(g: Graph, x):
    """x == 0."""
    return g.not_(g.cast(x, dt.pred))


@lowers("aten.isnan.default")
def isnan(g: Graph, x):
    """x != x."""
    return g.compare(x, x, direction="NE")


@lowers("aten.isinf.default")
def isinf(g: Graph, x):
    """Whether x, or a part of a complex x, is infinite."""
    if x.shape.dtype.is_complex:
        return g.or_(isinf(g, g.real(x)), isinf(g, g.imag(x)))
    if not x.shape.dtype.is_float:
        return g.full(x.shape.dims, False, dt.pred)
    return g.compare(g.abs(x), g.full_like(x, float("inf")), direction="EQ")


@lowers("aten.isfinite.default")
def isfinite(g: Graph, x):
    """Neither infinite nor NaN."""
    if x.shape.dtype.is_complex:
        return g.and_(g.is_finite(g.real(x)), g.is_finite(g.imag(x)))
    return g.is_finite(x) if x.shape.dtype.is_float else g.full(x.shape.dims, True, dt.pred)


@lowers("aten.equal.default")
def equal(g: Graph, x, y):
    """Whether two tensors are the same, as one truth value."""
    if x.shape.dims != y.shape.dims:
        return g.full((), False, dt.pred)
    same = g.compare(*g.broadcast_operands(x, y), direction="EQ")
    return g.reduce_with(same, "and", True, range(same.shape.rank))
