"""Operands that are indices: what they may be, and which integer arithmetic they come from."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from xloom.hlo.computation import Computation
from xloom.hlo.instruction import Instruction

_ARITHMETIC = frozenset(("add", "subtract", "multiply"))
_PASSED = frozenset(
    ("convert", "copy", "reshape", "transpose", "reverse", "broadcast", "concatenate", "slice", "pad", "select")
    + ("clamp", "maximum", "minimum", "negate", "divide", "remainder", "gather", "dynamic-slice")
)
"""What gives integers of its operands, whose overflow would show in them."""


class Indices(NamedTuple):
    """An operand whose elements are to be at least 0 and at most a limit."""

    number: int
    """Of the operand."""
    axis: int | None
    """The dimension along which limits differ, if it has one; else there is one limit."""
    limits: tuple[int, ...]


def index_operands(instruction: Instruction) -> list[Indices]:
    """The indices of an instruction, with the limits to which they are clamped, or beyond which updates are skipped."""
    opcode, operands = instruction.opcode, instruction.operands
    if opcode == "gather":
        dims, sizes = operands[0].shape.dims, instruction["slice_sizes"]
        return [_vectors(instruction, 1, [dims[d] - sizes[d] for d in instruction["start_index_map"]])]
    if opcode == "scatter":
        count = len(operands) // 2
        updates, window = operands[count + 1].shape.dims, instruction["update_window_dims"]
        left_out = {*instruction["inserted_window_dims"], *instruction["input_batching_dims"]}
        sizes = iter([updates[d] for d in window])
        limits = [n - (1 if d in left_out else next(sizes)) for d, n in enumerate(operands[0].shape.dims)]
        return [_vectors(instruction, count, [limits[d] for d in instruction["scatter_dims_to_operand_dims"]])]
    if opcode not in ("dynamic-slice", "dynamic-update-slice"):
        return []
    sizes = instruction["dynamic_slice_sizes"] if opcode == "dynamic-slice" else operands[1].shape.dims
    limits = [n - size for n, size in zip(operands[0].shape.dims, sizes, strict=True)]
    first = 1 if opcode == "dynamic-slice" else 2
    if len(operands) == first + 1 and operands[first].shape.rank == 1:
        return [Indices(first, 0, tuple(limits))]
    return [Indices(first + k, None, (limit,)) for k, limit in enumerate(limits)]


def _vectors(instruction: Instruction, number: int, limits: list[int]) -> Indices:
    axis = instruction["index_vector_dim"]
    rank = instruction.operands[number].shape.rank
    return Indices(number, axis if axis < rank else None, tuple(limits))


def index_arithmetic(computation: Computation) -> set[Instruction]:
    """The additions, subtractions and products of s32 and s64 that indices in a computation are made of."""
    found: set[Instruction] = set()
    seen: set[Instruction] = set()
    waiting = [i.operands[use.number] for i in computation for use in index_operands(i)]
    while waiting:
        instruction = waiting.pop()
        if instruction in seen or not instruction.shape.is_array or not instruction.shape.dtype.is_integer:
            continue
        seen.add(instruction)
        if instruction.opcode in _ARITHMETIC:
            if instruction.shape.dtype.name in ("s32", "s64"):
                found.add(instruction)
            waiting += instruction.operands
        elif instruction.opcode in _PASSED:
            waiting += _values(instruction)
    return found


def _values(instruction: Instruction) -> Iterable[Instruction]:
    if instruction.opcode in ("gather", "dynamic-slice"):
        return instruction.operands[:1]
    return instruction.operands[1:] if instruction.opcode == "select" else instruction.operands
