"""Shapes of elementwise operators: that of the operands, with the element type that the operator gives."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from xloom.errors import ShapeError
from xloom.hlo.dtype import c64, c128, pred
from xloom.hlo.opcodes import OPCODES
from xloom.hlo.shape import UNBOUNDED, Shape
from xloom.infer.registry import infers

Attrs = Mapping[str, Any]

_REAL_RESULT = {"abs", "real", "imag"}
_FLOATING = {
    name
    for name, row in OPCODES.items()
    if "result_accuracy" in row.attributes or name in ("ceil", "floor", "round-nearest-afz", "round-nearest-even")
}
_INTEGRAL = {"not", "popcnt", "count-leading-zeros", "and", "or", "xor"}
_SHIFTS = {"shift-left", "shift-right-arithmetic", "shift-right-logical", "mulhi"}


def require_array(shape: Shape, what: str = "operand") -> Shape:
    """The shape, if an array's. Raises ShapeError otherwise."""
    if not shape.is_array:
        raise ShapeError(
            f"{what} must be an array, found {shape}", hint="take an element of the tuple by get-tuple-element"
        )
    return shape


def merged(shapes: Sequence[Shape], dtype_of: Shape | None = None) -> Shape:
    """The common dimensions of arrays; dynamic wins over static, and the smaller bound over the larger."""
    first = shapes[0]
    dims, dynamic = list(first.dims), list(first.dynamic or (False,) * first.rank)
    for other in shapes[1:]:
        if other.rank != first.rank:
            raise ShapeError(
                f"operands have different ranks: {first} and {other}",
                hint="broadcast or reshape one of them: nothing is broadcast by itself",
            )
        for k, size in enumerate(other.dims):
            other_dynamic = other.is_dynamic_dimension(k)
            if size == dims[k]:
                dynamic[k] = dynamic[k] or other_dynamic
            elif dynamic[k] and dims[k] == UNBOUNDED:
                dims[k], dynamic[k] = size, other_dynamic
            elif other_dynamic and size == UNBOUNDED:
                pass
            elif dynamic[k] or other_dynamic:
                dims[k], dynamic[k] = min(dims[k], size), True
            else:
                raise ShapeError(
                    f"operands have different dimensions: {first} and {other}",
                    hint="broadcast or reshape one of them: nothing is broadcast by itself",
                )
    base = dtype_of or first
    layout = base.layout if base.rank == len(dims) else None
    if tuple(dims) == base.dims and tuple(dynamic if any(dynamic) else ()) == base.dynamic:
        return base
    return Shape(base.dtype, tuple(dims), tuple(dynamic), layout)


def _unary_named(name: str):
    def rule(operands: Sequence[Shape], attrs: Attrs) -> Shape:
        shape = require_array(operands[0])
        dtype = shape.dtype
        if name in _FLOATING and not (dtype.is_float or dtype.is_complex):
            raise ShapeError(f"needs a floating-point operand, found {dtype.name}", hint="convert it first")
        if name in _INTEGRAL and not (dtype.is_integer or dtype is pred):
            raise ShapeError(f"needs an integer operand, found {dtype.name}", hint="convert it to s32")
        if name == "is-finite":
            if not (dtype.is_float or dtype.is_complex):
                raise ShapeError(f"needs a floating-point operand, found {dtype.name}", hint="convert it to f32")
            return shape.with_dtype(pred)
        if name in _REAL_RESULT and dtype.is_complex:
            return shape.with_dtype(dtype.real)
        return shape

    return rule


def _binary_named(name: str):
    def rule(operands: Sequence[Shape], attrs: Attrs) -> Shape:
        lhs, rhs = require_array(operands[0]), require_array(operands[1])
        if lhs.dtype is not rhs.dtype:
            raise ShapeError(f"operands have different element types: {lhs} and {rhs}", hint="convert one of them")
        if name in _INTEGRAL and not (lhs.dtype.is_integer or lhs.dtype is pred):
            raise ShapeError(f"needs integer operands, found {lhs.dtype.name}", hint="convert them to s32")
        if name in _SHIFTS and not lhs.dtype.is_integer:
            raise ShapeError(f"needs integer operands, found {lhs.dtype.name}", hint="convert them to s32")
        if name == "atan2" and not (lhs.dtype.is_float or lhs.dtype.is_complex):
            raise ShapeError(f"needs floating-point operands, found {lhs.dtype.name}", hint="convert them to f32")
        shape = merged((lhs, rhs))
        if name == "compare":
            return shape.with_dtype(pred)
        if name == "complex":
            if lhs.dtype.name not in ("f32", "f64"):
                raise ShapeError(f"needs f32 or f64 operands, found {lhs.dtype.name}", hint="convert them to f32")
            return shape.with_dtype(c64 if lhs.dtype.name == "f32" else c128)
        return shape

    return rule


for _name, _row in OPCODES.items():
    if _row.elementwise and _row.arity == 1 and _name not in ("convert", "copy", "reduce-precision"):
        infers(_name)(_unary_named(_name))
    elif _row.elementwise and _row.arity == 2 and _name != "stochastic-convert":
        infers(_name)(_binary_named(_name))


@infers("reduce-precision")
def reduce_precision(operands: Sequence[Shape], attrs: Attrs) -> Shape:
    """The operand's shape, a floating-point one."""
    shape = require_array(operands[0])
    if not (shape.dtype.is_float or shape.dtype.is_complex):
        raise ShapeError(f"needs a floating-point operand, found {shape.dtype.name}", hint="convert it to f32")
    if attrs["exponent_bits"] < 1:
        raise ShapeError(
            f"exponent_bits must be at least 1, found {attrs['exponent_bits']}", hint="give from 1 to 11 bits"
        )
    if attrs["mantissa_bits"] < 0:
        raise ShapeError(
            f"mantissa_bits cannot be negative, found {attrs['mantissa_bits']}", hint="give from 0 to 52 bits"
        )
    return shape


@infers("select")
def select(operands: Sequence[Shape], attrs: Attrs) -> Shape:
    """The shape of the branches; the predicate has it too, or is a scalar."""
    chooser, on_true, on_false = operands
    if chooser.dtype is not pred:
        raise ShapeError(f"the first operand must be pred, found {chooser}", hint="compare first: what chooses is pred")
    for branch in (on_true, on_false):
        require_array(branch)
    if on_true.dtype is not on_false.dtype:
        raise ShapeError(
            f"branches have different element types: {on_true} and {on_false}",
            hint="convert one of them: operands of one operator have one element type",
        )
    shape = merged((on_true, on_false))
    return shape if chooser.is_scalar else merged((shape, chooser))


@infers("clamp")
def clamp(operands: Sequence[Shape], attrs: Attrs) -> Shape:
    """The shape of the middle operand; the bounds have it too, or are scalars."""
    low, x, high = (require_array(o) for o in operands)
    if not low.dtype is x.dtype is high.dtype:
        raise ShapeError(
            f"operands have different element types: {low}, {x} and {high}",
            hint="convert one of them: operands of one operator have one element type",
        )
    for bound in (low, high):
        if not bound.is_scalar:
            merged((x, bound))
    return x
