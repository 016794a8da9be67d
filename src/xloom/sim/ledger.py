"""Cycles that a simulated device has taken, by instruction and by unit, and in all."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from xloom.hlo.instruction import Instruction
from xloom.hlo.stack_frames import source_line
from xloom.sim.timeline import Timeline


@dataclass
class Account:
    """What an instruction has taken."""

    name: str
    opcode: str
    source: str
    runs: int = 0
    cycles: Counter[str] = field(default_factory=Counter)
    """By unit of the device."""


class Ledger:
    """The accounts of all instructions; each is the instruction's that runs."""

    def __init__(self) -> None:
        self.accounts: dict[tuple[str, str], Account] = {}
        """By the names of the module and of the instruction."""
        self.timeline = Timeline()
        self._current: Account | None = None

    def load(self, unit: str, cycles: int) -> None:
        """Adds cycles of a transfer to the scratchpad to the instruction that runs, if one does."""
        if self._add(unit, cycles):
            self.timeline.load(unit, int(cycles))

    def charge(self, unit: str, cycles: int) -> None:
        """Adds cycles that a unit computes to the instruction that runs, if one does."""
        if self._add(unit, cycles):
            self.timeline.compute(unit, int(cycles))

    def store(self, unit: str, cycles: int) -> None:
        """Adds cycles of a transfer from the scratchpad to the instruction that runs, if one does."""
        if self._add(unit, cycles):
            self.timeline.store(unit, int(cycles))

    def _add(self, unit: str, cycles: int) -> bool:
        if self._current is None or not cycles:
            return False
        self._current.cycles[unit] += int(cycles)
        return True

    @contextmanager
    def of(self, instruction: Instruction, ready: int = 0) -> Iterator[None]:
        """What is charged meanwhile is the instruction's, or that of the one that it is part of.

        Its operands are `ready` at that cycle of the timeline.
        """
        self.timeline.begin(ready)
        if self._current is not None:
            yield
            return
        module = instruction.parent.module.name if instruction.parent and instruction.parent.module else ""
        target = instruction.attrs.get("custom_call_target", instruction.opcode)
        found = self.accounts.setdefault(
            (module, instruction.name), Account(instruction.name, target, source_line(instruction))
        )
        found.runs += 1
        self._current = found
        try:
            yield
        finally:
            self._current = None

    @property
    def total(self) -> Counter[str]:
        """Cycles by unit."""
        return sum((account.cycles for account in self.accounts.values()), Counter[str]())

    def clear(self) -> None:
        """Forgets what was."""
        self.accounts.clear()
        self.timeline = Timeline()

    def report(self, most: int = 20) -> str:
        """A table: the instructions that take most cycles, of all units together, and what each unit has of them.

        The last lines are the sums, and how many cycles that takes where units work beside each other.
        """
        units, total = sorted(self.total), self.total.total()
        rows = sorted(self.accounts.values(), key=lambda each: -each.cycles.total())
        lines = [f"{'cycles':>12} {'share':>6} {'runs':>5} {''.join(f'{u:>11}' for u in units)}  instruction"]
        for row in rows[:most]:
            cycles = row.cycles.total()
            by_unit = "".join(f"{row.cycles[unit]:>11}" for unit in units)
            share = f"{100 * cycles / max(1, total):.1f}%"
            lines.append(
                f"{cycles:>12} {share:>6} {row.runs:>5} {by_unit}  {row.name} {row.opcode} {row.source}".rstrip()
            )
        rest = rows[most:]
        if rest:
            left = sum(row.cycles.total() for row in rest)
            lines.append(f"{left:>12} {100 * left / max(1, total):>5.1f}%  {len(rest)} more instructions")
        sums = "".join(f"{self.total[unit]:>11}" for unit in units)
        elapsed = self.timeline.elapsed
        shares = "".join(f"{f'{100 * self.total[unit] / max(1, elapsed):.1f}%':>11}" for unit in units)
        lines.append(f"{total:>12} {'100%':>6} {'':>5} {sums}  busy in all")
        return "\n".join([*lines, f"{elapsed:>12} {'':>6} {'':>5} {shares}  elapsed, and the share that each is busy"])
