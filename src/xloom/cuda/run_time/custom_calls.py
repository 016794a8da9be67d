"""Code outside of programs, which is given arrays on the device and a stream, and gives that work of its own."""

from __future__ import annotations

from collections.abc import Sequence

from xloom.calls import device_abi
from xloom.calls.buffers import operand_shapes
from xloom.calls.failure import failure
from xloom.calls.program_run import ProgramRun
from xloom.calls.sanitizer import active
from xloom.calls.typed_ffi.errors import Failure
from xloom.cuda.program import Call
from xloom.cuda.run_time.device import CudaDevice
from xloom.cuda.run_time.device_view import nested_views
from xloom.cuda.run_time.guarded_call import GuardedCudaCall
from xloom.cuda.run_time.memory import Block
from xloom.errors import OutOfMemoryError
from xloom.status_code import Code


class CallsInStream:
    """The calls of one run of a program on a device, in the stream that computes."""

    def __init__(self, device: CudaDevice):
        self._device = device
        self._run: ProgramRun | None = None

    def make(self, call: Call, operands: Sequence[int], results: Sequence[int]) -> None:
        """Makes a call with arrays at these addresses; 0 for tokens. The device is the thread's.

        Raises CustomCallError when it fails, or does what the sanitizer finds.
        """
        self._run = self._run or ProgramRun(_InStream(self._device))
        settings = active()
        if settings is None:
            perform(self._run, call, operands, results)
            return
        guarded = GuardedCudaCall(self._device, call, operands, results)
        perform(self._run, call, guarded.operands, guarded.results)
        guarded.finish()


def perform(run: ProgramRun, call: Call, operands: Sequence[int], results: Sequence[int]) -> None:
    """Calls what is registered, by the ABI that it has. Raises CustomCallError when it fails."""
    instruction, registration = call.instruction, call.registration
    if registration.function is not None:
        stream = run.execution.device.stream
        inputs = nested_views(operand_shapes(instruction), operands, stream, is_writable=False)
        (out,) = nested_views([instruction.shape], results, stream, is_writable=True)
        run.python_call(registration, instruction)(out, inputs)
        return
    addresses = [*operands, *results]
    if device_abi.checked_version(registration, instruction) == device_abi.TYPED:
        run.typed_call_at(registration, instruction, addresses)
        return
    opaque = instruction.backend_config.encode("utf-8", "surrogateescape")
    message = device_abi.call(registration, instruction, run.execution.device.stream, addresses, opaque)
    if message is not None:
        raise failure(instruction, message)


class _InStream:
    """A device while a program is given to it, as typed handlers can ask for it."""

    def __init__(self, device: CudaDevice):
        self._device = device
        self._taken: dict[int, Block] = {}

    @property
    def stream(self) -> int:
        """See typed_ffi.Device."""
        return self._device.compute

    @property
    def ordinal(self) -> int:
        """See typed_ffi.Device."""
        return self._device.ordinal

    def allocate(self, size: int, alignment: int) -> int:
        """See typed_ffi.Device."""
        try:
            block = self._device.memory.allocate(size + alignment)
        except OutOfMemoryError as error:
            raise Failure(Code.RESOURCE_EXHAUSTED, str(error)) from None
        address = -(-block.pointer // max(1, alignment)) * max(1, alignment)
        self._taken[address] = block
        return address

    def free(self, address: int) -> None:
        """See typed_ffi.Device."""
        self._taken.pop(address, None)
