"""Memory of one or more buffer values, and which values have which."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

from xloom.codegen.buffer_values import BufferValue
from xloom.codegen.schedule.thunks import LAST
from xloom.hlo.instruction import Instruction


@dataclass(eq=False)
class BufferAllocation:
    """Memory of one or more values. `kind`: argument, result, constant, code, arena, stack, part or unused."""

    kind: str
    nbytes: int
    number: int = 0
    """Among the program's arguments, results or constants."""
    offset: int = 0
    """In bytes, in the arena or in the result that it is colocated with."""
    colocated_with: BufferAllocation | None = None
    """The result in whose memory a temporary array lies, before that is written."""
    gathered: tuple[BufferAllocation, Instruction] | None = None
    """Of a part, the memory that the device has it in, and the all-gather that says which of its parts that is."""
    data: bytes = b""
    """The elements of a constant that is a part of the code."""
    first: int = LAST
    last: int = -1
    """The positions between which, both included, it is alive."""

    @property
    def home(self) -> BufferAllocation:
        """The memory that it is, or that it is a part of: homes that are alive at once have no byte in common."""
        return self.gathered[0].home if self.gathered is not None else self

    def use(self, position: int) -> None:
        """Extends its live range to a position of the program."""
        self.first, self.last = min(self.first, position), max(self.last, position)
        if self.gathered is not None:
            self.gathered[0].use(position)


class AllocationTable(dict[BufferValue, BufferAllocation]):
    """Allocations by value, which also knows the values of each allocation, or of parts of it, that are still read."""

    def __init__(self) -> None:
        self._live: dict[BufferAllocation, list[BufferValue]] = defaultdict(list)

    def __setitem__(self, value: BufferValue, allocation: BufferAllocation) -> None:
        super().__setitem__(value, allocation)
        self._live[allocation.home].append(value)

    def live_values(self, allocation: BufferAllocation) -> list[BufferValue]:
        """The values that have the allocation, or what it is a part of, and have not ended."""
        home = allocation.home
        return [value for value in self._live[home] if self[value].home is home]

    def end(self, value: BufferValue) -> None:
        """The value is dead: it keeps its allocation, but is none of its `live_values`."""
        live = self._live[self[value].home]
        if value in live:
            live.remove(value)
