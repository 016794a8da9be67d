"""A check of code that several uses share: each use's is made anew, and compared with what it would be given.

Kernels and programs are found by keys, in memory or on disk, and a key has to have all that their code depends on. With
`kernels` among XLOOM_CHECK nothing is believed of it; what is found then takes as long as what is compiled.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable

from xloom import checks
from xloom.compilation_cache.cache import Recent
from xloom.errors import SharedCodeError

compared: Counter[str] = Counter()
"""How often what was compared in this process, by what it is."""

_written: Recent[str] = Recent(64 << 20)
"""The IR of kernels by name."""
_objects: set[tuple[str, bytes]] = set()


def is_checked() -> bool:
    """True while the environment asks for it."""
    return checks.is_checked("kernels")


def compare(kind: str, name: str, shared: str, anew: str) -> None:
    """Raises SharedCodeError, with the first lines that differ, unless both are the same but for names of values."""
    compared[kind] += 1
    if shared == anew:
        return
    mine, others = _lines(anew), _lines(shared)
    if mine == others:
        return
    at = next((k for k, pair in enumerate(zip(mine, others, strict=False)) if pair[0] != pair[1]), None)
    at = min(len(mine), len(others)) if at is None else at
    anew, shared = (lines[at] if at < len(lines) else "(nothing)" for lines in (mine, others))
    raise SharedCodeError(
        f"a {kind} is shared by uses whose code differs, in line {at + 1}:\n  made anew  {anew}\n  shared     {shared}",
        where=name,
        hint="what they differ in is not in the key that it is found by",
    )


def compare_object(key: str, data: bytes, made: Callable[[], bytes]) -> None:
    """Raises SharedCodeError where a cached object file is not what `made` makes anew; looked at once a process."""
    if (key, data) in _objects:
        return
    compared["object file"] += 1
    if made() != data:
        raise SharedCodeError("an object file that was kept is not what LLVM makes of its IR", where=key)
    _objects.add((key, data))


def note_written(name: str, text: str) -> None:
    """Keeps the IR of a kernel for `written`."""
    _written.put(name, text, len(text))


def written(name: str) -> str | None:
    """The IR of a kernel of that name, if this process has written it, and not long ago."""
    return _written.get(name)


_NAME = re.compile(r'%"([^"]*)"|^("?[\w.$-]+"?)(?=:)')


def _lines(text: str) -> list[str]:
    """A text's lines, with the values and blocks of each function named by the order in which they are met."""
    found: dict[str, int] = {}

    def number(match: re.Match[str]) -> str:
        name = match[1] if match[1] is not None else match[2].strip('"')
        return f"%{found.setdefault(name, len(found))}"

    lines: list[str] = []
    for line in text.splitlines():
        if line.startswith("define"):
            found.clear()
        lines.append(_NAME.sub(number, line))
    return lines
