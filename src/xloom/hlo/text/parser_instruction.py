"""An instruction after its `%name = `: shape, opcode, operands and attributes."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from xloom.errors import near
from xloom.hlo.attribute_defaults import normalize
from xloom.hlo.computation import Computation
from xloom.hlo.dtype import DTYPES
from xloom.hlo.instruction import Instruction
from xloom.hlo.opcodes import OPCODES, Flags
from xloom.hlo.shape import Shape, without_element_size
from xloom.hlo.text.lexer import IDENT
from xloom.hlo.text.literals import parse_literal
from xloom.hlo.text.parser_annotations import annotate, take_origin
from xloom.hlo.text.parser_async import ASYNC_OPCODES, check_async_shape, set_thread, short_form, wrapper
from xloom.hlo.text.parser_attributes import AttributeParser
from xloom.hlo.text.parser_scope import Scope
from xloom.hlo.text.parser_shapes import resolve_shape
from xloom.hlo.text.shapes import parse_shape, starts_shape

_MAX_DEPTH = 100
_OPCODE = re.compile(r"\s*([a-z][a-z0-9\-]*)\s*\(")
# a whole operand list of plain names: `%a, %b)`
_NAMES = re.compile(r"\s*((?:%[\w.\-]+(?:,\s*)?)*)\)")
_SPLIT = re.compile(r",\s*%?")


class InstructionParser:
    """Reads the instructions of one scope, and adds them to its computation.

    `inline_computation` reads a computation that stands in braces within an instruction of that scope.
    """

    def __init__(self, scope: Scope, inline_computation: Callable[[Scope], Computation]):
        self.cursor = scope.cursor
        self.scope = scope
        self.attributes = AttributeParser(scope, inline_computation)

    def parse(self, name: str, start: int, *, attributes: bool = True) -> Instruction:
        """The instruction called `name`, which stands at `start`; no attributes follow those that are operands."""
        cursor, scope = self.cursor, self.scope
        scope.depth += 1
        if scope.depth > _MAX_DEPTH:
            cursor.error("operands nested too deeply")
        shape = parse_shape(cursor) if starts_shape(cursor) else None
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
            form = short_form(opcode)
            if form is None:
                cursor.error(f"unknown opcode {opcode!r}", opcode_at, hint=near(opcode, OPCODES))
            opcode, wrapped = form
        if shape is None and Flags.NEEDS_SHAPE in OPCODES[opcode].flags and opcode != "broadcast":
            cursor.error(f"the shape of {opcode} cannot be inferred", opcode_at, hint="write it before the opcode")
        if opcode in ASYNC_OPCODES:
            instruction = self._async(name, shape, opcode, wrapped, opcode_at, attributes)
        else:
            operands, attrs = self._parentheses(opcode, shape)
            instruction = self._finish(name, shape, opcode, operands, attrs, opcode_at, attributes)
        scope.depth -= 1
        scope.declare(instruction, name, start)
        return instruction

    # -- operands --------------------------------------------------------------------------------------------------

    def _parentheses(self, opcode: str, shape: Shape | None) -> tuple[list[Instruction], dict[str, Any]]:
        """What stands in the parentheses: operands, or a parameter's number, or a constant's value."""
        cursor = self.cursor
        if opcode == "parameter":
            cursor.skip()
            at_number = cursor.pos
            number = cursor.integer("a parameter number")
            if number < 0:
                cursor.error("a parameter number cannot be negative", at_number)
            if number in self.scope.parameter_numbers:
                cursor.error(f"parameter number {number} stands twice", at_number)
            self.scope.parameter_numbers.add(number)
            cursor.expect(")", "after the parameter number")
            return [], {"parameter_number": number}
        if opcode == "constant":
            assert shape is not None
            literal = parse_literal(cursor, without_element_size(shape))
            cursor.expect(")", "after the constant's value")
            return [], {"literal": literal}
        return self._operands(), {}

    def _operands(self) -> list[Instruction]:
        cursor = self.cursor
        found = _NAMES.match(cursor.text, cursor.pos)
        if found:
            body = found[1]
            if not body:
                cursor.pos = found.end()
                return []
            if not body.rstrip().endswith(","):
                names = self.scope.instructions
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
        cursor, scope = self.cursor, self.scope
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
            return self.parse("", start, attributes=False)
        instruction = scope.instruction(name, name_at)
        for index in indices:
            instruction = scope.element(instruction, name, index, name_at)
            name = f"{name}#{index}"
        if indices and shape is not None and not shape.compatible(instruction.shape):
            cursor.error(f"operand is declared {shape}, but is {instruction.shape}", start)
        return instruction

    # -- attributes, and what follows from all that is written -----------------------------------------------------

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
        cursor, arity = self.cursor, OPCODES[opcode].arity
        if arity >= 0 and len(operands) != arity:
            cursor.error(f"{opcode} takes {arity} operands, found {len(operands)}", opcode_at)
        annotations: dict[str, Any] = {}
        if attributes and (cursor.text.startswith(",", cursor.pos) or cursor.peek(",")):
            annotations = self.attributes.parse(opcode, attrs)
        normalize(opcode, operands, attrs)
        self._check_required(opcode, attrs, opcode_at)
        if opcode == "conditional":
            self._check_conditional(operands, attrs, opcode_at)
        shape = resolve_shape(cursor, opcode, shape, operands, attrs, opcode_at)
        instruction = Instruction(name, opcode, shape, operands, attrs)
        self.scope.computation.add(instruction)
        if annotations:
            annotate(instruction, annotations)
        if opcode == "async-start":
            set_thread(instruction)
        elif opcode == "get-tuple-element" and operands[0].opcode == "tuple" and "origin" not in attrs:
            take_origin(instruction)
        return instruction

    def _check_required(self, opcode: str, attrs: dict[str, Any], opcode_at: int) -> None:
        for name, use in OPCODES[opcode].attributes.items():
            if use.required and name not in attrs:
                self.cursor.error(f"{opcode} needs the attribute {name}=", opcode_at, hint=use.info.doc)

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

    # -- asynchronous operations -----------------------------------------------------------------------------------

    def _async(
        self, name: str, shape: Shape | None, opcode: str, wrapped: str | None, start: int, attributes: bool
    ) -> Instruction:
        """async-start, -update and -done, also in their short forms (`dot-start`), which make a computation."""
        shape = check_async_shape(self.cursor, opcode, shape, start)
        operands = self._operands()
        if opcode == "async-start":
            if wrapped is not None:
                return self._async_start(name, shape, operands, wrapped, start, attributes)
        elif not operands or operands[0].opcode not in ("async-start", "async-update"):
            self.cursor.error(f"the operand of {opcode} is an async-start or async-update", start)
        return self._finish(name, shape, opcode, operands, {}, start, attributes)

    def _async_start(
        self, name: str, shape: Shape, operands: list[Instruction], wrapped: str, start: int, attributes: bool
    ) -> Instruction:
        body = wrapper(shape.elements[0].elements)
        parameters = list(body)
        attrs: dict[str, Any] = {}
        own: dict[str, Any] = {}
        annotations: dict[str, Any] = {}
        if attributes and self.cursor.peek(","):
            annotations = self.attributes.parse(wrapped, attrs, own)
        normalize(wrapped, parameters, attrs)
        self._check_required(wrapped, attrs, start)
        body.add(Instruction(wrapped, wrapped, shape.elements[1], parameters, attrs))
        self.scope.module.order.append(body)
        instruction = Instruction(name, "async-start", shape, operands, {**own, "calls": body})
        self.scope.computation.add(instruction)
        set_thread(instruction)
        annotate(instruction, annotations)
        return instruction
