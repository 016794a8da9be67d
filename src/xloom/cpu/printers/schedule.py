"""A program's steps in the order in which they run, and the memory that each reads and writes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from xloom.codegen.buffer_values import BufferValue, defining_value, leaf_count
from xloom.codegen.buffers.allocation import BufferAllocation
from xloom.codegen.buffers.assignment import BufferAssignment
from xloom.codegen.fusion.multi_output import Thunk
from xloom.codegen.fusion.producer_consumer import FusionGroup
from xloom.codegen.loop_ir.nest import sources
from xloom.codegen.ops import OP_ROWS, Trait
from xloom.codegen.schedule.thunks import ScheduledComputation
from xloom.cpu.entry.emitted_program import EmittedProgram, StepCode
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
    block, assignment, program = lowered(prepared(module), target or process_target())
    return _Schedule(assignment, program).text(block)


class _Schedule:
    """Writes the blocks of one program."""

    def __init__(self, assignment: BufferAssignment, program: EmittedProgram):
        self.assignment = assignment
        self.program = program
        self.lines: list[str] = []

    def text(self, block: ScheduledComputation) -> str:
        """The text of a whole program from its entry on."""
        arena, kernels = bytes_text(self.program.arena_bytes), len(self.program.modules)
        self.lines.append(f"ENTRY %{block.computation.name}  arena {arena}, {kernels} kernels")
        run(self._block(block, "  "))
        for source, result in zip(block.root, self.assignment.results, strict=True):
            self._line("  ", "return", [self._array(source), *self._copy(result, source)])
        return "\n".join(self.lines) + "\n"

    # -- lines
    def _line(self, indent: str, head: str, cells: Iterable[str]) -> None:
        self.lines.append(f"{indent}{head:8}{'  '.join(cells)}")

    def _array(self, source: BufferValue) -> str:
        return f"{array_name(source)} {array_shape(source)}  {place_text(self.assignment.of(source), self.assignment)}"

    def _copy(self, target: BufferAllocation, source: BufferValue) -> list[str]:
        """What must be done for `target` to have an array's elements."""
        return [] if self.assignment.of(source) is target else [f"copied to {place_text(target, self.assignment)}"]

    # -- steps
    def _block(self, block: ScheduledComputation, indent: str) -> Nested[None]:
        for step in block.steps:
            number = f"{self.assignment.positions[step]:>3} "
            inner = indent + " " * len(number)
            if isinstance(step, Instruction) and step.opcode == "while":
                self.lines.append(f"{indent}{number}while %{step.name}")
                yield self._while(block, step, inner)
            elif isinstance(step, Instruction) and step.opcode == "conditional":
                self.lines.append(f"{indent}{number}conditional %{step.name}")
                yield self._conditional(block, step, inner)
            else:
                self.lines.append(f"{indent}{number}{_title(step)}")
                self._step(step, inner)

    def _step(self, step: Thunk, indent: str) -> None:
        code = self.program.code.get(step)
        reads, writes, private = _traffic(step, code)
        for source in reads:
            self._line(indent, "reads", [self._array(source)])
        for source in writes:
            self._line(indent, "writes", [self._array(source), *self._in_place(source, reads)])
        inside = [*map(array_name, private), *(f"%{i.name}" for i in _inlined(step))]
        if inside:
            self._line(indent, "fuses", [", ".join(inside)])
        if code is not None:
            self._line(indent, "code", [_code(code)])

    def _in_place(self, made: BufferValue, reads: Sequence[BufferValue]) -> list[str]:
        allocation = self.assignment.of(made)
        notes = [f"in place of {array_name(s)}" for s in reads if self.assignment.of(s) is allocation]
        instruction, leaf = made
        if Trait.UPDATES in OP_ROWS[instruction.opcode].traits:
            changed = defining_value(instruction._operands[leaf])
            if self.assignment.of(changed) is allocation:
                return [f"in place of {array_name(changed)}"]
            return [
                f"starts as a copy of {array_name(changed)}, {place_text(self.assignment.of(changed), self.assignment)}"
            ]
        return notes

    # -- control flow
    def _while(self, block: ScheduledComputation, step: Instruction, indent: str) -> Nested[None]:
        body, condition = block.nested[step]
        for k in range(leaf_count(step.shape)):
            state = self.assignment.allocations[step, k]
            initial = defining_value(step._operands[0], k)
            start = "in place of" if self.assignment.of(initial) is state else "starts as a copy of"
            self._line(indent, "state", [self._array((step, k)), f"{start} {self._array(initial)}"])
        self.lines.append(f"{indent}condition %{condition.computation.name}")
        yield self._block(condition, indent + "  ")
        self.lines.append(f"{indent}body %{body.computation.name}")
        yield self._block(body, indent + "  ")
        for k, source in enumerate(body.root):
            self._line(
                f"{indent}  ", "next", [self._array(source), *self._copy(self.assignment.allocations[step, k], source)]
            )

    def _conditional(self, block: ScheduledComputation, step: Instruction, indent: str) -> Nested[None]:
        self._line(indent, "chooses", [self._array(defining_value(step._operands[0]))])
        for k in range(leaf_count(step.shape)):
            self._line(indent, "writes", [self._array((step, k))])
        for number, nested in enumerate(block.nested[step]):
            self.lines.append(f"{indent}branch {number} %{nested.computation.name}")
            yield self._block(nested, indent + "  ")
            for k, source in enumerate(nested.root):
                result = self.assignment.allocations[step, k]
                self._line(f"{indent}  ", "result", [self._array(source), *self._copy(result, source)])


def _title(step: Thunk) -> str:
    if isinstance(step, FusionGroup):
        return f"loops for {', '.join(f'%{r.name}' for r in step.roots)}"
    return f"{step.opcode} %{step.name}"


def _traffic(step: Thunk, code: StepCode | None) -> tuple[list[BufferValue], list[BufferValue], list[BufferValue]]:
    """The arrays that a step reads, those that it writes, and those that it has to itself."""
    if isinstance(step, FusionGroup):
        assert code is not None and code.nest is not None
        made = list(dict.fromkeys(s.target for stage in code.nest.stages for s in stage.stores))
        reads = [s for s in sources(code.nest) if s not in made]
        private = [s for s in made if s in code.nest.private]
        return reads, [s for s in made if s not in private], private
    reads = [defining_value(o, k) for o in step._operands for k in range(leaf_count(o.shape))]
    return list(dict.fromkeys(reads)), [(step, k) for k in range(leaf_count(step.shape))], []


def _inlined(step: Thunk) -> list[Instruction]:
    if isinstance(step, Instruction):
        inside = list(step["calls"]) if step.opcode == "fusion" else []
        return [i for i in inside if i.opcode not in ("parameter", "constant")]
    parent = step.roots[0].parent
    assert parent is not None
    return [i for i in parent.post_order() if i in step.inlined and i.opcode != "constant"]


def _code(code: StepCode) -> str:
    if not code.module_name:
        return "part of the entry function" if code.phases else "none: there are no elements"
    return f"{code.module_name}: {', then '.join(map(_phase, code.phases))}"


def _phase(phase: Phase) -> str:
    if phase.count <= phase.grain:
        return "on one thread"
    loops = f" ({', '.join(phase.loops)})" if phase.loops else ""
    return f"{phase.count} items{loops} shared among threads, {phase.grain} or more at a time"
