"""Custom calls that are native functions already in the process: ctypes, cffi, PyCapsule, Numba, or an address."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from typing import Any

from xloom.calls.code_memory import is_code
from xloom.calls.pointer_type import parameters_of
from xloom.calls.registry import Condition, Registration, add
from xloom.calls.stated_abi import abi_by_parameters, agreed_abi
from xloom.errors import CustomCallError

EXECUTE = "execute"
STAGES = ("instantiate", "prepare", "initialize")
"""What a typed handler may do before it is executed."""


def register_pointer(
    name: str,
    pointer: Any,
    *,
    platform: str = "Host",
    abi: str | None = None,
    when: Condition | None = None,
    layouts: str = "",
) -> Registration:
    """Registers a native function under `name`.

    `pointer` is a ctypes function (of a library, or a CFUNCTYPE callback), a cffi function pointer, a PyCapsule, a
    Numba `cfunc`, or an integer address; or, for a typed handler, a dictionary of such pointers by stage: "execute",
    and any of "instantiate", "prepare" and "initialize". `abi`, if given or said by the pointer's type, must then be
    that of every call. It is kept alive. Raises CustomCallError for what is no function, and for parameters that are
    not those of `abi`, or of no ABI. `when` and `layouts` say which calls of the pass `outline` it takes, and in which
    layouts; see custom_call.
    """
    by_stage = pointer if isinstance(pointer, Mapping) else {"execute": pointer}
    check_stages(name, by_stage)
    addresses = {stage: address_of(p) for stage, p in by_stage.items()}
    if not all(addresses.values()):
        raise CustomCallError(
            f"the pointer for custom call {name!r} is null", hint="pass the address of a function of the library"
        )
    parameters = parameters_of(by_stage[EXECUTE])
    if parameters:
        abi = agreed_abi(name, abi, abi_by_parameters(name, parameters, platform), platform, "the pointer's type")
    said = repr(pointer)
    return add_native(
        name, addresses, platform=platform, abi=abi, source=said, keep=pointer, when=when, layouts=layouts
    )


def check_stages(name: str, by_stage: Mapping[str, Any]) -> None:
    """Raises CustomCallError unless the keys are stages of a typed handler, and "execute" is one of them."""
    for stage in by_stage:
        if stage not in (*STAGES, EXECUTE):
            known = ", ".join((*STAGES, EXECUTE))
            raise CustomCallError(f"custom call {name!r} has no stage {stage!r}", hint=f"stages: {known}")
    if EXECUTE not in by_stage:
        raise CustomCallError(
            f"FFI handler for {name} must provide an execute implementation", hint='give a pointer for "execute"'
        )


def add_native(
    name: str,
    addresses: Mapping[str, int],
    *,
    platform: str,
    abi: str | None,
    source: str,
    keep: Any,
    when: Condition | None = None,
    layouts: str = "",
) -> Registration:
    """Registers a native function by its addresses for each stage. Raises CustomCallError where there is no code."""
    for address in addresses.values():
        if not is_code(address):
            raise CustomCallError(
                f"the pointer for custom call {name!r} is {address:#x}, where there is no code",
                hint="it is the address of a function, not of a pointer to one",
            )
    stages = tuple(addresses.get(stage, 0) for stage in STAGES)
    if any(stages):
        abi = abi or "typed-ffi"
    return add(
        Registration(
            name,
            platform,
            address=addresses[EXECUTE],
            abi=abi,
            stages=stages,
            source=source,
            keep=(keep,),
            when=when,
            layouts=layouts,
        )
    )


def address_of(pointer: Any) -> int:
    """The address of a native function. Raises CustomCallError when `pointer` is none."""
    if isinstance(pointer, int) and not isinstance(pointer, bool):
        return pointer
    if isinstance(pointer, ctypes._CFuncPtr):  # type: ignore[attr-defined]
        return ctypes.cast(pointer, ctypes.c_void_p).value or 0
    address = getattr(pointer, "address", None)
    if isinstance(address, int):  # numba.cfunc
        return address
    kind = type(pointer).__name__
    if kind == "PyCapsule":
        return _capsule_address(pointer)
    if type(pointer).__module__ == "_cffi_backend":
        import cffi

        return int(cffi.FFI().cast("uintptr_t", pointer))
    raise CustomCallError(
        f"a {kind} is not a native function",
        hint="pass a ctypes or cffi function pointer, a PyCapsule, a numba cfunc or an address",
    )


def _capsule_address(capsule: Any) -> int:
    api = ctypes.pythonapi
    get_name = ctypes.PYFUNCTYPE(ctypes.c_char_p, ctypes.py_object)(("PyCapsule_GetName", api))
    get_pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(("PyCapsule_GetPointer", api))
    return get_pointer(capsule, get_name(capsule)) or 0
