"""A program that several devices run at once, as one of them runs it."""

from __future__ import annotations

from typing import Any

import numpy as np

from xloom.cpu.custom_calls.run import Run
from xloom.cpu.entry.collective_sites import CollectiveSite, named_as_in
from xloom.cpu.entry.main_function import BROKEN
from xloom.cpu.runtime.executable import Executable
from xloom.cpu.runtime.memory_pool import Block
from xloom.cpu.runtime.rendezvous import Exchange, NativeRendezvous
from xloom.cpu.runtime.threads.rendezvous_ir import PARTICIPANT_WORDS
from xloom.errors import EvaluationError
from xloom.hlo.dtype import u64
from xloom.hlo.lazy_module import declaration_of
from xloom.hlo.module import Module
from xloom.hlo.shape import array_shape
from xloom.trace import active


def is_spmd(module: Module) -> bool:
    """True for programs of several devices."""
    return module.config.replica_count * module.config.num_partitions > 1


class BrokenRendezvous(EvaluationError):
    """Another device will never come."""

    memory: Any = None
    """That of the run which has ended so."""


class SpmdExecutable(Executable):
    """Takes one more argument: its device's participant in a rendezvous, u64[7]."""

    hidden = (("participant", array_shape(u64, (PARTICIPANT_WORDS,))),)

    def __init__(self, *arguments: Any, **options: Any):
        super().__init__(*arguments, **options)
        self._spares = False  # the arena of a run that breaks may not be another's: see `BrokenRendezvous.memory`

    @property
    def collectives(self) -> list[CollectiveSite]:
        """The program's collectives, as its module calls them, which need not be that which was compiled."""
        return named_as_in(self._image.collectives, self.module)

    @property
    def is_independent(self) -> bool:
        """Whether devices have nothing to wait for each other with: no collectives, and no calls but LAPACK's."""
        return not self._image.collectives and not self._image.needs_run

    def rendezvous(self, exchange: Exchange | None = None) -> NativeRendezvous:
        """For one run on all devices, some of which may be in other processes."""
        config = declaration_of(self.module).config
        return NativeRendezvous(config.replica_count, config.num_partitions, self.memory.rendezvous_bytes, exchange)

    def __call__(self, *arguments: Any, participant: np.ndarray | None = None, **options: Any) -> Any:
        """As `Executable`; without a participant it is the first device's program, and alone.

        Raises EvaluationError where that waits for another device."""
        if participant is None:
            return self._alone(arguments, options)
        timed: Any = self.timed() if active() is not None else None
        if timed is not None:
            return timed(*arguments, participant=participant, **options)
        return super().__call__(*arguments, participant, **options)

    def _alone(self, arguments: tuple[Any, ...], options: dict[str, Any]) -> Any:
        rendezvous = self.rendezvous()
        rendezvous.fail("it has not been started")
        try:
            return self(*arguments, participant=rendezvous.participant(0, 0), **options)
        except BrokenRendezvous:
            config = declaration_of(self.module).config
            raise EvaluationError(
                f"a program of {config.replica_count * config.num_partitions} devices, run on one",
                where=self.module.name,
                hint="xloom run has a thread for each device; in Python xloom.pjrt.Client.cpu(devices) does",
            ) from None

    def _finished(self, number: int, run: Run | None, outputs: tuple[np.ndarray, ...], arena: Block) -> Any:
        if number == BROKEN:
            error = BrokenRendezvous("another device failed", where=self.module.name)
            error.memory = outputs, arena
            raise error
        return super()._finished(number, run, outputs, arena)
