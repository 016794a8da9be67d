"""Buffer assignment: walks a program's thunks in order, into loops and branches, and gives values their allocations."""

from __future__ import annotations

from collections import Counter, defaultdict

from xloom.codegen.buffer_values import BufferValue, defining_value, leaf_shapes
from xloom.codegen.buffers.allocation import BufferAllocation
from xloom.codegen.buffers.assignment import BufferAssignment, needs_allocation
from xloom.codegen.buffers.input_output_aliases import aliases
from xloom.codegen.buffers.loop_invariants import LoopInvariants
from xloom.codegen.buffers.reuse import BufferReuse, Refusals
from xloom.codegen.buffers.stack_budget import SMALL, StackBudget
from xloom.codegen.buffers.state_rotation import StateRotation, rotating_leaves
from xloom.codegen.fusion.multi_output import Thunk
from xloom.codegen.kernel_facts import unread_operands
from xloom.codegen.ops import Trait, having
from xloom.codegen.schedule.thunks import ScheduledComputation, roots_of
from xloom.hlo.instruction import Instruction
from xloom.llvm.target import Target
from xloom.trampoline import Nested, run

_SKIPS = having(Trait.SKIPS_UNREAD)


def assigned(entry: ScheduledComputation, target: Target, refusals: Refusals | None = None) -> BufferAssignment:
    """The allocation of every value of a scheduled program on a target; `refusals` gets what was asked on the way."""
    assignment = BufferAssignment(entry, target)
    _Assigner(assignment, refusals).assign()
    return assignment


class _Assigner:
    """Fills in an assignment, in program order."""

    def __init__(self, assignment: BufferAssignment, refusals: Refusals | None):
        self._assignment = assignment
        self._allocations = assignment.allocations
        self._reuse = BufferReuse(assignment.entry, assignment.allocations, assignment.target, refusals)
        self._invariants = LoopInvariants(self._reuse)
        self._stack_budget = StackBudget()
        self._constant_arrays = 0
        self._position = 0

    def assign(self) -> None:
        """Walks the whole program."""
        entry, results = self._assignment.entry, self._assignment.results
        results += [
            BufferAllocation("result", shape.nbytes, k)
            for k, shape in enumerate(leaf_shapes(entry.computation.root.shape))
        ]
        donated = self._parameters(entry)
        taken: set[BufferValue] = set()
        for value, allocation in zip(entry.root, results, strict=True):
            if allocation.nbytes <= SMALL or value in taken or value not in entry.made:
                continue
            if allocation not in donated or self._reuse.may_replace(entry, value, donated[allocation]):
                taken.add(value)
                self._reuse.reserve(entry, value, allocation)
        run(self._computation(entry))
        for allocation in results:
            allocation.use(self._position)

    def _parameters(self, entry: ScheduledComputation) -> dict[BufferAllocation, BufferValue]:
        """Gives the program's parameters their memory; the results that start as one of them, and which."""
        module, assignment = entry.computation.module, self._assignment
        result_of = {a.argument: assignment.results[a.result] for a in aliases(module)} if module is not None else {}
        donated: dict[BufferAllocation, BufferValue] = {}
        for parameter in entry.computation.parameters:
            for k, shape in enumerate(leaf_shapes(parameter.shape)):
                number = len(assignment.arguments)
                argument = BufferAllocation("argument", shape.nbytes, number)
                assignment.arguments.append(argument)
                self._reuse.read_only.add(argument)
                result = result_of.get(number)
                if result is not None:
                    assignment.input_output_aliases.append((result, argument))
                    self._reuse.writable_parameters.add(parameter)
                    donated[result] = (parameter, k)
                self._allocations[parameter, k] = result or argument
        return donated

    # -- thunks
    def _computation(self, schedule: ScheduledComputation) -> Nested[None]:
        """The values that a computation's thunks make, in their order."""
        ending: dict[int, list[BufferValue]] = defaultdict(list)
        for value, last in schedule.last.items():
            ending[last].append(value)
        for number, thunk in enumerate(schedule.thunks):
            self._position += 1
            here = self._assignment.positions[thunk] = self._position
            if isinstance(thunk, Instruction) and thunk.opcode == "while":
                yield self._while(schedule, thunk, number)
            elif isinstance(thunk, Instruction) and thunk.opcode == "conditional":
                yield self._conditional(schedule, thunk, number)
            elif isinstance(thunk, Instruction) and thunk.opcode == "constant":
                self._constant(thunk)
            else:
                self._outputs(schedule, thunk, number)
            for instruction in roots_of(thunk):
                self._use_outputs(instruction, here)
            for value in ending[number]:
                if value in self._allocations:
                    self._allocations[value].use(self._position)
                    if value in schedule.made:
                        self._allocations.end(value)
        self._position += 1
        self._assignment.ends[schedule] = self._position
        for value in schedule.root:
            if value in self._allocations:
                self._allocations[value].use(self._position)

    def _use_outputs(self, instruction: Instruction, first: int) -> None:
        """An instruction's outputs are alive from position `first`, at which it begins, to the present one."""
        for k in range(len(leaf_shapes(instruction.shape))):
            allocation = self._allocations.get((instruction, k))
            if allocation is not None:
                allocation.use(first)
                allocation.use(self._position)

    def _constant(self, instruction: Instruction) -> None:
        if instruction.shape.is_array and instruction.shape.nbytes <= SMALL:
            allocation = BufferAllocation("code", instruction.shape.nbytes, data=instruction.literal.value.tobytes())
            self._allocations[instruction, 0] = allocation
            self._reuse.read_only.add(allocation)
            return
        for k, shape in enumerate(leaf_shapes(instruction.shape)):
            allocation = BufferAllocation("constant", shape.nbytes, self._constant_arrays)
            self._allocations[instruction, k] = allocation
            self._reuse.read_only.add(allocation)
            self._constant_arrays += 1
        self._assignment.constants.append(instruction)

    def _outputs(self, schedule: ScheduledComputation, thunk: Thunk, number: int) -> None:
        if isinstance(thunk, Instruction):
            for k in unread_operands(thunk):
                if (thunk._operands[k], 0) not in self._allocations:
                    self._allocations[thunk._operands[k], 0] = BufferAllocation("unused", 0)
        for instruction in roots_of(thunk):
            for k, shape in enumerate(leaf_shapes(instruction.shape)):
                value = (instruction, k)
                if not needs_allocation(schedule, thunk, value, number):
                    continue
                if instruction.opcode in _SKIPS and value not in schedule.last:
                    self._allocations[value] = BufferAllocation("unused", 0)
                    continue
                self._reuse.reserve_gathered(schedule, value, self._new)
                allocation = self._reuse.reserved_for.get(value) or self._reuse.overwritten(
                    schedule, thunk, value, number
                )
                self._allocations[value] = allocation or self._new(shape.nbytes)

    def _new(self, nbytes: int) -> BufferAllocation:
        allocation = BufferAllocation("stack" if self._stack_budget.admits(nbytes) else "arena", nbytes)
        (self._assignment.stack if allocation.kind == "stack" else self._assignment.arena).append(allocation)
        return allocation

    # -- control flow
    def _while(self, schedule: ScheduledComputation, loop: Instruction, number: int) -> Nested[None]:
        """A loop's state has one memory: before it, in its condition, in its body, and after it."""
        body, condition = schedule.nested[loop]
        (operand,) = loop._operands
        states: list[BufferAllocation] = []
        invariants = self._invariants.of(schedule, loop, number)
        for k, shape in enumerate(leaf_shapes(loop.shape)):
            state = invariants.get(k) or self._reuse.reserved_for.get((loop, k))
            taken = [*states, *invariants.values()]
            state = state or self._reuse.initial_state(schedule, defining_value(operand, k), number, taken)
            state = state or self._new(shape.nbytes)
            state.use(self._position)
            states.append(state)
            self._allocations[loop, k] = state
        self._reuse.borrowed.update((loop, k) for k in invariants)
        parameter_of = {b: b.computation.parameters[0] for b in (body, condition)}
        for nested in (condition, body):
            for k, state in enumerate(states):
                self._allocations[parameter_of[nested], k] = state
        yield self._computation(condition)
        self._reuse.writable_parameters.add(parameter_of[body])
        roots, counts = body.root, Counter(body.root)
        in_place: set[int] = set()
        better_apart: set[int] = set()
        for k, value in enumerate(roots):
            old = (parameter_of[body], k)
            if counts[value] == 1 and value in body.made and self._reuse.may_replace(body, value, old):
                if self._reuse.keeps_part_apart(body, value, old):
                    better_apart.add(k)
                    continue
                self._reuse.reserve(body, value, states[k])
                in_place.add(k)
        rotations = self._assignment.rotations[loop] = []
        for leaves in rotating_leaves(body, states, in_place):
            spare = self._new(states[leaves[0]].nbytes)
            spare.use(self._position)
            self._reuse.reserve(body, roots[leaves[0]], spare)
            rotations.append(StateRotation(tuple(states[k] for k in leaves), spare))
            better_apart -= {*leaves}
        for k in better_apart:
            self._reuse.reserve(body, roots[k], states[k])
        yield self._computation(body)
        for state in (*states, *(rotation.spare for rotation in rotations)):
            state.use(self._position)

    def _conditional(self, schedule: ScheduledComputation, conditional: Instruction, number: int) -> Nested[None]:
        """Each branch writes the conditional's result where it can: over an operand, or in memory of its own."""
        taken: set[BufferAllocation] = set()
        for k, shape in enumerate(leaf_shapes(conditional.shape)):
            result = self._reuse.reserved_for.get((conditional, k))
            result = result or self._reuse.overwritten(schedule, conditional, (conditional, k), number)
            if result is None or result in taken:  # by another result: one without readers is written, too
                result = self._new(shape.nbytes)
            taken.add(result)
            result.use(self._position)
            self._allocations[conditional, k] = result
        for branch, operand in zip(schedule.nested[conditional], conditional._operands[1:], strict=True):
            parameter = branch.computation.parameters[0]
            leaves = range(len(leaf_shapes(parameter.shape)))
            seen: dict[BufferAllocation, list[BufferValue]] = defaultdict(list)
            for k in leaves:
                allocation = self._allocations[parameter, k] = self._allocations[defining_value(operand, k)]
                seen[allocation].append((parameter, k))
            counts = Counter(branch.root)
            for k, value in enumerate(branch.root):
                result = self._allocations[conditional, k]
                large = counts[value] == 1 and value in branch.made and result.nbytes > SMALL
                if large and all(self._reuse.may_replace(branch, value, p) for p in seen.get(result, ())):
                    self._reuse.reserve(branch, value, result)
            yield self._computation(branch)
            # what a branch reads lives until all of it has run
            for k in leaves:
                self._allocations[parameter, k].use(self._position)
