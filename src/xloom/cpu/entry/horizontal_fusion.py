"""Loop nests of which none needs another, done side by side.

Each of many small ones, as those of an optimiser that updates many arrays, would be cut for threads that then wait for
each other. They are called later instead, by one loop over pieces of all of them, which is cut once.
"""

from __future__ import annotations

from collections.abc import Set
from math import inf
from typing import NamedTuple

from llvmlite import ir

from xloom.codegen.buffers.allocation import BufferAllocation
from xloom.cpu.buffer_verifier.events import Event, RunNest, RunTogether
from xloom.cpu.kernel_modules.kernel import TASK, Phase
from xloom.llvm.constant_table import constant_table
from xloom.llvm.intrinsics import intrinsic
from xloom.llvm.loop import PLAIN, allocate, loop
from xloom.llvm.types import I64, POINTER

PIECES = 16
"""Into how many pieces that is cut which is worth a thread: of work of unequal length, threads get about as much."""


class _Call(NamedTuple):
    function: ir.Function
    buffers: ir.Value
    phase: Phase
    event: RunNest

    @property
    def pieces(self) -> int:
        return min(self.phase.count, max(1, round(PIECES * self.phase.count / self.phase.grain)))


class HorizontalFusion:
    """The calls that wait, in the function that `builder` emits; `parallel_for` cuts loops, unless one thread does all.

    What it emits is added to `events`.
    """

    def __init__(self, builder: ir.IRBuilder, parallel_for: ir.Function | None, events: list[Event]):
        self._events = events
        self._b = builder
        self._parallel_for = parallel_for
        self._calls: list[_Call] = []
        self._read: set[BufferAllocation] = set()
        self._written: set[BufferAllocation] = set()
        self._until: float = inf
        """The first position after which some of their memory may be another array's."""
        self._positions: list[int] = []
        self._tables = 0
        self.shares = False
        """Whether several threads do some call."""
        self._task: ir.Function | None = None

    def admit(self, position: int, read: Set[BufferAllocation], written: Set[BufferAllocation]) -> None:
        """Has what waits done first where the thunk at `position` depends on it, or may have its memory."""
        before, after = self._read, self._written
        apart = written.isdisjoint(before) and written.isdisjoint(after) and read.isdisjoint(after)
        if not apart or self._until < position:
            self.finish()
        if not self._calls:
            self._forget()
        self._read |= read
        self._written |= written
        self._until = min([self._until, *(s.last for s in (*read, *written) if s.kind == "arena")])
        self._positions.append(position)

    def wait(self, function: ir.Function, buffers: ir.Value, phase: Phase, event: RunNest) -> None:
        """Adds the call of the thunk that was admitted last."""
        self._calls.append(_Call(function, buffers, phase, event))

    def finish(self) -> None:
        """Emits the waiting calls: one as it is, several as one parallel loop over the items of all."""
        calls, self._calls = self._calls, []
        if calls:
            self._events.append(RunTogether([c.event for c in calls]))
        if len(calls) == 1 or self._parallel_for is None:
            for call in calls:
                self.call(*call[:3])
        elif calls:
            for allocation in self._read | self._written:
                allocation.use(min(self._positions))
                allocation.use(max(self._positions))
            self._call_all(calls)
        self._forget()

    def call(self, function: ir.Function, buffers: ir.Value, phase: Phase) -> None:
        """Calls a phase, by several threads if it is worth that."""
        b = self._b
        if phase.count <= phase.grain or self._parallel_for is None:
            b.call(function, [buffers, I64(0), *self._loaded(phase.count)])
        else:
            self.share(function, buffers, phase.count, phase.grain)

    def _forget(self) -> None:
        self._read, self._written, self._positions, self._until = set(), set(), [], inf

    def _call_all(self, calls: list[_Call]) -> None:
        b, module = self._b, self._b.module
        numbers, first = [len(calls)], 0
        for call in calls:
            numbers += [first, call.pieces, call.phase.count]
            first += call.pieces
        constants = constant_table(module, f"xloom.side_by_side{self._tables}", I64, numbers)
        self._tables += 1
        pointers = [constants, *(p for call in calls for p in (call.function, call.buffers))]
        table = allocate(b, POINTER, len(pointers))
        for k, pointer in enumerate(pointers):
            b.store(pointer, _at(b, table, POINTER, I64(k)))
        if self._task is None:
            self._task = _task(module)
        self.share(self._task, table, first, PIECES)

    def share(self, task: ir.Function, buffers: ir.Value, count: int, grain: int) -> None:
        """Has threads share the items of a task."""
        self.shares = True
        self._b.call(self._parallel_for, [task, buffers, *self._loaded(count, grain)])

    def _loaded(self, *numbers: int) -> list[ir.Value]:
        """Numbers from a table: the same code does for others."""
        b = self._b
        table = constant_table(b.module, b.module.get_unique_name("xloom.items"), I64, numbers)
        return [b.load(_at(b, table, I64, I64(k)), typ=I64) for k in range(len(numbers))]


def _at(b: ir.IRBuilder, table: ir.Value, kind: ir.Type, index: ir.Value) -> ir.Value:
    return b.gep(table, [index], inbounds=True, source_etype=kind)


def _task(module: ir.Module) -> ir.Function:
    """The function that does pieces [begin, end) of all calls in a table."""
    function = ir.Function(module, TASK, "xloom.side_by_side")
    function.linkage = "internal"
    table, begin, end = function.args
    b = ir.IRBuilder(function.append_basic_block("entry"))
    numbers = b.load(table, typ=POINTER)
    with loop(b, 0, b.load(numbers, typ=I64), name="call", hints=PLAIN) as k:
        row = b.mul(k, I64(3))
        first, pieces, count = (b.load(_at(b, numbers, I64, b.add(row, I64(n))), typ=I64) for n in (1, 2, 3))
        low = intrinsic(b, "smax", b.sub(begin, first), I64(0))
        high = intrinsic(b, "smin", b.sub(end, first), pieces)
        with b.if_then(b.icmp_signed("<", low, high)):
            pair = b.mul(k, I64(2))
            task = b.load(_at(b, table, POINTER, b.add(pair, I64(1))), typ=TASK.as_pointer())
            buffers = b.load(_at(b, table, POINTER, b.add(pair, I64(2))), typ=POINTER)
            b.call(task, [buffers, *(b.udiv(b.mul(x, count), pieces) for x in (low, high))])
    b.ret_void()
    return function
