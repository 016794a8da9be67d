"""Which ABI a C function has, by the parameters that its source says."""

from __future__ import annotations

import re

from xloom.calls.stated_abi import Kind, Parameter, abi_by_parameters

_QUALIFIERS = {"const", "volatile", "restrict", "__restrict", "__restrict__", "struct", "unsigned", "signed"}
_INTEGERS = {"char", "short", "int", "long", "bool", "_Bool", "size_t", "ssize_t", "ptrdiff_t", "intptr_t", "uintptr_t"}
_INTEGERS |= {f"{sign}int{bits}_t" for sign in ("", "u") for bits in (8, 16, 32, 64)}
_FLOATS = {"float", "double", "_Float16", "__fp16", "__bf16"}


def abi_of(source: bytes, symbol: str, platform: str = "Host") -> str | None:
    """The ABI of function `symbol` in what the preprocessor made of its source; None when that is not to be seen.

    Raises CustomCallError when its parameters are those of no ABI.
    """
    text = source.decode("utf-8", "replace")
    # a declaration, no call; without parameters it may have any
    found = re.search(
        rf"\b(?:void|XLA_FFI_Error)(?:\s+|\s*\*\s*){re.escape(symbol)}\s*\(([^(){{}};]*\w[^(){{}};]*)\)", text
    )
    if found is None:
        return None
    parameters = [_parameter(" ".join(p.split())) for p in found[1].split(",")]
    known = [p for p in parameters if p is not None]
    return abi_by_parameters(symbol, known, platform) if len(known) == len(parameters) else None


def _parameter(text: str) -> Parameter | None:
    """None where a name of the program's own stands for a type."""
    words = [word for word in re.findall(r"\w+", text) if word not in _QUALIFIERS]
    base = words[0] if words else "int"
    depth = text.count("*") + text.count("[")
    if depth > 1:
        return Parameter(text, "table")
    if depth == 1:
        return Parameter(text, _pointer_to(base))
    if base in _INTEGERS:
        return Parameter(text, "size")
    return Parameter(text, "other") if base in _FLOATS else None


def _pointer_to(base: str) -> Kind:
    if base.startswith("XlaCustomCallStatus"):
        return "status"
    if base == "XLA_FFI_CallFrame":
        return "frame"
    return "pointer" if base in _INTEGERS or base in _FLOATS else "any"
