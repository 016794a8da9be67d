"""Shapes of calls, loops, tuples, tokens and asynchronous pairs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from xloom.errors import ShapeError
from xloom.hlo.dtype import u32
from xloom.hlo.shape import Shape, array_shape, token_shape, tuple_shape
from xloom.infer.registry import infers

Attrs = Mapping[str, Any]


def check_arguments(computation: Any, operands: Sequence[Shape]) -> None:
    """Raises ShapeError unless the operands fit the computation's parameters."""
    parameters = computation.parameters
    if len(parameters) != len(operands):
        raise ShapeError(
            f"{computation.name} takes {len(parameters)} arguments, found {len(operands)}",
            hint="give it one operand for each parameter of what it calls",
        )
    for p, o in zip(parameters, operands, strict=True):
        if not p.shape.compatible(o):
            raise ShapeError(
                f"{computation.name} takes {p.shape} as parameter {p.name}, found {o}",
                hint="convert or reshape the operand, or change the parameter",
            )


@infers("call")
def call(operands: Sequence[Shape], attrs: Attrs) -> Shape:
    """What the computation returns."""
    check_arguments(attrs["to_apply"], operands)
    return attrs["to_apply"].root.shape


@infers("map")
def map_(operands: Sequence[Shape], attrs: Attrs) -> Shape:
    """The operands' dimensions with the element type that the computation returns."""
    if not operands:
        raise ShapeError("needs at least one operand", hint="give it operands")
    for other in operands[1:]:
        if other.dims != operands[0].dims:
            raise ShapeError(
                f"operands have different dimensions: {operands[0]} and {other}",
                hint="broadcast or reshape one of them",
            )
    return array_shape(attrs["to_apply"].root.shape.dtype, operands[0].dims, operands[0].dynamic)


@infers("while")
def while_(operands: Sequence[Shape], attrs: Attrs) -> Shape:
    """The state's shape."""
    condition = attrs["condition"].root.shape
    if not condition.is_scalar or condition.dtype.name != "pred":
        raise ShapeError(
            f"the condition must return pred[], found {condition}", hint="make a compare, or another pred[], its root"
        )
    check_arguments(attrs["condition"], operands)
    check_arguments(attrs["body"], operands)
    body = attrs["body"].root.shape
    if not body.compatible(operands[0]):
        raise ShapeError(
            f"the body must return the state {operands[0]}, found {body}",
            hint="make its root a tuple of the parameter's element shapes, in their order",
        )
    return operands[0]


@infers("conditional")
def conditional(operands: Sequence[Shape], attrs: Attrs) -> Shape:
    """What every branch returns."""
    branches = attrs.get("branch_computations") or (attrs["true_computation"], attrs["false_computation"])
    if len(operands) != len(branches) + 1:
        raise ShapeError(
            f"{len(branches)} branches take {len(branches) + 1} operands, found {len(operands)}",
            hint="give one operand for each branch, which is the tuple of what it reads",
        )
    for branch, operand in zip(branches, operands[1:], strict=True):
        check_arguments(branch, [operand])
        if not branch.root.shape.compatible(branches[0].root.shape):
            raise ShapeError(
                f"branches return {branches[0].root.shape} and {branch.root.shape}",
                hint="make the roots of all branches have one shape",
            )
    return branches[0].root.shape


@infers("domain", "opt-barrier")
def identity(operands: Sequence[Shape], attrs: Attrs) -> Shape:
    """The operand's shape, whatever it is."""
    return operands[0]


@infers("copy")
def copy(operands: Sequence[Shape], attrs: Attrs) -> Shape:
    """The operand's shape; tuples too."""
    return operands[0]


@infers("add-dependency")
def add_dependency(operands: Sequence[Shape], attrs: Attrs) -> Shape:
    """The shape of the first operand."""
    if not operands[1].is_token:
        raise ShapeError(
            f"the second operand must be a token, found {operands[1]}",
            hint="make one by after-all, or take that of the operator before",
        )
    return operands[0]


@infers("after-all")
def after_all(operands: Sequence[Shape], attrs: Attrs) -> Shape:
    """A token."""
    for operand in operands:
        if not operand.is_token:
            raise ShapeError(
                f"operands must be tokens, found {operand}",
                hint="make them by after-all, or take those of operators with effects",
            )
    return token_shape


@infers("tuple")
def tuple_(operands: Sequence[Shape], attrs: Attrs) -> Shape:
    """The tuple of the operands' shapes."""
    return tuple_shape(operands)


@infers("get-tuple-element")
def get_tuple_element(operands: Sequence[Shape], attrs: Attrs) -> Shape:
    """The element's shape."""
    shape, index = operands[0], attrs["index"]
    if not shape.is_tuple:
        raise ShapeError(f"the operand must be a tuple, found {shape}", hint="take elements of tuples alone")
    if not 0 <= index < len(shape.elements):
        raise ShapeError(
            f"index={index} is out of range for a tuple of {len(shape.elements)}", hint="elements are numbered from 0"
        )
    return shape.elements[index]


@infers("partition-id", "replica-id")
def device_number(operands: Sequence[Shape], attrs: Attrs) -> Shape:
    """u32[]."""
    return u32[()]


@infers("copy-done")
def copy_done(operands: Sequence[Shape], attrs: Attrs) -> Shape:
    """The destination, the first element of copy-start's tuple."""
    return _element(operands[0], 0)


@infers("all-gather-done", "collective-permute-done")
def second_element(operands: Sequence[Shape], attrs: Attrs) -> Shape:
    """The result, the second element of the start's tuple."""
    return _element(operands[0], 1)


@infers("all-reduce-done")
def all_reduce_done(operands: Sequence[Shape], attrs: Attrs) -> Shape:
    """The shape of the start, which all-reduce-start has without its operands."""
    return operands[0]


@infers("async-done")
def async_done(operands: Sequence[Shape], attrs: Attrs) -> Shape:
    """The result, the second element of the start's tuple."""
    return _element(operands[0], 1)


def _element(shape: Shape, index: int) -> Shape:
    if not shape.is_tuple or len(shape.elements) <= index:
        raise ShapeError(
            f"the operand must be a tuple with element {index}, found {shape}",
            hint="give what the start of the pair returns",
        )
    return shape.elements[index]
