"""The sanitizer: custom calls run in guarded memory, with a time limit, and on request in a process of their own.

`XLOOM_SANITIZE=1`, `XLOOM_SANITIZE=isolate`, `xloom run --sanitize`, or `with sanitize():`.
"""

from xloom.calls.sanitizer.guarded import NonFiniteWarning
from xloom.calls.sanitizer.settings import Settings, active, sanitize, watch

__all__ = ["NonFiniteWarning", "Settings", "active", "sanitize", "watch"]
