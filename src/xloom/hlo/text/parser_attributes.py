"""The attributes after an instruction's operands: `, dimensions={0}, to_apply=%add, metadata={...}`."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from xloom.errors import ParseError, XloomError, near
from xloom.hlo.computation import Computation
from xloom.hlo.opcodes import OPCODES
from xloom.hlo.text.attributes import PARSERS
from xloom.hlo.text.lexer import ATTRIBUTE
from xloom.hlo.text.parser_annotations import ANNOTATIONS, parse_annotation
from xloom.hlo.text.parser_scope import Scope

_ATTRIBUTE = re.compile(r"\s*,\s*([A-Za-z_][A-Za-z0-9_.\-]*)=")
# in a short form such as `dot-start`, these belong to the async-start, all others to the dot
_ASYNC_START = ("async_execution_thread", "output_to_operand_aliasing")


class AttributeParser:
    """Reads the attributes of a scope's instructions.

    `inline_computation` reads a computation that stands in braces where an instruction of that scope names one.
    """

    def __init__(self, scope: Scope, inline_computation: Callable[[Scope], Computation]):
        self.cursor = scope.cursor
        self.scope = scope
        self.inline_computation = inline_computation

    def parse(self, opcode: str, attrs: dict[str, Any], start_attrs: dict[str, Any] | None = None) -> dict[str, Any]:
        """Puts all attributes of an `opcode` into `attrs`, and returns the annotations among them.

        In the short form of an async-start, its own attributes go to `start_attrs`.
        """
        cursor, uses = self.cursor, OPCODES[opcode].attributes
        annotations: dict[str, Any] = {}
        seen: set[str] = set()
        text, match = cursor.text, _ATTRIBUTE.match
        while True:
            found = match(text, cursor.pos)
            if found is None:
                if not cursor.eat(","):
                    return annotations
                found = cursor.require(ATTRIBUTE, "an attribute name and '='")
            cursor.pos = found.end()
            name, start = found[1], found.start(1)
            if name in seen:
                cursor.error(f"attribute {name!r} stands twice", start)
            seen.add(name)
            use = uses.get(name)
            if start_attrs is not None and name in _ASYNC_START:
                start_attrs[name] = self._value(OPCODES["async-start"].attributes[name].info.kind, start)
            elif use is not None and use.info.kind not in ("number", "value"):
                attrs[name] = self._value(use.info.kind, start)
            elif name in ANNOTATIONS:
                annotations[name] = parse_annotation(name, self.scope)
            elif opcode == "custom-call" and name == "to_apply":
                if "called_computations" in attrs:
                    cursor.error("a custom call has either to_apply or called_computations", start)
                attrs["called_computations"] = (self._computation(),)
            elif opcode in ("async-update", "async-done") and name in ("calls", "async_execution_thread"):
                _ = self._computation() if name == "calls" else cursor.string()
            else:
                known = [n for n, u in uses.items() if u.info.kind not in ("number", "value")]
                hint = near(name, [*known, *ANNOTATIONS]) or f"it has: {', '.join([*known, *ANNOTATIONS])}"
                cursor.error(f"{opcode} has no attribute {name!r}", start, hint=hint)

    def _value(self, kind: str, start: int) -> Any:
        cursor = self.cursor
        if kind == "computation":
            return self._computation()
        if kind == "computations":
            if cursor.peek("{"):
                return tuple(cursor.items("{", "}", self._computation, "computations"))
            return (self._computation(),)
        try:
            return PARSERS[kind](cursor)
        except ParseError:
            raise
        except XloomError as error:
            cursor.error(error.message, start)

    def _computation(self) -> Computation:
        """A computation's name, or the computation itself in braces."""
        cursor = self.cursor
        cursor.skip()
        start = cursor.pos
        if cursor.peek("{"):
            return self.inline_computation(self.scope)
        return self.scope.module.computation(cursor.name("a computation's name"), start)
