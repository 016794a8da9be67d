"""Unique names, numbered as XLA numbers them: `add`, `add.1`, `add.2`."""

from __future__ import annotations

import re
from collections.abc import Iterable

from xloom.hlo.dtype import DTYPES

_FORBIDDEN = re.compile(r"[^A-Za-z0-9_.\-]")
_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_.\-]*\Z")
_SUFFIX = re.compile(r"(.+)\.(-?\+?\d+)\Z", re.S)


def sanitize(name: str) -> str:
    """`name` with every character that HLO names may not hold replaced by `_`."""
    if not name:
        return name
    if not _PLAIN.match(name):
        head = name[0] if name[0].isascii() and (name[0].isalpha() or name[0] == "_") else "_"
        name = head + _FORBIDDEN.sub("_", name[1:])
    if name in DTYPES and name not in ("tuple", "buffer"):
        name += "_"
    if name.startswith("__") and not name.startswith("__xla_"):
        name = "a" + name[1:]
    return name


class NameUniquer:
    """Hands out names that were not handed out before."""

    def __init__(self) -> None:
        self._used: dict[str, set[int]] = {}
        self._next: dict[str, int] = {}
        self._waiting: list[str] = []

    def reserve(self, names: Iterable[str]) -> None:
        """Takes names that are unique as they are; what that means for others is found out when one is asked for."""
        self._waiting.extend(names)

    def unique(self, wish: str) -> str:
        """`wish`, or its root with the lowest free number, as XLA's NameUniquer would choose."""
        if self._waiting:
            names, self._waiting = self._waiting, []
            for name in names:
                self.unique(name)
        root = sanitize(wish or "name")
        number = 0
        numbered = False
        match = _SUFFIX.match(root)
        if match and -(2**63) <= int(match[2]) < 2**63:
            root, number, numbered = match[1], int(match[2]), True
        used = self._used.setdefault(root, set())
        if number in used:
            number = self._next.get(root, 0)
            while number in used:
                number += 1
            self._next[root] = number + 1
        used.add(number)
        return f"{root}.{number}" if number or numbered else root
