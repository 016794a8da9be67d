"""What `xloom opt --list` prints: the passes with their options, and the patterns of the library."""

from __future__ import annotations

import dataclasses
import re
import textwrap
from collections.abc import Iterator
from typing import Any

from xloom.passes import PASSES, Pass
from xloom.passes.pattern.sources import LIBRARY
from xloom.passes.pipeline import option_types

_KINDS = {str: "text", int: "integer", float: "number", bool: "true or false"}
_WIDTH = 120


def listing() -> str:
    """The whole text."""
    passes = [line for name, made in sorted(PASSES.items()) for line in _pass(name, made)]
    patterns = [line for path in sorted(LIBRARY.glob("*.hlo")) for line in _pattern(path.stem, path.read_text("utf-8"))]
    head = (
        "Patterns of the library, for outline{pattern=NAME,target=KERNEL}; docs/patterns.md says how to write others:"
    )
    return "\n".join(["Passes:", "", *passes, "", head, "", *patterns, ""])


def _pass(name: str, made: type[Pass]) -> Iterator[str]:
    """The first sentence, and all of what is said of a pass with options."""
    text = " ".join((made.__doc__ or "").split())
    fields = dataclasses.fields(made)
    yield from _entry(name, text if fields else re.split(r"(?<=\.)\s", text, maxsplit=1)[0])
    types = option_types(made)
    for field in fields:
        yield f"      {field.name}={_option(field, types[field.name])}"


def _option(field: dataclasses.Field[Any], kind: type) -> str:
    if field.default is dataclasses.MISSING:
        return f"... ({_KINDS[kind]}, must be given)"
    default = str(field.default).lower() if isinstance(field.default, bool) else field.default
    return f"{default if default != '' else '...'} ({_KINDS[kind]})"


def _pattern(name: str, source: str) -> Iterator[str]:
    """The comment that a pattern begins with; lines that are indented in it stay lines."""
    lines = [line.removeprefix("//") for line in source.split("HloModule", 1)[0].splitlines()]
    yield from _entry(name, " ".join(line.strip() for line in lines if not line.startswith("   ")))
    yield from (f"   {line}" for line in lines if line.startswith("   "))


def _entry(name: str, text: str) -> list[str]:
    return [f"  {name}", *textwrap.wrap(text, _WIDTH - 6, initial_indent="    ", subsequent_indent="    ")]
