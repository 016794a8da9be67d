"""How native code runs a loaded executable in the caller's thread, without Python."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from xloom.cpu.runtime.executable import Direct
from xloom.pjrt.compiler import Native, SpmdNative
from xloom.pjrt.cost import HandOver, is_cheap
from xloom.pjrt.log import is_enabled

if TYPE_CHECKING:
    from xloom.distributed.run import Brief
    from xloom.pjrt.executable import LoadedExecutable


@dataclass(frozen=True)
class BetweenProcesses:
    """What a program takes that has a device in each of several processes: its participant, and its turns."""

    brief: Brief
    rendezvous: Any
    participant: np.ndarray

    def failed(self) -> Exception:
        """What went wrong in the run that has just ended; tells the other processes."""
        error = self.brief.run.failure
        assert error is not None
        self.rendezvous.fail(str(error))
        self.brief.end()
        return error


@dataclass(frozen=True)
class DirectRun:
    """Native code, and who it meets on the way: others only where it is cheap."""

    code: Direct
    between: BetweenProcesses | None = None

    def failed(self, number: int) -> BaseException:
        """What went wrong in the run of this thread that has just ended with `number`."""
        return self.code.owner.failure(number) if self.between is None else self.between.failed()


def direct_run(loaded: LoadedExecutable) -> DirectRun | None:
    """Of what is cheap, or may be, with arguments and results that are arrays; None of what Python must run."""
    executable, program = loaded.executable, loaded.executable.program
    shapes = [*executable.parameters, *executable.outputs]
    if is_enabled() or len(loaded.devices) != 1 or any(not s.is_array or s.is_dynamic for s in shapes):
        return None
    if len(loaded.places) == 1:
        is_handed_over = executable.hand_over is HandOver.ALWAYS
        code = program.direct if not is_handed_over and isinstance(program, Native) else None
        return None if code is None else DirectRun(code)
    return _between_processes(loaded) if isinstance(program, SpmdNative) else None


def _between_processes(loaded: LoadedExecutable) -> DirectRun | None:
    program, processes = loaded.executable.program, loaded.client.membership.connected
    assert isinstance(program, SpmdNative)
    code = program.direct
    # another device of this process would be met in a thread of its own
    if code is None or processes is None or not processes.has_turns:
        return None
    if not is_cheap(loaded.executable.module, program.memory):
        return None
    brief = loaded.brief
    rendezvous = program.rendezvous(brief.run)
    position = divmod(loaded.positions[0], loaded.executable.options.num_partitions)
    return DirectRun(code, BetweenProcesses(brief, rendezvous, rendezvous.participant(*position)))
