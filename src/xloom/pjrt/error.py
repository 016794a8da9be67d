"""Errors with the status codes of PJRT."""

from __future__ import annotations

from xloom.cuda.driver.results import DriverError
from xloom.errors import (
    DistributedError,
    ParseError,
    ShapeError,
    UnregisteredCallError,
    UnsupportedError,
    VerifyError,
    XloomError,
)
from xloom.status_code import Code


class PjrtError(XloomError):
    """A call of PJRT that cannot be done, or that failed later. Act: by `code`."""

    def __init__(self, code: Code, message: str, *, where: str = "", hint: str = ""):
        super().__init__(message, where=where, hint=hint)
        self.code = code


_CODES = {
    UnsupportedError: Code.UNIMPLEMENTED,
    UnregisteredCallError: Code.NOT_FOUND,
    ShapeError: Code.INVALID_ARGUMENT,
    ParseError: Code.INVALID_ARGUMENT,
    VerifyError: Code.INVALID_ARGUMENT,
    DistributedError: Code.ABORTED,
    MemoryError: Code.RESOURCE_EXHAUSTED,
}


def as_pjrt(error: Exception) -> Exception:
    """An error of a device's driver as PJRT's; others as they are."""
    if isinstance(error, DriverError):
        return PjrtError(error.code, error.message, where=error.where, hint=error.hint)
    return error


def code_of(error: BaseException) -> Code:
    """The status code that stands for an exception."""
    if isinstance(error, PjrtError):
        return error.code
    return next((code for kind, code in _CODES.items() if isinstance(error, kind)), Code.INTERNAL)


def invalid(message: str, hint: str) -> PjrtError:
    """The error for invalid arguments; `hint` is what to do instead."""
    return PjrtError(Code.INVALID_ARGUMENT, message, hint=hint)
