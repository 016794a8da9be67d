"""Asks code whether it is a typed handler, where it can do no harm: in a child process.

A function of another ABI takes the frame for arrays: it writes over the frame, and where its operands should be there
is nothing.
"""

from __future__ import annotations

import ctypes
import os
import resource
from dataclasses import replace

from xloom.calls.registry import Registration
from xloom.calls.typed_ffi.attributes import AttributeMemory
from xloom.calls.typed_ffi.call_site import outcome
from xloom.calls.typed_ffi.context import Execution
from xloom.calls.typed_ffi.frame import FrameTemplate
from xloom.calls.typed_ffi.handler_version import version_of
from xloom.errors import CustomCallError

_SECONDS = 10.0
_NOWHERE = 8
"""An address that nothing is at."""
# whatever else it is, it has at most five arguments
_Code = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, *[ctypes.c_void_p] * 4)
_asked: dict[tuple[int, ...], Registration] = {}
"""By the addresses; they are kept alive, so that nothing else comes to lie there."""


class _Asking:
    """Owns the execution of a question."""

    def __init__(self) -> None:
        self.execution = Execution()


def asked(registration: Registration) -> Registration:
    """The registration with the answer; its ABI is known if it is a typed handler, and else not."""
    addresses = (registration.address, *registration.stages)
    if addresses not in _asked:
        answer = _answer([address for address in addresses if address], registration.name)
        _asked[addresses] = replace(registration, answer=answer)
    answer = _asked[addresses].answer
    return replace(registration, abi=None if answer else "typed-ffi", answer=answer)


def _answer(addresses: list[int], name: str) -> str:
    """Empty if all are of typed handlers, else what became of the child."""
    from xloom.calls.sanitizer.isolation import run_in_child

    def ask() -> None:
        resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
        nothing = os.open(os.devnull, os.O_WRONLY)
        for stream in (1, 2):  # what else it is may print
            os.dup2(nothing, stream)
        for address in addresses:
            _ask(address)

    try:
        run_in_child(ask, _SECONDS, "asked for the version of its handler, it", "")
    except CustomCallError as error:
        return error.message
    return ""


def _ask(address: int) -> None:
    frame = FrameTemplate([], [], AttributeMemory({})).copy()
    owner = _Asking()
    frame.context.owner = id(owner)

    place = ctypes.addressof(frame)

    def call() -> str | None:
        return outcome(place, _Code(address)(place, *[_NOWHERE] * 4))

    version, message = version_of(frame, call)
    if version is None and message is None:
        raise CustomCallError("asked for the version of its handler, it says nothing")
