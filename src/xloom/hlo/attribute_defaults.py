"""Attributes that go without saying: those that follow from the operands, and those that say the default."""

from __future__ import annotations

from typing import Any

from xloom.hlo.instruction import Instruction
from xloom.hlo.opcodes import OPCODES
from xloom.hlo.shape import Shape


def default_comparison(shape: Shape) -> str:
    """The comparison type that goes without saying for operands of this shape."""
    if shape.dtype.is_float or shape.dtype.is_complex:
        return "FLOAT"
    return "SIGNED" if shape.dtype.name.startswith("s") else "UNSIGNED"


def normalize(opcode: str, operands: list[Instruction], attrs: dict[str, Any]) -> None:
    """Drops attributes that say the default, and fills in those that follow from the operands."""
    if opcode == "compare" and operands and attrs.get("type") == default_comparison(operands[0].shape):
        del attrs["type"]
    elif opcode == "map" and operands:
        attrs["dimensions"] = tuple(range(operands[0].shape.rank))
    elif opcode == "outfeed" and operands:
        attrs.setdefault("outfeed_shape", operands[0].shape)
    if "operand_precision" in attrs and all(p == "default" for p in attrs["operand_precision"]):
        del attrs["operand_precision"]
    for name, use in OPCODES[opcode].attributes.items():
        if name in attrs and not use.always and attrs[name] == use.info.default:
            del attrs[name]
