"""Custom calls on a device: what is registered for its platform, with buffers in its memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from xloom.calls import buffers, device_abi
from xloom.calls.failure import failure
from xloom.calls.python_source import bound
from xloom.calls.registry import target_of
from xloom.hlo.module import Instruction
from xloom.interpreter.registry import TOKEN, Value

if TYPE_CHECKING:
    from xloom.sim.simulator import Simulator
    from xloom.sim.stream import Stream


def call_on_device(device: Simulator, stream: Stream, instruction: Instruction, operands: Sequence[Value]) -> Value:
    """The value of a custom call: arrays in device memory.

    Raises CustomCallError as on the host: when the target is not registered for the device's platform, when its ABI is
    not the call's, when it fails.
    """
    registration = target_of(instruction, device.platform)
    take = device.memory.allocate
    shapes = buffers.operand_shapes(instruction)
    inputs = [buffers.place(v, s, take) for v, s in zip(operands, shapes, strict=True)]
    out = buffers.allocate(instruction.shape, take)
    buffers.share_aliases(instruction, out, inputs)
    if registration.function is not None:
        bound(registration, instruction)(out, [buffers.read_only(i) for i in inputs])
    else:
        arrays = buffers.flat((*inputs, out))
        opaque = instruction.backend_config.encode("utf-8", "surrogateescape")
        addresses = [0 if a is None else a.ctypes.data for a in arrays]
        message = device_abi.call(registration, instruction, stream.handle, addresses, opaque)
        if message is not None:
            raise failure(instruction, message)
    return _value(out)


def _value(out: Any) -> Value:
    if isinstance(out, tuple):
        return tuple(_value(o) for o in out)
    return TOKEN if out is None else out
