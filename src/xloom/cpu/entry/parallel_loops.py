"""Loops whose iterations need not wait for one another: threads share them, each with temporary arrays of its own.

A kernel inside is done by the thread that has the iteration: what it reads is in the caches of that core.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass
from typing import TYPE_CHECKING

from llvmlite import ir

from xloom.calls.buffers import ALIGNMENT
from xloom.codegen.buffers.allocation import BufferAllocation
from xloom.codegen.fusion.fusion_group import FusionGroup
from xloom.codegen.ops import OP_ROWS, Role
from xloom.codegen.schedule.thunks import ScheduledComputation
from xloom.cpu.buffer_verifier.events import RunLoop
from xloom.cpu.entry.allocation_pointers import AllocationPointers
from xloom.cpu.entry.emitted_program import ThunkCode
from xloom.cpu.entry.interruption import Polling
from xloom.cpu.entry.main_function import INTERRUPTED
from xloom.cpu.kernel_modules.kernel import TASK, Phase
from xloom.hlo.instruction import Instruction
from xloom.llvm.loop import PLAIN, allocate, loop
from xloom.llvm.types import I8, I32, I64, POINTER, VOID
from xloom.passes.loops import counted_trips, counting_of, in_each_iteration, initial, is_only_updated
from xloom.passes.product_blocking import BLOCKS
from xloom.trampoline import Nested

if TYPE_CHECKING:
    from xloom.cpu.entry.function import EntryBuilder

_MOST = 1 << 20
"""Bytes of temporary arrays, which lie on the stack of each thread unless kernels need more beside them."""
_DONE_APART = frozenset({Role.KERNEL, Role.ALIAS})


@dataclass(frozen=True)
class ParallelLoop:
    """A counted loop of independent iterations: where its counter lies, what that begins with, and its `step`."""

    counter: BufferAllocation
    states: Sequence[BufferAllocation]
    """Of the loop, but for the counter."""
    begin: int
    step: int
    trips: int


def parallel_loop(
    entry: EntryBuilder, body: ScheduledComputation, loop: Instruction, states: Sequence[BufferAllocation]
) -> ParallelLoop | None:
    """What threads may share of a loop; None where they may not, or where their arrays would be too large."""
    trips, counting = counted_trips(loop), counting_of(loop)
    if loop.frontend_attributes.get(BLOCKS) != "true" or counting is None or trips is None or trips < 2:
        return None
    if body.nested or entry.assignment.rotations[loop] or not all(map(_is_done_apart, body.thunks)):
        return None
    allocations = entry.assignment.allocations
    counter = states[counting.index]  # whose number is that of the leaf, as all elements are arrays
    others = [state for state in states if state is not counter]
    if any(not element.is_array for element in loop.shape.elements) or len(others) != len(states) - 1:
        return None
    leaves = [k for k in range(len(states)) if k != counting.index]
    if any(allocations[body.root[k]] is not states[k] or not _is_apart(loop, body, k) for k in leaves):
        return None
    groups = [thunk for thunk in body.thunks if isinstance(thunk, FusionGroup)]
    read_in_place = {root for group in groups if entry.views.has(entry, body, group) for root in group.roots}
    made = {allocations[v] for v in body.made if v in allocations and v[0] not in read_in_place}
    if sum(a.nbytes for a in made if a.kind == "arena" and a not in others) > _MOST:
        return None
    first, step = initial(loop, counting.index), in_each_iteration(loop, counting.step)
    assert first is not None and step is not None
    return ParallelLoop(counter, others, int(first.literal.value), int(step.literal.value), trips)


def _is_apart(loop: Instruction, body: ScheduledComputation, k: int) -> bool:
    """True of state that no iteration changes, or of which each stores a part, and none reads what another stored."""
    return body.root[k] == (body.computation.parameters[0], k) or is_only_updated(loop, k)


def _is_done_apart(thunk: FusionGroup | Instruction) -> bool:
    """True of what one thread can do while others do the same for other iterations."""
    if isinstance(thunk, FusionGroup):
        return True
    return OP_ROWS[thunk.opcode].role in _DONE_APART or thunk.opcode in ("fusion", "constant")


def emit_parallel_loop(entry: EntryBuilder, found: ParallelLoop, event: RunLoop) -> Nested[None]:
    """Emits the iterations as a task's items; the loop's state must be where it begins.

    `event` is what the loop is to do to memory, which gets what its condition and its body do.
    """
    b = entry.b
    flag = allocate(b, I32)
    b.store(I32(0), flag)
    table = entry.table([flag, entry.constants, *(entry.pointer(state) for state in found.states)])
    task = ir.Function(entry.module, TASK, entry.module.get_unique_name("xloom.iterations"))
    task.linkage = "internal"
    task.attributes.add("nounwind")
    inner = copy(entry)
    yield _emit_iterations(inner, task, found, event)
    entry.take_from(inner)
    entry.events.append(event)
    entry.program.code[event.instruction] = ThunkCode("", [Phase(task.name, found.trips, 1)])
    entry.polling.cost += found.trips * max(1, inner.polling.cost)
    entry.horizontal_fusion.share(task, table, found.trips, 1)
    is_over = b.icmp_signed("!=", b.load(flag, typ=I32), I32(0))
    with b.if_then(is_over, likely=False):
        b.ret(I32(INTERRUPTED))
    _count(entry, found, I64(found.begin + found.trips * found.step))


def _emit_iterations(inner: EntryBuilder, task: ir.Function, found: ParallelLoop, event: RunLoop) -> Nested[None]:
    """Emits the function that does some iterations, by `inner`, which is to be a copy of who emits what calls it."""
    table, begin, end = task.args
    b = ir.IRBuilder(task.append_basic_block("entry"))
    flag, constants, *states = (
        b.load(b.gep(table, [I64(k)], inbounds=True, source_etype=POINTER), typ=POINTER)
        for k in range(2 + len(found.states))
    )
    start, done = (task.append_basic_block(name) for name in ("start", "done"))
    b.position_at_end(start)
    given = dict(zip(found.states, states, strict=True))
    nothing = ir.Constant(POINTER, None)
    memory = AllocationPointers(b, inner.assignment, (nothing, nothing, constants, nothing), given)
    inner.begin_function(b, memory, _Polling(b, flag, done))
    with loop(b, begin, end, name="iteration", hints=PLAIN) as number:
        inner.polling.look()
        _count(inner, found, b.add(b.mul(number, I64(found.step)), I64(found.begin)))
        with inner.recorded() as event.test:
            yield inner.emit_schedule(event.condition)  # whose result is known
        with inner.recorded() as event.thunks:
            yield inner.emit_schedule(event.body, repeated=True)
            allocations = inner.assignment.allocations
            inner.copies([(state, allocations[v]) for state, v in zip(event.state, event.body.root, strict=True)])
    b.branch(done)
    b.position_at_end(done)
    nbytes = memory.own_bytes()
    if nbytes > _MOST:
        with b.goto_block(task.entry_basic_block):
            b.position_at_start(task.entry_basic_block)
            reserve = inner.declared("aligned_alloc", ir.FunctionType(POINTER, [I64, I64]))
            arena = b.call(reserve, [I64(ALIGNMENT), I64(nbytes)])
        b.call(inner.declared("free", ir.FunctionType(VOID, [POINTER])), [arena])
    else:
        arena = allocate(b, I8, nbytes, in_parts=True)
        arena.align = ALIGNMENT
    memory.place_in(arena)
    b.ret_void()
    b.position_at_end(task.entry_basic_block)
    b.branch(start)


def _count(entry: EntryBuilder, found: ParallelLoop, count: ir.Value) -> None:
    """Sets the counter."""
    bits = found.counter.nbytes * 8
    number = entry.b.trunc(count, ir.IntType(bits)) if bits < I64.width else count
    entry.b.store(number, entry.pointer(found.counter))


class _Polling(Polling):
    """Looks in a task, which has a flag for what it finds."""

    def __init__(self, builder: ir.IRBuilder, flag: ir.Value, done: ir.Block):
        super().__init__(builder)
        self._flag, self._done = flag, done

    def between_thunks(self) -> None:
        """Iterations begin with a look."""

    def is_over(self, found: ir.Value) -> ir.Value:
        """Also where another thread has found it: most never do, as they are not Python's."""
        b = self._b
        return super().is_over(b.or_(found, b.load_atomic(self._flag, "monotonic", 4, typ=I32)))

    def end(self) -> None:
        """Ends the task."""
        self._b.atomic_rmw("xchg", self._flag, I32(1), "monotonic")
        self._b.branch(self._done)
