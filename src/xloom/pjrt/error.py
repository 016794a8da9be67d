"""Errors with the status codes of PJRT."""

from __future__ import annotations

from enum import IntEnum

from xloom.errors import ParseError, ShapeError, UnregisteredCallError, UnsupportedError, VerifyError, XloomError


class Code(IntEnum):
    """Abseil's status codes."""

    OK = 0
    CANCELLED = 1
    UNKNOWN = 2
    INVALID_ARGUMENT = 3
    DEADLINE_EXCEEDED = 4
    NOT_FOUND = 5
    ALREADY_EXISTS = 6
    PERMISSION_DENIED = 7
    RESOURCE_EXHAUSTED = 8
    FAILED_PRECONDITION = 9
    ABORTED = 10
    OUT_OF_RANGE = 11
    UNIMPLEMENTED = 12
    INTERNAL = 13
    UNAVAILABLE = 14
    DATA_LOSS = 15
    UNAUTHENTICATED = 16


class PjrtError(XloomError):
    """A call of PJRT that cannot be done, or that failed later. Act: by `code`."""

    def __init__(self, code: Code, message: str):
        super().__init__(message)
        self.code = code


_CODES = {
    UnsupportedError: Code.UNIMPLEMENTED,
    UnregisteredCallError: Code.NOT_FOUND,
    ShapeError: Code.INVALID_ARGUMENT,
    ParseError: Code.INVALID_ARGUMENT,
    VerifyError: Code.INVALID_ARGUMENT,
    MemoryError: Code.RESOURCE_EXHAUSTED,
}


def code_of(error: BaseException) -> Code:
    """The status code that stands for an exception."""
    if isinstance(error, PjrtError):
        return error.code
    return next((code for kind, code in _CODES.items() if isinstance(error, kind)), Code.INTERNAL)


def invalid(message: str) -> PjrtError:
    """The error for arguments that nobody can use."""
    return PjrtError(Code.INVALID_ARGUMENT, message)
