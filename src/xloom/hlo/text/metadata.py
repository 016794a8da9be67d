"""Instruction metadata out of and into HLO text."""

from __future__ import annotations

from typing import Any

from xloom.errors import near
from xloom.hlo.attributes import Metadata
from xloom.hlo.text.lexer import ATTRIBUTE, Cursor, escape

_METADATA: dict[str, type | str] = {
    "op_type": str,
    "op_name": str,
    "source_file": str,
    "source_line": int,
    "source_end_line": int,
    "source_column": int,
    "source_end_column": int,
    "profile_type": "ints",
    "deduplicated_name": str,
    "scheduling_name": str,
    "stack_frame_id": int,
    "metadata_payload": str,
}


_MAX_DEPTH = 100


def parse_metadata(cursor: Cursor, depth: int = 0) -> Metadata:
    """`{op_name="..." source_line=3}`, or a braced list of those, of which the first is kept."""
    if depth > _MAX_DEPTH:
        cursor.error("metadata nested too deeply")
    cursor.expect("{", "at the start of metadata")
    if cursor.peek("{"):
        first = parse_metadata(cursor, depth + 1)
        while cursor.eat(","):
            parse_metadata(cursor, depth + 1)
        cursor.expect("}", "at the end of a list of metadata")
        return first
    fields: dict[str, Any] = {}
    while not cursor.eat("}"):
        cursor.eat(",")
        at = cursor.pos
        name = cursor.require(ATTRIBUTE, "a metadata field such as op_name=")[1]
        kind = _METADATA.get(name)
        if kind is None or name in fields:
            said = "stands twice" if kind else "is not a metadata field"
            cursor.error(f"{name!r} {said}", at, hint=near(name, _METADATA))
        if kind is str:
            fields[name] = cursor.string()
        elif kind is int:
            fields[name] = cursor.integer()
            if not -(2**31) <= fields[name] < 2**31:
                cursor.error(f"{name}={fields[name]} does not fit 32 bits", at)
        else:
            fields[name] = cursor.ints()
    payload = fields.pop("metadata_payload", None)
    if payload is not None:
        fields["payload"] = payload.encode("utf-8", "surrogateescape")
    return Metadata(**fields)


def print_metadata(value: Metadata) -> str:
    """The fields that are set, without braces; an empty string when none is."""
    out = []
    for name, kind in _METADATA.items():
        if name == "metadata_payload":
            if value.payload:
                out.append(f'metadata_payload="{escape(value.payload.decode("utf-8", "surrogateescape"))}"')
            continue
        field = getattr(value, name)
        if not field:
            continue
        if kind is str:
            out.append(f'{name}="{escape(field)}"')
        else:
            shown = field if kind is int else f"{{{','.join(map(str, field))}}}"
            out.append(f"{name}={shown}")
    return " ".join(out)
