"""A program of several devices, which the command runs as threads of its process, each with the same arguments."""

from __future__ import annotations

from collections.abc import Collection
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import xloom
from xloom.cpu.runtime.spmd_executable import BrokenRendezvous
from xloom.errors import XloomError
from xloom.hlo.module import Module


class OnDevices:
    """Native code of a module of several devices."""

    def __init__(self, module: Module, check: Collection[str] | None = None):
        """Raises LoweringError for what has no native code."""
        self._executable: Any = xloom.compile(module, check=check)
        config = module.config
        self._places = [(r, p) for r in range(config.replica_count) for p in range(config.num_partitions)]

    def __call__(self, *arguments: Any) -> tuple[Any, ...]:
        """Each device's result. Raises what the first device that fails by itself raises, with its number."""
        rendezvous = self._executable.rendezvous()
        with ThreadPoolExecutor(len(self._places)) as threads:
            runs = [threads.submit(self._run, rendezvous, place, arguments) for place in self._places]
        errors = {number: error for number, run in enumerate(runs) if (error := run.exception()) is not None}
        for number, error in errors.items():
            if not isinstance(error, BrokenRendezvous):
                if isinstance(error, XloomError):
                    error.message = f"device {number}: {error.message}"
                raise error
        return tuple(run.result() for run in runs)

    def _run(self, rendezvous: Any, place: tuple[int, int], arguments: tuple[Any, ...]) -> Any:
        try:
            return self._executable(*arguments, participant=rendezvous.participant(*place))
        except Exception as error:
            rendezvous.fail(str(error))
            raise


def interpreted_devices(module: Module, *arguments: Any) -> tuple[Any, ...]:
    """Each device's result, by the interpreter."""
    from xloom.interpreter.devices import evaluate_devices
    from xloom.interpreter.values import from_argument

    values = [from_argument(a, p.shape, p.name) for a, p in zip(arguments, module.entry.parameters, strict=True)]
    count = module.config.replica_count * module.config.num_partitions
    return tuple(evaluate_devices(module, [values] * count))
