"""The instructions that a question names."""

from __future__ import annotations

from collections.abc import Sequence

from xloom.errors import XloomError, near
from xloom.hlo.module import Module


def checked_names(module: Module | None, names: Sequence[str]) -> set[str]:
    """The names without their %. Raises XloomError for one that a prepared module has not: passes rewrite programs."""
    found = {name.removeprefix("%") for name in names}
    known = [i.name for i in module.instructions] if module is not None else []
    for name in sorted(found.difference(known)):
        raise XloomError(
            f"no instruction %{name} in the prepared program, which passes have rewritten",
            hint=near(name, known) or "xloom opt --emit prepared shows it",
        )
    return found
