"""Structures that Python makes and native code reads: fields of eight bytes, found by name."""

from __future__ import annotations

import ctypes
from typing import Any


class StructLayout:
    """The fields of a structure, in their order."""

    def __init__(self, *names: str):
        self._at = {name: 8 * k for k, name in enumerate(names)}
        self.size = 8 * len(names)

    def __iter__(self):
        return iter(self._at)

    def offset(self, name: str) -> int:
        """Where a field is, in bytes."""
        return self._at[name]

    def new(self, **values: int) -> Any:
        """The structure in C memory; fields that are not given are 0."""
        assert values.keys() <= self._at.keys(), values
        return (ctypes.c_uint64 * len(self._at))(*[values.get(name, 0) & (1 << 64) - 1 for name in self._at])
