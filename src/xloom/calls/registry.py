"""Which code a custom-call target names, by platform."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from xloom.calls.signature import Signature
from xloom.errors import CustomCallError, UnregisteredCallError, near
from xloom.hlo.instruction import Instruction
from xloom.hlo.module import Module
from xloom.hlo.stack_frames import source_line

ABIS = {
    "original": "API_VERSION_ORIGINAL",
    "status-returning": "API_VERSION_STATUS_RETURNING",
    "status-returning-unified": "API_VERSION_STATUS_RETURNING_UNIFIED",
    "typed-ffi": "API_VERSION_TYPED_FFI",
}
"""Names of the ABIs, and the `api_version` that an HLO custom call says."""

HOST = "Host"
"""The processor's platform."""
NAME = "xloom.name"
"""Frontend attribute of an instruction that passes may rename: its name in the user's program."""

Condition = Callable[[Any], bool]
"""Says of a MatchDescription whether a kernel takes such a call."""


@dataclass(frozen=True)
class Registration:
    """Code under a name: a Python `function`, or the `address` of a native one.

    `abi` is the ABI that a native function is said to have, or None; see call_version. `answer` is what it said when it
    was asked whether it is a typed handler: None before that, "" if it is, else what was wrong. `stages` are the
    addresses of a typed handler's functions for the stages before the execution: instantiate, prepare, initialize.
    `signature` is a Python function's, if it has one. `source` says where the code came from; `keep` holds what must
    live as long as it. `when` says which calls of the pass `outline` it takes, None: all; `layouts` in which layouts,
    as the pass's option does. `serves_devices` says of a routine of the host's that devices without code of their own
    may have it done there, on copies of their arrays.
    """

    name: str
    platform: str
    function: Callable[..., Any] | None = None
    address: int = 0
    abi: str | None = None
    answer: str | None = None
    stages: tuple[int, ...] = (0, 0, 0)
    signature: Signature | None = None
    source: str = ""
    keep: tuple[Any, ...] = field(default=(), repr=False, compare=False)
    when: Condition | None = None
    layouts: str = ""
    serves_devices: bool = False


_registered: dict[tuple[str, str], Registration] = {}
_sources: list[Callable[[str, str], None]] = []


def add(registration: Registration) -> Registration:
    """Registers; a later registration of the same name and platform replaces the earlier one."""
    if registration.abi is not None and registration.abi not in ABIS:
        raise CustomCallError(f"unknown ABI {registration.abi!r}", hint=f"one of: {', '.join(ABIS)}")
    if registration.when is not None and not callable(registration.when):
        message = f"custom call {registration.name!r} has when={registration.when!r}, which is no function"
        raise CustomCallError(message, hint="it says of a match whether the kernel takes it: when=lambda m: m.causal")
    _registered[registration.name, registration.platform] = registration
    return registration


def add_source(register: Callable[[str, str], None]) -> None:
    """Makes `register(name, platform)` be called for what is not registered when it is asked for."""
    _sources.append(register)


def remove(name: str, platform: str = HOST) -> None:
    """Forgets a registration; no error if there is none."""
    _registered.pop((name, platform), None)


def is_registered(name: str, platform: str = HOST) -> bool:
    """True when `platform` has code under `name`."""
    return _found(name, platform) is not None


def registered() -> list[Registration]:
    """All registrations, by name and platform."""
    return [_registered[key] for key in sorted(_registered)]


def _found(name: str, platform: str) -> Registration | None:
    key = name, platform
    if key not in _registered:
        for register in _sources:
            register(name, platform)
    return _registered.get(key)


def lookup(name: str, platform: str = HOST, where: str = "") -> Registration:
    """The registration. Raises CustomCallError that lists near names and other platforms."""
    found = _found(name, platform)
    if found is None:
        message = f"no custom call {name!r} is registered for platform {platform!r}"
        raise UnregisteredCallError(message, where=where, hint=_near(name, platform))
    return found


def target_of(call: Instruction, platform: str = HOST) -> Registration:
    """What a custom-call instruction calls: what is registered for the platform, else what of the host's serves it.

    Raises CustomCallError as `lookup` does, and when the call's shapes are not those of a Python function's signature.
    """
    name, where = call["custom_call_target"], place(call)
    if not is_registered(name, platform):
        of_host = _found(name, HOST)
        if of_host is not None and of_host.serves_devices:
            return of_host
    if call["api_version"] == ABIS["typed-ffi"] and _found(name, platform) is None:
        message = f"No FFI handler registered for {name} on a platform {platform}"
        raise UnregisteredCallError(message, where=where, hint=_near(name, platform))
    found = lookup(name, platform, where)
    if found.signature is not None:
        found.signature.check(call, where)
    return found


def _near(name: str, platform: str) -> str:
    """What to do about a name that is not registered."""
    others = sorted(p for n, p in _registered if n == name)
    hint = near(name, {n for n, p in _registered if p == platform})
    if others:
        return f"it is registered for {', '.join(others)}"
    return hint or "register it with xloom.custom_call, xloom.calls.load_library or --load"


def unregistered(module: Module, platform: str = HOST, known: frozenset[str] = frozenset()) -> list[CustomCallError]:
    """One error for each custom call of `module` that `target_of` refuses and whose target is not `known`."""
    errors = []
    for instruction in module.instructions:
        if instruction.opcode == "custom-call" and instruction["custom_call_target"] not in known:
            try:
                target_of(instruction, platform)
            except CustomCallError as error:
                errors.append(error)
    return errors


def place(instruction: Any) -> str:
    """The instruction's name and source line, for messages."""
    location = source_line(instruction)
    return f"%{program_name(instruction)}" + (f", {location}" if location else "")


def program_name(instruction: Any) -> str:
    """The name that the instruction had in the user's program."""
    return instruction.frontend_attributes.get(NAME, instruction.name)
