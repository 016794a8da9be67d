"""Protobuf's wire format, for messages of which we need little."""

from __future__ import annotations

from collections import defaultdict

from xloom.pjrt.error import invalid

Fields = defaultdict[int, list[int | bytes]]


def fields(data: bytes) -> Fields:
    """The fields of a serialised message by number."""
    found: Fields = defaultdict(list)
    at = 0
    while at < len(data):
        key, at = _read_varint(data, at)
        number, wire = key >> 3, key & 7
        if wire == 0:
            value, at = _read_varint(data, at)
            found[number].append(value)
            continue
        size = {1: 8, 5: 4}.get(wire)
        if wire == 2:
            size, at = _read_varint(data, at)
        if size is None or at + size > len(data):
            raise invalid("not a serialised message", "serialise it again: its bytes are damaged, or another message's")
        found[number].append(data[at : at + size])
        at += size
    return found


def _read_varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        if at >= len(data):
            raise invalid("a serialised message is cut off", "give all of its bytes")
        byte = data[at]
        value |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
        if byte < 128:
            return value, at


def varint(value: int) -> bytes:
    """A number as protobuf writes it."""
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes([*out, value])


def message(found: Fields, number: int) -> Fields:
    """The fields of an embedded message."""
    return fields(b"".join(value for value in found[number] if isinstance(value, bytes)))


def number(found: Fields, number: int) -> int:
    """A number, 0 if it is not there."""
    value = found[number][-1] if found[number] else 0
    assert isinstance(value, int)
    return value - (1 << 64) if value >> 63 else value


def numbers(value: int | bytes) -> list[int]:
    """The numbers of a repeated field's entry, packed or single."""
    if isinstance(value, int):
        return [value]
    found, at = [], 0
    while at < len(value):
        number, at = _read_varint(value, at)
        found.append(number)
    return found


def scalar(number: int, value: int) -> bytes:
    """A field that holds a number."""
    return varint(number << 3) + varint(value)


def embedded(number: int, data: bytes) -> bytes:
    """A field that holds a message, a string, or packed numbers."""
    return varint(number << 3 | 2) + varint(len(data)) + data
