"""What native code must know of a loaded executable: where the code is, and which arrays it takes and gives."""

from __future__ import annotations

import ctypes
import math
from typing import Any

from xloom.pjrt.capi.cells import record_address
from xloom.pjrt.capi.native_structs import ARGUMENT, PLAN, RESULT, TOOK_LONG
from xloom.pjrt.cost import HandOver
from xloom.pjrt.direct import BetweenProcesses, direct_run
from xloom.pjrt.executable import LoadedExecutable


class Plan:
    """A loaded executable in C memory."""

    def __init__(self, loaded: LoadedExecutable):
        self._run = direct_run(loaded)
        if self._run is None:
            self._struct = PLAN.new()
        else:
            executable, (device,) = loaded.executable, loaded.devices
            direct, between = self._run.code, self._run.between
            donated, aliases = executable.donated, dict(direct.aliases)
            self._arguments = _table(
                ARGUMENT.new(record=record_address(shape, device.default_memory), is_donated=number in donated)
                for number, shape in enumerate(executable.parameters)
            )
            self._results = _table(
                RESULT.new(
                    record=record_address(shape, device.memory_space(kind)),
                    nbytes=shape.nbytes,
                    donated_argument=_donated_argument(number, aliases, executable.parameters, shape.nbytes),
                )
                for number, (shape, kind) in enumerate(zip(executable.outputs, executable.output_kinds, strict=True))
            )
            self._struct = PLAN.new(
                is_native=executable.is_cheap or between is not None,
                is_watched=executable.hand_over is HandOver.IF_LONG,
                main=direct.main,
                constants=direct.constants,
                arena=direct.arena_bytes,
                num_arguments=len(executable.parameters),
                num_results=len(executable.outputs),
                num_donated=len(donated),
                arguments=ctypes.addressof(self._arguments),
                results=ctypes.addressof(self._results),
                **(_turns(between) if between is not None else {}),
            )
        self.address = ctypes.addressof(self._struct)

        self._executable = loaded.executable

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
        "participant": between.participant.ctypes.data,
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
