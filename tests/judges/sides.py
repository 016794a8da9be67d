"""One program on one side, in a child process; what it returns goes into a file."""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

import numpy as np

from tests.judges.child import Case
from tests.judges.stateful.on_cpu import on_cpu, on_one_thread
from xloom.hlo.module import Module, ModuleConfig
from xloom.hlo.proto.decoder import decode
from xloom.interpreter.bounds import bounds, leaves
from xloom.stablehlo.reference import run_on_xla_cpu


@dataclass(frozen=True)
class Source:
    """A program: a number of a generator's sequence, or a HloModuleProto and its arguments."""

    seed: int = 0
    number: int = 0
    proto: bytes = b""
    arguments: tuple[np.ndarray, ...] = ()
    generator: str = "tests.judges.programs.generator"
    """The module whose `generate` makes it, and with it what it calls."""

    def load(self) -> tuple[Module, Sequence[np.ndarray]]:
        """The module and its arguments."""
        made_by = import_module(self.generator)
        if self.proto:
            return decode(self.proto), self.arguments
        program = made_by.generate(self.seed, self.number)
        return program.module, program.arguments


@dataclass(frozen=True)
class Task:
    """A program to run on a side, the file for its results, and a name that no other task of the side has."""

    side: str
    source: Source
    file: str
    name: str


def cases(task: Task) -> Iterator[Case]:
    """The one case of a task."""
    yield task.name, lambda: _run(task)


def _run(task: Task) -> str:
    module, arguments = task.source.load()
    results = SIDES[task.side](module, arguments)
    Path(task.file).write_bytes(pickle.dumps(results))
    return ""


def _on_cpu(module: Module, arguments: Sequence[np.ndarray]) -> list[np.ndarray]:
    compiled = import_module("xloom").compile(module)
    results = leaves(compiled(*arguments))
    donated = [a.parameter for a in module.config.input_output_alias]
    if donated:
        again = leaves(compiled(*(np.array(a) for a in arguments), donated=donated))
        for k, (first, second) in enumerate(zip(results, again, strict=True)):
            if first.tobytes() != second.tobytes():
                raise AssertionError(f"output {k} is another one when arguments are donated")
    return results


def _emulated(module: Module, arguments: Sequence[np.ndarray]) -> list[np.ndarray]:
    return leaves(import_module("xloom.cuda.emulator.executable").emulated(module)(*arguments))


def _evaluated(module: Module, arguments: Sequence[np.ndarray]) -> list[np.ndarray]:
    return leaves(import_module("xloom").evaluate(module, *arguments))


def _without_header(module: Module, arguments: Sequence[np.ndarray]) -> list[np.ndarray]:
    """On XLA:CPU, its arrays row by row and its arguments kept, which says nothing about their values."""
    plain = module.clone()
    plain.config = ModuleConfig()
    return run_on_xla_cpu(plain, arguments)


SIDES = {
    "interpreter": bounds,
    "jaxlib": run_on_xla_cpu,
    "cpu": _on_cpu,
    "emulator": _emulated,
    "values": _evaluated,
    "jaxlib, no header": _without_header,
    "cpu, twice": on_cpu,
    "cpu, one thread": on_one_thread,
}
