"""A module of several functions as several modules, so that more than one thread can make its machine code."""

from __future__ import annotations

import re

FUNCTION = re.compile(
    r'^define (?P<internal>internal )?[^@\n]*@(?P<name>"[^"]*"|[\w.$]+)\(.*?^}\n', re.MULTILINE | re.DOTALL
)
_NAME = re.compile(r'@("[^"]*"|[\w.$]+)')
_LEAST = 6000
"""Characters of a function that takes LLVM long enough."""
_MOST_GROWTH = 1.2
"""As functions that several need are in several modules."""


def parts_of(text: str) -> list[str]:
    """Modules that together define what LLVM IR `text` does.

    Each has one function that others see, and the internal ones that it needs. A module stays whole when that would be
    no gain.
    """
    functions = {match["name"]: match for match in FUNCTION.finditer(text)}
    seen = [name for name, match in functions.items() if not match["internal"]]
    if len([name for name in seen if len(functions[name][0]) >= _LEAST]) < 2:
        return [text]
    groups = [_needed(name, functions) for name in seen]
    rest = FUNCTION.sub("", text)
    parts = [rest + "".join(functions[name][0] for name in functions if name in group) for group in groups]
    overlap = sum(len(group.intersection(seen)) for group in groups) > len(seen)  # one calls another
    return [text] if overlap or sum(map(len, parts)) > _MOST_GROWTH * len(text) else parts


def _needed(name: str, functions: dict[str, re.Match[str]]) -> set[str]:
    """The functions that a function reaches, itself included."""
    found, waiting = {name}, [name]
    while waiting:
        for other in _NAME.findall(functions[waiting.pop()][0]):
            if other in functions and other not in found:
                found.add(other)
                waiting.append(other)
    return found
