"""Asynchronous operations in HLO text: their short forms such as `dot-start`, and the threads that they run on."""

from __future__ import annotations

from collections.abc import Iterable

from xloom.hlo.computation import Computation
from xloom.hlo.instruction import Instruction
from xloom.hlo.opcodes import OPCODES
from xloom.hlo.shape import Shape
from xloom.hlo.text.lexer import Cursor

_SUFFIXES = {"-start": "async-start", "-update": "async-update", "-done": "async-done"}
ASYNC_OPCODES = frozenset(_SUFFIXES.values())
# these have opcodes of their own for their starts and ends
_NATIVE = {"all-gather", "all-reduce", "collective-permute", "copy", "recv", "send"}


def short_form(word: str) -> tuple[str, str] | None:
    """`dot-start` is an async-start of a dot: both opcodes, or None where `word` is no such form."""
    for suffix, opcode in _SUFFIXES.items():
        wrapped = word.removesuffix(suffix)
        if wrapped != word and wrapped in OPCODES and wrapped not in _NATIVE:
            return opcode, wrapped
    return None


def check_async_shape(cursor: Cursor, opcode: str, shape: Shape | None, start: int) -> Shape:
    """The shape as written before the `opcode` at `start`, which must be there, and a tuple of the right kind."""
    if shape is None:
        cursor.error(f"{opcode} needs its shape written", start)
    if opcode != "async-done" and not (shape.is_tuple and len(shape.elements) >= 2 and shape.elements[0].is_tuple):
        cursor.error(f"the shape of {opcode} is ((operands...), result, state...), found {shape}", start)
    return shape


def wrapper(parameters: Iterable[Shape]) -> Computation:
    """A computation for an operation that is started in short form, with the operation's operands as parameters."""
    body = Computation("async_wrapped")
    for k, shape in enumerate(parameters):
        body.add(Instruction("async_param", "parameter", shape, (), {"parameter_number": k}))
    return body


def set_thread(start: Instruction) -> None:
    """Everything that an async-start on another thread calls runs on that thread."""
    thread = start["async_execution_thread"]
    todo = list(start.called_computations)
    done: set[Computation] = set()
    while todo:
        computation = todo.pop()
        if computation in done:
            continue
        done.add(computation)
        computation.execution_thread = thread
        for instruction in computation:
            if instruction.opcode == "async-start":
                instruction["async_execution_thread"] = thread
            todo.extend(instruction.called_computations)
