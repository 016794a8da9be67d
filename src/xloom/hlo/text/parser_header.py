"""What stands before the computations: the module's attributes, and its tables of source locations."""

from __future__ import annotations

import re
from collections.abc import Callable

from xloom.errors import ParseError, near
from xloom.hlo.attributes import OriginalArray, StackFrames
from xloom.hlo.module import InputOutputAlias, Module
from xloom.hlo.text.annotations import parse_frontend_attributes, parse_original_array
from xloom.hlo.text.attributes import parse_booleans, parse_shape_index
from xloom.hlo.text.lexer import ATTRIBUTE, Cursor
from xloom.hlo.text.shapes import parse_shape

_MODULE_ATTRIBUTES = (
    "is_scheduled",
    "replica_count",
    "num_partitions",
    "input_output_alias",
    "buffer_donor",
    "alias_passthrough_params",
    "entry_computation_layout",
    "frontend_attributes",
    "allow_spmd_sharding_propagation_to_parameters",
    "allow_spmd_sharding_propagation_to_output",
    "origin_recovery_table",
    "debug_attributes",
)


class HeaderParser:
    """Reads the module line's attributes and the tables under it into a module."""

    def __init__(self, cursor: Cursor, parse_module: Callable[[str], Module]):
        self.cursor = cursor
        self.parse_module = parse_module

    def attributes(self, module: Module) -> None:
        """`, is_scheduled=true, replica_count=2, ...` after the module's name."""
        cursor, config = self.cursor, module.config
        seen: set[str] = set()
        while cursor.eat(","):
            cursor.skip()
            start = cursor.pos
            name = cursor.require(ATTRIBUTE, "a module attribute and '='")[1]
            if name in seen:
                cursor.error(f"{name!r} stands twice", start)
            seen.add(name)
            if name == "is_scheduled":
                config.is_scheduled = cursor.boolean()
            elif name == "replica_count":
                config.replica_count = cursor.integer()
            elif name == "num_partitions":
                config.num_partitions = cursor.integer()
            elif name == "alias_passthrough_params":
                config.alias_passthrough_params = cursor.boolean()
            elif name == "input_output_alias":
                found = {a.output_index: a for a in reversed(self._aliases())}
                config.input_output_alias = [found[k] for k in sorted(found)]
            elif name == "buffer_donor":
                config.buffer_donors = sorted(set(cursor.items("{", "}", self._donor, "buffer donors")))
            elif name == "entry_computation_layout":
                cursor.expect("{", "before an entry layout")
                config.parameter_layouts = cursor.items("(", ")", lambda: parse_shape(cursor), "parameter shapes")
                cursor.expect("->", "after the parameter shapes")
                config.result_layout = parse_shape(cursor)
                cursor.expect("}", "after an entry layout")
            elif name == "frontend_attributes":
                module.frontend_attributes = parse_frontend_attributes(cursor)
            elif name == "allow_spmd_sharding_propagation_to_parameters":
                config.propagate_sharding_to_parameters = parse_booleans(cursor) or (False,)
            elif name == "allow_spmd_sharding_propagation_to_output":
                config.propagate_sharding_to_output = parse_booleans(cursor) or (False,)
            elif name == "origin_recovery_table":
                module.origin_recovery_table = self._recovery_table()
            elif name == "debug_attributes":
                module.debug_attributes = self._debug_attributes()
            else:
                known = (*_MODULE_ATTRIBUTES,)
                cursor.error(f"a module has no attribute {name!r}", start, hint=near(name, known))

    def _aliases(self) -> list[InputOutputAlias]:
        def one() -> InputOutputAlias:
            cursor = self.cursor
            output = parse_shape_index(cursor)
            cursor.expect(":", "after an output index")
            cursor.expect("(", "before a parameter number")
            parameter = cursor.integer("a parameter number")
            cursor.expect(",", "after a parameter number")
            index = parse_shape_index(cursor)
            kind = "may-alias"
            if cursor.eat(","):
                kind = cursor.ident("may-alias or must-alias")
                if kind not in ("may-alias", "must-alias"):
                    cursor.error(f"expected may-alias or must-alias, found {kind!r}")
            cursor.expect(")", "after an alias")
            return InputOutputAlias(output, parameter, index, kind == "must-alias")

        return self.cursor.items("{", "}", one, "aliases")

    def _donor(self) -> tuple[int, tuple[int, ...]]:
        cursor = self.cursor
        cursor.expect("(", "before a parameter number")
        parameter = cursor.integer("a parameter number")
        cursor.expect(",", "after a parameter number")
        index = parse_shape_index(cursor)
        cursor.expect(")", "after a parameter index")
        return parameter, index

    def _recovery_table(self) -> list[tuple[OriginalArray | None, OriginalArray | None, Module | None]]:
        cursor, rows = self.cursor, []
        cursor.expect("{", "at the start of a recovery table")
        while not cursor.eat("}"):
            old = parse_original_array(cursor)
            cursor.expect(":", "after an original array")
            new = parse_original_array(cursor)
            recovery = None
            if cursor.eat(","):
                cursor.skip()
                start = cursor.pos
                try:
                    recovery = self.parse_module(cursor.string("the text of a recovery module"))
                except ParseError as error:
                    cursor.error(f"in this recovery module: {error.message}", start)
            rows.append((old, new, recovery))
        return rows

    def _debug_attributes(self) -> list[tuple[OriginalArray | None, tuple[str, ...]]]:
        cursor = self.cursor

        def attributes() -> str:
            cursor.expect("{", "at the start of debug attributes")
            fields: dict[str, str] = {}
            while True:
                start = cursor.pos
                name = cursor.require(ATTRIBUTE, "log_mode=, callback_id=, partitioned= or op_id=")[1]
                if name == "log_mode":
                    fields[name] = cursor.ident("default or fusion_debugger")
                    if fields[name] not in ("default", "fusion_debugger"):
                        cursor.error(f"log_mode cannot be {fields[name]!r}", start)
                elif name == "partitioned":
                    fields[name] = "true" if cursor.boolean() else ""
                elif name in ("callback_id", "op_id"):
                    fields[name] = str(cursor.integer() or "")
                else:
                    cursor.error(f"there is no debug attribute {name!r}", start)
                if not cursor.eat(","):
                    break
            cursor.expect("}", "at the end of debug attributes")
            order = ("log_mode", "callback_id", "partitioned", "op_id")
            return ",".join(f"{n}={fields[n]}" for n in order if fields.get(n))

        def row() -> tuple[OriginalArray | None, tuple[str, ...]]:
            array = parse_original_array(cursor)
            cursor.expect(":", "after an original array")
            if cursor.peek("("):
                return array, tuple(cursor.items("(", ")", attributes, "debug attributes"))
            return array, (attributes(),)

        rows = {array: attributes for array, attributes in cursor.items("{", "}", row, "debug attributes")}
        order = sorted(rows, key=lambda a: ("", ()) if a is None else (a.instruction, a.index))
        return [(array, rows[array]) for array in order if rows[array]]

    def stack_frames(self, module: Module) -> None:
        """The tables FileNames, FunctionNames, FileLocations and StackFrames, if they are there."""
        cursor = self.cursor
        if not cursor.eat_word("FileNames"):
            return
        number = re.compile(r"\d+(?=\s)")

        def strings() -> tuple[str, ...]:
            out = []
            while cursor.match(number):
                out.append(cursor.string())
            return tuple(out)

        def rows(*names: str) -> tuple[tuple[int, ...], ...]:
            out = []
            while cursor.match(number):
                fields: dict[str, int] = {}
                cursor.expect("{", "at the start of a row")
                while not cursor.eat("}"):
                    cursor.eat(",")
                    name = cursor.require(ATTRIBUTE, f"one of {', '.join(names)}")[1]
                    if name not in names:
                        cursor.error(f"a row has no {name!r}", hint=near(name, names))
                    # the text counts parents from 1 for none
                    fields[name] = cursor.integer() - (name == "parent_frame_id")
                if len(fields) != len(names):
                    cursor.error(f"a row needs {', '.join(n for n in names if n not in fields)}")
                out.append(tuple(fields[n] for n in names))
            return tuple(out)

        files = strings()
        self._keyword("FunctionNames")
        functions = strings()
        self._keyword("FileLocations")
        locations = rows("file_name_id", "function_name_id", "line", "end_line", "column", "end_column")
        self._keyword("StackFrames")
        frames = rows("file_location_id", "parent_frame_id")
        module.stack_frames = StackFrames(files, functions, locations, frames)  # type: ignore[arg-type]

    def _keyword(self, word: str) -> None:
        if not self.cursor.eat_word(word):
            self.cursor.error(f"expected {word}, found {self.cursor.found()}")
