"""What a builder's methods are given as operands, result shape and root, checked, with a hint that fits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from xloom.errors import ShapeError
from xloom.hlo.computation import Computation
from xloom.hlo.dtype import DType
from xloom.hlo.instruction import Instruction
from xloom.hlo.opcodes import OPCODES
from xloom.hlo.shape import Shape, tuple_shape


def operands_of(opcode: str, given: Sequence[Any]) -> list[Instruction]:
    """The instructions, one after another or in a list. Raises ShapeError for what is none."""
    found: list[Instruction] = []
    for value in given:
        for each in value if is_operand(value) and not isinstance(value, Instruction) else [value]:
            if not isinstance(each, Instruction):
                raise ShapeError(f"{opcode} takes instructions, found {_text(each)}", hint=_operand_hint(opcode, each))
            found.append(each)
    return found


def shape_of(what: str, value: Any) -> Shape:
    """A shape, a tuple's if several are given. Raises ShapeError for what is none."""
    if isinstance(value, Shape):
        return value
    if isinstance(value, tuple | list) and value and all(is_shape(v) for v in value):
        return tuple_shape([shape_of(what, v) for v in value])
    raise ShapeError(f"{what} has a shape, found {_text(value)}", hint=_shape_hint(value))


def is_shape(value: Any) -> bool:
    """True for shapes and, in a list, those of a tuple."""
    return isinstance(value, Shape) or (isinstance(value, tuple | list) and bool(value) and all(map(is_shape, value)))


def is_operand(value: Any) -> bool:
    """True for an instruction, and for a list that has one or nothing."""
    if isinstance(value, tuple | list):
        return not value or any(isinstance(v, Instruction) for v in value)
    return isinstance(value, Instruction)


def _text(value: Any) -> str:
    return f"a {type(value).__name__}" if type(value).__module__.startswith("xloom.hlo.b") else repr(value)


def _operand_hint(opcode: str, value: Any) -> str:
    if isinstance(value, Shape | DType):
        return "a result's shape is shape=, a parameter is b.parameter(shape)"
    if isinstance(value, str):
        return "an instruction is what a method of the builder returns, not its name"
    if isinstance(value, Computation) or hasattr(value, "finish"):
        return "a computation is an attribute: to_apply=, body=, ...; a computation builder's finish() gives one"
    needed = [
        name
        for name, use in OPCODES[opcode].attributes.items()
        if use.required and use.info.kind.partition(":")[0] not in ("computation", "str")
    ]
    if needed and _is_integer(value):
        return f"attributes have names: {needed[0]}={value!r}"
    if value is None or callable(value):
        return "an instruction is what a method of the builder returns"
    return "constants: b.constant(...)"


def _is_integer(value: Any) -> bool:
    if isinstance(value, tuple | list):
        return all(map(_is_integer, value))
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


def _shape_hint(value: Any) -> str:
    if isinstance(value, DType):
        return f"a scalar's is xl.{value}[()], an array's xl.{value}[2, 3]"
    if isinstance(value, Instruction):
        return "the shape of an instruction is its .shape"
    if isinstance(value, np.ndarray | np.generic):
        return f"the shape of this array is xl.{_dtype_name(value)}[{', '.join(map(str, value.shape)) or '()'}]"
    return "xl.f32[2, 3] is an array's, xl.tuple_shape(xl.f32[2], xl.s32[3]) a tuple's"


def _dtype_name(array: np.ndarray | np.generic) -> str:
    from xloom.hlo.dtype import from_numpy

    try:
        return from_numpy(array.dtype).name
    except (KeyError, TypeError, ValueError):
        return "f32"
