"""Pipelines as text: `expand{target=MyCall},cse,dce`. `parse_pipeline` reads it, `pipeline_text` writes it."""

from __future__ import annotations

import dataclasses
import re
import typing
from collections.abc import Callable, Iterable
from importlib import import_module
from importlib.util import find_spec
from typing import Any, NoReturn

from xloom.errors import PassError, Span, near
from xloom.passes.base import PASSES, Pass

_SPACE = re.compile(r"\s*")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_\-]*")
_VALUE = re.compile(r'"(?:[^"\\]|\\.)*"|[^\s,{}"][^,{}"]*')


def parse_pipeline(text: str) -> list[Pass]:
    """The passes that `text` names, in order. Raises PassError that points at what it does not understand."""
    return _Reader(text).pipeline()


def pipeline_text(passes: Iterable[Pass]) -> str:
    """The text that `parse_pipeline` reads back as the same passes."""
    return ",".join(map(str, passes))


def option_types(cls: type[Pass]) -> dict[str, type]:
    """The type of each option of a pass, by its name."""
    return {f.name: typing.get_type_hints(cls)[f.name] for f in dataclasses.fields(cls)}


class _Reader:
    def __init__(self, text: str):
        self.text = text
        self.pos = 0

    def error(self, message: str, at: int, hint: str = "") -> NoReturn:
        raise PassError(message, span=Span.at(self.text, at, "<pipeline>"), hint=hint)

    def skip(self) -> int:
        found = _SPACE.match(self.text, self.pos)
        self.pos = found.end() if found else self.pos
        return self.pos

    def eat(self, char: str) -> bool:
        if self.text.startswith(char, self.skip()):
            self.pos += 1
            return True
        return False

    def match(self, pattern: re.Pattern[str], what: str) -> str:
        at = self.skip()
        found = pattern.match(self.text, at)
        if found is None:
            rest = self.text[at : at + 1]
            self.error(f"expected {what}, found {repr(rest) if rest else 'the end of the pipeline'}", at)
        self.pos = found.end()
        return found[0]

    def pipeline(self) -> list[Pass]:
        passes: list[Pass] = []
        self.skip()
        if self.pos == len(self.text):
            return passes
        while True:
            passes.append(self.one())
            at = self.skip()
            if at == len(self.text):
                return passes
            if not self.eat(","):
                self.error(f"expected ',' or the end after pass {passes[-1].name!r}", at)

    def one(self) -> Pass:
        at = self.skip()
        name = self.match(_NAME, "the name of a pass")
        cls = _pass_class(name)
        if cls is None:
            hint = near(name, PASSES) or f"there are: {', '.join(sorted(PASSES))}"
            self.error(f"there is no pass {name!r}", at, hint)
        options = self.options(cls) if self.eat("{") else {}
        for field in dataclasses.fields(cls):
            required = field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
            if required and field.name not in options:
                self.error(f"pass {name!r} needs the option {field.name!r}", at, f"write {name}{{{field.name}=...}}")
        return cls(**options)

    def options(self, cls: type[Pass]) -> dict[str, Any]:
        types = option_types(cls)
        options: dict[str, Any] = {}
        if self.eat("}"):
            return options
        while True:
            at = self.skip()
            key = self.match(_NAME, "an option's name")
            if key not in types:
                known = f"it has: {', '.join(types)}" if types else "it has none"
                self.error(f"pass {cls.name!r} has no option {key!r}", at, near(key, types) or known)
            if key in options:
                self.error(f"option {key!r} stands twice", at)
            if not self.eat("="):
                self.error(f"expected '=' after option {key!r}", self.pos)
            options[key] = self.value(key, types[key])
            if self.eat("}"):
                return options
            if not self.eat(","):
                self.error(f"expected ',' or '}}' in the options of {cls.name!r}", self.pos)

    def value(self, key: str, kind: type) -> Any:
        at = self.skip()
        raw = self.match(_VALUE, f"a value for option {key!r}").rstrip()
        if raw.startswith('"'):
            raw = re.sub(r"\\(.)", r"\1", raw[1:-1])
        try:
            return _CONVERT[kind](raw)
        except (ValueError, KeyError):
            self.error(f"option {key!r} takes {_KINDS[kind]}, not {raw!r}", at)


def _pass_class(name: str) -> type[Pass] | None:
    """The class of the pass with a name, which most share with their files: others need not be loaded to find it."""
    for file in (name.replace("-", "_"), "every_pass"):
        if name in PASSES:
            break
        if find_spec(f"xloom.passes.{file}") is not None:
            import_module(f"xloom.passes.{file}")
    return PASSES.get(name)


_CONVERT: dict[type, Callable[[str], Any]] = {
    str: str,
    int: int,
    float: float,
    bool: {"true": True, "false": False}.__getitem__,
}
_KINDS = {str: "text", int: "an integer", float: "a number", bool: "true or false"}
