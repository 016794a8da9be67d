"""How native code runs a loaded executable in the caller's thread, without Python."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from xloom.cpu.runtime.executable import Direct
from xloom.cpu.runtime.rendezvous import NativeRendezvous
from xloom.pjrt.compiler import Native, SpmdNative
from xloom.pjrt.execution_mode import ExecutionMode
from xloom.pjrt.log import is_enabled

if TYPE_CHECKING:
    from xloom.distributed.run import Brief
    from xloom.pjrt.executable import LoadedExecutable


_WORDS = 1 << 14
"""Arguments and results on all devices, at most, of which native code keeps tables on the stack."""


@dataclass(frozen=True)
class BetweenProcesses:
    """How a program takes turns that has a device in each of several processes."""

    brief: Brief
    rendezvous: Any

    def failed(self) -> Exception:
        """What went wrong in the run that has just ended; tells the other processes."""
        error = self.brief.run.conclude()
        assert error is not None
        self.rendezvous.fail(str(error))
        self.brief.end()
        return error


@dataclass(frozen=True)
class DirectRun:
    """Native code, and who it meets on the way: others only where it is cheap."""

    code: Direct
    participants: Sequence[np.ndarray] = ()
    """A further argument of programs of several devices, a device."""
    between: BetweenProcesses | None = None

    def failed(self, number: int) -> BaseException:
        """What went wrong in the run of this thread that has just ended with `number`."""
        return self.code.owner.failure(number) if self.between is None else self.between.failed()


def direct_run(loaded: LoadedExecutable) -> DirectRun | None:
    """Of what is cheap, or may be, with arguments and results that are arrays; None of what Python must run."""
    executable, program = loaded.executable, loaded.executable.program
    shapes = [*executable.parameters, *executable.outputs]
    if is_enabled() or any(not s.is_array or s.is_dynamic for s in shapes):
        return None
    if isinstance(program, SpmdNative) and not loaded.is_independent:
        return _between_processes(loaded) if len(loaded.devices) == 1 else None
    if executable.execution_mode is ExecutionMode.ASYNCHRONOUS or not isinstance(program, Native | SpmdNative):
        return None
    code = program.direct
    if code is None or len(shapes) * len(loaded.devices) > _WORDS:
        return None
    return DirectRun(code, _participants(loaded, program.rendezvous()))


def _participants(loaded: LoadedExecutable, rendezvous: NativeRendezvous | None) -> list[np.ndarray]:
    """One for each device that this process has, in a rendezvous of all; none where there is but one device."""
    if rendezvous is None:
        return []
    partitions = loaded.executable.options.num_partitions
    return [rendezvous.participant(*divmod(position, partitions)) for position in loaded.positions]


def _between_processes(loaded: LoadedExecutable) -> DirectRun | None:
    program, processes = loaded.executable.program, loaded.client.process_topology.connected
    assert isinstance(program, SpmdNative)
    code = program.direct
    # another device of this process would be met in a thread of its own
    if code is None or processes is None or not processes.has_turns:
        return None
    if not loaded.executable.exchanges.is_cheap:
        return None
    brief = loaded.brief
    rendezvous = program.rendezvous(brief.run)
    return DirectRun(code, _participants(loaded, rendezvous), BetweenProcesses(brief, rendezvous))
