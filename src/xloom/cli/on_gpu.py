"""A program on the first GPU, as the commands run it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from xloom.hlo.module import Module
from xloom.interpreter.nested_values import with_each


class OnGpu:
    """A module that is compiled for the first GPU."""

    def __init__(self, module: Module):
        """Raises UnsupportedError where there is no GPU, LoweringError for what has no kernels."""
        from xloom.pjrt.compiler import Launch
        from xloom.pjrt.cuda import CudaCompiler, gpus

        self._compiler, self._alone = CudaCompiler(gpus(1)), Launch()
        self._program = self._compiler.compile(module)
        self.memory = self._program.memory

    def __call__(self, *arguments: Any) -> Any:
        """The results for arrays of the host's, as such."""
        found = self.enqueued([self.to_device(a) for a in arguments])
        return with_each(found, lambda value: self._compiler.to_host(value, 0))

    def to_device(self, argument: Any) -> Any:
        """An argument on the device."""
        return with_each(argument, lambda array: self._compiler.to_device(np.asarray(array, order="C"), 0))

    def enqueued(self, arguments: Sequence[Any]) -> Any:
        """The results for arguments on the device, which makes them by and by."""
        return self._program.run(arguments, self._alone)


class TimedOnGpu:
    """A program on the first GPU, and its arguments, which are there: a run ends when its results are there."""

    def __init__(self, module: Module, arguments: Sequence[Any]):
        self.program = OnGpu(module)
        self._arguments = [self.program.to_device(a) for a in arguments]

    def fresh_arguments(self) -> Sequence[Any]:
        """See alternation.Side. No run takes the memory of its arguments."""
        return self._arguments

    def __call__(self, arguments: Sequence[Any]) -> Any:
        """See alternation.Side. Raises PjrtError for what went wrong."""
        from xloom.pjrt.enqueued import Enqueued

        return with_each(self.program.enqueued(arguments), lambda value: Enqueued.of(value).result())
