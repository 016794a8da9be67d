"""HLO text into modules. Accepts what XLA's own parser accepts, and points at what it does not."""

from __future__ import annotations

import re

from xloom.errors import ShapeError
from xloom.hlo.computation import Computation
from xloom.hlo.garbage_collection import without_collector
from xloom.hlo.instruction import Instruction
from xloom.hlo.module import Module
from xloom.hlo.names import sanitize
from xloom.hlo.stack_frames import keep_used_frames
from xloom.hlo.text.lexer import ATTRIBUTE, Cursor
from xloom.hlo.text.parser_header import HeaderParser
from xloom.hlo.text.parser_instruction import InstructionParser
from xloom.hlo.text.parser_scope import ModuleScope, Scope
from xloom.hlo.text.shapes import parse_shape

# `%name = ` and `ROOT %name = `, as printed
_HEAD = re.compile(r"\s*(ROOT\s+)?%?([A-Za-z_][A-Za-z0-9_.\-]*):?\s+=\s*")


@without_collector()
def parse(text: str, file: str = "<hlo>") -> Module:
    """The module that `text` spells, with or without a `HloModule` header.

    Without a header the module is named after its entry computation. Raises ParseError with file, line and column.
    """
    module = _Parser(text, file).module()
    module.source_text = text
    return module


class _Parser:
    def __init__(self, text: str, file: str):
        self.cursor = Cursor(text, file)
        self.scope = ModuleScope(self.cursor)

    def module(self) -> Module:
        cursor = self.cursor
        tables = HeaderParser(cursor, parse)
        header = cursor.eat_word("HloModule")
        module = Module(cursor.name("the module's name") if header else "")
        if header:
            tables.attributes(module)
        tables.stack_frames(module)
        entry = None
        while not cursor.at_end():
            start = cursor.pos
            is_entry = cursor.eat_word("ENTRY")
            computation = self._computation()
            if is_entry and entry is not None:
                cursor.error("a module has one ENTRY computation only", start)
            entry = computation if is_entry else entry
        computations = self.scope.order
        if not computations:
            cursor.error(f"expected a computation, found {cursor.found()}")
        entry = entry or computations[-1]
        # XLA numbers repeated names in this order
        for computation in computations:
            module.add(computation, entry=computation is entry)
        if not header:
            module.name = f"module_{entry.name}"
        self._check_config(module)
        keep_used_frames(module)
        return module

    def _check_config(self, module: Module) -> None:
        config = module.config
        result = module.entry.root.shape
        parameters = module.entry.parameters
        start = self.cursor.text.find("input_output_alias")
        try:
            for alias in config.input_output_alias:
                result.at(alias.output_index)
                if not 0 <= alias.parameter < len(parameters):
                    raise ShapeError(
                        f"the entry has no parameter {alias.parameter}", hint="parameters are numbered from 0"
                    )
        except ShapeError as error:
            self.cursor.error(f"input_output_alias: {error.message}", max(start, 0), hint=error.hint)

    def _computation(self) -> Computation:
        cursor = self.cursor
        cursor.skip()
        start = cursor.pos
        name = cursor.name("a computation's name")
        shape_at = result = None
        if cursor.peek("("):
            self._parameter_list()
            cursor.skip()
            shape_at = cursor.pos
            result = parse_shape(cursor)
        computation = Computation(sanitize(name))
        self._body(Scope(self.scope, computation))
        if result is not None and not result.compatible(computation.root.shape):
            cursor.error(
                f"{name} is declared to return {result}, but its root {computation.root.name} "
                f"has shape {computation.root.shape}",
                shape_at,
            )
        if cursor.eat(","):
            if cursor.require(ATTRIBUTE, "execution_thread=")[1] != "execution_thread":
                cursor.error("a computation has no attribute but execution_thread")
            computation.execution_thread = cursor.string()
        self.scope.declare(computation, name, start)
        return computation

    def _parameter_list(self) -> None:
        cursor = self.cursor

        def parameter() -> None:
            cursor.name("a parameter's name")
            cursor.eat(":")
            parse_shape(cursor)

        cursor.items("(", ")", parameter, "the parameter list")
        cursor.expect("->", "after the parameter list")

    def _inline_computation(self, outer: Scope) -> Computation:
        """A computation in braces, within an instruction of `outer`, whose names it does not see."""
        computation = Computation("_")
        self._body(Scope(self.scope, computation, outer.depth))
        self.scope.order.append(computation)
        return computation

    def _body(self, scope: Scope) -> None:
        """The instructions between braces, which become those of the scope's computation."""
        cursor = self.cursor
        instructions = InstructionParser(scope, self._inline_computation)
        cursor.expect("{", "at the beginning of a computation")
        text, head = cursor.text, _HEAD.match
        root: Instruction | None = None
        while True:
            found = head(text, cursor.pos)
            if found:
                cursor.pos = found.end()
                is_root, name, start = found[1], found[2], found.start(2)
            else:
                is_root = cursor.eat_word("ROOT")
                cursor.skip()
                start = cursor.pos
                name = cursor.name("an instruction such as '%x = f32[2] add(%a, %b)'")
                cursor.expect("=", f"after {name}")
            if is_root and root is not None:
                cursor.error("a computation has one ROOT only", start)
            instruction = instructions.parse(name, start)
            if is_root:
                root = instruction
            if text.startswith("\n}", cursor.pos):
                cursor.pos += 2
                break
            if not text.startswith("\n", cursor.pos) and cursor.eat("}"):
                break
            if cursor.peek("}"):
                cursor.pos += 1
                break
        if root is not None:
            scope.computation.root = root
