"""Checks of shapes against those that inference gives."""

from __future__ import annotations

from xloom.errors import ShapeError
from xloom.hlo.instruction import Instruction
from xloom.hlo.shape import Shape, tuple_shape
from xloom.infer import RULES, infer_shape

# an explicit shape may differ from the inferred one in these, by XLA's own rules
_FREE_SHAPES = frozenset(
    {
        "collective-permute",
        "all-gather",
        "reduce-scatter",
        "all-reduce-start",
        "collective-broadcast",
        "all-reduce-done",
        "all-gather-done",
        "scan",
        "ragged-dot",
        "scaled-dot",
    }
)
# the element type of the result may be chosen, as of a product with a wider accumulator
_FREE_TYPES = frozenset({"dot", "convolution", "reduce-window", "reduce", "scatter", "all-reduce"})


def require(condition: bool, message: str) -> None:
    """Raises ShapeError unless `condition` holds."""
    if not condition:
        raise ShapeError(message)


def check_shape(instruction: Instruction) -> None:
    """Raises ShapeError unless an instruction's shape is the inferred one, where that says all."""
    opcode = instruction.opcode
    if opcode not in RULES or opcode in _FREE_SHAPES or opcode == "broadcast":
        return
    inferred = infer_shape(opcode, [o.shape for o in instruction._operands], instruction.attrs)
    shape = instruction.shape
    if opcode in _FREE_TYPES:
        inferred = _with_types_of(inferred, shape)
    if not alike(inferred, shape):
        raise ShapeError(f"its shape is {shape}, but its operands and attributes give {inferred}")


def alike(a: Shape, b: Shape) -> bool:
    """Compatible, where a dynamic dimension may have another bound, and floats another precision."""
    if a is b:
        return True
    if a.elements or b.elements:
        return len(a.elements) == len(b.elements) and all(map(alike, a.elements, b.elements))
    if a.is_dynamic or b.is_dynamic:
        return a.rank == b.rank
    return a.compatible(b, ignore_fp_precision=True)


def _with_types_of(shape: Shape, other: Shape) -> Shape:
    if shape.is_tuple and other.is_tuple and len(shape.elements) == len(other.elements):
        return tuple_shape([_with_types_of(a, b) for a, b in zip(shape.elements, other.elements, strict=True)])
    return shape.with_dtype(other.dtype) if shape.is_array and other.is_array else shape
