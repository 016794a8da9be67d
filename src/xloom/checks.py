"""What is checked as programs are compiled and run: $XLOOM_CHECK."""

from __future__ import annotations

from collections.abc import Iterable

from xloom.environment import CHECK
from xloom.errors import XloomError

CHECKS = {
    "buffers": "each step reads the bytes of the value that it is to read",
    "loops": "loop nests have operands of the right types, and only load and store what there is",
    "passes": "each pass gives a module of the same values",
    "kernels": "code that is shared or kept is what would be made anew",
    "launches": "each kernel of a GPU has ended well before the next one begins, so that errors say which failed",
}
"""What the compiler can check of its own stages, all of it by the name `all`."""
VALUE_CHECKS = {
    "nan": "no instruction makes a NaN of operands without one",
    "inf": "no instruction makes an infinity of finite operands",
    "oob": "indices of gather, scatter and dynamic slices are in range before they are clamped",
    "overflow": "additions and products that indices come from stay within their integers",
    "unwritten": "custom calls write all elements of their results",
}
"""What can be checked of the values of a program while it runs."""


class NotCheckedWarning(UserWarning):
    """A program's values are not looked at, though that was asked for."""


def is_checked(what: str) -> bool:
    """True when $XLOOM_CHECK, names with commas between or `all`, asks for one of `CHECKS`.

    Raises XloomError for other names."""
    names = _names()
    return what in names or "all" in names


def value_checks() -> frozenset[str]:
    """Those of `VALUE_CHECKS` that $XLOOM_CHECK asks for. Raises XloomError for names that there are not."""
    return _names() & VALUE_CHECKS.keys()


def known_value_checks(names: Iterable[str]) -> frozenset[str]:
    """The names as a set. Raises XloomError for one that is not in `VALUE_CHECKS`."""
    found = frozenset(names)
    for name in sorted(found - VALUE_CHECKS.keys()):
        raise XloomError(f"no check of values is called {name!r}", hint=f"there are {', '.join(VALUE_CHECKS)}")
    return found


def _names() -> frozenset[str]:
    text = CHECK.text
    names = frozenset(name.strip() for name in text.split(",") if name.strip())
    if names - CHECKS.keys() - VALUE_CHECKS.keys() - {"all"}:
        known = ", ".join([*CHECKS, *VALUE_CHECKS])
        raise XloomError(f"{CHECK} is {text!r}", hint=f"set it to all, or to some of {known}, or unset it")
    return names
