"""XLA's options of the names `xla_*` that mean something here, out of what a program is compiled with."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence

from xloom.pjrt.error import invalid
from xloom.pjrt.protobuf_wire_format import Fields, embedded, fields, message, number, scalar
from xloom.pjrt.xla_options import OptionValue, XlaOption, xla_options

# fields of ExecutableBuildOptionsProto and DebugOptions
_DEBUG_OPTIONS = 3
_NUMBERS = {
    "xla_dump_to": 109,
    "xla_dump_hlo_module_re": 110,
    "xla_dump_hlo_as_text": 112,
    "xla_dump_hlo_as_proto": 113,
    "xla_allow_excess_precision": 122,
}

Overrides = dict[str, OptionValue]
"""Options by name that go before those of the build."""


class DebugOptions:
    """The options of a build, some of them overridden."""

    def __init__(self, build: Fields, overrides: Overrides):
        self._given = message(build, _DEBUG_OPTIONS)
        self._overrides = overrides

    def text(self, name: str) -> str:
        """An option's text, empty if it is not there."""
        value = self._value(name, "")
        return value.decode() if isinstance(value, bytes) else str(value)

    def flag(self, name: str, default: bool) -> bool:
        """Whether an option is on."""
        value = self._value(name, default)
        return value.lower() in ("1", "true") if isinstance(value, str) else bool(value)

    def _value(self, name: str, default: str | bool) -> OptionValue | bytes:
        given = self._given[_NUMBERS[name]]
        return self._overrides.get(name, given[-1] if given else default)


def debug_options_proto(flags: dict[str, bool]) -> bytes:
    """The field of a build's options that holds these."""
    return embedded(_DEBUG_OPTIONS, b"".join(scalar(_NUMBERS[name], value) for name, value in flags.items()))


def overrides_of(entries: Sequence[int | bytes]) -> Overrides:
    """Options by name, out of a map of OptionOverrideProtos.

    Raises PjrtError for names that are none of XLA's, and for values of another type.
    """
    found: Overrides = {}
    for entry in entries:
        assert isinstance(entry, bytes)
        row = fields(entry)
        (encoded,) = row[1]
        assert isinstance(encoded, bytes)
        name = encoded.decode()
        option = _option(name)
        for value in _values(message(row, 2)):
            if option is not None and (unfit := option.unfit(value)) is not None:
                raise invalid(
                    f"While setting option {name}, '{unfit}' is not a valid {option.type} value.",
                    'give it as Python has it: True, 2, 0.5; or as text: "True", "2", "0.5"',
                )
            found[name] = value
    return found


def _values(override: Fields) -> Iterator[OptionValue]:
    """The value of an OptionOverrideProto."""
    for kind, values in override.items():
        match kind, values[-1]:
            case 1, bytes(text):
                yield text.decode()
            case 2, int(flag):
                yield bool(flag)
            case 3, int():
                yield number(override, kind)
            case 4, bytes(double):
                yield struct.unpack("<d", double)[0]
            case _:
                pass


def _option(name: str) -> XlaOption | None:
    """What the option is, None where that is not known: XLA's are allowed, and hardly any has an effect."""
    known = xla_options()
    if name not in known and (known or not name.startswith("xla_")):
        raise invalid(f"No such compile option: {name!r}", "options of XLA begin with xla_; most have no effect here")
    return known.get(name)
