"""One custom call in the sanitizer on a device: copies of its arrays between red zones, looked at afterwards.

No page of a device's memory can be protected from a kernel: what it reads outside of its arrays is not found, and what
it writes is found by the pattern that it destroys.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from xloom.calls.buffers import operand_shapes
from xloom.calls.registry import place
from xloom.calls.sanitizer.guarded import element_at, index_of
from xloom.calls.sanitizer.poison import poison, unwritten
from xloom.cuda.program import Call
from xloom.cuda.run_time.device import CudaDevice
from xloom.cuda.run_time.device_view import array_shapes, lying
from xloom.cuda.run_time.memory import Block
from xloom.errors import CustomCallError
from xloom.hlo.instruction import Instruction
from xloom.hlo.shape import Shape

ZONE = 4096
"""Bytes before an array and behind it, a multiple of what the driver aligns to."""
_PATTERN = 0xC5
"""In each byte of them."""


@dataclass
class _Guarded:
    name: str
    shape: Shape
    original: int
    """The address of the array that this is a copy of."""
    block: Block
    before: np.ndarray
    """All of its bytes, and those of its zones, as they were before the call."""
    is_result: bool
    is_poisoned: bool

    @property
    def address(self) -> int:
        return self.block.pointer + ZONE

    @property
    def nbytes(self) -> int:
        return self.shape.nbytes


class GuardedCudaCall:
    """A call's arrays, guarded; `finish` says what became of them."""

    def __init__(self, device: CudaDevice, call: Call, operands: Sequence[int], results: Sequence[int]):
        """The device is the thread's. Raises OutOfMemoryError."""
        self._device, self._call = device, call
        self._arrays: dict[int, _Guarded] = {}
        instruction = call.instruction
        is_python = call.registration.function is not None
        aliased = {number for number, given in enumerate(results) if given in set(operands) - {0}}
        shapes = array_shapes([instruction.shape])
        self.results = [
            self._guarded(_name("result", k, len(shapes)), s, a, True, not is_python and k not in aliased)
            for k, (a, s) in enumerate(zip(results, shapes, strict=True))
        ]
        """The addresses to call with."""
        given = zip(operands, array_shapes(operand_shapes(instruction)), strict=True)
        self.operands = [self._guarded(f"operand {k}", s, a, False, False) for k, (a, s) in enumerate(given)]

    def _guarded(self, name: str, shape: Shape | None, address: int, is_result: bool, is_poisoned: bool) -> int:
        if shape is None:
            return 0
        if address in self._arrays and address:
            return self._arrays[address].address
        device, nbytes = self._device, shape.nbytes
        before = device.pinned.array(nbytes + 2 * ZONE)
        before[...] = _PATTERN
        inside = before[ZONE : ZONE + nbytes]
        if is_poisoned:
            poison(inside, shape.dtype)
        elif nbytes:
            device.driver.call("cuMemcpyDtoHAsync_v2", inside.ctypes.data, address, nbytes, device.compute)
            device.driver.call("cuStreamSynchronize", device.compute)
        block = device.memory.allocate(before.nbytes)
        device.driver.call("cuMemcpyHtoDAsync_v2", block.pointer, before.ctypes.data, before.nbytes, device.compute)
        made = _Guarded(name, shape, address, block, before, is_result, is_poisoned)
        self._arrays[address or -len(self._arrays) - 1] = made
        return made.address

    def finish(self) -> None:
        """Waits for the call, and copies its results to where they belong.

        Raises CustomCallError that says what it did wrong.
        """
        found: list[str] = []
        for guarded in self._arrays.values():
            found += self._looked_at(guarded)
        if found:
            registration, instruction = self._call.registration, self._call.instruction
            message = f"custom call {registration.name!r} {'; it '.join(found)}"
            raise CustomCallError(message, where=place(instruction))

    def _looked_at(self, guarded: _Guarded) -> list[str]:
        device, nbytes = self._device, guarded.nbytes
        after = device.pinned.array(guarded.before.nbytes)
        device.driver.call(
            "cuMemcpyDtoHAsync_v2", after.ctypes.data, guarded.block.pointer, after.nbytes, device.compute
        )
        device.driver.call("cuStreamSynchronize", device.compute)
        array, inside = lying(guarded.shape), after[ZONE : ZONE + nbytes]
        wrong = np.flatnonzero(after != guarded.before) - ZONE
        before, behind = wrong[wrong < 0], wrong[wrong >= nbytes]
        places = [*before[-1:], *behind[:1]]
        if not guarded.is_result:
            places += [*wrong[(wrong >= 0) & (wrong < nbytes)][:1]]
        found = [f"wrote to {element_at(guarded.name, array, int(offset))}" for offset in places]
        if guarded.is_poisoned and _is_used(self._call.instruction, guarded.name):
            numbers = unwritten(inside, guarded.shape.dtype)
            if numbers.size:
                more = f" and {numbers.size - 1} more" if numbers.size > 1 else ""
                found.append(f"did not write element {index_of(array, int(numbers[0]))}{more} of {guarded.name}")
        if guarded.is_result and nbytes:
            given = guarded.original, guarded.address, nbytes, device.compute
            device.driver.call("cuMemcpyDtoDAsync_v2", *given)
        return found


def _name(kind: str, number: int, count: int) -> str:
    return f"the {kind}" if count == 1 else f"the {kind} {{{number}}}"


def _is_used(instruction: Instruction, name: str) -> bool:
    """Whether the program uses a result, by its name here; scratch memory it does not."""
    users = instruction.users
    is_nested = any(element.is_tuple for element in instruction.shape.elements)
    is_root = instruction.parent is not None and instruction.parent.root is instruction
    if is_root or is_nested or not name.endswith("}") or any(u.opcode != "get-tuple-element" for u in users):
        return True
    return any(f"{{{u['index']}}}" in name for u in users)
