"""A program that several devices run at once, as one of them runs it."""

from __future__ import annotations

from typing import Any

import numpy as np

from xloom.cpu.custom_calls.python_callback import Run
from xloom.cpu.entry.collectives import BROKEN
from xloom.cpu.runtime.executable import Executable
from xloom.cpu.runtime.rendezvous import Meeting
from xloom.cpu.runtime.threads.rendezvous_ir import WORDS
from xloom.errors import EvaluationError
from xloom.hlo.dtype import u64
from xloom.hlo.module import Module
from xloom.hlo.shape import array_shape


def is_spmd(module: Module) -> bool:
    """True for programs of several devices."""
    return module.config.replica_count * module.config.num_partitions > 1


class BrokenMeeting(EvaluationError):
    """Another device will never come."""


class SpmdExecutable(Executable):
    """Takes one more argument: where its device sits in a meeting."""

    hidden = (("seat", array_shape(u64, (WORDS,))),)

    def meeting(self) -> Meeting:
        """For one run on all devices."""
        config = self.module.config
        return Meeting(config.replica_count, config.num_partitions, self.memory.meeting_bytes)

    def __call__(self, *arguments: Any, seat: np.ndarray | None = None, **options: Any) -> Any:
        """As `Executable`; without a seat the program is the first device's, and alone."""
        if seat is None:
            meeting = self.meeting()
            meeting.fail("it has not been started")
            seat = meeting.seat(0, 0)
        return super().__call__(*arguments, seat, **options)

    def _finished(self, number: int, run: Run | None, outputs: tuple[np.ndarray, ...]) -> Any:
        if number == BROKEN:
            raise BrokenMeeting("another device failed", where=self.module.name)
        return super()._finished(number, run, outputs)
