"""What native code must know of a loaded executable: where the code is, and which arrays it takes and gives."""

from __future__ import annotations

import ctypes
from typing import Any

from xloom.cpu.runtime.executable import Direct
from xloom.pjrt.capi.cells import record_address
from xloom.pjrt.capi.native_structs import ARGUMENT, PLAN, RESULT
from xloom.pjrt.compiler import Native
from xloom.pjrt.executable import LoadedExecutable
from xloom.pjrt.log import is_enabled


class Plan:
    """A loaded executable in C memory."""

    def __init__(self, loaded: LoadedExecutable):
        direct = _direct(loaded)
        if direct is None:
            self._struct = PLAN.new()
        else:
            executable, (device,) = loaded.executable, loaded.devices
            donated, aliases = executable.donated, dict(direct.aliases)
            self._kept = direct
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
                is_native=1,
                main=direct.main,
                constants=direct.constants,
                arena=direct.arena_bytes,
                num_arguments=len(executable.parameters),
                num_results=len(executable.outputs),
                num_donated=len(donated),
                arguments=ctypes.addressof(self._arguments),
                results=ctypes.addressof(self._results),
            )
        self.address = ctypes.addressof(self._struct)

    @property
    def is_native(self) -> bool:
        """Whether native code runs it, if all arguments are there."""
        return bool(self._struct[PLAN.offset("is_native") // 8])

    def leave_to_python(self) -> None:
        """Has Python run it from now on, or say why not."""
        self._struct[PLAN.offset("is_native") // 8] = 0


def _direct(loaded: LoadedExecutable) -> Direct | None:
    """How to run directly what is cheap."""
    executable, program = loaded.executable, loaded.executable.program
    if (
        is_enabled()
        or len(loaded.places) != 1
        or not loaded.devices
        or not executable.is_cheap
        or not isinstance(program, Native)
    ):
        return None
    shapes = [*executable.parameters, *executable.outputs]
    if not all(shape.is_array and not shape.is_dynamic for shape in shapes):
        return None
    return program.direct


def _donated_argument(number: int, aliases: dict[int, int], parameters: list[Any], nbytes: int) -> int:
    argument = aliases.get(number, -1)
    return argument if argument >= 0 and parameters[argument].nbytes == nbytes else -1


def _table(rows: Any) -> Any:
    words = [word for row in rows for word in row]
    return (ctypes.c_uint64 * max(1, len(words)))(*words)
