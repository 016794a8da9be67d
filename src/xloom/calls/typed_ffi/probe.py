"""Asks code of unknown ABI whether it is a typed handler, where it can do no harm.

A function of another ABI takes the frame for arrays: it writes over the frame and reads what lies anywhere.
"""

from __future__ import annotations

from collections.abc import Callable

from xloom.calls.registry import Registration
from xloom.errors import CustomCallError

_SECONDS = 10.0
_typed: set[tuple[int, ...]] = set()
"""Addresses of what is known to be typed."""


def probe(registration: Registration, where: str, ask: Callable[[], object]) -> None:
    """Calls `ask` in a child process. Raises CustomCallError when the child dies of it, or it raises."""
    from xloom.calls.sanitizer.isolation import run_in_child

    addresses = (registration.address, *registration.stages)
    if addresses in _typed:
        return
    what = f"custom call {registration.name!r}, which was asked for the version of its handler,"

    def work() -> None:
        ask()

    try:
        run_in_child(work, _SECONDS, what, where)
    except CustomCallError as error:
        raise CustomCallError(
            f"the code of custom call {registration.name!r} is no typed handler, which API_VERSION_TYPED_FFI calls: "
            f"{error.message}",
            where=where,
            hint="say which ABI it has with abi= when it is registered, and the same with api_version= in the HLO or "
            "custom_call_api_version= of jax.ffi.ffi_call; XLA_FFI_DEFINE_HANDLER makes a typed handler",
        ) from None
    _typed.add(addresses)
