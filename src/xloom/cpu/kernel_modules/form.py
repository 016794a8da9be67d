"""What a kernel is apart from its sizes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from xloom.hlo.instruction import Instruction
from xloom.hlo.shape import Shape
from xloom.llvm.symbolic_dimension import SymbolicDimensions
from xloom.llvm.target import Target

LEAST = 16
"""Smaller dimensions are part of a form, whose loops over them are unrolled, unless a rule says otherwise."""


@dataclass(frozen=True)
class ShapeGenericProblem:
    """A kernel's problem without its sizes."""

    text: str
    """What it is."""
    values: tuple[int, ...]
    """The sizes."""
    problem: Callable[[SymbolicDimensions], Any]
    """What the kernel's rule is given, with a symbol for each size."""
    tables: Callable[[], bytes] | None = None
    """Constants of this shape that the kernel reads, if it reads some."""


Opened = Callable[[Callable[[int], Any]], Any]


def form(text: str, opened: Opened, tables: Callable[[], bytes] | None = None) -> ShapeGenericProblem:
    """The form of the problem that `opened(size)` makes, which calls `size` for each number that is no part of it."""
    values: list[int] = []

    def blank(value: int) -> str:
        values.append(value)
        return "?"

    whole = f"{text} {opened(blank)!r}"

    def problem(sizes: SymbolicDimensions) -> Any:
        symbols = iter(sizes.symbols)
        return opened(lambda _: next(symbols))

    return ShapeGenericProblem(whole, tuple(values), problem, tables)


def constant_tables(instruction: Instruction, shapes: Sequence[Shape], target: Target) -> bytes:
    """What the kernel of an instruction reads as constants of its shapes; nothing where it has no form."""
    rule = FORMS.get(instruction.opcode)
    found = rule(instruction, shapes, target) if rule else None
    return found.tables() if found is not None and found.tables is not None else b""


FormRule = Callable[[Instruction, Sequence[Shape], Target], ShapeGenericProblem | None]
FORMS: dict[str, FormRule] = {}


def form_of(*opcodes: str) -> Callable[[FormRule], FormRule]:
    """Registers `rule(instruction, shapes, target)`, which gives the form of a kernel on arrays of these shapes.

    None where its code is for them alone.
    """

    def register(rule: FormRule) -> FormRule:
        for opcode in opcodes:
            FORMS[opcode] = rule
        return rule

    return register
