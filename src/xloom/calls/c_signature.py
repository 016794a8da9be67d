"""Which ABI a C function has, by the parameters that its source says."""

from __future__ import annotations

import re


def abi_of(source: bytes, symbol: str) -> str | None:
    """The ABI of function `symbol` in what the preprocessor made of its source; None when it is none of the host's."""
    text = source.decode("utf-8", "replace")
    for found in re.finditer(rf"\b{re.escape(symbol)}\s*\(([^(){{}};]*)\)", text):
        parameters = found[1].split(",")
        if len(parameters) == 1 and "XLA_FFI_CallFrame" in parameters[0]:
            return "typed-ffi"
        has_status = "XlaCustomCallStatus" in parameters[-1]
        are_pointers = all("*" in p or "[" in p for p in parameters[:2])
        if are_pointers and re.match(r"\s*(const\s+)?void\b", parameters[0]):  # a declaration, no call
            named = {(2, False): "original", (3, True): "status-returning", (5, True): "status-returning-unified"}
            return named.get((len(parameters), has_status))
    return None
