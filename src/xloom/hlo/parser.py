"""HLO text into modules. Accepts what XLA's own parser accepts, and points at what it does not."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from xloom.errors import ParseError, ShapeError, XloomError, near
from xloom.hlo import attribute_text as at
from xloom.hlo.attributes import OriginalValue
from xloom.hlo.collector import without_collector
from xloom.hlo.dtype import DTYPES, u32
from xloom.hlo.lexer import ATTRIBUTE, IDENT, Cursor
from xloom.hlo.literal import Literal
from xloom.hlo.literal_text import parse_literal
from xloom.hlo.metadata_text import parse_metadata
from xloom.hlo.module import Computation, Instruction, Module, async_computation
from xloom.hlo.module_header import HeaderParser
from xloom.hlo.names import sanitize
from xloom.hlo.opcodes import OPCODES, Flags
from xloom.hlo.shape import Shape, token_shape, tuple_shape, without_element_size
from xloom.hlo.shape_text import parse_shape, starts_shape
from xloom.hlo.stack_frames import keep_used_frames

_MAX_DEPTH = 100
# `%name = ` and `ROOT %name = `, as printed
_HEAD = re.compile(r"\s*(ROOT\s+)?%?([A-Za-z_][A-Za-z0-9_.\-]*):?\s+=\s*")
_OPCODE = re.compile(r"\s*([a-z][a-z0-9\-]*)\s*\(")
# a whole operand list of plain names: `%a, %b)`
_NAMES = re.compile(r"\s*((?:%[\w.\-]+(?:,\s*)?)*)\)")
_SPLIT = re.compile(r",\s*%?")
_ATTRIBUTE = re.compile(r"\s*,\s*([A-Za-z_][A-Za-z0-9_.\-]*)=")
_ASYNC = {"-start": "async-start", "-update": "async-update", "-done": "async-done"}
_ASYNC_START = ("async_execution_thread", "output_to_operand_aliasing")
_NATIVE_ASYNC = {"all-gather", "all-reduce", "collective-permute", "copy", "recv", "send"}
_ANNOTATIONS = (
    "sharding",
    "frontend_attributes",
    "statistics",
    "control-predecessors",
    "origin",
    "metadata",
    "backend_config",
)


@without_collector
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
        self.computations: dict[str, Computation] = {}
        self.order: list[Computation] = []
        self.names: dict[str, Instruction] = {}
        self.used_names: set[str] = set()
        self.numbers: set[int] = set()  # of the current computation's parameters
        self.current: Computation
        self.depth = 0

    # -- module ----------------------------------------------------------------------------------------------------

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
        if not self.order:
            cursor.error(f"expected a computation, found {cursor.found()}")
        entry = entry or self.order[-1]
        # XLA numbers repeated names in this order
        for computation in self.order:
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
                    raise ShapeError(f"the entry has no parameter {alias.parameter}")
        except ShapeError as error:
            self.cursor.error(f"input_output_alias: {error.message}", max(start, 0))

    # -- computations ----------------------------------------------------------------------------------------------

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
        self.current, self.names, self.numbers = computation, {}, set()
        self._instructions(computation)
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
        if name in self.computations:
            cursor.error(f"computation {name!r} already exists", start)
        self.computations[name] = computation
        self.order.append(computation)
        return computation

    def _parameter_list(self) -> None:
        cursor = self.cursor

        def parameter() -> None:
            cursor.name("a parameter's name")
            cursor.eat(":")
            parse_shape(cursor)

        cursor.items("(", ")", parameter, "the parameter list")
        cursor.expect("->", "after the parameter list")

    def _instructions(self, computation: Computation) -> None:
        cursor = self.cursor
        cursor.expect("{", "at the beginning of a computation")
        text, head = cursor.text, _HEAD.match
        root: Instruction | None = None
        while True:
            found = head(text, cursor.pos)
            if found:
                cursor.pos = found.end()
                is_root, name, start = found[1], found[2], found.start(2)
            else:
                cursor.skip()
                start = cursor.pos
                is_root = cursor.eat_word("ROOT")
                cursor.skip()
                start = cursor.pos
                name = cursor.name("an instruction such as '%x = f32[2] add(%a, %b)'")
                cursor.expect("=", f"after {name}")
            if is_root and root is not None:
                cursor.error("a computation has one ROOT only", start)
            instruction = self._rhs(name, start)
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
            computation.root = root

    # -- instructions ----------------------------------------------------------------------------------------------

    def _rhs(self, name: str, start: int, *, attributes: bool = True) -> Instruction:
        self.depth += 1
        if self.depth > _MAX_DEPTH:
            self.cursor.error("operands nested too deeply")
        cursor = self.cursor
        shape = parse_shape(cursor) if starts_shape(cursor) else None
        opcode_at = cursor.pos
        found = _OPCODE.match(cursor.text, cursor.pos)
        if found:
            cursor.pos = found.end()
            opcode = found[1]
            opcode_at = found.start(1)
        else:
            cursor.skip()
            opcode_at = cursor.pos
            opcode = cursor.require(IDENT, "an opcode")[0]
            if cursor.peek("["):
                cursor.error(f"unknown element type {opcode!r}", opcode_at, hint=near(opcode, DTYPES))
            cursor.expect("(", f"after {opcode}")
        wrapped = None
        if opcode not in OPCODES:
            opcode, wrapped = self._async_opcode(opcode, opcode_at)
        if shape is None and Flags.NEEDS_SHAPE in OPCODES[opcode].flags and opcode != "broadcast":
            cursor.error(f"the shape of {opcode} cannot be inferred", opcode_at, hint="write it before the opcode")
        if opcode in _ASYNC.values():
            instruction = self._async(name, shape, opcode, wrapped, opcode_at, attributes)
        else:
            operands, attrs = self._operands(opcode, shape)
            instruction = self._finish(name, shape, opcode, operands, attrs, opcode_at, attributes)
        self.depth -= 1
        self._register(instruction, name, start)
        return instruction

    def _async_opcode(self, word: str, start: int) -> tuple[str, str]:
        for suffix, opcode in _ASYNC.items():
            inner = word.removesuffix(suffix)
            if inner != word and inner in OPCODES and inner not in _NATIVE_ASYNC:
                return opcode, inner
        self.cursor.error(f"unknown opcode {word!r}", start, hint=near(word, OPCODES))

    def _register(self, instruction: Instruction, name: str, start: int) -> None:
        if name:
            if sanitize(name) != name:
                self.cursor.error(f"illegal instruction name {name!r}", start, hint=f"rename it to {sanitize(name)!r}")
            if name in self.names:
                self.cursor.error(f"instruction {name!r} already exists", start)
            self.names[name] = instruction
            self.used_names.add(name)
        else:
            wish, number = f"{instruction.opcode}.anon", 0
            while (unique := f"{wish}.{number}" if number else wish) in self.used_names:
                number += 1
            self.used_names.add(unique)
            instruction.name = unique
            self.names[unique] = instruction

    def _operands(self, opcode: str, shape: Shape | None) -> tuple[list[Instruction], dict[str, Any]]:
        """What stands in the parentheses: operands, or a parameter's number, or a constant's value."""
        cursor = self.cursor
        if opcode == "parameter":
            cursor.skip()
            at_number = cursor.pos
            number = cursor.integer("a parameter number")
            if number < 0:
                cursor.error("a parameter number cannot be negative", at_number)
            if number in self.numbers:
                cursor.error(f"parameter number {number} stands twice", at_number)
            self.numbers.add(number)
            cursor.expect(")", "after the parameter number")
            return [], {"parameter_number": number}
        if opcode == "constant":
            assert shape is not None
            literal = parse_literal(cursor, without_element_size(shape))
            cursor.expect(")", "after the constant's value")
            return [], {"literal": literal}
        return self._operand_list(), {}

    def _operand_list(self) -> list[Instruction]:
        cursor = self.cursor
        found = _NAMES.match(cursor.text, cursor.pos)
        if found:
            body = found[1]
            if not body:
                cursor.pos = found.end()
                return []
            if not body.rstrip().endswith(","):
                names = self.names
                try:
                    operands = [names[n] for n in _SPLIT.split(body[1:])]
                except KeyError:
                    pass  # found again below, with its place
                else:
                    cursor.pos = found.end()
                    return operands
        operands = []
        if cursor.eat(")"):
            return operands
        while True:
            operands.append(self._operand())
            if not cursor.eat(","):
                break
        cursor.expect(")", "at the end of the operands")
        return operands

    def _operand(self) -> Instruction:
        """`%name`, `f32[2] %name`, `%tuple#0`, or an instruction without attributes."""
        cursor = self.cursor
        cursor.skip()
        start = cursor.pos
        shape = parse_shape(cursor) if starts_shape(cursor) else None
        cursor.skip()
        name_at = cursor.pos
        name = cursor.name("an operand")
        indices = []
        while cursor.eat("#"):
            indices.append(cursor.integer("a tuple index"))
        if not indices and cursor.peek("("):
            cursor.pos = start
            return self._rhs("", start, attributes=False)
        instruction = self.names.get(name)
        if instruction is None:
            cursor.error(f"instruction does not exist: {name}", name_at, hint=near(name, self.names))
        for index in indices:
            instruction = self._element(instruction, name, index, name_at)
            name = f"{name}#{index}"
        if indices and shape is not None and not shape.compatible(instruction.shape):
            cursor.error(f"operand is declared {shape}, but is {instruction.shape}", start)
        return instruction

    def _element(self, of: Instruction, name: str, index: int, start: int) -> Instruction:
        key = f"{name}#{index}"
        if key not in self.names:
            if not of.shape.is_tuple or not 0 <= index < len(of.shape.elements):
                self.cursor.error(f"{name} of shape {of.shape} has no element {index}", start)
            gte = Instruction(sanitize(key), "get-tuple-element", of.shape.elements[index], [of], {"index": index})
            self.names[key] = self.current.add(gte)
        return self.names[key]

    def _finish(
        self,
        name: str,
        shape: Shape | None,
        opcode: str,
        operands: list[Instruction],
        attrs: dict[str, Any],
        opcode_at: int,
        attributes: bool,
    ) -> Instruction:
        """Parses the attributes, checks what is required, infers the shape if need be, and adds the instruction."""
        cursor, row = self.cursor, OPCODES[opcode]
        if row.arity >= 0 and len(operands) != row.arity:
            cursor.error(f"{opcode} takes {row.arity} operands, found {len(operands)}", opcode_at)
        annotations: dict[str, Any] = {}
        if (attributes and cursor.text.startswith(",", cursor.pos)) or (attributes and cursor.peek(",")):
            self._attributes(opcode, attrs, annotations)
        _normalize(opcode, operands, attrs, shape)
        for attr, use in row.attributes.items():
            if use.required and attr not in attrs:
                cursor.error(f"{opcode} needs the attribute {attr}=", opcode_at, hint=use.info.doc)
        if opcode == "conditional":
            self._check_conditional(operands, attrs, opcode_at)
        if shape is None:
            shape = self._infer(opcode, operands, attrs, opcode_at)
        if opcode == "constant":
            literal: Literal = attrs["literal"]
            shape = literal.shape
        elif opcode in _CHANNEL_SHAPES:
            shape = self._channel_shape(opcode, shape, operands, opcode_at)
        instruction = Instruction(name, opcode, shape, operands, attrs)
        self.current.add(instruction)
        if annotations:
            self._annotate(instruction, annotations, opcode_at)
        if opcode == "async-start":
            _set_thread(instruction)
        elif opcode == "get-tuple-element" and operands[0].opcode == "tuple" and "origin" not in attrs:
            _take_origin(instruction)
        return instruction

    def _channel_shape(self, opcode: str, shape: Shape, operands: list[Instruction], opcode_at: int) -> Shape:
        """Like XLA, takes the shape of send and recv from what they move, whatever the text says."""
        if opcode == "outfeed":
            return token_shape
        if opcode == "send":
            return tuple_shape([operands[0].shape, u32[()], token_shape])
        if opcode == "send-done":
            return token_shape
        if opcode == "recv":
            if not shape.is_tuple or not shape.elements:
                self.cursor.error(f"the shape of recv is (data, u32[], token[]), found {shape}", opcode_at)
            return tuple_shape([shape.elements[0], u32[()], token_shape])
        state = operands[0].shape
        if not state.is_tuple or not state.elements:
            self.cursor.error("the operand of recv-done is a recv", opcode_at)
        return tuple_shape([state.elements[0], token_shape])

    def _check_conditional(self, operands: list[Instruction], attrs: dict[str, Any], opcode_at: int) -> None:
        by_pred = bool(operands) and operands[0].shape.dtype.name == "pred"
        needed = ("true_computation", "false_computation") if by_pred else ("branch_computations",)
        for attr in needed:
            if attr not in attrs:
                self.cursor.error(f"conditional needs the attribute {attr}=", opcode_at)
        count = 2 if by_pred else len(attrs["branch_computations"])
        if len(operands) != count + 1:
            self.cursor.error(
                f"conditional with {count} branches takes {count + 1} operands, found {len(operands)}", opcode_at
            )

    def _infer(self, opcode: str, operands: list[Instruction], attrs: dict[str, Any], opcode_at: int) -> Shape:
        from xloom.infer import infer_shape

        try:
            return infer_shape(opcode, [o.shape for o in operands], attrs)
        except ShapeError as error:
            self.cursor.error(f"cannot infer the shape: {error.message}", opcode_at, hint=error.hint)

    def _attributes(
        self, opcode: str, attrs: dict[str, Any], annotations: dict[str, Any], start_attrs: dict[str, Any] | None = None
    ) -> None:
        """All attributes; in the short form of an async-start, its own go to `start_attrs`."""
        cursor, uses = self.cursor, OPCODES[opcode].attributes
        seen: set[str] = set()
        text, match = cursor.text, _ATTRIBUTE.match
        while True:
            found = match(text, cursor.pos)
            if found is None:
                if not cursor.eat(","):
                    return
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
            elif name in _ANNOTATIONS:
                annotations[name] = self._annotation(name)
            elif opcode == "custom-call" and name == "to_apply":
                if "called_computations" in attrs:
                    cursor.error("a custom call has either to_apply or called_computations", start)
                attrs["called_computations"] = (self._computation_ref(),)
            elif opcode in ("async-update", "async-done") and name in ("calls", "async_execution_thread"):
                _ = self._computation_ref() if name == "calls" else cursor.string()
            else:
                known = [n for n, u in uses.items() if u.info.kind not in ("number", "value")]
                hint = near(name, [*known, *_ANNOTATIONS]) or f"it has: {', '.join([*known, *_ANNOTATIONS])}"
                cursor.error(f"{opcode} has no attribute {name!r}", start, hint=hint)

    def _value(self, kind: str, start: int) -> Any:
        if kind == "computation":
            return self._computation_ref()
        if kind == "computations":
            cursor = self.cursor
            if cursor.peek("{"):
                return tuple(cursor.items("{", "}", self._computation_ref, "computations"))
            return (self._computation_ref(),)
        try:
            return at.PARSERS[kind](self.cursor)
        except ParseError:
            raise
        except XloomError as error:
            self.cursor.error(error.message, start)

    def _computation_ref(self) -> Computation:
        cursor = self.cursor
        cursor.skip()
        start = cursor.pos
        if cursor.peek("{"):  # the computation itself stands here
            outer = self.current, self.names, self.numbers
            computation = Computation("_")
            self.current, self.names, self.numbers = computation, {}, set()
            self._instructions(computation)
            self.current, self.names, self.numbers = outer
            self.order.append(computation)
            return computation
        name = cursor.name("a computation's name")
        found = self.computations.get(name)
        if found is None:
            hint = near(name, self.computations) or "a computation stands before its callers"
            cursor.error(f"computation does not exist: {name}", start, hint=hint)
        return found

    def _annotation(self, name: str) -> Any:
        cursor = self.cursor
        if name == "control-predecessors":
            return cursor.items("{", "}", self._reference, "control predecessors")
        return _ANNOTATION_PARSERS[name](cursor)

    def _reference(self) -> Instruction:
        cursor = self.cursor
        cursor.skip()
        start = cursor.pos
        name = cursor.name("an instruction's name")
        if name not in self.names:
            cursor.error(f"instruction does not exist: {name}", start, hint=near(name, self.names))
        return self.names[name]

    def _annotate(self, instruction: Instruction, annotations: dict[str, Any], start: int) -> None:
        if "metadata" in annotations:
            instruction.metadata = annotations["metadata"]
        if "backend_config" in annotations:
            instruction.backend_config = annotations["backend_config"]
        if "sharding" in annotations:
            instruction.sharding = annotations["sharding"].normalized(instruction.shape)
        if "frontend_attributes" in annotations:
            instruction.frontend_attributes = annotations["frontend_attributes"]
        for before in annotations.get("control-predecessors", ()):
            instruction.add_control_predecessor(before)
        if annotations.get("statistics") is not None:
            instruction.attrs["statistics"] = annotations["statistics"]
        if "origin" in annotations:
            instruction.attrs["origin"] = annotations["origin"]
        body = async_computation(instruction) if instruction.opcode in _ASYNC.values() else None
        if body is not None:
            self._annotate_wrapped(body.root, annotations)

    def _annotate_wrapped(self, root: Instruction, annotations: dict[str, Any]) -> None:
        """What describes an asynchronous operation describes the one that it wraps too."""
        for name in ("metadata", "backend_config", "frontend_attributes"):
            if name in annotations:
                setattr(root, name, annotations[name])
        for name in ("statistics", "origin"):
            if annotations.get(name) is not None:
                root.attrs[name] = annotations[name]

    # -- asynchronous operations -----------------------------------------------------------------------------------

    def _async(
        self, name: str, shape: Shape | None, opcode: str, wrapped: str | None, start: int, attributes: bool
    ) -> Instruction:
        """async-start, -update and -done, also in their short forms (`dot-start`), which make a computation."""
        cursor = self.cursor
        if shape is None:
            cursor.error(f"{opcode} needs its shape written", start)
        if opcode != "async-done" and not (shape.is_tuple and len(shape.elements) >= 2 and shape.elements[0].is_tuple):
            cursor.error(f"the shape of {opcode} is ((operands...), result, state...), found {shape}", start)
        operands = self._operand_list()
        if opcode == "async-start":
            if wrapped is None:
                return self._finish(name, shape, opcode, operands, {}, start, attributes)
            return self._async_start(name, shape, operands, wrapped, start, attributes)
        if not operands or operands[0].opcode not in ("async-start", "async-update"):
            cursor.error(f"the operand of {opcode} is an async-start or async-update", start)
        return self._finish(name, shape, opcode, operands, {}, start, attributes)

    def _async_start(
        self, name: str, shape: Shape, operands: list[Instruction], wrapped: str, start: int, attributes: bool
    ) -> Instruction:
        parameters = shape.elements[0].elements
        body = Computation("async_wrapped")
        inner = [
            body.add(Instruction("async_param", "parameter", s, (), {"parameter_number": k}))
            for k, s in enumerate(parameters)
        ]
        outer = self.current
        attrs: dict[str, Any] = {}
        annotations: dict[str, Any] = {}
        own: dict[str, Any] = {}
        if attributes and self.cursor.peek(","):
            self._attributes(wrapped, attrs, annotations, own)
        _normalize(wrapped, inner, attrs, shape.elements[1])
        for attr, use in OPCODES[wrapped].attributes.items():
            if use.required and attr not in attrs:
                self.cursor.error(f"{wrapped} needs the attribute {attr}=", start, hint=use.info.doc)
        body.add(Instruction(wrapped, wrapped, shape.elements[1], inner, attrs))
        self.current = outer
        self.order.append(body)
        instruction = Instruction(name, "async-start", shape, operands, {**own, "calls": body})
        outer.add(instruction)
        _set_thread(instruction)
        self._annotate(instruction, annotations, start)
        return instruction


def _take_origin(element: Instruction) -> None:
    """An element of a tuple instruction has that part of the tuple's origin, or its operand's."""
    source, index = element.operands[0], element["index"]
    origin = source.attrs.get("origin")
    if origin is not None and isinstance(origin.tree, tuple) and 0 <= index < len(origin.tree):
        element.attrs["origin"] = OriginalValue(origin.tree[index])
    elif origin is None and 0 <= index < len(source.operands) and "origin" in source.operands[index].attrs:
        element.attrs["origin"] = source.operands[index].attrs["origin"]


def _set_thread(start: Instruction) -> None:
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


_CHANNEL_SHAPES = ("outfeed", "send", "send-done", "recv", "recv-done")

_ANNOTATION_PARSERS: dict[str, Callable[[Cursor], Any]] = {
    "sharding": at.parse_sharding,
    "frontend_attributes": at.frontend_attributes,
    "statistics": at.statistics,
    "origin": at.original_value,
    "metadata": parse_metadata,
    "backend_config": lambda c: c.string_or_json(),
}


def default_comparison(shape: Shape) -> str:
    """The comparison type that goes without saying for operands of this shape."""
    if shape.dtype.is_float or shape.dtype.is_complex:
        return "FLOAT"
    return "SIGNED" if shape.dtype.name.startswith("s") else "UNSIGNED"


def _normalize(opcode: str, operands: list[Instruction], attrs: dict[str, Any], shape: Shape | None) -> None:
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
