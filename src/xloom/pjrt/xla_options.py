"""The options of XLA's DebugOptions and their types, as the descriptor says that jaxlib's library carries."""

from __future__ import annotations

import mmap
import re
from collections.abc import Iterator, Mapping
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

from xloom.pjrt.protobuf_wire_format import Fields, fields, number

OptionValue = str | bool | int | float

# a FileDescriptorProto begins with the file's name and its package
_BEGIN = b"\n\rxla/xla.proto\x12\x03xla"
_MOST_BYTES = 1 << 20
_TYPES = {1: "double", 2: "float", 3: "int64", 5: "int32", 8: "bool", 9: "string", 11: "message", 14: "enum"}
_REPEATED = 3
_LIMITS = {"int32": 1 << 31, "int64": 1 << 63}
_LARGEST_FLOAT = 3.4028234663852886e38
_INTEGER = re.compile(r"\s*[+-]?\d+\s*", re.ASCII)
_NUMBER = re.compile(r"\s*[+-]?(\d+\.?\d*(e[+-]?\d+)?|\.\d+(e[+-]?\d+)?|inf|infinity|nan)\s*", re.ASCII | re.IGNORECASE)


class XlaOption(NamedTuple):
    """What values an option may have."""

    type: str
    is_repeated: bool
    names: frozenset[str] | None
    """Those of an enum's values; None if they are not known."""

    def unfit(self, value: OptionValue) -> str | None:
        """What of a value is not one of the option's; None if it can be set."""
        if self.is_repeated and isinstance(value, str):
            return next((part for part in value.split(",") if value and not self._fits(part)), None)
        return None if self._fits(value) else _as_text(value)

    def _fits(self, value: OptionValue) -> bool:
        if isinstance(value, str):
            return self._takes_text(value)
        if isinstance(value, bool):
            return self.type == "bool"
        if isinstance(value, float):
            return self.type == "double" or (self.type == "float" and abs(value) <= _LARGEST_FLOAT)
        return self.type == "enum" or -_LIMITS.get(self.type, 0) <= value < _LIMITS.get(self.type, 0)

    def _takes_text(self, text: str) -> bool:
        match self.type:
            case "bool":
                return text in ("True", "False")
            case "string":
                return True
            case "int32" | "int64":
                return _INTEGER.fullmatch(text) is not None and self._fits(int(text))
            case "float" | "double":
                return _NUMBER.fullmatch(text) is not None
            case "enum":
                return self.names is None or text in self.names or _INTEGER.fullmatch(text) is not None
            case _:
                return False


@cache
def xla_options() -> Mapping[str, XlaOption]:
    """All options by name; none where there is no jaxlib, or its library keeps them elsewhere."""
    for message in _messages(_descriptor()):
        if _name(message) == "DebugOptions":
            enums = {_name(enum): frozenset(map(_name, _embedded(enum, 2))) for enum in _embedded(message, 4)}
            return {_name(field): _option(field, enums) for field in _embedded(message, 2)}
    return {}


def _option(field: Fields, enums: Mapping[str, frozenset[str]]) -> XlaOption:
    kind = _TYPES.get(number(field, 5), "unknown")
    of_enum = _text(field, 6).rpartition(".")[2]
    return XlaOption(kind, number(field, 4) == _REPEATED, enums.get(of_enum))


def _descriptor() -> bytes:
    """The library's bytes from where the descriptor begins; its end is not written down."""
    package = find_spec("jaxlib")
    for folder in (package and package.submodule_search_locations) or ():
        for path in Path(folder).glob("libjax_common.*"):
            with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
                begin = mapped.find(_BEGIN)
                if begin >= 0:
                    return mapped[begin : begin + _MOST_BYTES]
    return b""


def _messages(descriptor: bytes) -> Iterator[Fields]:
    """The DescriptorProtos of a file, whose fields all have lengths, up to what cannot be one."""
    at = 0
    while at < len(descriptor) and descriptor[at] & 7 == 2:
        kind, size, shift = descriptor[at] >> 3, 0, 0
        while True:
            at += 1
            size |= (descriptor[at] & 127) << shift
            shift += 7
            if descriptor[at] < 128:
                break
        at += 1
        if kind == 4:
            yield fields(descriptor[at : at + size])
        at += size


def _embedded(found: Fields, number: int) -> Iterator[Fields]:
    return (fields(data) for data in found[number] if isinstance(data, bytes))


def _name(found: Fields) -> str:
    return _text(found, 1)


def _text(found: Fields, number: int) -> str:
    value = found[number][-1] if found[number] else b""
    return value.decode() if isinstance(value, bytes) else ""


def _as_text(value: OptionValue) -> str:
    return str(int(value)) if isinstance(value, bool) else f"{value:g}" if isinstance(value, float) else str(value)
