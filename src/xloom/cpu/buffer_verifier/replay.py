"""A program's thunks on memory whose contents are names: each thunk must find what it reads."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence

from xloom.codegen.buffer_values import BufferValue, defining_value, leaf_shapes
from xloom.codegen.buffers.allocation import BufferAllocation
from xloom.codegen.buffers.assignment import BufferAssignment
from xloom.codegen.schedule.thunks import ScheduledComputation
from xloom.cpu.buffer_verifier.contents import ROW_MAJOR, ByteRange, Contents, Layout, byte_range
from xloom.cpu.buffer_verifier.events import (
    ChangeLayout,
    Copy,
    Event,
    Overwrite,
    RunBranch,
    RunLoop,
    RunNest,
    RunThunk,
    RunTogether,
    Start,
)
from xloom.cpu.buffer_verifier.hazards import covers, reads_after, reads_before, stores_of, uses_of
from xloom.errors import BufferAssignmentError
from xloom.hlo.shape import Shape
from xloom.trampoline import Nested, run


def verify_buffers(schedule: ScheduledComputation, assignment: BufferAssignment, events: Sequence[Event]) -> None:
    """Raises BufferAssignmentError where a thunk reads bytes that are not those of the value that it is to read.

    `events` is what its entry function does, with all offsets decided. Loops are taken to run any number of times,
    branches to be any, and what may run at once to run in any order.
    """
    replay = _Replay(assignment)
    replay.begin(schedule)
    run(replay.run(events))
    for allocation, value in zip(assignment.results, schedule.root, strict=True):
        replay.check(value, ROW_MAJOR, allocation, "the program's result")


class _Replay:
    def __init__(self, assignment: BufferAssignment):
        self.assignment = assignment
        self.memory = Contents()

    def begin(self, schedule: ScheduledComputation) -> None:
        """What is in memory before the first thunk."""
        arguments = iter(self.assignment.arguments)
        for parameter in schedule.computation.parameters:
            for k in range(len(leaf_shapes(parameter.shape))):
                self._write(next(arguments), (parameter, k))
        number = 0
        for constant in self.assignment.constants:
            for k, shape in enumerate(leaf_shapes(constant.shape)):
                self._write(BufferAllocation("constant", shape.nbytes, number), (constant, k))
                number += 1
        for value, allocation in self.assignment.allocations.items():
            if allocation.kind == "code" and value[0].opcode == "constant":  # branches may read it by other names
                self._write(allocation, value)

    def run(self, events: Iterable[Event]) -> Nested[None]:
        for event in events:
            match event:
                case RunNest():
                    self._nest(event)
                case Copy():
                    self._copy(event.target, event.source, event.nbytes)
                case RunThunk():
                    self._thunk(event)
                case RunTogether():
                    self._together(event)
                case Overwrite():
                    self._forget(event.allocation)
                case Start():
                    self._copy(event.result, event.argument, event.result.nbytes)
                    self.memory.link(("result", event.result.number), ("argument", event.argument.number))
                case ChangeLayout():
                    yield self._change_layout(event)
                case RunLoop():
                    yield self._loop(event)
                case RunBranch():
                    yield self._branch(event)

    # -- single arrays
    def check(self, value: BufferValue, layout: Layout, allocation: BufferAllocation, reader: str) -> None:
        """Raises unless the allocation holds the value."""
        if not allocation.nbytes and allocation.kind != "unused":
            return
        span = byte_range(allocation)
        if (value, layout) not in self.memory.names(span):
            raise BufferAssignmentError(
                f"{reader} reads {_text(value)} from {_where(span)}, where {self._found(span)}",
                where=f"{value[0].name} {value[0].metadata.location}".strip(),
                hint="a fault of the planner: please report it with the program",
            )

    def _found(self, span: ByteRange) -> str:
        names = sorted(_text(value) + (f" by {layout}" if layout else "") for value, layout in self.memory.names(span))
        return f"{' = '.join(names[:4])} is" if names else "no value is whole"

    def _write(self, allocation: BufferAllocation, value: BufferValue, layout: Layout = ROW_MAJOR) -> None:
        if allocation.nbytes and allocation.kind != "unused":
            self.memory.write(byte_range(allocation), [(value, layout)])

    def _forget(self, allocation: BufferAllocation) -> None:
        if allocation.nbytes:
            self.memory.write(byte_range(allocation))

    def _copy(self, target: BufferAllocation, source: BufferAllocation, nbytes: int) -> None:
        here, there = byte_range(source), byte_range(target)
        if here.end - here.begin != nbytes or there.end - there.begin != nbytes or here.overlaps(there):
            raise BufferAssignmentError(
                f"a copy of {nbytes} bytes from {_where(here)} to {_where(there)}",
                hint="report it with the program: xloom reduce --crash makes it small",
            )
        self.memory.write(there, self.memory.names(here))

    # -- loop nests
    def _nest(self, event: RunNest) -> None:
        self._check_nest(event)
        self._write_nest(event)

    def _check_nest(self, event: RunNest) -> None:
        nest, allocations = event.nest, event.allocations
        spans = {value: byte_range(allocation) for value, allocation in allocations.items()}
        stores = list(stores_of(nest))
        made = {store.target for _, store in stores}
        reader = " and ".join(sorted({value[0].name for value in made}))
        for value in made:
            self._check_stores(event, value, spans)
        for use in uses_of(nest):
            value = defining_value(*use.value)
            if value in made:
                ours = [(number, store) for number, store in stores if store.target == value]
                if not all(reads_after(nest, use, number, store) for number, store in ours):
                    raise BufferAssignmentError(f"{reader} reads {_text(value)} before it is made", where=value[0].name)
            else:
                self.check(value, ROW_MAJOR, allocations[use.value], reader)
            for number, store in stores:
                if store.target == value or store.target in nest.private or use.value in nest.private:
                    continue
                mine, other = spans[use.value], spans[store.target]
                if mine.overlaps(other) and not (mine == other and reads_before(nest, use, number, store)):
                    raise BufferAssignmentError(
                        f"{reader} reads {_text(value)} after {_text(store.target)} is written over it",
                        where=store.target[0].name,
                    )

    def _check_stores(self, event: RunNest, value: BufferValue, spans: dict[BufferValue, ByteRange]) -> None:
        nest, (instruction, leaf) = event.nest, value
        if value in nest.private:
            return
        for other, _ in ((s.target, s) for _, s in stores_of(nest)):
            if other != value and other not in nest.private and spans[other].overlaps(spans[value]):
                raise BufferAssignmentError(
                    f"{_text(value)} and {_text(other)} are made in the same memory",
                    hint="report it with the program: xloom reduce --crash makes it small",
                )
        for allocation in event.scratch:
            if any(byte_range(allocation).overlaps(span) for span in spans.values()):
                raise BufferAssignmentError(
                    f"the scratch memory of {instruction.name} is not its own",
                    hint="report it with the program: xloom reduce --crash makes it small",
                )
        if instruction.opcode == "dynamic-update-slice":
            self.check(defining_value(instruction._operands[0]), ROW_MAJOR, event.allocations[value], instruction.name)
        elif not covers(nest, value, leaf_shapes(instruction.shape)[leaf].size):
            raise BufferAssignmentError(f"not all of {_text(value)} is written", where=instruction.name)

    def _write_nest(self, event: RunNest) -> None:
        for allocation in event.scratch:
            self._forget(allocation)
        for _, store in stores_of(event.nest):
            if store.target not in event.nest.private:
                self._write(event.allocations[store.target], store.target)

    def _together(self, event: RunTogether) -> None:
        for nest in event.nests:
            self._check_nest(nest)
        used: dict[Hashable, list[tuple[ByteRange, int]]] = {}
        for k, nest in enumerate(event.nests):
            for allocation in nest.allocations.values():
                span = byte_range(allocation)
                used.setdefault(span.region, []).append((span, k))
        for k, nest in enumerate(event.nests):
            for span in _written([nest]):
                if any(j != k and span.overlaps(other) for other, j in used[span.region]):
                    raise BufferAssignmentError(
                        f"of two steps at once that use {_where(span)} one writes it",
                        hint="report it with the program: xloom reduce --crash makes it small",
                    )
        for nest in event.nests:
            self._write_nest(nest)

    # -- kernels and calls
    def _thunk(self, event: RunThunk) -> None:
        name = event.instruction.name
        for access in event.operands:
            self.check(access.value, _layout(access.shape), access.allocation, name)
        reads = [byte_range(a.allocation) for a in event.operands]
        for k, output in enumerate(event.outputs):
            span = byte_range(output.allocation)
            may = event.in_place.get(k)
            for number, read in enumerate(reads):
                is_own_part = event.operands[number].allocation.gathered == (output.allocation, event.instruction)
                if read.overlaps(span) and not (number == may and read == span) and not is_own_part:
                    raise BufferAssignmentError(f"{name} writes output {k} over operand {number}", where=name)
            for other in event.outputs[:k]:
                if byte_range(other.allocation).overlaps(span):
                    raise BufferAssignmentError(f"{name} writes two outputs in the same memory", where=name)
        for allocation in event.scratch:
            others = [*reads, *(byte_range(o.allocation) for o in event.outputs)]
            if any(byte_range(allocation).overlaps(span) for span in others):
                raise BufferAssignmentError(f"the scratch memory of {name} is not its own", where=name)
            self._forget(allocation)
        for output in event.outputs:
            self._write(output.allocation, output.value, _layout(output.shape))

    def _change_layout(self, event: ChangeLayout) -> Nested[None]:
        layout, span = _layout(event.shape), byte_range(event.source)
        before, after = (layout, ROW_MAJOR) if event.back else (ROW_MAJOR, layout)
        moved = [(value, after) for value, lies in self.memory.names(span) if lies == before]
        if event.moved is not None:
            operand, made = event.moved
            self.memory.add(span, (operand, ROW_MAJOR))
            yield self.run(event.thunks)
            self.check(made, ROW_MAJOR, event.target, "a change of layout")
        elif sorted(event.shape.dims[-2:]) != sorted(2 * event.shape.dims[-1:]) or event.target is not event.source:
            raise BufferAssignmentError(
                f"{event.shape} cannot change its layout where it lies",
                hint="report it with the program: xloom reduce --crash makes it small",
            )
        self.memory.write(byte_range(event.target), moved)

    # -- control flow
    def _loop(self, event: RunLoop) -> Nested[None]:
        loop, (operand,) = event.instruction, event.instruction._operands
        parameters = [b.computation.parameters[0] for b in (event.condition, event.body)]
        for k, allocation in enumerate(event.state):
            self.check(defining_value(operand, k), ROW_MAJOR, allocation, loop.name)
        # what the loop writes anywhere is not there when it comes round, but for its state
        for span in _written([*event.test, *event.thunks]):
            self.memory.write(span)
        for k, allocation in enumerate(event.state):
            if allocation.nbytes:
                for parameter in parameters:
                    self.memory.add(byte_range(allocation), ((parameter, k), ROW_MAJOR))
        yield self.run(event.test)
        (test,) = event.condition.root
        self.check(test, ROW_MAJOR, self.assignment.of(test), f"the condition of {loop.name}")
        done = self.memory.snapshot()
        yield self.run(event.thunks)
        for k, allocation in enumerate(event.state):
            self.check(event.body.root[k], ROW_MAJOR, allocation, f"the next iteration of {loop.name}")
        self.memory = done
        for k, allocation in enumerate(event.state):
            self.check((parameters[1], k), ROW_MAJOR, allocation, loop.name)
            if allocation.nbytes:
                self.memory.add(byte_range(allocation), ((loop, k), ROW_MAJOR))

    def _branch(self, event: RunBranch) -> Nested[None]:
        choice, operands = event.instruction, event.instruction._operands[1:]
        self.check(
            defining_value(choice._operands[0]), ROW_MAJOR, self.assignment.of((choice._operands[0], 0)), choice.name
        )
        before = self.memory
        for branch, operand, thunks in zip(event.branches, operands, event.thunks, strict=True):
            self.memory = before.snapshot()
            (parameter,) = branch.computation.parameters
            for k, shape in enumerate(leaf_shapes(parameter.shape)):
                allocation = self.assignment.allocations[parameter, k]
                self.check(defining_value(operand, k), ROW_MAJOR, allocation, choice.name)
                if shape.nbytes:
                    self.memory.add(byte_range(allocation), ((parameter, k), ROW_MAJOR))
            yield self.run(thunks)
            for k, allocation in enumerate(event.result):
                self.check(branch.root[k], ROW_MAJOR, allocation, f"the result of {choice.name}")
        self.memory = before
        for thunks in event.thunks:
            for span in _written(thunks):
                self.memory.write(span)
        for k, allocation in enumerate(event.result):
            self._write(allocation, (choice, k))


def _written(events: Iterable[Event]) -> set[ByteRange]:
    """Every piece of memory that is written by a part of the program."""
    allocations: list[BufferAllocation] = []
    stack = list(events)
    while stack:
        match event := stack.pop():
            case RunNest():
                allocations += [
                    event.allocations[s.target] for _, s in stores_of(event.nest) if s.target in event.allocations
                ]
                allocations += event.scratch
            case Copy() | ChangeLayout():
                allocations.append(event.target)
                stack += event.thunks if isinstance(event, ChangeLayout) else ()
            case Start():
                allocations.append(event.result)
            case Overwrite():
                allocations.append(event.allocation)
            case RunThunk():
                allocations += [*(o.allocation for o in event.outputs), *event.scratch]
            case RunTogether():
                stack += event.nests
            case RunLoop():
                stack += [*event.test, *event.thunks]
            case RunBranch():
                allocations += event.result
                stack += [e for thunks in event.thunks for e in thunks]
    return {byte_range(allocation) for allocation in allocations if allocation.nbytes and allocation.kind != "unused"}


def _layout(shape: Shape) -> Layout:
    order = [d for d in shape.major_to_minor if shape.dims[d] != 1]
    return ROW_MAJOR if order == sorted(order) or not shape.size else tuple(shape.major_to_minor)


def _text(value: BufferValue) -> str:
    instruction, leaf = value
    return f"%{instruction.name}{{{leaf}}}" if instruction.shape.is_tuple else f"%{instruction.name}"


def _where(span: ByteRange) -> str:
    region = span.region if isinstance(span.region, str) else f"{span.region[0]} {span.region[1]}"  # type: ignore
    return f"{region} [{span.begin}, {span.end})"
