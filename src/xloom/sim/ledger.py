"""Cycles that a simulated device has taken, by instruction and by unit."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from xloom.hlo.instruction import Instruction
from xloom.hlo.stack_frames import source_line


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
        self._current: Account | None = None

    def charge(self, unit: str, cycles: int) -> None:
        """Adds cycles of a unit to the instruction that runs, if one does."""
        if self._current is not None and cycles:
            self._current.cycles[unit] += int(cycles)

    @contextmanager
    def of(self, instruction: Instruction) -> Iterator[None]:
        """What is charged meanwhile is the instruction's, or that of the one that it is part of."""
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

    def report(self, most: int = 20) -> str:
        """A table: the instructions that take most cycles, of all units together, and what each unit has of them."""
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
        return "\n".join([*lines, f"{total:>12} {'100%':>6} {'':>5} {sums}  in all"])
