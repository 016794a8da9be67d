"""Runs of a cheap program among several processes by the caller's thread: to hand one over takes as long as many."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from xloom.cpu.runtime.spmd_executable import BrokenRendezvous
from xloom.pjrt.compiler import SpmdNative
from xloom.pjrt.direct import BetweenProcesses, direct_run
from xloom.pjrt.run_lengths import LONG
from xloom.trace import active

if TYPE_CHECKING:
    from xloom.pjrt.executable import LoadedExecutable


class BriefRuns:
    """Those of one program, until one fails."""

    def __init__(self, program: SpmdNative, between: BetweenProcesses, participant: np.ndarray):
        self._program, self._between, self._participant = program, between, participant
        self._are_expected = self._have_failed = False

    @staticmethod
    def of(loaded: LoadedExecutable) -> BriefRuns | None:
        """Of a program that may run so: one device here, nothing donated, and cheap."""
        program = loaded.executable.program
        if loaded.executable.donated or len(loaded.devices) != 1 or not isinstance(program, SpmdNative):
            return None
        direct = direct_run(loaded)
        if direct is None or direct.between is None:
            return None
        return BriefRuns(program, direct.between, direct.participants[0])

    def saw(self, seconds: float) -> None:
        """Notes how long a run took, with its wait for the others: the caller would rather go on than wait long."""
        self._are_expected = seconds < LONG

    def attempt(self, values: Sequence[np.ndarray]) -> Any:
        """The result, or None where the run would be long or wait for another one: it has not begun then.

        Raises what went wrong, of which the other processes have been told."""
        brief = self._between.brief
        if self._have_failed or not self._are_expected or active() is not None or not brief.try_begin():
            return None
        begun = time.perf_counter()
        try:
            found = self._program.run_as(self._participant, values)
        except BaseException as error:
            self._have_failed = True
            if isinstance(error, BrokenRendezvous):
                brief.run.keep(error.memory)
                raise self._between.failed() from None
            self._between.rendezvous.fail(str(error))
            brief.end()
            raise
        brief.end()
        self.saw(time.perf_counter() - begun)
        return found
