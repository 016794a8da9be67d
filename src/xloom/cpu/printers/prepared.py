"""A program as it is planned."""

from __future__ import annotations

from xloom.cpu.prepare import prepared
from xloom.hlo.module import Module
from xloom.llvm.target import Target


def prepared_text(module: Module, target: Target | None = None) -> str:
    """The HLO that is planned for a target, after the passes that every compilation begins with."""
    return prepared(module, target=target).to_text()
