"""For tests of programs and kernels: `xl.testing.check_call`, `xl.testing.first_difference`.

check_call.py   a program whose custom calls run both ways, as kernels and as the HLO that they carry
agreement.py    whether two values may be roundings of one
report.py       what was found, and the error that has it
functions.py    functions of JAX and PyTorch as programs, whose first differing value is looked for
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from xloom.testing.check_call import check_call
from xloom.testing.report import CallCheck, CallDifferenceError, Difference, Report

if TYPE_CHECKING:
    from xloom.testing.functions import first_difference

__all__ = ["CallCheck", "CallDifferenceError", "Difference", "Report", "check_call", "first_difference"]


def __getattr__(name: str) -> Any:
    if name != "first_difference":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return import_module(f"{__name__}.functions").first_difference
