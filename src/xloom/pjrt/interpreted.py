"""The interpreter as a backend."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

import xloom
from xloom.codegen.buffer_values import leaf_shapes
from xloom.cpu.runtime.executable import CompiledMemoryStats
from xloom.hlo.module import Module
from xloom.interpreter.devices import Rendezvous
from xloom.interpreter.evaluator import Evaluator
from xloom.pjrt.compiler import Compiler, Launch, Program


class InterpreterCompiler(Compiler):
    """Programs that the interpreter evaluates."""

    platform_name = "interpreter"
    platform_version = f"xloom {xloom.__version__}"
    device_kind = "interpreter"

    def compile(self, module: Module) -> Program:
        """The module, as a program that the interpreter evaluates."""
        return Interpreted(module)


class Interpreted:
    """A module that the interpreter evaluates as it stands."""

    def __init__(self, module: Module):
        self._module = module
        leaves = [leaf for p in module.entry.parameters for leaf in leaf_shapes(p.shape)]
        results = leaf_shapes(module.entry.root.shape)
        self.memory = CompiledMemoryStats(sum(s.nbytes for s in leaves), sum(s.nbytes for s in results), 0, 0)

    def rendezvous(self) -> Rendezvous:
        """Where the interpreters of one run exchange the operands of collectives."""
        return Rendezvous()

    def run(self, arguments: Sequence[np.ndarray], launch: Launch) -> Any:
        """Evaluates the module with NumPy, for one device."""
        evaluator = Evaluator(
            self._module,
            replica=launch.replica,
            partition=launch.partition,
            replica_count=launch.replicas,
            partition_count=launch.partitions,
            rendezvous=launch.rendezvous,
        )
        return _dense(evaluator.call(self._module.entry, list(arguments)))


def _dense(value: Any) -> Any:
    """With its elements one after another, as whoever reads a buffer's memory expects them."""
    if isinstance(value, tuple):
        return tuple(map(_dense, value))
    return np.asarray(value, order="C") if isinstance(value, np.ndarray) else value
