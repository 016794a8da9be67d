"""A program as it is planned."""

from __future__ import annotations

from xloom.cpu.prepare import prepared
from xloom.hlo.module import Module


def prepared_text(module: Module) -> str:
    """The HLO that is planned, after the passes that every compilation begins with."""
    return prepared(module).to_text()
