"""Checks of memory that values share: output_to_operand_aliasing, and mutable buffers, each of which has one writer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from xloom.errors import ShapeError, VerifyError
from xloom.hlo.computation import Computation
from xloom.hlo.instruction import Instruction
from xloom.hlo.shape import Shape

_ALIASING = frozenset({"custom-call", "fusion", "async-start"})
_WRITERS = _ALIASING | {"while", "conditional", "call"}
_BEGIN_OR_END = frozenset({"Pin", "Unpin"})
"""Custom calls between an array and a buffer that holds it."""

Value = tuple[Instruction, tuple[int, ...]]


def check_aliases(i: Instruction) -> None:
    """Raises ShapeError unless each pair of an instruction's aliases is there, and is of one shape."""
    pairs = i.attrs.get("output_to_operand_aliasing", ())
    if pairs and i.opcode not in _ALIASING:
        raise ShapeError(
            "may not have output_to_operand_aliasing", hint="leave it out: custom calls and fusions alone have it"
        )
    for alias in pairs:
        if not 0 <= alias.operand < len(i._operands):
            raise ShapeError(
                f"output_to_operand_aliasing names operand {alias.operand} of {len(i._operands)}",
                hint="operands are numbered from 0",
            )
        if i.opcode == "async-start" and not alias.output_index:
            continue  # the whole state, of which XLA's own tests have some
        output = _content(i.shape.at(alias.output_index))
        operand = _content(i._operands[alias.operand].shape.at(alias.operand_index))
        if not output.compatible(operand):
            raise ShapeError(
                f"output_to_operand_aliasing of {output} and {operand}, which differ",
                hint="what shares memory has one shape",
            )
    if i.opcode == "custom-call":
        if i["custom_call_target"] in _BEGIN_OR_END and len(pairs) != 1:
            raise ShapeError(
                f"{i['custom_call_target']} must have one output-to-operand aliasing",
                hint="write output_to_operand_aliasing={{}: (0, {})}",
            )
        _check_buffers(i)


def _content(shape: Shape) -> Shape:
    return shape.elements[0] if shape.dtype.name == "buffer" else shape


def _buffers(shape: Shape) -> list[tuple[int, ...]]:
    if shape.dtype.name == "buffer":
        return [()]
    return [(k, *rest) for k, e in enumerate(shape.elements) for rest in _buffers(e)]


def _check_buffers(i: Instruction) -> None:
    """A buffer that goes in comes out, and the other way round."""
    aliases = i["output_to_operand_aliasing"]
    outputs = {a.output_index for a in aliases}
    operands = Counter((a.operand, a.operand_index) for a in aliases)
    for index in _buffers(i.shape):
        if index not in outputs and i["custom_call_target"] != "CreateBuffer":
            raise ShapeError(
                "a buffer is in the results but not in the operands", hint="a call gives back the buffers that it takes"
            )
    for number, operand in enumerate(i._operands):
        for index in _buffers(operand.shape):
            if operands[number, index] != 1:
                times = "several times" if operands[number, index] else "not"
                raise ShapeError(
                    f"a buffer is in the operands, and {times} in the results",
                    hint="a call gives back the buffers that it takes",
                )


def buffer_problems(computation: Computation, where: str) -> Iterator[VerifyError]:
    """Errors of buffers that two instructions write to, or that a program takes or returns."""
    if computation.is_entry and any(_buffers(i.shape) for i in (*computation.parameters, computation.root)):
        yield VerifyError("buffers cannot be parameters or results of the program", where=where)
    writers: Counter[Value] = Counter()
    for i in computation:
        if i.opcode in _WRITERS:
            writers.update(_source(o, index) for o in i._operands for index in _buffers(o.shape))
    for (instruction, _), count in writers.items():
        if count > 1:
            yield VerifyError(f"the buffer {instruction.name} has {count} writers", where=where)


def _source(instruction: Instruction, index: tuple[int, ...]) -> Value:
    """Where a part of a value comes from, through tuples."""
    while True:
        if instruction.opcode == "tuple" and index:
            instruction, index = instruction._operands[index[0]], index[1:]
        elif instruction.opcode == "get-tuple-element":
            instruction, index = instruction._operands[0], (instruction["index"], *index)
        else:
            return instruction, index
