"""Which strategy a kernel is written by and why, told where the choice is made: `xloom opt --explain kernel`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import NamedTuple


class Choice(NamedTuple):
    """A strategy, and what held of the operands when it was chosen."""

    strategy: str
    why: str

    def __str__(self) -> str:
        return f"{self.strategy}: {self.why}" if self.why else self.strategy


_open: ContextVar[list[Choice] | None] = ContextVar("choices", default=None)


def chosen(strategy: str, why: str = "") -> None:
    """Tells whoever has the kernel written what was chosen; sizes in it by `symbolic_dimension.number`."""
    choices = _open.get()
    if choices is not None and (choice := Choice(strategy, why)) not in choices:
        choices.append(choice)


@contextmanager
def choices_made() -> Iterator[list[Choice]]:
    """What is chosen until the end of the `with`."""
    choices: list[Choice] = []
    token = _open.set(choices)
    try:
        yield choices
    finally:
        _open.reset(token)
