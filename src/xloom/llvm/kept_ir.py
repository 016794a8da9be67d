"""LLVM IR that depends on no program, written once and kept: to read it takes a tenth of the time."""

from __future__ import annotations

from collections.abc import Callable

from xloom.compilation_cache.cache import key_of
from xloom.compilation_cache.shipped import shipped
from xloom.llvm.jit import object_cache
from xloom.llvm.shared_code import compare, is_checked
from xloom.llvm.target import Target


def kept_ir(symbol: str, write: Callable[[], str], target: Target) -> str:
    """The module that `write` gives, which has a function of this name: that says all that it depends on.

    It is the same for all targets, but each has the file with which the package brings it.
    """
    parts = b"LLVM IR", symbol.encode()
    key = key_of(*parts)
    data = object_cache.get(key)
    if data is None and (entries := shipped(target.name)):
        data = entries.get(entries.key_of(*parts))
    if data is None:
        text = write()
        object_cache.put(key, text.encode())
        return text
    text = data.decode()
    if is_checked():
        compare("module of functions", symbol, text, write())
    return text
