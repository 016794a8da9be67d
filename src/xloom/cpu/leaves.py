"""The arrays that a value consists of, and whose memory each really is."""

from __future__ import annotations

from xloom.hlo.module import Instruction
from xloom.hlo.shape import Shape

Source = tuple[Instruction, int]
"""An array: leaf number `n` of an instruction's value, in pre-order."""

FORWARDING = frozenset({"copy", "opt-barrier", "domain", "add-dependency", "reshape", "dynamic-reshape"})
"""Operators whose result is their first operand's memory; arrays in memory are dense and row-major."""


def leaf_shapes(shape: Shape) -> list[Shape]:
    """The array shapes in a shape, in pre-order; tokens are none."""
    if shape.is_tuple:
        return [leaf for element in shape.elements for leaf in leaf_shapes(element)]
    return [shape] if shape.is_array else []


def leaf_count(shape: Shape) -> int:
    """How many arrays a value of the shape has."""
    return len(leaf_shapes(shape))


def owner(instruction: Instruction, leaf: int = 0) -> Source:
    """The instruction, and its leaf, that makes the memory in which leaf `leaf` of `instruction` lies."""
    while True:
        opcode = instruction.opcode
        if opcode == "tuple":
            for operand in instruction._operands:
                count = leaf_count(operand.shape)
                if leaf < count:
                    instruction = operand
                    break
                leaf -= count
        elif opcode == "get-tuple-element":
            operand = instruction._operands[0]
            leaf += sum(leaf_count(e) for e in operand.shape.elements[: instruction["index"]])
            instruction = operand
        elif opcode in FORWARDING:
            instruction = instruction._operands[0]
        else:
            return instruction, leaf
