"""Which of several processes this one is, for whoever writes down what it does."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class ProcessIdentity:
    """Process number `index` of `count`; `run` is a text that these have in common, and no others."""

    index: int
    count: int
    run: str


_of_this: ProcessIdentity | None = None


def identify(identity: ProcessIdentity) -> None:
    """Says which one this process is."""
    global _of_this
    _of_this = identity


def identity() -> ProcessIdentity | None:
    """Which one this process is; None of one that is alone, or has not joined the others yet."""
    return _of_this


def log_prefix() -> str:
    """What lines of logs begin with, as those of several processes often get into one file."""
    return "" if _of_this is None else f"[process {_of_this.index}] "
