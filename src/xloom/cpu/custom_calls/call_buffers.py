"""The memory that code outside the program sees: its operands and results, laid out as its shapes say."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from llvmlite import ir

from xloom.calls.buffers import ALIGNMENT
from xloom.codegen.buffer_values import aliased_leaves, defining_value, leaf_shapes
from xloom.codegen.buffers.allocation import BufferAllocation
from xloom.codegen.buffers.stack_budget import SMALL
from xloom.codegen.elemental.loop_nests import nest_for
from xloom.codegen.schedule.thunks import ScheduledComputation
from xloom.cpu.buffer_verifier.events import Access, ChangeLayout, RunThunk
from xloom.errors import LoweringError
from xloom.hlo.instruction import Instruction
from xloom.hlo.poisoned_results import POISON, is_poisoned
from xloom.hlo.shape import Shape
from xloom.llvm.types import I64

if TYPE_CHECKING:
    from xloom.cpu.entry.function import EntryBuilder

_APART = "this is the compiler's to avoid: report it with the program"


@dataclass
class CallMemory:
    """An allocation for each leaf of each operand, and for each leaf of the result."""

    operands: list[list[BufferAllocation]]
    outputs: list[BufferAllocation]


@contextmanager
def call_memory(
    entry: EntryBuilder,
    schedule: ScheduledComputation,
    instruction: Instruction,
    shapes: Sequence[Shape],
    *,
    for_python: bool,
    aligned: bool = True,
) -> Iterator[CallMemory]:
    """The memory for a call, which is emitted in the `with`. `shapes` are those of the operands, with their layouts.

    An output that is to be an operand starts as a copy of it, and is the memory of both. Nothing is a part of an array
    that is gathered. For Python, nothing is on the stack or moved by a loop, and the other outputs start as zeros.
    Unless `aligned`, results may lie anywhere.
    """
    operand_memory = [
        [entry.assignment.of((operand, k)) for k in range(len(leaf_shapes(shape)))]
        for operand, shape in zip(instruction._operands, shapes, strict=False)
    ]
    results = leaf_shapes(instruction.shape)
    targets = [entry.assignment.allocations[instruction, k] for k in range(len(results))]

    def seen(allocation: BufferAllocation, shape: Shape, *, as_it_lies: bool) -> BufferAllocation:
        is_unseen = for_python and (allocation.kind in ("stack", "code") or entry.is_moving(allocation))
        direct = (as_it_lies or _is_row_major(shape)) and not is_unseen and allocation.kind != "part"
        if direct and aligned and allocation.kind == "result":
            entry.program.aligned_results.add(allocation.number)
        return allocation if direct else entry.scratch(shape.nbytes)

    aliases = aliased_leaves(instruction) if instruction.opcode == "custom-call" else {}

    def lies_in_place(leaf: int) -> bool:
        """True for an output that may have any layout in its own memory: transposed there afterwards, or never read.

        One that starts as an operand in the same memory must be transposed there before the call, too.
        """
        squares, unread = _has_transposed_squares(results[leaf]), (instruction, leaf) not in schedule.last
        number, part = aliases.get(leaf, (None, 0))
        if number is not None and operand_memory[number][part] is targets[leaf]:
            unread &= squares
        return not for_python and (unread or (squares and results[leaf].nbytes > SMALL))

    shared: dict[tuple[int, int], BufferAllocation] = {}
    outputs = [
        seen(target, shape, as_it_lies=lies_in_place(k))
        for k, (target, shape) in enumerate(zip(targets, results, strict=True))
    ]
    for k, (allocation, shape) in enumerate(zip(outputs, results, strict=True)):
        if k in aliases:
            operand, leaf = aliases[k]
            shared[operand, leaf] = allocation
            _lay_out(entry, allocation, operand_memory[operand][leaf], shape)
        elif for_python:
            entry.clear(allocation)
        elif is_poisoned(instruction):
            entry.clear(allocation, POISON)
    operands: list[list[BufferAllocation]] = []
    for number, shape in enumerate(shapes):
        operands.append([])
        for k, (source, leaf_shape) in enumerate(zip(operand_memory[number], leaf_shapes(shape), strict=True)):
            allocation = shared.get((number, k))
            if allocation is None:
                allocation = seen(source, leaf_shape, as_it_lies=False)
                _lay_out(entry, allocation, source, leaf_shape)
            operands[-1].append(allocation)
    yield CallMemory(operands, outputs)
    leaves = [(number, k) for number, allocations in enumerate(operands) for k in range(len(allocations))]
    entry.events.append(
        RunThunk(
            instruction,
            [
                Access(
                    defining_value(instruction._operands[number], k),
                    operands[number][k],
                    leaf_shapes(shapes[number])[k],
                )
                for number, k in leaves
            ],
            [Access((instruction, k), *array) for k, array in enumerate(zip(outputs, results, strict=True))],
            in_place={k: leaves.index(operand) for k, operand in aliases.items()},
        )
    )
    for k, (target, allocation, shape) in enumerate(zip(targets, outputs, results, strict=True)):
        if (instruction, k) in schedule.last:
            _read_back(entry, target, allocation, shape)


def aligned_pointer(entry: EntryBuilder, allocation: BufferAllocation) -> ir.Value:
    """The address of an array; of a copy, where it is an argument and the caller's array is not aligned."""
    if allocation.kind != "argument" or not allocation.nbytes:
        return entry.pointer(allocation)
    b, own, other = entry.b, entry.pointer(allocation), entry.scratch(allocation.nbytes)
    skewed = b.icmp_unsigned("!=", b.and_(b.ptrtoint(own, I64), I64(ALIGNMENT - 1)), I64(0))
    with b.if_then(skewed):
        entry.copy(other, allocation)
    return b.select(skewed, entry.pointer(other), own)


def _is_row_major(shape: Shape) -> bool:
    order = [d for d in shape.major_to_minor if shape.dims[d] != 1]
    return order == sorted(order) or shape.size == 0


def _has_transposed_squares(shape: Shape) -> bool:
    """True for matrices that lie column by column, with as many columns as rows."""
    order = list(range(shape.rank))
    order[-2:] = order[:-3:-1]
    return shape.rank > 1 and shape.dims[-1] == shape.dims[-2] and list(shape.major_to_minor) == order


def _lay_out(entry: EntryBuilder, target: BufferAllocation, source: BufferAllocation, shape: Shape) -> None:
    """Copies a row-major array to one that lies as `shape` says."""
    if _is_row_major(shape):
        entry.copy(target, source)
    elif target is source:
        _transpose_in_place(entry, target, shape)
    else:
        _transpose(entry, target, source, shape)


def _read_back(entry: EntryBuilder, target: BufferAllocation, source: BufferAllocation, shape: Shape) -> None:
    """Copies an array that lies as `shape` says to a row-major one."""
    if _is_row_major(shape):
        entry.copy(target, source)
    elif target is source:
        _transpose_in_place(entry, target, shape, back=True)
    else:
        _transpose(entry, target, source, shape, back=True)


def _transpose_in_place(entry: EntryBuilder, allocation: BufferAllocation, shape: Shape, *, back: bool = False) -> None:
    """Changes the layout of squares where they lie, from rows to columns or `back`: elements change places in pairs."""
    if not _has_transposed_squares(shape):
        raise LoweringError(f"{shape} cannot change its layout in its own memory", hint=_APART)
    entry.transpose_in_place(allocation, shape)
    entry.events.append(ChangeLayout(allocation, allocation, shape, back, []))


def _transpose(
    entry: EntryBuilder, target: BufferAllocation, source: BufferAllocation, shape: Shape, *, back: bool = False
) -> None:
    """Copies an array from rows to the layout of `shape`, or `back`, to other memory than its own."""
    if target is source:
        raise LoweringError(f"a change of layout of {shape} in the memory that it reads", hint=_APART)
    dims, order = shape.dims, shape.major_to_minor
    if back:
        dims, order = tuple(dims[d] for d in order), tuple(order.index(d) for d in range(shape.rank))
    operand = Instruction("operand", "parameter", Shape(shape.dtype, dims))
    made = Shape(shape.dtype, tuple(dims[d] for d in order))
    moved = Instruction("moved", "transpose", made, [operand], {"dimensions": tuple(order)})
    with entry.recorded() as thunks:
        entry.emit_nest(nest_for([[moved]], ()), allocations={(operand, 0): source, (moved, 0): target})
    entry.events.append(ChangeLayout(target, source, shape, back, thunks, ((operand, 0), (moved, 0))))
