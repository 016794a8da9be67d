"""Custom calls on a device: what is registered for its platform, with buffers in its memory."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from xloom.calls import buffers, device_abi
from xloom.calls.failure import failure
from xloom.calls.host import value_of
from xloom.calls.program_run import ProgramRun
from xloom.calls.registry import Registration, target_of
from xloom.calls.sanitizer import active
from xloom.calls.sanitizer.call import sanitized
from xloom.calls.typed_ffi.errors import Failure
from xloom.hlo.instruction import Instruction
from xloom.interpreter.registry import Value
from xloom.sim.device_values import copied
from xloom.sim.memory import DeviceMemory, DeviceMemoryError
from xloom.status_code import Code

if TYPE_CHECKING:
    from xloom.sim.simulator import Simulator


class InStream:
    """A device while a program runs in a stream of it, as typed handlers can ask for it."""

    ordinal = 0

    def __init__(self, memory: DeviceMemory, stream: int):
        self.stream = stream
        """See typed_ffi.Device."""
        self._memory = memory
        self._taken: dict[int, np.ndarray] = {}

    def allocate(self, size: int, alignment: int) -> int:
        """See typed_ffi.Device."""
        try:
            array = self._memory.allocate(size + alignment)
        except DeviceMemoryError as error:
            raise Failure(Code.RESOURCE_EXHAUSTED, str(error)) from None
        address = -(-array.ctypes.data // max(1, alignment)) * max(1, alignment)
        self._taken[address] = array
        return address

    def free(self, address: int) -> None:
        """See typed_ffi.Device."""
        self._taken.pop(address, None)


def call_on_device(device: Simulator, run: ProgramRun, instruction: Instruction, operands: Sequence[Value]) -> Value:
    """The value of a custom call: arrays in device memory. In the sanitizer, guarded memory stands for it meanwhile.

    Raises CustomCallError as on the host: when the target is not registered for the device's platform, when its ABI is
    not the call's, when it fails.
    """
    registration = target_of(instruction, device.platform)
    take = device.memory.allocate
    shapes = buffers.operand_shapes(instruction)
    settings = active()
    if settings is not None:
        given = list(zip(operands, shapes, strict=True))
        guarded = sanitized(settings, instruction, given, registration, device.name, partial(_perform, run))
        return value_of(copied(guarded, take))
    inputs = [buffers.place(v, s, take) for v, s in zip(operands, shapes, strict=True)]
    out = buffers.allocate(instruction.shape, take)
    buffers.share_aliases(instruction, out, inputs)
    _perform(run, registration, instruction, out, inputs)
    return value_of(out)


def _perform(
    run: ProgramRun, registration: Registration, instruction: Instruction, out: Any, inputs: Sequence[Any]
) -> None:
    """Calls with these buffers."""
    if registration.function is not None:
        run.python_call(registration, instruction)(out, [buffers.read_only(i) for i in inputs])
    elif device_abi.checked_version(registration, instruction) == device_abi.TYPED:
        run.typed_call(registration, instruction, out, inputs)
    else:
        addresses = [0 if a is None else a.ctypes.data for a in buffers.flat((*inputs, out))]
        opaque = instruction.backend_config.encode("utf-8", "surrogateescape")
        stream = run.execution.device.stream
        message = device_abi.call(registration, instruction, stream, addresses, opaque)
        if message is not None:
            raise failure(instruction, message)
