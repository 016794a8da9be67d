"""A program on the first GPU, as the commands run it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from xloom.hlo.module import Module
from xloom.interpreter.nested_values import with_each

if TYPE_CHECKING:
    from xloom.pjrt.cuda import FromHost


def on_gpu(module: Module) -> FromHost:
    """A module that is compiled for the first GPU, as a function of the host's arrays.

    Raises UnsupportedError where there is no GPU, LoweringError for what has no kernels.
    """
    from xloom.pjrt.compiler import Launch
    from xloom.pjrt.cuda import CudaCompiler, FromHost, gpus

    (gpu,) = gpus(1)
    return FromHost(CudaCompiler([gpu]).compile(module), gpu, Launch())


class TimedOnGpu:
    """A program on the first GPU, and its arguments, which are there: a run ends when its results are there."""

    def __init__(self, module: Module, arguments: Sequence[Any]):
        self.program = on_gpu(module)
        self._arguments = [self.program.to_device(a) for a in arguments]

    def fresh_arguments(self) -> Sequence[Any]:
        """See alternation.Side. No run takes the memory of its arguments."""
        return self._arguments

    def __call__(self, arguments: Sequence[Any]) -> Any:
        """See alternation.Side. Raises PjrtError for what went wrong."""
        from xloom.pjrt.enqueued import Enqueued

        return with_each(self.program.enqueued(arguments), lambda value: Enqueued.of(value).result())
