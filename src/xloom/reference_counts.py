"""What Python counts of references to an object, of which the question itself may be one."""

from __future__ import annotations

from sys import getrefcount


def _of_one_variable() -> int:
    variable = object()
    return getrefcount(variable)


ONE_VARIABLE = _of_one_variable()
"""What `getrefcount(x)` says of what only a local variable x refers to: from Python 3.14 on calls borrow it."""
