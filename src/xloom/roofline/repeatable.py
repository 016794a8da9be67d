"""A program that may run again and again, also one that takes the memory of its arguments."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from xloom.cpu.compile import compile as compile_module
from xloom.hlo.donation import donated_parameters
from xloom.hlo.module import Module


class Repeatable:
    """Native code, and the arguments of each run."""

    def __init__(self, program: Callable[..., Any], arguments: Sequence[Any], donated: Sequence[int]):
        """`program` is called with the arguments and, if there are any, `donated`: the numbers of those given away."""
        self.program = program
        self._arguments, self._donated = arguments, donated
        self._run = partial(program, donated=donated) if donated else program

    @staticmethod
    def native(module: Module, arguments: Sequence[Any]) -> Repeatable:
        """Compiles a module. Raises LoweringError for what has no native code."""
        return Repeatable(compile_module(module), arguments, donated_parameters(module))

    def fresh_arguments(self) -> Sequence[Any]:
        """The arguments for one run: copies of those that it takes the memory of."""
        if not self._donated:
            return self._arguments
        return [_copied(a) if k in self._donated else a for k, a in enumerate(self._arguments)]

    def __call__(self, arguments: Sequence[Any]) -> Any:
        """Runs it on `fresh_arguments`."""
        return self._run(*arguments)


def _copied(value: Any) -> Any:
    return tuple(map(_copied, value)) if isinstance(value, tuple) else np.array(value)
