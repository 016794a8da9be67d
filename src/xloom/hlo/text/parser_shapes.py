"""The shape that an instruction gets: as its text says, or inferred, or as XLA knows better."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xloom.errors import ShapeError
from xloom.hlo.dtype import u32
from xloom.hlo.instruction import Instruction
from xloom.hlo.shape import Shape, token_shape, tuple_shape
from xloom.hlo.text.lexer import Cursor

_CHANNELS = ("outfeed", "send", "send-done", "recv", "recv-done")


def resolve_shape(
    cursor: Cursor,
    opcode: str,
    written: Shape | None,
    operands: Sequence[Instruction],
    attrs: dict[str, Any],
    opcode_at: int,
) -> Shape:
    """The shape of an `opcode` of these operands, whose text says `written`, if it says one."""
    shape = _infer(cursor, opcode, operands, attrs, opcode_at) if written is None else written
    if opcode == "constant":
        return attrs["literal"].shape
    if opcode in _CHANNELS:
        return _channel_shape(cursor, opcode, shape, operands, opcode_at)
    return shape


def _infer(
    cursor: Cursor, opcode: str, operands: Sequence[Instruction], attrs: dict[str, Any], opcode_at: int
) -> Shape:
    from xloom.infer import infer_shape

    try:
        return infer_shape(opcode, [o.shape for o in operands], attrs)
    except ShapeError as error:
        cursor.error(f"cannot infer the shape: {error.message}", opcode_at, hint=error.hint)


def _channel_shape(cursor: Cursor, opcode: str, shape: Shape, operands: Sequence[Instruction], opcode_at: int) -> Shape:
    """Like XLA, takes the shape of send and recv from what they move, whatever the text says."""
    if opcode == "outfeed":
        return token_shape
    if opcode == "send":
        return tuple_shape([operands[0].shape, u32[()], token_shape])
    if opcode == "send-done":
        return token_shape
    if opcode == "recv":
        if not shape.is_tuple or not shape.elements:
            cursor.error(f"the shape of recv is (data, u32[], token[]), found {shape}", opcode_at)
        return tuple_shape([shape.elements[0], u32[()], token_shape])
    state = operands[0].shape
    if not state.is_tuple or not state.elements:
        cursor.error("the operand of recv-done is a recv", opcode_at)
    return tuple_shape([state.elements[0], token_shape])
