"""Who computes values of a module: the interpreter, native code, XLA:CPU, any backend of PJRT."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from xloom.cpu.compile import compile as compile_for_cpu
from xloom.difference.cuts import observing
from xloom.errors import XloomError
from xloom.hlo.computation import Computation
from xloom.hlo.instruction import Instruction
from xloom.hlo.module import Module
from xloom.hlo.shape import Shape
from xloom.interpreter.evaluator import Evaluator
from xloom.interpreter.registry import RULES, TOKEN, Value
from xloom.stablehlo.reference import CPU, run_by_pjrt


class Side(Protocol):
    """Gives values of instructions of a module's entry."""

    name: str
    observes_all: bool
    """Whether asking for values changes nothing about how they are computed."""

    def values(self, module: Module, instructions: Sequence[Instruction], arguments: Sequence[Value]) -> list[Value]:
        """Their values, arrays or tuples of arrays, for arguments, one for each parameter of the entry."""
        ...


class Recorder(Evaluator):
    """The interpreter, which keeps the latest values of one computation, by default the entry."""

    def __init__(self, module: Module, rules: Any = RULES, computation: Computation | None = None):
        super().__init__(module, rules=rules)
        self._computation = computation or module.entry
        self.recorded: dict[Instruction, Value] = {}

    def apply(self, instruction: Instruction, operands: Sequence[Value]) -> Value:
        """See Evaluator."""
        value = super().apply(instruction, operands)
        if instruction.parent is self._computation:
            self.recorded[instruction] = value
        return value


@dataclass
class Interpreter:
    """NumPy, instruction by instruction; with other rules than its own, if there are any."""

    rules: Any = None
    name: str = "the interpreter"
    observes_all: bool = True

    def values(self, module: Module, instructions: Sequence[Instruction], arguments: Sequence[Value]) -> list[Value]:
        """See Side."""
        recorder = Recorder(module, self.rules or RULES)
        recorder.call(module.entry, arguments)
        recorder.recorded |= dict(zip(module.entry.parameters, arguments, strict=True))
        return [recorder.recorded[i] for i in instructions]


@dataclass
class _Compiled:
    """A compiler, of modules that have the wanted values as their results: they are fused in another way for that."""

    name: str
    observes_all: bool = False

    def __post_init__(self) -> None:
        self._programs: dict[tuple[int, tuple[Instruction, ...]], tuple[Module, Callable[..., Value]]] = {}

    def values(self, module: Module, instructions: Sequence[Instruction], arguments: Sequence[Value]) -> list[Value]:
        """See Side."""
        key = id(module), tuple(instructions)
        if key not in self._programs:
            self._programs[key] = module, self._compiled(observing(module, instructions))
        value = self._programs[key][1](*arguments)
        return list(value) if len(instructions) > 1 else [value]

    def _compiled(self, module: Module) -> Callable[..., Value]:
        raise NotImplementedError(f"{type(self).__name__}._compiled")


@dataclass
class Native(_Compiled):
    """xloom's own code for the CPU."""

    name: str = "the CPU"

    def _compiled(self, module: Module) -> Callable[..., Value]:
        return compile_for_cpu(module)


@dataclass
class Pjrt(_Compiled):
    """A backend of PJRT by jaxlib's client (extra `jax`): a platform of JAX's, or the library of a plugin."""

    name: str = "XLA:CPU"
    backend: str = CPU

    def _compiled(self, module: Module) -> Callable[..., Value]:
        def run(*arguments: Value) -> Value:
            results = iter(run_by_pjrt(self.backend, module, arguments))
            return _nested(module.entry.root.shape, results)

        return run


def _nested(shape: Shape, leaves: Iterator[np.ndarray]) -> Value:
    if shape.is_tuple:
        return tuple(_nested(s, leaves) for s in shape.elements)
    return next(leaves) if shape.is_array else TOKEN


PJRT = "pjrt:"
"""What names of backends of PJRT begin with."""


def side(name: str) -> Side:
    """By its name in commands: `pjrt:` is followed by a platform or a path. Raises XloomError for another one."""
    made: dict[str, Callable[[], Side]] = {"interpreter": Interpreter, "cpu": Native, "jaxlib": Pjrt}
    backend = name.removeprefix(PJRT)
    if backend and backend != name:
        return Pjrt(name, backend=backend)
    if name not in made:
        hint = f"one of {', '.join(made)}, or {PJRT} and a platform of JAX's or a plugin's library"
        raise XloomError(f"there is no way to compute values called {name!r}", hint=hint)
    return made[name]()
