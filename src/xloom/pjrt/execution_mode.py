"""Which thread runs a program: the caller's, or the device's."""

from __future__ import annotations

from enum import Enum


class ExecutionMode(Enum):
    """Whether a program runs before the call returns, or in the device's thread, to which it is handed over."""

    SYNCHRONOUS = b"1"
    BY_RUN_LENGTH = b"2"
    """It has loops of an unknown number of iterations, and would be cheap with one of each, or calls that are given
    much: it depends on its runs."""
    ASYNCHRONOUS = b"0"
