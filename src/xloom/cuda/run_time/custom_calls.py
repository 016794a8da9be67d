"""Code outside of programs, which is given arrays on the device and a stream, and gives that work of its own."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

import numpy as np

from xloom.calls import device_abi, host
from xloom.calls.buffers import operand_shapes
from xloom.calls.failure import failure
from xloom.calls.program_run import ProgramRun
from xloom.calls.sanitizer import active
from xloom.calls.typed_ffi.errors import Failure
from xloom.cuda.driver.entry_points import MAX_DYNAMIC_SHARED_BYTES
from xloom.cuda.kernel import SHARED_BYTES
from xloom.cuda.program import Call
from xloom.cuda.run_time.device import CudaDevice
from xloom.cuda.run_time.device_view import DeviceView, Memory, Sizes, nested_views
from xloom.cuda.run_time.guarded_call import GuardedCudaCall
from xloom.cuda.run_time.memory import Block
from xloom.errors import CustomCallError, OutOfMemoryError
from xloom.interpreter.nested_values import arrays, with_each
from xloom.llvm.target import Target
from xloom.status_code import Code
from xloom.trace import span


class CallsInStream:
    """The calls of one run of a program on a device, in the stream that computes."""

    def __init__(self, device: CudaDevice):
        self._device = device
        self._memory = _InStream(device)
        self._run = ProgramRun(self._memory)

    def make(self, call: Call, operands: Sequence[int], results: Sequence[int]) -> None:
        """Makes a call with arrays at these addresses; 0 for tokens. The device is the thread's.

        Raises CustomCallError when it fails, or does what the sanitizer finds.
        """
        settings = active()
        if settings is None:
            perform(self._run, call, operands, results, self._memory)
            return
        guarded = GuardedCudaCall(self._device, call, operands, results)
        perform(self._run, call, guarded.operands, guarded.results, self._memory)
        guarded.finish()


def perform(run: ProgramRun, call: Call, operands: Sequence[int], results: Sequence[int], memory: Memory) -> None:
    """Calls what is registered, by the ABI that it has, on arrays in `memory`. Raises CustomCallError when it fails."""
    instruction, registration = call.instruction, call.registration
    if call.is_by_host:
        _by_host(call, operands, results, memory)
        return
    if registration.function is not None:
        inputs = nested_views(operand_shapes(instruction), operands, memory, is_writable=False)
        (out,) = nested_views([instruction.shape], results, memory, is_writable=True)
        run.python_call(registration, instruction)(out, inputs)
        return
    addresses = [*operands, *results]
    if device_abi.checked_version(registration, instruction) == device_abi.TYPED:
        run.typed_call_at(registration, instruction, addresses)
        return
    opaque = instruction.backend_config.encode("utf-8", "surrogateescape")
    message = device_abi.call(registration, instruction, memory.stream, addresses, opaque)
    if message is not None:
        raise failure(instruction, message)


def _by_host(call: Call, operands: Sequence[int], results: Sequence[int], memory: Memory) -> None:
    """Does a call on copies of its arrays, for which the host waits."""
    instruction = call.instruction
    with span(f"{call.registration.name} by the host", "custom-call"):
        inputs = nested_views(operand_shapes(instruction), operands, memory, is_writable=False)
        (out,) = nested_views([instruction.shape], results, memory, is_writable=True)
        value = host.invoke(instruction, [with_each(each, DeviceView.to_host) for each in inputs], ProgramRun())
        for view, array in zip(arrays(out), arrays(value), strict=True):
            view.from_host(array)


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

    @property
    def target(self) -> Target:
        """See Memory."""
        return self._device.target

    def launch(
        self, image: bytes, symbol: str, grid: Sizes, block: Sizes, shared_bytes: int, arguments: Sequence[Any]
    ) -> None:
        """See Memory."""
        function = self._device.modules.of_image(image, symbol)
        driver, values = self._device.driver, [_parameter(each, symbol) for each in arguments]
        if shared_bytes > SHARED_BYTES:
            driver.call("cuFuncSetAttribute", function, MAX_DYNAMIC_SHARED_BYTES, shared_bytes)
        places = (ctypes.c_void_p * max(1, len(values)))(*map(ctypes.addressof, values))
        given = function, *grid, *block, shared_bytes, self.stream, ctypes.addressof(places), None
        driver.call("cuLaunchKernel", *given)

    def read(self, address: int, nbytes: int) -> np.ndarray:
        """See Memory."""
        device, out = self._device, self._device.pinned.array(nbytes)
        if nbytes:
            device.driver.call("cuMemcpyDtoHAsync_v2", out.ctypes.data, address, nbytes, device.compute)
            device.driver.call("cuStreamSynchronize", device.compute)
        return out

    def write(self, address: int, data: np.ndarray) -> None:
        """See Memory."""
        device = self._device
        if data.nbytes:
            staged = device.pinned.copied(data)
            device.driver.call("cuMemcpyHtoDAsync_v2", address, staged.ctypes.data, data.nbytes, device.compute)
            device.record(device.compute, "a custom call's array to the device", staged)


def _parameter(value: Any, symbol: str) -> Any:
    """A kernel's parameter, as the driver copies it. Raises CustomCallError for what is none."""
    if isinstance(value, DeviceView):
        return ctypes.c_void_p(value.address)
    if isinstance(value, ctypes._SimpleCData | ctypes.Structure):
        return value
    if isinstance(value, np.generic):
        return (ctypes.c_uint8 * value.nbytes).from_buffer_copy(value.tobytes())
    raise CustomCallError(
        f"the kernel {symbol!r} is given a {type(value).__name__}, whose size in C nothing says",
        hint="pass np.int32(n), ctypes.c_float(x), or one of the views",
    )
