"""What the calls of one run of a program keep from one time to the next."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from xloom.calls import buffers
from xloom.calls.python_source import bound
from xloom.calls.registry import Registration
from xloom.calls.typed_ffi import HOST, CallSite, Device, Execution
from xloom.hlo.instruction import Instruction

PythonCall = Callable[[Any, Sequence[Any]], None]


class ProgramRun:
    """One run: its execution on a device, the typed handlers' states, and Python functions with their attributes."""

    def __init__(self, device: Device = HOST) -> None:
        self.execution = Execution(device)
        self._sites: dict[Instruction, tuple[CallSite, Any]] = {}
        self._python: dict[Instruction, tuple[Registration, PythonCall]] = {}

    def adopt(self, site: CallSite) -> None:
        """Makes a call that was instantiated earlier one of this run, if it is not already."""
        if site.instruction not in self._sites:
            self._sites[site.instruction] = site, site.frame(self)

    def python_call(self, registration: Registration, instruction: Instruction) -> PythonCall:
        """A Python function, with the attributes of the call decoded once."""
        known = self._python.get(instruction)
        if known is None or known[0] is not registration:
            known = self._python[instruction] = registration, bound(registration, instruction)
        return known[1]

    def typed_call(self, registration: Registration, instruction: Instruction, out: Any, inputs: Sequence[Any]) -> None:
        """Calls a typed handler, which is instantiated the first time."""
        arrays = (*buffers.flat(tuple(inputs)), *buffers.flat(out))
        self.typed_call_at(registration, instruction, [0 if a is None else a.ctypes.data for a in arrays])

    def typed_call_at(self, registration: Registration, instruction: Instruction, addresses: Sequence[int]) -> None:
        """The same with the addresses of all operands' arrays, then of the result's; 0 for tokens."""
        if instruction not in self._sites:
            self.adopt(CallSite(registration, instruction, buffers.operand_shapes(instruction)))
        site, frame = self._sites[instruction]
        site.handlers = (*site.handlers[:-1], registration.address)
        site.call(frame, addresses)
