"""The arrays that a value consists of, and whose memory each really is."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from functools import lru_cache
from itertools import accumulate

from xloom.codegen.ops import Trait, having
from xloom.hlo.dtype import DType
from xloom.hlo.instruction import Instruction
from xloom.hlo.shape import Shape

BufferValue = tuple[Instruction, int]
"""An array: leaf number `n` of an instruction's value, in pre-order."""

_FORWARDING = having(Trait.FORWARDS)


def leaf_shapes(shape: Shape) -> tuple[Shape, ...]:
    """The array shapes in a shape, in pre-order; tokens are none."""
    if shape.is_tuple:
        return _leaves(shape)
    return (shape,) if shape.is_array else ()


@lru_cache(maxsize=1024)  # states of loops have thousands, each of which is asked for
def _leaves(shape: Shape) -> tuple[Shape, ...]:
    return tuple(leaf for element in shape.elements for leaf in leaf_shapes(element))


def leaf_count(shape: Shape) -> int:
    """How many arrays a value of the shape has."""
    return len(leaf_shapes(shape))


@lru_cache(maxsize=1024)
def _first_leaves(shape: Shape) -> tuple[int, ...]:
    """The number of the first leaf of each element of a tuple, and of what would come next."""
    return tuple(accumulate(map(leaf_count, shape.elements), initial=0))


def dtype_of(value: BufferValue) -> DType:
    """The type of an array's elements."""
    return leaf_shapes(value[0].shape)[value[1]].dtype


def defining_value(instruction: Instruction, leaf: int = 0) -> BufferValue:
    """The instruction, and its leaf, that makes the memory in which leaf `leaf` of `instruction` lies."""
    while True:
        opcode = instruction.opcode
        if opcode == "tuple":
            first = _first_leaves(instruction.shape)
            k = bisect_right(first, leaf) - 1
            leaf -= first[k]
            instruction = instruction._operands[k]
        elif opcode == "get-tuple-element":
            operand = instruction._operands[0]
            leaf += _first_leaves(operand.shape)[instruction["index"]]
            instruction = operand
        elif opcode in _FORWARDING:
            instruction = instruction._operands[0]
        else:
            return instruction, leaf


def defining_values(instruction: Instruction) -> list[BufferValue]:
    """The defining value of each leaf of an instruction."""
    if instruction.opcode == "tuple":
        return [value for operand in instruction._operands for value in defining_values(operand)]
    return [defining_value(instruction, leaf) for leaf in range(leaf_count(instruction.shape))]


def aliased_leaves(instruction: Instruction) -> dict[int, tuple[int, int]]:
    """The leaves of a custom call's result that start as a leaf of an operand: its operand's number, and its own."""
    found: dict[int, tuple[int, int]] = {}
    for alias in instruction["output_to_operand_aliasing"]:
        first = leaf_number(instruction.shape, alias.output_index)
        other = leaf_number(instruction._operands[alias.operand].shape, alias.operand_index)
        part = instruction.shape
        for k in alias.output_index:
            part = part.elements[k]
        for k in range(leaf_count(part)):
            found[first + k] = (alias.operand, other + k)
    return found


def leaf_number(shape: Shape, index: Sequence[int]) -> int:
    """The number of the first leaf of the part of a shape at a tuple index."""
    number = 0
    for k in index:
        number += _first_leaves(shape)[k]
        shape = shape.elements[k]
    return number
