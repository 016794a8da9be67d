"""Packages that xloom reaches into: which versions it is made for, and an error for others that says what to change."""

from __future__ import annotations

import pkgutil
from collections.abc import Mapping
from dataclasses import dataclass

import xloom
from xloom.errors import UnsupportedError

Version = tuple[int, ...]


@dataclass(frozen=True)
class SupportedPackage:
    """A package, the first and the last version of it that are tested, and its private names that are used."""

    title: str
    distribution: str
    """Its name for pip."""
    oldest: Version
    newest: Version
    reached_into: Mapping[str, str]
    """Names by module. A later version is taken as long as it has all of them."""

    def check(self, found: Version, called: str) -> None:
        """Raises UnsupportedError for a version that xloom does not work with; it says which of the two must change.

        `called` is the version as the package says it.
        """
        missing = self._missing()
        if not missing and found >= self.oldest:
            return
        oldest, newest = (".".join(map(str, version)) for version in (self.oldest, self.newest))
        if found < self.oldest:
            hint = f"update {self.title}: pip install {self.distribution}=={newest}"
        elif found > self.newest:
            last = f"the last {self.title} that this one is made for"
            hint = f"update xloom, or go back to {last}: pip install {self.distribution}=={newest}"
        else:
            again = f"pip install --force-reinstall {self.distribution}=={called}"
            hint = f"install {self.title} again, it is not complete: {again}"
        lacks = f", which lacks {', '.join(missing)}" if missing else ""
        made_for = f"{self.title} {oldest} to {newest}, and this is {self.title} {called}{lacks}"
        raise UnsupportedError(f"xloom {xloom.__version__} is made for {made_for}", hint=hint)

    def _missing(self) -> list[str]:
        names = [f"{module}.{name}" for module, listed in self.reached_into.items() for name in listed.split()]
        return [name for name in names if not _is_there(name)]


def _is_there(name: str) -> bool:
    try:
        pkgutil.resolve_name(name)
    except (ImportError, AttributeError):
        return False
    return True
