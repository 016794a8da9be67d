"""How native code launches a loaded executable: where its code is, and which arrays it takes and gives."""

from __future__ import annotations

import ctypes
import math
from typing import Any

from xloom.pjrt.capi.buffer_handles import record_address
from xloom.pjrt.capi.native_structs import ARGUMENT, PLAN, RESULT, TOOK_LONG
from xloom.pjrt.direct import BetweenProcesses, DirectRun, direct_run
from xloom.pjrt.executable import LoadedExecutable
from xloom.pjrt.execution_mode import ExecutionMode


class LaunchPlan:
    """A loaded executable in C memory."""

    def __init__(self, loaded: LoadedExecutable):
        self._run = direct_run(loaded)
        self._tables: list[Any] = []
        """What the structures refer to."""
        self._struct = (
            PLAN.new()
            if self._run is None
            else _table(self._on(k, loaded, self._run) for k in range(len(loaded.devices)))
        )
        self.address = ctypes.addressof(self._struct)

        self._executable = loaded.executable

    def _on(self, number: int, loaded: LoadedExecutable, run: DirectRun) -> Any:
        """The structure for a device of a program that native code may run."""
        executable, device, direct, between = loaded.executable, loaded.devices[number], run.code, run.between
        donated, aliases = executable.donated, dict(direct.aliases)
        arguments = _table(
            ARGUMENT.new(record=record_address(shape, device.default_memory), is_donated=parameter in donated)
            for parameter, shape in enumerate(executable.parameters)
        )
        results = _table(
            RESULT.new(
                record=record_address(shape, device.memory_space(kind)),
                nbytes=shape.nbytes,
                donated_argument=_donated_argument(output, aliases, executable.parameters, shape.nbytes),
            )
            for output, (shape, kind) in enumerate(zip(executable.outputs, executable.output_kinds, strict=True))
        )
        self._tables += [arguments, results]
        return PLAN.new(
            is_native=executable.is_cheap or between is not None,
            is_watched=executable.execution_mode is ExecutionMode.BY_RUN_LENGTH,
            main=direct.main,
            constants=direct.constants,
            arena=direct.arena_bytes,
            num_devices=len(loaded.devices),
            num_arguments=len(executable.parameters),
            num_results=len(executable.outputs),
            num_donated=len(donated),
            arguments=ctypes.addressof(arguments),
            results=ctypes.addressof(results),
            participant=run.participants[number].ctypes.data if run.participants else 0,
            **(_turns(between) if between is not None else {}),
        )

    @property
    def is_native(self) -> bool:
        """Whether native code runs it, if all arguments are there."""
        return bool(self._struct[PLAN.offset("is_native") // 8])

    def follow_runs(self) -> None:
        """Has native code run it from now on if its last runs, which Python has seen, were short."""
        watched = PLAN.offset("is_watched") // 8
        if self._struct[watched]:
            if self._struct[watched] == TOOK_LONG:
                self._executable.run_lengths.saw(math.inf)
                self._struct[watched] = 1
            self._struct[PLAN.offset("is_native") // 8] = self._executable.is_cheap

    def leave_to_python(self) -> None:
        """Has Python run it from now on, or say why not."""
        self._struct[PLAN.offset("is_native") // 8] = 0

    def failed(self, number: int) -> BaseException:
        """What went wrong in the run that has just ended with `number`; Python does the next ones."""
        self.leave_to_python()
        assert self._run is not None
        return self._run.failed(number)


def _turns(between: BetweenProcesses) -> dict[str, int]:
    brief = between.brief
    return {
        "begin": brief.begin,
        "brief": brief.address,
        "end": brief.end_address,
        "turns": brief.turns,
    }


def _donated_argument(number: int, aliases: dict[int, int], parameters: list[Any], nbytes: int) -> int:
    argument = aliases.get(number, -1)
    return argument if argument >= 0 and parameters[argument].nbytes == nbytes else -1


def _table(rows: Any) -> Any:
    words = [word for row in rows for word in row]
    return (ctypes.c_uint64 * max(1, len(words)))(*words)
