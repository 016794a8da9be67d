"""A folder with the smallest module so far, from which to go on."""

from __future__ import annotations

import os
from pathlib import Path

from xloom.hlo.module import Module
from xloom.hlo.text.parser import parse

_BEST = "reduced.hlo"


class KeptState:
    """The folder, which is made if there is none."""

    def __init__(self, folder: Path):
        folder.mkdir(parents=True, exist_ok=True)
        self._path = folder / _BEST

    def module(self) -> Module | None:
        """What was kept last; None at the beginning."""
        return parse(self._path.read_text("utf-8"), str(self._path)) if self._path.exists() else None

    def write(self, module: Module) -> None:
        """Keeps another module instead, so that there is a whole one at any time."""
        new = self._path.with_suffix(".new")
        new.write_text(module.to_text(print_large_constants=True), encoding="utf-8")
        os.replace(new, self._path)
