"""A program's thunks in the order in which they run, and the memory that each reads and writes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from xloom.codegen.buffer_values import BufferValue, defining_value, leaf_count
from xloom.codegen.buffers.allocation import BufferAllocation
from xloom.codegen.buffers.assignment import BufferAssignment
from xloom.codegen.fusion.custom_fusion import fused_root
from xloom.codegen.fusion.fusion_group import FusionGroup
from xloom.codegen.fusion.multi_output import Thunk
from xloom.codegen.loop_ir.nest import loaded_values
from xloom.codegen.ops import OP_ROWS, Trait
from xloom.codegen.schedule.thunks import ScheduledComputation
from xloom.cpu.entry.emitted_program import EmittedProgram, ThunkCode
from xloom.cpu.kernel_modules.kernel import Phase
from xloom.cpu.lower import lowered
from xloom.cpu.prepare import prepared
from xloom.cpu.printers.names import array_name, array_shape, bytes_text, place_text
from xloom.hlo.instruction import Instruction
from xloom.hlo.module import Module
from xloom.llvm.target import Target, process_target
from xloom.trampoline import Nested, run


def schedule_text(module: Module, target: Target | None = None) -> str:
    """The schedule that `module` is compiled to. Raises LoweringError for what has no native code."""
    schedule, assignment, program = lowered(prepared(module, target=target), target or process_target())
    return _Schedule(assignment, program).text(schedule)


class _Schedule:
    """Writes the blocks of one program."""

    def __init__(self, assignment: BufferAssignment, program: EmittedProgram):
        self.assignment = assignment
        self.program = program
        self.lines: list[str] = []

    def text(self, schedule: ScheduledComputation) -> str:
        """The text of a whole program from its entry on."""
        arena, kernels = bytes_text(self.program.arena_bytes), len(self.program.modules)
        self.lines.append(f"ENTRY %{schedule.computation.name}  arena {arena}, {kernels} kernels")
        run(self._block(schedule, "  "))
        for value, result in zip(schedule.root, self.assignment.results, strict=True):
            self._line("  ", "return", [self._array(value), *self._copy(result, value)])
        return "\n".join(self.lines) + "\n"

    # -- lines
    def _line(self, indent: str, head: str, cells: Iterable[str]) -> None:
        self.lines.append(f"{indent}{head:8}{'  '.join(cells)}")

    def _array(self, value: BufferValue) -> str:
        return f"{array_name(value)} {array_shape(value)}  {place_text(self.assignment.of(value), self.assignment)}"

    def _copy(self, target: BufferAllocation, value: BufferValue) -> list[str]:
        """What must be done for `target` to have an array's elements."""
        return [] if self.assignment.of(value) is target else [f"copied to {place_text(target, self.assignment)}"]

    # -- thunks
    def _block(self, schedule: ScheduledComputation, indent: str) -> Nested[None]:
        for thunk in schedule.thunks:
            number = f"{self.assignment.positions[thunk]:>3} "
            inner = indent + " " * len(number)
            if isinstance(thunk, Instruction) and thunk.opcode == "while":
                self.lines.append(f"{indent}{number}while %{thunk.name}")
                yield self._while(schedule, thunk, inner)
            elif isinstance(thunk, Instruction) and thunk.opcode == "conditional":
                self.lines.append(f"{indent}{number}conditional %{thunk.name}")
                yield self._conditional(schedule, thunk, inner)
            else:
                self.lines.append(f"{indent}{number}{_title(thunk)}")
                self._thunk(thunk, inner)

    def _thunk(self, thunk: Thunk, indent: str) -> None:
        code = self.program.code.get(thunk)
        reads, writes, private = _traffic(thunk, code)
        for value in reads:
            self._line(indent, "reads", [self._array(value)])
        for value in writes:
            self._line(indent, "writes", [self._array(value), *self._in_place(value, reads)])
        inside = [*map(array_name, private), *(f"%{i.name}" for i in _inlined(thunk))]
        if inside:
            self._line(indent, "fuses", [", ".join(inside)])
        if code is not None:
            self._line(indent, "code", [code_text(code)])

    def _in_place(self, made: BufferValue, reads: Sequence[BufferValue]) -> list[str]:
        allocation = self.assignment.of(made)
        notes = [f"in place of {array_name(s)}" for s in reads if self.assignment.of(s) is allocation]
        instruction, leaf = made
        if Trait.UPDATES in OP_ROWS[fused_root(instruction).opcode].traits:
            changed = defining_value(instruction._operands[leaf])
            if self.assignment.of(changed) is allocation:
                return [f"in place of {array_name(changed)}"]
            return [
                f"starts as a copy of {array_name(changed)}, {place_text(self.assignment.of(changed), self.assignment)}"
            ]
        return notes

    # -- control flow
    def _while(self, schedule: ScheduledComputation, thunk: Instruction, indent: str) -> Nested[None]:
        body, condition = schedule.nested[thunk]
        for k in range(leaf_count(thunk.shape)):
            state = self.assignment.allocations[thunk, k]
            initial = defining_value(thunk._operands[0], k)
            start = "in place of" if self.assignment.of(initial) is state else "starts as a copy of"
            self._line(indent, "state", [self._array((thunk, k)), f"{start} {self._array(initial)}"])
        if (code := self.program.code.get(thunk)) is not None:
            if code.choices:
                self._line(indent, "rounds", [str(choice) for choice in code.choices])
            for phase in code.phases:
                self._line(indent, "code", [f"{phase.count} iterations shared among threads"])
        self.lines.append(f"{indent}condition %{condition.computation.name}")
        yield self._block(condition, indent + "  ")
        self.lines.append(f"{indent}body %{body.computation.name}")
        yield self._block(body, indent + "  ")
        exchanged = {state for rotation in self.assignment.rotations[thunk] for state in rotation.states}
        for k, value in enumerate(body.root):
            state = self.assignment.allocations[thunk, k]
            moved = f"exchanged with {place_text(state, self.assignment)}"
            self._line(
                f"{indent}  ",
                "next",
                [self._array(value), *([moved] if state in exchanged else self._copy(state, value))],
            )

    def _conditional(self, schedule: ScheduledComputation, thunk: Instruction, indent: str) -> Nested[None]:
        self._line(indent, "chooses", [self._array(defining_value(thunk._operands[0]))])
        for k in range(leaf_count(thunk.shape)):
            self._line(indent, "writes", [self._array((thunk, k))])
        for number, nested in enumerate(schedule.nested[thunk]):
            self.lines.append(f"{indent}branch {number} %{nested.computation.name}")
            yield self._block(nested, indent + "  ")
            for k, value in enumerate(nested.root):
                result = self.assignment.allocations[thunk, k]
                self._line(f"{indent}  ", "result", [self._array(value), *self._copy(result, value)])


def _title(thunk: Thunk) -> str:
    if isinstance(thunk, FusionGroup):
        return f"loops for {', '.join(f'%{r.name}' for r in thunk.roots)}"
    return f"{thunk.opcode} %{thunk.name}"


def _traffic(thunk: Thunk, code: ThunkCode | None) -> tuple[list[BufferValue], list[BufferValue], list[BufferValue]]:
    """The arrays that a thunk reads, those that it writes, and those that it has to itself."""
    if isinstance(thunk, FusionGroup):
        assert code is not None and code.nest is not None
        made = list(dict.fromkeys(s.target for stage in code.nest.stages for s in stage.stores))
        reads = [s for s in loaded_values(code.nest) if s not in made]
        private = [s for s in made if s in code.nest.private]
        return reads, [s for s in made if s not in private], private
    reads = [defining_value(o, k) for o in thunk._operands for k in range(leaf_count(o.shape))]
    return list(dict.fromkeys(reads)), [(thunk, k) for k in range(leaf_count(thunk.shape))], []


def _inlined(thunk: Thunk) -> list[Instruction]:
    if isinstance(thunk, Instruction):
        inside = list(thunk["calls"]) if thunk.opcode == "fusion" else []
        return [i for i in inside if i.opcode not in ("parameter", "constant")]
    parent = thunk.roots[0].parent
    assert parent is not None
    return [i for i in parent.post_order() if i in thunk.inlined and i.opcode != "constant"]


def code_text(code: ThunkCode) -> str:
    """How a thunk runs: the module of its kernel, and what threads share."""
    if not code.module_name:
        if code.phases:
            return "part of the entry function"
        return "none: it is read where it lies" if code.is_view else "none: there are no elements"
    return f"{code.module_name}: {', then '.join(map(_phase, code.phases))}"


def _phase(phase: Phase) -> str:
    if phase.count <= phase.grain:
        return "on one thread"
    loops = f" ({', '.join(phase.loops)})" if phase.loops else ""
    return f"{phase.count} items{loops} shared among threads, {phase.grain} or more at a time"
