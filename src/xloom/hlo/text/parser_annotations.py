"""What any instruction may carry beside its opcode's attributes: metadata, sharding, origin and the like."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from xloom.hlo.async_chain import async_computation
from xloom.hlo.attributes import OriginalValue
from xloom.hlo.instruction import Instruction
from xloom.hlo.text.annotations import parse_frontend_attributes, parse_original_value, parse_statistics
from xloom.hlo.text.lexer import Cursor
from xloom.hlo.text.metadata import parse_metadata
from xloom.hlo.text.parser_async import ASYNC_OPCODES
from xloom.hlo.text.parser_scope import Scope
from xloom.hlo.text.shardings import parse_sharding

_PARSERS: dict[str, Callable[[Cursor], Any]] = {
    "sharding": parse_sharding,
    "frontend_attributes": parse_frontend_attributes,
    "statistics": parse_statistics,
    "origin": parse_original_value,
    "metadata": parse_metadata,
    "backend_config": lambda c: c.string_or_json(),
}
ANNOTATIONS = (
    "sharding",
    "frontend_attributes",
    "statistics",
    "control-predecessors",
    "origin",
    "metadata",
    "backend_config",
)


def parse_annotation(name: str, scope: Scope) -> Any:
    """The value of the annotation `name`, after its `=`."""
    cursor = scope.cursor
    if name == "control-predecessors":
        return cursor.items("{", "}", lambda: _reference(scope), "control predecessors")
    return _PARSERS[name](cursor)


def _reference(scope: Scope) -> Instruction:
    cursor = scope.cursor
    cursor.skip()
    start = cursor.pos
    return scope.instruction(cursor.name("an instruction's name"), start)


def annotate(instruction: Instruction, annotations: dict[str, Any]) -> None:
    """Gives `instruction` what its text says about it; an asynchronous one shares most of it with what it wraps."""
    _describe(instruction, annotations)
    if "sharding" in annotations:
        instruction.sharding = annotations["sharding"].normalized(instruction.shape)
    for before in annotations.get("control-predecessors", ()):
        instruction.add_control_predecessor(before)
    body = async_computation(instruction) if instruction.opcode in ASYNC_OPCODES else None
    if body is not None:
        _describe(body.root, annotations)


def _describe(instruction: Instruction, annotations: dict[str, Any]) -> None:
    for name in ("metadata", "backend_config", "frontend_attributes"):
        if name in annotations:
            setattr(instruction, name, annotations[name])
    for name in ("statistics", "origin"):
        if annotations.get(name) is not None:
            instruction.attrs[name] = annotations[name]


def take_origin(element: Instruction) -> None:
    """An element of a tuple instruction has that part of the tuple's origin, or its operand's."""
    source, index = element.operands[0], element["index"]
    origin = source.attrs.get("origin")
    if origin is not None and isinstance(origin.tree, tuple) and 0 <= index < len(origin.tree):
        element.attrs["origin"] = OriginalValue(origin.tree[index])
    elif origin is None and 0 <= index < len(source.operands) and "origin" in source.operands[index].attrs:
        element.attrs["origin"] = source.operands[index].attrs["origin"]
