"""Which thread runs a program."""

from __future__ import annotations

from enum import Enum


class HandOver(Enum):
    """Whether a program runs in the device's thread, to which it is handed over, or in the caller's."""

    NEVER = b"1"
    IF_LONG = b"2"
    """It has loops of an unknown number of iterations, and would be cheap with one of each, or calls that are given
    much: it depends on its runs."""
    ALWAYS = b"0"
