"""The ABI of a native function, as it is stated and as its parameters say."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple

from xloom.errors import CustomCallError

Kind = Literal["any", "pointer", "table", "size", "status", "frame", "other"]


class Parameter(NamedTuple):
    """A parameter: its text, and what it can be.

    A `pointer` is to elements, a `table` to pointers, `any` to what its type does not say; `size` is an integer.
    """

    text: str
    kind: Kind


_HOST: dict[str, tuple[Kind, ...]] = {
    "typed-ffi": ("frame",),
    "original": ("pointer", "table"),
    "status-returning": ("pointer", "table", "status"),
    "status-returning-unified": ("pointer", "table", "pointer", "size", "status"),
}
_DEVICE: dict[str, tuple[Kind, ...]] = {
    "typed-ffi": ("frame",),
    "original": ("pointer", "table", "pointer", "size"),
    "status-returning": ("pointer", "table", "pointer", "size", "status"),
}
_HOST_TEXT = (
    "void f(void* out, const void** in), and behind these XlaCustomCallStatus* status, or const char* opaque, "
    "size_t opaque_len, XlaCustomCallStatus* status"
)
_DEVICE_TEXT = (
    "void f(void* stream, void** buffers, const char* opaque, size_t opaque_len), and behind these "
    "XlaCustomCallStatus* status"
)


def abi_by_parameters(name: str, parameters: Sequence[Parameter], platform: str) -> str:
    """The ABI of a function with these parameters. Raises CustomCallError when it has none."""
    on_host = platform == "Host"
    found = _of_parameters(parameters, _HOST if on_host else _DEVICE)
    if found is not None:
        return found
    theirs = (
        "these are an accelerator's, which platform= names; else "
        if on_host
        else 'these are for platform="Host"; else '
    )
    fits_there = _of_parameters(parameters, _DEVICE if on_host else _HOST) is not None
    raise CustomCallError(
        f"the function for custom call {name!r} has the parameters ({', '.join(p.text for p in parameters)}), which "
        f"no ABI of {platform} has",
        hint=f"{theirs if fits_there else ''}write {_HOST_TEXT if on_host else _DEVICE_TEXT}; "
        "each operand is an element of the table",
    )


def _of_parameters(parameters: Sequence[Parameter], forms: Mapping[str, tuple[Kind, ...]]) -> str | None:
    for abi, form in forms.items():
        if len(form) == len(parameters) and all(_fits(p.kind, k) for p, k in zip(parameters, form, strict=True)):
            return abi
    return None


def _fits(kind: Kind, wanted: Kind) -> bool:
    # the result is a table of pointers where it is a tuple
    return kind in ("any", wanted) or (kind, wanted) == ("table", "pointer")


def alike(abi: str, other: str, platform: str) -> bool:
    """True when functions of both get the same arguments."""
    return abi == other or (platform != "Host" and "status" in abi and "status" in other)


def agreed_abi(name: str, stated: str | None, found: str | None, platform: str, what: str) -> str | None:
    """The ABI that is stated, else the one that is found. Raises CustomCallError when they differ."""
    if stated is not None and found is not None and not alike(stated, found, platform):
        raise CustomCallError(
            f"custom call {name!r} is registered with abi={stated!r}, but {what} says {found!r}",
            hint=f"leave abi= out, or write abi={found!r}",
        )
    return stated or found
