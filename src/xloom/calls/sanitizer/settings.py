"""Whether custom calls run in the sanitizer, and how."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from xloom.environment import SANITIZE, SANITIZE_SECONDS
from xloom.errors import XloomError


@dataclass(frozen=True)
class Settings:
    """`isolate`: each call in a process of its own; `seconds`: how long one may take."""

    isolate: bool = False
    seconds: float = 60.0


_chosen: list[Settings] = []
_watching: list[Callable[[bool], object]] = []


@contextmanager
def sanitize(*, isolate: bool = False, seconds: float = 60.0) -> Iterator[None]:
    """Custom calls of the whole process run in the sanitizer; programs compiled before are compiled anew for it."""
    settings = Settings(isolate, seconds)
    _chosen.append(settings)
    try:
        _tell()
        yield
    finally:
        _chosen.remove(settings)
        _tell()


def watch(function: Callable[[bool], object]) -> None:
    """Calls `function` with whether the process is in `sanitize`: now, and whenever that changes."""
    _watching.append(function)
    function(bool(_chosen))


def _tell() -> None:
    for function in _watching:
        function(bool(_chosen))


def active() -> Settings | None:
    """The settings that hold now: of the innermost `sanitize`, else of $XLOOM_SANITIZE; None when there are none.

    XLOOM_SANITIZE is 1 or isolate, XLOOM_SANITIZE_SECONDS the time limit of a call.
    """
    if _chosen:
        return _chosen[-1]
    wish = SANITIZE.text
    if wish in ("", "0"):
        return None
    if wish not in ("1", "isolate"):
        raise XloomError(f"{SANITIZE} is {wish!r}", hint="set it to 1 or to isolate")
    limit = SANITIZE_SECONDS.text or SANITIZE_SECONDS.default
    try:
        return Settings(wish == "isolate", float(limit))
    except ValueError:
        raise XloomError(f"{SANITIZE_SECONDS} is {limit!r}", hint="set it to a number of seconds") from None
