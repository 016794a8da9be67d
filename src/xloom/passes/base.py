"""What a pass is, and the registry of passes by name."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Container, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from xloom.hlo.computation import Computation
from xloom.hlo.instruction import Instruction
from xloom.hlo.module import Module

if TYPE_CHECKING:
    from xloom.interpreter.registry import Value

PASSES: dict[str, type[Pass]] = {}
"""Every registered pass, by the name that pipeline text uses: those of the files that have been imported."""


@dataclass(frozen=True)
class Pass:
    """One rewrite of a module. A subclass that has options is a frozen dataclass with these as its fields.

    `str(pass_)` is its pipeline text: the name, and the options that differ from their defaults.
    """

    name: ClassVar[str]
    opcodes: ClassVar[Collection[str] | None] = None
    """It changes no module that has none of these, and need not be asked; None where it looks at all."""

    def run(self, module: Module) -> bool:
        """Rewrites `module` in place; True if it changed something. Raises PassError when it cannot."""
        raise NotImplementedError(f"{type(self).__name__}.run")

    def arguments(self, before: Module, values: Sequence[Value]) -> list[Value]:
        """Arguments of the module `before`, as the module that the pass makes of it takes them."""
        return list(values)

    def result(self, before: Module, value: Value) -> Value:
        """The result of the module that the pass makes, as the module `before` gives it."""
        return value

    def __str__(self) -> str:
        options = [
            f"{f.name}={_spell(getattr(self, f.name))}"
            for f in dataclasses.fields(self)
            if getattr(self, f.name) != f.default
        ]
        return f"{self.name}{{{','.join(options)}}}" if options else self.name


P = TypeVar("P", bound=type[Pass])


def register(cls: P) -> P:
    """Class decorator: makes a pass known to pipeline text under its `name`."""
    PASSES[cls.name] = cls
    return cls


def instructions_of(computation: Computation, opcodes: Container[str]) -> list[Instruction]:
    """The instructions of these opcodes, operands first; quick where there is none."""
    if not any(i.opcode in opcodes for i in computation):
        return []
    return [i for i in computation.post_order() if i.opcode in opcodes]


def pin_roots(module: Module) -> None:
    """Sets each computation's root explicitly, so that instructions added later do not become it."""
    for computation in module.computations:
        computation.root = computation.root


def _spell(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    text = str(value)
    if text and not set(text) & set(' \t\n,{}="\\'):
        return text
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
