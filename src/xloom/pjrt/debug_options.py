"""XLA's options of the names `xla_*` that mean something here, out of what a program is compiled with."""

from __future__ import annotations

from collections.abc import Sequence

from xloom.pjrt.error import invalid
from xloom.pjrt.wire import Fields, embedded, fields, message, scalar

# fields of ExecutableBuildOptionsProto and DebugOptions
_DEBUG_OPTIONS = 3
_NUMBERS = {
    "xla_dump_to": 109,
    "xla_dump_hlo_module_re": 110,
    "xla_dump_hlo_as_text": 112,
    "xla_dump_hlo_as_proto": 113,
    "xla_allow_excess_precision": 122,
}

Overrides = dict[str, str | int]
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

    def _value(self, name: str, default: str | bool) -> str | int | bytes:
        given = self._given[_NUMBERS[name]]
        return self._overrides.get(name, given[-1] if given else default)


def debug_options_proto(flags: dict[str, bool]) -> bytes:
    """The field of a build's options that holds these."""
    return embedded(_DEBUG_OPTIONS, b"".join(scalar(_NUMBERS[name], value) for name, value in flags.items()))


def overrides_of(entries: Sequence[int | bytes]) -> Overrides:
    """Options by name, out of a map of OptionOverrideProtos; numbers with a point are not among ours.

    Raises PjrtError for names that are none of XLA's.
    """
    found: Overrides = {}
    for entry in entries:
        assert isinstance(entry, bytes)
        row = fields(entry)
        (name,) = row[1]
        assert isinstance(name, bytes)
        _check_name(name.decode())
        for kind, values in message(row, 2).items():
            value = values[-1]
            if kind in (1, 2, 3):
                found[name.decode()] = value.decode() if isinstance(value, bytes) else value
    return found


def _check_name(name: str) -> None:
    """XLA's options are allowed, and hardly any has an effect; others are mistakes."""
    if not name.startswith("xla_"):
        raise invalid(f"No such compile option: {name!r}", "options of XLA begin with xla_; most have no effect here")
