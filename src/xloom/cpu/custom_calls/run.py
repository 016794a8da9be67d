"""Runs of programs, as the code outside that they call sees them."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from xloom.calls.failure import failure
from xloom.cpu.runtime.memory_pool import Block as Memory
from xloom.hlo.instruction import Instruction

if TYPE_CHECKING:
    from xloom.calls.program_run import ProgramRun
    from xloom.calls.typed_ffi import Execution

DEVICE = "CPU"
"""What native programs run on, in messages."""


@dataclass(slots=True)
class Run:
    """One run of a program, as the Python code that it calls sees it."""

    arguments: Sequence[np.ndarray]
    results: Sequence[np.ndarray]
    constants: Sequence[np.ndarray]
    arena: Memory
    infeed: deque[Any]
    outfeed: list[Any]
    channels: dict[int | None, deque[Any]] = field(default_factory=dict)
    message: str = ""
    """Of the native call that failed."""
    error: BaseException | None = None
    """What the Python code that failed raised."""
    guarded: ProgramRun | None = None
    """What calls in guarded memory keep."""
    _execution: Execution | None = None

    @property
    def execution(self) -> Execution:
        """What typed calls see of the run."""
        if self._execution is None:
            from xloom.calls.typed_ffi import Execution  # here: few programs have calls that ask for it

            self._execution = Execution()
        return self._execution

    def channel(self, number: int | None) -> deque[Any]:
        """What was sent on a channel and not received yet."""
        return self.channels.setdefault(number, deque())


class Unwatched(threading.local):
    """Takes the place of a run that Python has not started; its thread asks for what failed."""

    message = ""
    error: BaseException | None = None


unwatched = Unwatched()


def call_error(instruction: Instruction, run: Run | None) -> BaseException:
    """The error of the call that ended a run; None is that of this thread which Python has not started."""
    failed = run or unwatched
    error, failed.error = failed.error, None  # not kept here: its traceback refers to the run
    return error or failure(instruction, failed.message)
