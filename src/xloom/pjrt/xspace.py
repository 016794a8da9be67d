"""A trace as an XSpace, the protobuf message in which XLA's profilers gather what they have seen."""

from __future__ import annotations

import time
from itertools import groupby
from typing import Any

from xloom.pjrt.protobuf_wire_format import embedded, scalar
from xloom.trace import Trace

# fields of XSpace, XPlane, XLine, XEvent, XStat and of the entries of a map
_PLANES = 1
_PLANE_NAME, _LINES, _EVENT_NAMES, _STAT_NAMES = 2, 3, 4, 5
_LINE_ID, _LINE_NAME, _START_NS, _EVENTS = 1, 2, 3, 4
_EVENT_NAME, _OFFSET_PS, _DURATION_PS, _STATS = 1, 2, 3, 4
_STAT_NAME, _INT, _STRING = 1, 4, 5
_KEY, _VALUE = 1, 2
_ID, _NAME = 1, 2

_PS = 1e6
"""Picoseconds in a microsecond, in which a trace's times are."""


class _Names:
    """Names by number."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}

    def number(self, name: str) -> int:
        """The number of a name, from 1 on."""
        return self._numbers.setdefault(name, len(self._numbers) + 1)

    def field(self, number: int) -> bytes:
        """The map from numbers to names."""
        return b"".join(
            embedded(number, scalar(_KEY, n) + embedded(_VALUE, scalar(_ID, n) + embedded(_NAME, name.encode())))
            for name, n in self._numbers.items()
        )


def xspace(trace: Trace, plane: str) -> bytes:
    """The trace as the one plane of an XSpace: a line for each thread, with the time of day."""
    events, details = _Names(), _Names()
    spans = sorted(trace.spans(), key=lambda s: (s["tid"], s["ts"]))
    since_epoch = time.time_ns() - time.monotonic_ns()
    names = trace.thread_names()
    lines = b""
    for thread, group in groupby(spans, key=lambda s: s["tid"]):
        own = list(group)
        first = own[0]["ts"]
        line = scalar(_LINE_ID, thread) + embedded(_LINE_NAME, names[thread].encode())
        line += scalar(_START_NS, since_epoch + int(first * 1e3))
        for span in own:
            event = scalar(_EVENT_NAME, events.number(span["name"]))
            event += scalar(_OFFSET_PS, round((span["ts"] - first) * _PS))
            event += scalar(_DURATION_PS, round(span["dur"] * _PS))
            for name, value in {"category": span["cat"], **span["args"]}.items():
                event += embedded(_STATS, scalar(_STAT_NAME, details.number(name)) + _stat(value))
            line += embedded(_EVENTS, event)
        lines += embedded(_LINES, line)
    return embedded(
        _PLANES,
        embedded(_PLANE_NAME, plane.encode()) + lines + events.field(_EVENT_NAMES) + details.field(_STAT_NAMES),
    )


def _stat(value: Any) -> bytes:
    if isinstance(value, int) and value >= 0:
        return scalar(_INT, value)
    return embedded(_STRING, str(value).encode())
