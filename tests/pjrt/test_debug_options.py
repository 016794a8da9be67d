"""Which options by name are taken, whatever their type is."""

import struct

import pytest

from xloom.pjrt.debug_options import overrides_of
from xloom.pjrt.error import PjrtError
from xloom.pjrt.wire import embedded, scalar

VALUES = {
    "text": (embedded(1, b"here"), "here"),
    "flag": (scalar(2, 1), 1),
    "integer": (scalar(3, 7), 7),
    "float": (bytes([4 << 3 | 1]) + struct.pack("<d", 0.5), None),
}


def option(name, value):
    return [embedded(1, name.encode()) + embedded(2, value)]


@pytest.mark.parametrize("kind", VALUES)
def test_names_of_xla_are_taken_and_others_are_mistakes(kind):
    value, read = VALUES[kind]
    assert overrides_of(option("xla_something", value)).get("xla_something") == read
    with pytest.raises(PjrtError, match="No such compile option: 'something'"):
        overrides_of(option("something", value))
