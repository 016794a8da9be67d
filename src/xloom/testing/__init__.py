"""For tests of programs and kernels: `xl.testing.check_call`.

check_call.py   a program whose custom calls run both ways, as kernels and as the HLO that they carry
agreement.py    whether two values may be roundings of one
report.py       what was found, and the error that has it
"""

from xloom.testing.check_call import check_call
from xloom.testing.report import CallCheck, CallDifferenceError, Difference, Report

__all__ = ["CallCheck", "CallDifferenceError", "Difference", "Report", "check_call"]
