"""The program before and after each pass: which rows came and went."""

from __future__ import annotations

from typing import Any

from xloom.hlo.module import Module
from xloom.passes.base import Pass
from xloom.viewer.graph import InstructionTable


class States:
    """A list of states, each the difference from the one before. A hook of `run_passes`.

    With `each`, every pass that changed the module gives a state.
    """

    def __init__(self, table: InstructionTable, each: bool = False) -> None:
        self.table = table
        self.each = each
        self.states: list[dict[str, Any]] = []
        self._rows: dict[int, None] = {}

    def record(self, title: str, module: Module) -> None:
        """Adds a state, if it is the first or differs from the last."""
        rows = {self.table.row(instruction): None for computation in module.computations for instruction in computation}
        added = [row for row in rows if row not in self._rows]
        removed = [row for row in self._rows if row not in rows]
        if self.states and not added and not removed:
            return
        state = {"title": title, "entry": self.table.strings(module.entry.name), "added": added, "removed": removed}
        self.states.append(state)
        self._rows = rows

    def start(self, module: Module) -> None:
        """Nothing: the module is that of the last state."""

    def after(self, module: Module, pass_: Pass, number: int) -> None:
        """Adds the state after a pass."""
        if self.each:
            self.record(str(pass_), module)
