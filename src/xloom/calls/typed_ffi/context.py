"""What handlers can ask of the execution that calls them: states, user data, and which run it is."""

from __future__ import annotations

import ctypes
import itertools
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from types import MappingProxyType
from typing import Any, Protocol

from xloom.calls.typed_ffi import types
from xloom.calls.typed_ffi.c_api import Stage
from xloom.calls.typed_ffi.device import HOST, Device
from xloom.calls.typed_ffi.errors import Failure
from xloom.status_code import Code

_run_ids = itertools.count(1)
_user_data: ContextVar[Mapping[int, int]] = ContextVar("user_data", default=MappingProxyType({}))


class Execution:
    """One run of a program, or the compilation of a call: it owns the states that handlers make."""

    __slots__ = ("device", "run_id", "states")

    def __init__(self, device: Device = HOST) -> None:
        self.device = device
        self.run_id = next(_run_ids)
        self.states: list[types.State] = []


class Owner(Protocol):
    """Has an execution."""

    @property
    def execution(self) -> Execution: ...  # noqa: D102


class StateSlot(ctypes.Structure):
    """A state, if its type is not 0."""

    _fields_ = [("type_id", ctypes.c_int64), ("address", ctypes.c_void_p)]


class Context(ctypes.Structure):
    """`XLA_FFI_ExecutionContext`: the owner of the execution (a Python object), and states by stage.

    `prepared` is not 0 once the stages before the execution are done.
    """

    _fields_ = [("owner", ctypes.c_void_p), ("prepared", ctypes.c_int64), ("states", StateSlot * len(Stage))]


def at(address: int) -> Context:
    """The context that a handler passes on."""
    return Context.from_address(address)


def execution(context: Context) -> Execution:
    """The execution of a context."""
    owner: Owner = ctypes.cast(context.owner, ctypes.py_object).value
    return owner.execution


def set_state(context: Context, stage: int, type_id: int, address: int) -> None:
    """Keeps a state. Raises Failure when there is one already."""
    slot = context.states[stage]
    if slot.type_id:
        raise Failure(Code.ALREADY_EXISTS, f"[{Stage(stage).name}] State is already set")
    slot.type_id, slot.address = type_id, address
    running = execution(context)
    running.states.append(types.State(type_id, address, None))


def state(context: Context, stage: int, type_id: int) -> int:
    """The state of a stage. Raises Failure when it is not set, or of another type."""
    slot = context.states[stage]
    if not slot.type_id:
        raise Failure(Code.NOT_FOUND, f"[{Stage(stage).name}] State is not set")
    if slot.type_id != type_id:
        names = types.name_of(slot.type_id), types.name_of(type_id)
        raise Failure(Code.INVALID_ARGUMENT, f"State is of type {names[0]}, not of {names[1]}")
    return slot.address


@contextmanager
def ffi_user_data(values: Mapping[int, Any]) -> Iterator[None]:
    """Gives typed handlers that are called in the `with` user data: addresses by their types' numbers."""
    token = _user_data.set({**_user_data.get(), **{number: int(value) for number, value in values.items()}})
    try:
        yield
    finally:
        _user_data.reset(token)


def user_data(type_id: int) -> int:
    """The user data of a type. Raises Failure when there is none."""
    found = _user_data.get().get(type_id)
    if found is None:
        raise Failure(Code.NOT_FOUND, f"There is no user data of type {types.name_of(type_id)}")
    return found
