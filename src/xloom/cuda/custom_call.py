"""Custom calls: their operands and results as they want them to lie, and the step that makes the call."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from xloom.calls import registry
from xloom.calls.buffers import operand_shapes
from xloom.codegen.buffer_values import aliased_leaves, leaf_shapes
from xloom.codegen.buffers.allocation import BufferAllocation
from xloom.codegen.buffers.assignment import BufferAssignment
from xloom.codegen.buffers.parallel_copies import Copies
from xloom.cuda.names import CALL_PLATFORM
from xloom.cuda.program import Call
from xloom.hlo.instruction import Instruction
from xloom.hlo.shape import Shape
from xloom.interpreter.custom_call import NO_CODE

Move = Callable[[Instruction, Instruction, BufferAllocation, BufferAllocation], None]
"""For a call, makes an instruction's one operand into it: target, source."""


def lowered_call(
    instruction: Instruction,
    assignment: BufferAssignment,
    scratch: Callable[[int], BufferAllocation],
    copy: Callable[[Copies], None],
    move: Move,
) -> Iterator[Call]:
    """The step of a call; before it and after it `copy` and `move` are asked for steps of their own.

    Raises CustomCallError when nothing is registered that fits.
    """
    if (target := instruction["custom_call_target"]) in NO_CODE and not registry.is_registered(target, CALL_PLATFORM):
        return
    registration = registry.target_of(instruction, CALL_PLATFORM)
    results = leaf_shapes(instruction.shape)
    targets = [assignment.allocations[instruction, k] for k in range(len(results))]
    sources = [
        [assignment.of((operand, k)) for k in range(len(leaf_shapes(operand.shape)))]
        for operand in instruction.operands
    ]
    aliases = aliased_leaves(instruction)
    outputs = [
        target if target.kind != "unused" and _is_row_major(shape) else scratch(shape.nbytes)
        for target, shape in zip(targets, results, strict=True)
    ]
    shared: dict[tuple[int, int], BufferAllocation] = {}
    for leaf, (number, part) in aliases.items():  # an output that starts as an operand is the memory of both
        shared[number, part] = outputs[leaf]
        _lay_out(instruction, outputs[leaf], sources[number][part], results[leaf], copy, move)
    operands: list[BufferAllocation | None] = []
    for number, shape in enumerate(operand_shapes(instruction)):
        leaves = iter(enumerate(zip(sources[number], leaf_shapes(shape), strict=True)))
        for is_array in _arrays_and_tokens(shape):
            if not is_array:
                operands.append(None)
                continue
            part, (source, leaf_shape) = next(leaves)
            given = shared.get((number, part))
            if given is None:
                given = source if _is_row_major(leaf_shape) else scratch(leaf_shape.nbytes)
                _lay_out(instruction, given, source, leaf_shape, copy, move)
            operands.append(given)
    found = iter(outputs)
    yield Call(
        instruction,
        registration,
        tuple(operands),
        tuple(next(found) if is_array else None for is_array in _arrays_and_tokens(instruction.shape)),
    )
    for target, output, shape in zip(targets, outputs, results, strict=True):
        if target.kind != "unused" and output is not target:
            move(instruction, _transposed(shape, back=True), target, output)


def _lay_out(
    call: Instruction,
    target: BufferAllocation,
    source: BufferAllocation,
    shape: Shape,
    copy: Callable[[Copies], None],
    move: Move,
) -> None:
    """Copies a row-major array to one that lies as `shape` says."""
    if _is_row_major(shape):
        copy([(target, source)])
    else:
        move(call, _transposed(shape), target, source)


def _transposed(shape: Shape, *, back: bool = False) -> Instruction:
    """A row-major array of `shape` in the order that its layout has, or one in that order `back` again."""
    dims, order = shape.dims, shape.major_to_minor
    if back:
        dims, order = tuple(dims[d] for d in order), tuple(order.index(d) for d in range(shape.rank))
    operand = Instruction("operand", "parameter", Shape(shape.dtype, dims))
    made = Shape(shape.dtype, tuple(dims[d] for d in order))
    return Instruction("moved", "transpose", made, [operand], {"dimensions": tuple(order)})


def _is_row_major(shape: Shape) -> bool:
    order = [d for d in shape.major_to_minor if shape.dims[d] != 1]
    return order == sorted(order) or shape.size == 0


def _arrays_and_tokens(shape: Shape) -> Iterator[bool]:
    """Whether it is an array, for each leaf that is one or a token."""
    if shape.is_tuple:
        for element in shape.elements:
            yield from _arrays_and_tokens(element)
    else:
        yield shape.is_array
