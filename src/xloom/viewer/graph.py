"""Instructions as the page reads them: a table of strings, and columns of numbers."""

from __future__ import annotations

from typing import Any

from xloom.hlo.instruction import Instruction
from xloom.hlo.module import Module
from xloom.hlo.shape import Shape
from xloom.hlo.text.printer import PrintOptions, attributes_text

_WITHOUT_METADATA = PrintOptions(print_metadata=False)
_LONGEST = 4000
"""Characters of attributes; calls that carry programs have more."""
_SMALL = 10
"""Elements of a constant that is written out, as in HLO text."""


class Strings:
    """Numbers for strings; the empty one has 0."""

    def __init__(self) -> None:
        self.numbers: dict[str, int] = {"": 0}

    def __call__(self, text: str) -> int:
        """The number of a string."""
        return self.numbers.setdefault(text, len(self.numbers))


class InstructionTable:
    """The instructions of all states of a program; equal ones have one row."""

    COLUMNS = ("name", "computation", "opcode", "shape", "attributes", "value", "op_name", "source", "frame", "root")

    def __init__(self, strings: Strings) -> None:
        self.strings = strings
        self._rows: dict[tuple[Any, ...], int] = {}
        self._shapes: dict[Shape, int] = {}
        self._seen: dict[Instruction, tuple[list[object], int]] = {}

    def row(self, instruction: Instruction) -> int:
        """The number of an instruction as it is now."""
        parts = _parts(instruction)
        known = self._seen.get(instruction)
        if known is not None and len(known[0]) == len(parts) and all(map(_is, known[0], parts)):
            return known[1]
        row = self._rows.setdefault(self._content(instruction), len(self._rows))
        self._seen[instruction] = parts, row
        return row

    def _content(self, instruction: Instruction) -> tuple[Any, ...]:
        strings, metadata = self.strings, instruction.metadata
        attributes = attributes_text(instruction, _WITHOUT_METADATA)
        assert instruction.parent is not None
        return (
            strings(instruction.name),
            strings(instruction.parent.name),
            strings(instruction.opcode),
            self._shapes.setdefault(instruction.shape, len(self._shapes)),
            strings(attributes if len(attributes) <= _LONGEST else attributes[:_LONGEST] + "…"),
            strings(_value(instruction)),
            strings(metadata.op_name),
            strings(metadata.location),
            metadata.stack_frame_id,
            int(instruction.is_root),
            tuple(strings(operand.name) for operand in instruction._operands),
            tuple(strings(before.name) for before in instruction.control_predecessors),
            tuple(strings(computation.name) for computation in instruction.called_computations),
        )

    def columns(self) -> dict[str, list[int]]:
        """Each column from the first row to the last; of lists, their lengths beside what is in them."""
        rows = list(self._rows)
        columns = {name: [row[k] for row in rows] for k, name in enumerate(self.COLUMNS)}
        for k, name in enumerate(("operands", "predecessors", "calls"), len(self.COLUMNS)):
            columns[f"{name}_count"] = [len(row[k]) for row in rows]
            columns[name] = [number for row in rows for number in row[k]]
        return columns

    def shapes(self) -> list[tuple[int, int]]:
        """The text and the bytes of each shape."""
        return [(self.strings(shape.to_text()), _nbytes(shape)) for shape in self._shapes]


def frames_of(module: Module, strings: Strings) -> list[tuple[int, int, int, int]]:
    """The file, the function, the line and the caller of each stack frame, which are numbered from 1."""
    table = module.stack_frames
    if table is None:
        return []
    found = []
    for location, parent in table.frames:
        known = 0 < location <= len(table.locations)
        file, function, line = table.locations[location - 1][:3] if known else (0, 0, 0)
        found.append(
            (strings(_named(table.file_names, file)), strings(_named(table.function_names, function)), line, parent)
        )
    return found


def _named(names: tuple[str, ...], number: int) -> str:
    return names[number - 1] if 0 < number <= len(names) else ""


def _parts(instruction: Instruction) -> list[object]:
    """What an instruction is made of: while each of these is the same object, so is its row."""
    called = (name for computation in instruction.called_computations for name in (computation, computation.name))
    return [
        instruction.name,
        instruction.shape,
        instruction.metadata,
        instruction.sharding,
        instruction.backend_config,
        instruction.is_root,
        *instruction.attrs.values(),
        *(operand.name for operand in instruction._operands),
        *called,
        *(before.name for before in instruction.control_predecessors),
    ]


def _is(a: object, b: object) -> bool:
    return a is b


def _value(instruction: Instruction) -> str:
    """What stands in place of operands: a parameter's number, a constant's elements."""
    if instruction.opcode == "parameter":
        return str(instruction["parameter_number"])
    if instruction.opcode != "constant":
        return ""
    literal = instruction.literal
    shown = literal.shape.is_array and literal.shape.size <= _SMALL and not literal.elided
    return literal.to_text() if shown else "{...}"


def _nbytes(shape: Shape) -> int:
    """The bytes of all arrays in a shape; of dimensions without a bound, none."""
    if shape.is_tuple:
        return sum(map(_nbytes, shape.elements))
    return shape.nbytes if shape.is_array and all(size >= 0 for size in shape.dims) else 0
