"""What a builder's caller may give as an attribute, made the value that the attribute's kind asks for."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from xloom.errors import ShapeError, near
from xloom.hlo.attributes import Alias
from xloom.hlo.computation import Computation
from xloom.hlo.opcodes import ENUMS, AttributeInfo


def _number(value: Any) -> int:
    return operator.index(value)  # NumPy's integers too, floats not


def _ints(value: Any) -> tuple[int, ...]:
    return tuple(_number(v) for v in value)


def _computation(value: Any) -> Computation:
    if not isinstance(value, Computation):
        raise TypeError("a computation builder's finish() gives one")
    return value


def _aliases(value: Any) -> tuple[Alias, ...]:
    return tuple(Alias(_ints(output), _number(operand), _ints(part)) for output, operand, part in value)


_KINDS: dict[str, tuple[Callable[[Any], Any], str]] = {
    "int": (_number, "an integer"),
    "number": (_number, "an integer"),
    "float": (float, "a number"),
    "bool": (lambda v: bool(_number(v)), "True or False"),
    "ints": (_ints, "a tuple of integers"),
    "bools": (lambda v: tuple(bool(_number(x)) for x in v), "a tuple of truth values"),
    "int_lists": (lambda v: tuple(_ints(x) for x in v), "a tuple of tuples of integers"),
    "pairs": (lambda v: tuple((_number(a), _number(b)) for a, b in v), "a tuple of pairs of integers"),
    "computation": (_computation, "a Computation"),
    "computations": (lambda v: tuple(_computation(x) for x in v), "a tuple of Computations"),
    "aliasing": (_aliases, "a tuple of Alias(output_index, operand, operand_index)"),
}
"""Conversion and words of each kind that Python spells in more than one way; other kinds have classes of their own."""


def attribute_value(opcode: str, info: AttributeInfo, value: Any) -> Any:
    """`value` as an instruction stores it. Raises ShapeError when the attribute cannot have it."""
    kind, _, enum = info.kind.partition(":")
    if kind == "enum":
        return _spelling(opcode, info, enum, value)
    if kind == "enums":
        return tuple(_spelling(opcode, info, enum, v) for v in value)
    if info.kind not in _KINDS:
        return value
    convert, words = _KINDS[info.kind]
    try:
        return convert(value)
    except (TypeError, ValueError) as error:
        raise ShapeError(f"{opcode}: {info.name} is {words}, found {value!r}", hint=str(error)) from None


def _spelling(opcode: str, info: AttributeInfo, enum: str, value: Any) -> str:
    if value in ENUMS[enum]:
        return value
    hint = (
        near(str(value).upper().replace("-", "_"), ENUMS[enum], 1)
        or near(str(value), ENUMS[enum])
        or f"one of: {', '.join(ENUMS[enum])}"
    )
    raise ShapeError(f"{opcode}: {info.name} cannot be {value!r}", hint=hint)
