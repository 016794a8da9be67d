"""A program's launches and copies as rows of numbers, which native code does one after another."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import IntEnum

import numpy as np

from xloom.codegen.buffers.allocation import BufferAllocation
from xloom.cuda.kernel import DeviceKernel
from xloom.cuda.program import Call, Collective, Copy, CountedLoop, DeviceProgram, Launch, Loop, Step
from xloom.trampoline import Nested, run

ALIGNMENT = 256
"""Of constants in their block, as of all that the driver gives."""


class Column(IntEnum):
    """Of a row of `Tape.rows`. A launch has a function and its pointers, a copy two pointers and no function."""

    FUNCTION = 0
    """The number of the kernel, or -1 of a copy."""
    BLOCKS = 1
    """Of a launch; the bytes of a copy."""
    THREADS = 2
    SHARED = 3
    """Bytes of shared memory that a launch asks for."""
    FIRST = 4
    """The first of its pointers in `Tape.pointers`; a copy's are target and source."""
    COUNT = 5


@dataclass(frozen=True)
class Rows:
    """A part of the tape that the host need not look at."""

    first: int
    end: int


@dataclass(frozen=True)
class TapeLoop:
    """As `program.Loop`."""

    condition: Sequence[TapeStep]
    predicate: int
    """Among the tape's pointers."""
    body: Sequence[TapeStep]


@dataclass(frozen=True)
class TapeCountedLoop:
    """As `program.CountedLoop`."""

    trips: int
    body: Sequence[TapeStep]


@dataclass(frozen=True)
class TapeBranch:
    """As `program.Branch`."""

    chooser: int
    """Among the tape's pointers."""
    is_predicate: bool
    branches: Sequence[Sequence[TapeStep]]


@dataclass(frozen=True)
class TapeCall:
    """As `program.Call`: where each array is, among the tape's pointers; None for tokens."""

    call: Call
    operands: Sequence[int | None]
    results: Sequence[int | None]


@dataclass(frozen=True)
class TapeCollective:
    """As `program.Collective`: where each array is, among the tape's pointers."""

    step: Collective
    operands: Sequence[int]
    results: Sequence[int]


TapeStep = Rows | TapeLoop | TapeCountedLoop | TapeBranch | TapeCall | TapeCollective


@dataclass
class Tape:
    """A program, given bases: of its arguments, its results, the arena, its constants, null, the device's numbers."""

    steps: Sequence[TapeStep]
    rows: np.ndarray
    """i64, a row per launch or copy."""
    pointers: np.ndarray
    """i64, two columns: the number of a base, and how many bytes behind it."""
    made_from: Sequence[Launch | Copy]
    """What each row is of."""
    kernels: Sequence[DeviceKernel]
    constants: bytes
    """All of them, as they lie in their block."""
    arena: int
    """The number of the arena's base; those of the constants, of null, and of the device's numbers come next."""

    @property
    def decides(self) -> bool:
        """Whether loops or branches depend on what a run computes."""
        return _decides(self.steps)

    @property
    def nodes(self) -> int | None:
        """About how many nodes a graph has that does all of it; None where the host has to do something."""
        return _nodes(self.steps)


def _nodes(steps: Sequence[TapeStep]) -> int | None:
    count = 0
    for step in steps:
        if isinstance(step, Rows):
            count += step.end - step.first
            continue
        if isinstance(step, TapeLoop):  # the node, and two kernels that tell it whether to go on
            own, parts = 3, [step.condition, step.body, step.condition]
        elif isinstance(step, TapeBranch):
            own, parts = 2 * len(step.branches), step.branches
        elif isinstance(step, TapeCountedLoop):
            own, parts = 0, [step.body] * step.trips
        else:
            return None
        count += own
        for nodes in map(_nodes, parts):
            if nodes is None:
                return None
            count += nodes
    return count


def _decides(steps: Sequence[TapeStep]) -> bool:
    return any(
        isinstance(step, TapeLoop | TapeBranch) or (isinstance(step, TapeCountedLoop) and _decides(step.body))
        for step in steps
    )


def tape_of(program: DeviceProgram, constants: Sequence[bytes]) -> Tape:
    """The tape of a program whose handed constants are these, by the numbers of their allocations."""
    writer = _Writer(program, constants)
    steps = run(writer.steps(program.steps))
    rows = np.array(writer.rows, np.int64).reshape(-1, len(Column))
    pointers = np.array(writer.pointers, np.int64).reshape(-1, 2)
    kernels = list(writer.kernels)
    return Tape(steps, rows, pointers, writer.made_from, kernels, bytes(writer.constants), writer.arena)


@dataclass
class _Writer:
    program: DeviceProgram
    given: Sequence[bytes]
    rows: list[list[int]] = field(default_factory=list)
    pointers: list[tuple[int, int]] = field(default_factory=list)
    made_from: list[Launch | Copy] = field(default_factory=list)
    kernels: dict[DeviceKernel, int] = field(default_factory=dict)
    constants: bytearray = field(default_factory=bytearray)

    def __post_init__(self) -> None:
        assignment = self.program.assignment
        self.results = len(assignment.arguments)
        self.arena = self.results + len(assignment.results)
        self._offsets = [self._constant(data) for data in self.given]
        self._codes: dict[bytes, int] = {}

    def _constant(self, data: bytes) -> int:
        self.constants.extend(bytes(-len(self.constants) % ALIGNMENT))
        offset = len(self.constants)
        self.constants.extend(data)
        return offset

    def steps(self, steps: Sequence[Step]) -> Nested[list[TapeStep]]:
        made: list[TapeStep] = []
        first = len(self.rows)

        def cut() -> None:
            nonlocal first
            if len(self.rows) > first:
                made.append(Rows(first, len(self.rows)))
            first = len(self.rows)

        for step in steps:
            if isinstance(step, Launch):
                number = self.kernels.setdefault(step.kernel, len(self.kernels))
                self._row(
                    step, [number, step.blocks, step.kernel.threads, step.kernel.dynamic_shared_bytes], step.arguments
                )
            elif isinstance(step, Copy):
                self._row(step, [-1, step.target.nbytes, 0, 0], (step.target, step.source))
            elif isinstance(step, Loop):
                cut()
                condition = yield self.steps(step.condition)
                body = yield self.steps(step.body)
                made.append(TapeLoop(condition, self._pointer(step.predicate), body))
                first = len(self.rows)
            elif isinstance(step, CountedLoop):
                cut()
                made.append(TapeCountedLoop(step.trips, (yield self.steps(step.body))))
                first = len(self.rows)
            elif isinstance(step, Call):
                cut()
                operands, results = (
                    [None if each is None else self._pointer(each) for each in part]
                    for part in (step.operands, step.results)
                )
                made.append(TapeCall(step, operands, results))
            elif isinstance(step, Collective):
                cut()
                operands, results = ([self._pointer(each) for each in part] for part in (step.operands, step.results))
                made.append(TapeCollective(step, operands, results))
            else:
                cut()
                branches: list[list[TapeStep]] = []
                for branch in step.branches:
                    branches += [(yield self.steps(branch))]
                made.append(TapeBranch(self._pointer(step.chooser), step.is_predicate, branches))
                first = len(self.rows)
        cut()
        return made

    def _row(self, step: Launch | Copy, what: list[int], arguments: Sequence[BufferAllocation]) -> None:
        self.rows.append([*what, len(self.pointers), len(arguments)])
        self.made_from.append(step)
        for each in arguments:
            self._pointer(each)

    def _pointer(self, allocation: BufferAllocation) -> int:
        self.pointers.append(self._place(allocation))
        return len(self.pointers) - 1

    def _place(self, allocation: BufferAllocation) -> tuple[int, int]:
        """The number of an allocation's base, and its offset there."""
        kind = allocation.kind
        if kind == "argument":
            return allocation.number, 0
        if kind == "result":
            return self.results + allocation.number, 0
        if kind == "constant":
            return self.arena + 1, self._offsets[allocation.number]
        if kind == "code":
            if allocation.data not in self._codes:
                self._codes[allocation.data] = self._constant(allocation.data)
            return self.arena + 1, self._codes[allocation.data]
        if kind == "unused":
            return self.arena + 2, 0
        if kind == "device":
            return self.arena + 3, 4 * allocation.number
        if allocation.colocated_with is not None:
            base, offset = self._place(allocation.colocated_with)
            return base, offset + allocation.offset
        return self.arena, allocation.offset
