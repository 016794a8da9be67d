"""What a call that stands for matched HLO says of itself: which pattern, which values it bound, and the HLO."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from xloom.calls.typed_ffi.attributes import attributes_text, parse_attributes
from xloom.errors import ParseError
from xloom.hlo.instruction import Instruction

BoundValue = bool | int | float | str
HLO = "hlo"
"""The name of the carried HLO among a call's attributes."""

_TYPED = "API_VERSION_TYPED_FFI"
_NOT_FINITE = {"inf": math.inf, "-inf": -math.inf, "nan": math.nan}


@dataclass(frozen=True)
class MatchDescription:
    """What was matched. The values that the pattern binds are attributes of the object, too: `match.scale`.

    `form` is the name of the pattern's variant that matched, `operands` are the pattern's names of the call's
    operands, in their order. Floating-point values are finite, infinite or NaN as the program's constants are.
    """

    pattern: str
    version: int
    form: str
    operands: tuple[str, ...]
    values: Mapping[str, BoundValue] = field(default_factory=dict)

    def __getattr__(self, name: str) -> Any:
        values: Mapping[str, BoundValue] = self.__dict__.get("values", {})
        if name in values:
            return values[name]
        known = ", ".join(values) or "nothing"
        raise AttributeError(f"pattern {self.__dict__.get('pattern')!r} binds no {name!r}; it binds {known}")

    def __str__(self) -> str:
        return " ".join(f"{name}={value}" for name, value in self.attributes().items())

    def attributes(self) -> dict[str, BoundValue]:
        """All of it by name; the operands' names are in one string, with commas."""
        head = {"pattern": self.pattern, "version": self.version, "form": self.form}
        return {**head, "operands": ",".join(self.operands), **self.values}

    def to_text(self, hlo: str, *, typed: bool) -> str:
        """The backend config of a call that carries `hlo`: attributes of a typed call, otherwise JSON.

        In JSON what is not finite is one of the strings "inf", "-inf" and "nan".
        """
        whole = {**self.attributes(), HLO: hlo}
        if typed:
            return attributes_text(whole)
        return json.dumps({name: _for_json(value) for name, value in whole.items()}, ensure_ascii=False)

    @staticmethod
    def of(call: Instruction) -> MatchDescription | None:
        """What `call` says of itself; None for a call that `outline` did not make."""
        found = _described(call)
        if HLO not in found or not isinstance(found.get("pattern"), str):
            return None
        found.pop(HLO)
        pattern, version, form = (found.pop(name, None) for name in ("pattern", "version", "form"))
        operands = str(found.pop("operands", ""))
        names = tuple(operands.split(",")) if operands else ()
        return MatchDescription(str(pattern), int(version or 1), str(form or ""), names, found)


def carried_text(call: Instruction) -> str:
    """The text that may be carried HLO: the whole backend config, or what it has under the name `hlo`."""
    return str(_described(call).get(HLO, call.backend_config))


def _described(call: Instruction) -> dict[str, Any]:
    """The attributes in a backend config, by name; empty where it has others, or carries no HLO."""
    text = call.backend_config
    if not text.lstrip().startswith("{") or HLO not in text:
        return {}
    try:
        if call.attrs.get("api_version") == _TYPED:
            return {name: _plain(value) for name, value in parse_attributes(text).items()}
        found = json.loads(text)
    except (ParseError, ValueError):
        return {}
    return {name: _from_json(value) for name, value in found.items()} if isinstance(found, dict) else {}


def _for_json(value: BoundValue) -> BoundValue:
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value


def _from_json(value: Any) -> Any:
    return _NOT_FINITE.get(value, value) if isinstance(value, str) else value


def _plain(value: Any) -> Any:
    """A typed attribute as Python's own value."""
    if isinstance(value, bytes):
        return value.decode("utf-8", "surrogateescape")
    return value.tolist() if hasattr(value, "tolist") else value
