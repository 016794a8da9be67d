"""From a module to launches: the stages between preparation and PTX, see `cuda/stages.py`."""

from __future__ import annotations

from xloom.codegen.buffer_values import defining_value, leaf_shapes
from xloom.codegen.buffers.allocation import BufferAllocation
from xloom.codegen.buffers.assigner import assigned
from xloom.codegen.buffers.assignment import BufferAssignment, needs_allocation
from xloom.codegen.buffers.offsets import assign_offsets
from xloom.codegen.buffers.parallel_copies import Copies, one_by_one
from xloom.codegen.elemental.loop_nests import nest_for
from xloom.codegen.fusion.fusion_group import FusionGroup
from xloom.codegen.fusion.multi_output import nest_of
from xloom.codegen.schedule.thunks import ScheduledComputation, scheduled
from xloom.cuda.custom_call import lowered_call
from xloom.cuda.kernels import facts, rule_of, rule_of_call  # noqa: F401 - registers what planning asks of kernels
from xloom.cuda.loops.lowering import NestLowering
from xloom.cuda.lowering import ThunkLowering
from xloom.cuda.prepare import is_spmd, prepared
from xloom.cuda.program import Branch, Collective, Copy, CountedLoop, DeviceProgram, Loop, Step
from xloom.errors import LoweringError, OutOfMemoryError
from xloom.hlo.dtype import Kind
from xloom.hlo.instruction import Instruction
from xloom.hlo.literal import ADDRESSED
from xloom.hlo.module import Module
from xloom.hlo.stack_frames import place
from xloom.llvm.target import Target
from xloom.passes.effects import Effects
from xloom.passes.loops import counted_trips
from xloom.trampoline import Nested, run

_NOTHING = frozenset({"constant", "after-all"})
"""Thunks whose values are in memory already, or are tokens."""
_NUMBERS = {"replica-id": 0, "partition-id": 1}
"""The device's numbers (u32), in their order in memory."""
_COLLECTIVES = frozenset({"all-gather", "all-to-all", "collective-broadcast", "collective-permute"})
"""Those that move data; others are made of them."""


def lowered(module: Module, target: Target) -> DeviceProgram:
    """The program that a module is on a GPU. Raises LoweringError for what has no kernels."""
    if not target.is_gpu:
        raise LoweringError(f"{target.name} is no GPU", hint="name one such as sm_80 or sm_90a")
    return lower(assigned(scheduled(prepared(module).entry), target))


def lower(assignment: BufferAssignment) -> DeviceProgram:
    """The launches of a program whose values have memory. Raises LoweringError for what has no kernels."""
    lowering = _ProgramLowering(assignment)
    run(lowering.computation(assignment.entry))
    lowering.copies(list(zip(assignment.results, (assignment.of(v) for v in assignment.entry.root), strict=True)))
    temporaries = [*assignment.arena, *assignment.stack, *lowering.scratch_memory]
    arena_bytes = assign_offsets(temporaries, assignment.results_for_temporaries)
    if arena_bytes > ADDRESSED:
        message = f"temporary arrays need {arena_bytes} bytes, more than a device can address"
        raise OutOfMemoryError(message, where=assignment.largest)
    return DeviceProgram(assignment, lowering.steps, arena_bytes)


class _ProgramLowering:
    """Makes the steps of scheduled computations, into the list at hand."""

    def __init__(self, assignment: BufferAssignment):
        self.assignment = assignment
        module = assignment.entry.computation.module
        self.is_spmd = module is not None and is_spmd(module)
        self.steps: list[Step] = []
        self.scratch_memory: list[BufferAllocation] = []
        self.position = 0
        for result, argument in assignment.input_output_aliases:
            self.copies([(result, argument)])

    def scratch(self, nbytes: int) -> BufferAllocation:
        """Memory for the thunk at hand."""
        allocation = BufferAllocation("arena", nbytes)
        allocation.use(self.position)
        self.scratch_memory.append(allocation)
        return allocation

    def copies(self, pairs: Copies) -> None:
        """Copies as if all at once."""
        self.steps += [Copy(target, source) for target, source in one_by_one(pairs, self.scratch)]

    # -- thunks
    def computation(self, schedule: ScheduledComputation) -> Nested[None]:
        """The steps of a computation's thunks."""
        for number, thunk in enumerate(schedule.thunks):
            self.position = self.assignment.positions[thunk]
            if isinstance(thunk, FusionGroup):
                self._group(schedule, thunk, number)
            elif thunk.opcode == "while":
                yield self._while(schedule, thunk)
            elif thunk.opcode == "conditional":
                yield self._conditional(schedule, thunk)
            elif thunk.opcode in _NUMBERS:
                number = BufferAllocation("device", 4, _NUMBERS[thunk.opcode])
                if not self.is_spmd:
                    number = BufferAllocation("code", 4, data=bytes(4))
                self.copies([(self.assignment.of((thunk, 0)), number)])
            elif thunk.opcode not in _NOTHING:
                self._instruction(thunk)
        self.position = self.assignment.ends[schedule]

    def _group(self, schedule: ScheduledComputation, group: FusionGroup, number: int) -> None:
        kept = {(r, k) for r in group.roots for k in range(len(leaf_shapes(r.shape)))}
        kept = {v for v in kept if needs_allocation(schedule, group, v, number)}
        for root in group.roots:
            if root.opcode == "dynamic-update-slice":
                self.copies([(self.assignment.of((root, 0)), self.assignment.of((root._operands[0], 0)))])
        ThunkLowering(self, group).nest(nest_of(group, kept))

    def _instruction(self, instruction: Instruction) -> None:
        if instruction.opcode == "custom-call":
            of_call = rule_of_call(instruction)
            if of_call is not None:
                of_call(ThunkLowering(self, instruction), instruction)
                return
            for call in lowered_call(instruction, self.assignment, self.scratch, self.copies, self._moved):
                self.steps.append(call)
            return
        if instruction.opcode in _COLLECTIVES and self.is_spmd:
            self._collective(instruction)
            return
        rule = rule_of(instruction.opcode)
        if rule is None:
            raise LoweringError(
                f"{instruction.opcode} has no kernel for GPUs yet",
                where=place(instruction),
                hint="run the program on the processor: xloom.compile, or xloom run --on cpu",
            )
        targets = [self.assignment.of((instruction, k)) for k in range(len(leaf_shapes(instruction.shape)))]
        if any(allocation.kind != "unused" for allocation in targets):
            rule(ThunkLowering(self, instruction), instruction)

    def _moved(
        self, instruction: Instruction, made: Instruction, target: BufferAllocation, source: BufferAllocation
    ) -> None:
        """Makes one array of another, which is for a custom call."""
        places = {(made, 0): target, (made.operands[0], 0): source}
        thunk = ThunkLowering(self, instruction)
        for launched in NestLowering(thunk.target, nest_for([[made]], ()), places.__getitem__, self.scratch).made():
            thunk.launch(*launched)

    def _collective(self, instruction: Instruction) -> None:
        of = self.assignment.of
        operands = tuple(of((operand, 0)) for operand in instruction.operands)
        results = [of((instruction, k)) for k in range(len(leaf_shapes(instruction.shape)))]
        sizes = [shape.nbytes for shape in leaf_shapes(instruction.shape)]
        places = [r if r.kind != "unused" else self.scratch(n) for r, n in zip(results, sizes, strict=True)]
        makes = f"%{instruction.name} {instruction.metadata.location}".strip()
        self.steps.append(Collective(instruction, operands, tuple(places), makes))

    # -- control flow
    def _while(self, schedule: ScheduledComputation, loop: Instruction) -> Nested[None]:
        allocations = self.assignment.allocations
        body, condition = schedule.nested[loop]
        (operand,) = loop._operands
        states = [allocations[loop, k] for k in range(len(leaf_shapes(loop.shape)))]
        self.copies([(state, allocations[defining_value(operand, k)]) for k, state in enumerate(states)])
        rotations = self.assignment.rotations[loop]
        moved = {state for rotation in rotations for state in rotation.states}
        before = self.steps
        tests = self.steps = []
        trips = None if Effects().of_computation(loop["condition"]) else counted_trips(loop)
        if trips is None:
            yield self.computation(condition)
        inside = self.steps = []
        yield self.computation(body)
        pairs = [(s, allocations[value]) for s, value in zip(states, body.root, strict=True) if s not in moved]
        self.copies(pairs)
        for rotation in rotations:  # what has moved on by one, the last first, so that none is lost
            chain = [rotation.spare, *rotation.states]
            self.steps += [Copy(chain[k + 1], chain[k]) for k in reversed(range(len(chain) - 1))]
        self.steps = before
        if trips is None:
            self.steps.append(Loop(tests, allocations[condition.root[0]], inside))
        else:
            self.steps.append(CountedLoop(trips, inside))

    def _conditional(self, schedule: ScheduledComputation, conditional: Instruction) -> Nested[None]:
        allocations = self.assignment.allocations
        results = [allocations[conditional, k] for k in range(len(leaf_shapes(conditional.shape)))]
        chooser = conditional._operands[0]
        before, branches = self.steps, []
        for nested in schedule.nested[conditional]:
            self.steps = []
            yield self.computation(nested)
            self.copies([(result, allocations[v]) for result, v in zip(results, nested.root, strict=True)])
            branches.append(self.steps)
        self.steps = before
        is_predicate = chooser.shape.dtype.kind is Kind.PRED
        self.steps.append(Branch(self.assignment.of((chooser, 0)), is_predicate, branches))
