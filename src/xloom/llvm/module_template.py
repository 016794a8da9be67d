"""Modules that are alike but for which kernels they call and on how much: one object file, filled in for each.

The functions of kernels and the numbers of tables get names and values of the same length, which say nothing, before
LLVM sees a module. In its object file those are replaced by the real ones.
"""

from __future__ import annotations

import re

_KERNEL = re.compile(r"(?<=@\")k[0-9a-f]{24}(?=[.\"])")
_TABLE = re.compile(r"(= internal constant \[\d+ x i64\] )\[([^\]]*)\]")
_NUMBER = re.compile(r"i64 (-?\d+)")
_LONGEST, _MOST = 6000, 4
"""Characters, and kernels called, of modules that others are likely to be like."""
_FIRST = int.from_bytes(b"\0\0\0xloom", "little")
"""The first of the numbers that stand for others."""


class ModuleTemplate:
    """LLVM IR `text` without those."""

    def __init__(self, text: str):
        self._names = list(dict.fromkeys(_KERNEL.findall(text)))
        self._numbers: list[list[int]] = []
        self._count = 0
        self.is_shared = 0 < len(self._names) <= _MOST and len(text) <= _LONGEST
        """Whether it is worth looking for another module that is like this one."""
        for name, other in zip(self._names, self._blanks(), strict=True):
            text = text.replace(name, other)
        self.text = _TABLE.sub(self._blank, text) if self.is_shared else text

    def _blanks(self) -> list[str]:
        return [f"k{number:024d}" for number in range(len(self._names))]

    def _blank(self, table: re.Match[str]) -> str:
        values = [int(number) for number in _NUMBER.findall(table[2])]
        self._numbers.append(values)
        blanks = range(_FIRST + self._count, _FIRST + self._count + len(values))
        self._count += len(values)
        return f"{table[1]}[{', '.join(f'i64 {number}' for number in blanks)}]"

    def filled(self, data: bytes) -> bytes | None:
        """The object file of the whole module, from that of the template; None where LLVM has taken a table apart."""
        for name, other in zip(self._names, self._blanks(), strict=True):
            data = data.replace(other.encode(), name.encode())
        first = _FIRST
        for values in self._numbers:
            blank = _bytes(range(first, first + len(values)))
            if data.count(blank) != 1:
                return None
            data = data.replace(blank, _bytes(values))
            first += len(values)
        return data


def _bytes(numbers: range | list[int]) -> bytes:
    return b"".join(number.to_bytes(8, "little", signed=True) for number in numbers)
