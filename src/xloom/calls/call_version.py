"""By which ABI a call is made: what the call says, where the code may be called so.

The code's ABI is stated when it is registered, or by its source or the pointer's type. Whether it is a typed handler,
which gets something else than all others, it is asked. Of unknown ABI are then functions of the other three alone: they
get the arguments of all at once, so that one of another ABI than the call says does no harm; see superset.py. Opaque
bytes cannot be given so, as they are where others have their status.
"""

from __future__ import annotations

from xloom.calls.acceptance import check_taken
from xloom.calls.registry import ABIS, Registration, place
from xloom.calls.stated_abi import alike
from xloom.calls.typed_ffi.probe import asked
from xloom.errors import CustomCallError
from xloom.hlo.instruction import Instruction

TYPED = ABIS["typed-ffi"]
UNIFIED = ABIS["status-returning-unified"]
_NAMES = {version: abi for abi, version in ABIS.items()}


def call_version(registration: Registration, instruction: Instruction) -> str:
    """The `api_version` of a call of native code.

    Raises CustomCallError when the code has another, is no typed handler where the call wants one, is not known to take
    the opaque bytes that the call has, or does not take what was matched.
    """
    check_taken(registration, instruction, place(instruction))
    version = instruction["api_version"]
    demand_handler(registration, place(instruction))
    code = known(registration)
    if code.answer and version == TYPED:
        raise _no_handler(registration, place(instruction), code.answer)
    if code.abi is not None and not alike(code.abi, _NAMES.get(version, ""), code.platform):
        raise _mismatch(code, instruction)
    if code.abi is None and version == UNIFIED and code.platform == "Host" and instruction.backend_config:
        raise CustomCallError(
            f"custom call {code.name!r} has opaque bytes for code whose ABI is not known: a function of another than "
            f"{version} would take them for its status",
            where=place(instruction),
            hint='register it with abi="status-returning-unified", or with a pointer whose type has the parameters',
        )
    return version


def known(registration: Registration) -> Registration:
    """The registration with what is known of its ABI: code that may be a typed handler has been asked."""
    if registration.answer is not None or registration.abi not in (None, "typed-ffi"):
        return registration
    return asked(registration)


def _mismatch(code: Registration, instruction: Instruction) -> CustomCallError:
    assert code.abi is not None
    return CustomCallError(
        f"custom call {code.name!r} has the ABI {code.abi}, the call says {instruction['api_version']}",
        where=place(instruction),
        hint=f"write api_version={ABIS[code.abi]}, in JAX "
        f"jax.ffi.ffi_call(..., custom_call_api_version={list(ABIS).index(code.abi) + 1})",
    )


def demand_handler(registration: Registration, where: str = "") -> None:
    """Raises CustomCallError when code is registered as a typed handler and is none."""
    answer = known(registration).answer if registration.abi == "typed-ffi" else ""
    if answer:
        raise _no_handler(registration, where, answer)


def _no_handler(registration: Registration, where: str, answer: str) -> CustomCallError:
    name = registration.name
    said = f"custom call {name!r} is registered with the ABI typed-ffi, but its code"
    return CustomCallError(
        f"{said if registration.abi else f'the code of custom call {name!r}, which API_VERSION_TYPED_FFI calls,'} "
        f"is no typed handler: {answer}",
        where=where,
        hint="register it with the ABI that it has, abi= (jax.ffi.register_ffi_target: api_version=0), and call it so: "
        "api_version= in the HLO, custom_call_api_version= of jax.ffi.ffi_call; XLA_FFI_DEFINE_HANDLER makes a handler",
    )
