"""What an entry function does to memory, in the order in which it runs; arrays are named by who makes them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from xloom.codegen.buffer_values import BufferValue
from xloom.codegen.buffers.allocation import BufferAllocation
from xloom.codegen.loop_ir.nest import LoopNest
from xloom.codegen.schedule.thunks import ScheduledComputation
from xloom.hlo.instruction import Instruction
from xloom.hlo.shape import Shape


@dataclass(slots=True)
class Copy:
    """All bytes of an allocation are copied to another of as many."""

    target: BufferAllocation
    source: BufferAllocation
    nbytes: int


@dataclass(slots=True)
class Start:
    """A result gets an argument's contents, unless the caller gave both the same memory."""

    result: BufferAllocation
    argument: BufferAllocation


@dataclass(slots=True)
class Overwrite:
    """An allocation gets contents that are no value's."""

    allocation: BufferAllocation


@dataclass(slots=True)
class RunNest:
    """A loop nest reads and writes arrays, each in its allocation."""

    nest: LoopNest
    allocations: dict[BufferValue, BufferAllocation]
    scratch: Sequence[BufferAllocation] = ()


@dataclass(slots=True)
class RunTogether:
    """Loop nests in any order, or at once."""

    nests: list[RunNest]


@dataclass(slots=True)
class Access:
    """An array that lies as its shape says, in an allocation."""

    value: BufferValue
    allocation: BufferAllocation
    shape: Shape


@dataclass(slots=True)
class RunThunk:
    """A kernel, a collective or a call reads arrays while it writes others.

    An output of `in_place` may be written where that operand lies.
    """

    instruction: Instruction
    operands: list[Access]
    outputs: list[Access]
    scratch: Sequence[BufferAllocation] = ()
    in_place: dict[int, int] = field(default_factory=dict)


@dataclass(slots=True)
class ChangeLayout:
    """An array from rows to the layout of `shape`, or from that to rows (`back`), by thunks that know no names.

    `moved` are the values that the thunks read and make; none where both have one allocation.
    """

    target: BufferAllocation
    source: BufferAllocation
    shape: Shape
    back: bool
    thunks: list[Event]
    moved: tuple[BufferValue, BufferValue] | None = None


@dataclass(slots=True)
class RunLoop:
    """A while loop: its state lies in `state` before the condition, and before and after the body."""

    instruction: Instruction
    condition: ScheduledComputation
    body: ScheduledComputation
    state: list[BufferAllocation]
    test: list[Event]
    thunks: list[Event]


@dataclass(slots=True)
class RunBranch:
    """A conditional: one of its branches, after which the result is in `result`."""

    instruction: Instruction
    branches: list[ScheduledComputation]
    result: list[BufferAllocation]
    thunks: list[list[Event]]


Event = Copy | Start | Overwrite | RunNest | RunTogether | RunThunk | ChangeLayout | RunLoop | RunBranch
