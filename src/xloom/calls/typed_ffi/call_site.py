"""One typed call of a program: its handler, attributes and state, ready to be executed."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

from xloom.calls.failure import failure
from xloom.calls.registry import Registration, place
from xloom.calls.typed_ffi import c_api, errors, futures
from xloom.calls.typed_ffi.attributes import AttributeMemory, parse_attributes
from xloom.calls.typed_ffi.c_api import Stage
from xloom.calls.typed_ffi.context import Execution, Owner
from xloom.calls.typed_ffi.frame import FrameTemplate
from xloom.calls.typed_ffi.handler_version import version_of
from xloom.errors import CustomCallError
from xloom.hlo.instruction import Instruction
from xloom.hlo.shape import Shape


class CallSite:
    """A call that was instantiated; what the handler's state is lives as long as this object.

    `handlers` are the addresses of the handler for each stage, 0 where there is none.
    Raises CustomCallError when the handler does not fit this version of the interface, or refuses.
    """

    def __init__(self, registration: Registration, instruction: Instruction, operands: Sequence[Shape]):
        self.instruction = instruction
        self.registration = registration
        self.handlers = (*registration.stages, registration.address)
        self.execution = Execution()
        attributes = AttributeMemory(parse_attributes(instruction.backend_config, place(instruction)))
        results = arrays_and_tokens(instruction.shape)
        self.template = FrameTemplate([s for o in operands for s in arrays_and_tokens(o)], results, attributes)
        first = FrameTemplate([], [], attributes)
        for stage in Stage:
            if self.handlers[stage]:
                self._check_version(first.copy(), stage)
        if self.handlers[Stage.INSTANTIATE]:
            frame = first.copy()
            frame.context.owner = id(self)
            self._demand(self._run(frame, Stage.INSTANTIATE))
            self.template.block.context.states = frame.context.states

    def frame(self, owner: Owner) -> Any:
        """A frame for one run, which `owner` has the execution of."""
        frame = self.template.copy()
        frame.context.owner = id(owner)
        return frame

    def call(self, frame: Any, pointers: Sequence[int]) -> None:
        """Calls the handler with the arrays at `pointers`. Raises CustomCallError when it fails."""
        for buffer, pointer in zip(frame.buffers, pointers, strict=True):
            buffer.data = pointer
        if not frame.context.prepared:
            for stage in (Stage.PREPARE, Stage.INITIALIZE):
                if self.handlers[stage]:
                    self._demand(self._run(frame, stage))
            frame.context.prepared = 1
        self._demand(self._run(frame, Stage.EXECUTE))

    def _run(self, frame: Any, stage: Stage) -> str | None:
        frame.call.stage = stage
        address = ctypes.addressof(frame)
        return outcome(address, c_api.Handler(self.handlers[stage])(address))

    def _demand(self, message: str | None) -> None:
        if message is not None:
            raise failure(self.instruction, message)

    def _check_version(self, frame: Any, stage: Stage) -> None:
        frame.context.owner = id(self)
        version, message = version_of(frame, lambda: self._run(frame, stage))
        self._demand(message)
        if version is None:
            raise CustomCallError(
                f"the code of custom call {self.registration.name!r} does not say which version of the FFI it is of",
                where=place(self.instruction),
                hint="make a typed handler of it with XLA_FFI_DEFINE_HANDLER",
            )
        if version[0] != c_api.MAJOR or version[1] > c_api.MINOR:
            raise CustomCallError(
                f"the handler of custom call {self.registration.name!r} has version {version[0]}.{version[1]} of the "
                f"FFI, which is not compatible with {c_api.MAJOR}.{c_api.MINOR}",
                where=place(self.instruction),
                hint="compile it with other headers",
            )


def outcome(frame: int, error: int | None) -> str | None:
    """The message of a failed call, by its frame and what it returned; None when it is done and all went well."""
    call = c_api.CallFrame.from_address(frame)
    if not error and call.future:
        error = futures.wait(call.future)
        call.future = None
    return errors.take(error) if error else None


def arrays_and_tokens(shape: Shape) -> list[Shape]:
    """What is in a shape besides tuples, in pre-order: handlers get each as a buffer."""
    if shape.is_tuple:
        return [leaf for element in shape.elements for leaf in arrays_and_tokens(element)]
    return [shape]
