"""Memory: which arrays share it."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field

from xloom.codegen.buffer_values import BufferValue, defining_value, leaf_shapes
from xloom.codegen.buffers.in_place import changed_operand, overwritable
from xloom.codegen.buffers.input_output_aliases import aliases
from xloom.codegen.buffers.offsets import assign_offsets, can_hold_others
from xloom.codegen.fusion.multi_output import Thunk
from xloom.codegen.kernel_facts import unread_operands
from xloom.codegen.ops import Trait, having
from xloom.codegen.schedule.thunks import LAST, ScheduledComputation, roots_of
from xloom.errors import OutOfMemoryError
from xloom.hlo.instruction import Instruction
from xloom.hlo.literal import ADDRESSED
from xloom.llvm.target import Target
from xloom.trampoline import Nested, run

_SKIPS = having(Trait.SKIPS_UNREAD)
SMALL = 256
"""Arrays of so many bytes or fewer live on the stack, where LLVM can keep them in registers."""
STACK_ARRAYS = 4096
"""So many of them at most: a thread's stack ends without warning."""


@dataclass(eq=False)
class BufferAllocation:
    """Memory of one or more arrays. `kind`: argument, result, constant, code, arena, stack or nowhere."""

    kind: str
    nbytes: int
    number: int = 0
    offset: int = 0
    """In the arena or in `home`."""
    home: BufferAllocation | None = None
    """The result whose memory an arena slot has for a time."""
    data: bytes = b""
    """Of an array that is a part of the code."""
    first: int = LAST
    last: int = -1
    reserved: list[tuple[ScheduledComputation, int, BufferValue]] = field(default_factory=list)
    """Steps that will write it: who shares it before must be dead by then."""

    def use(self, position: int) -> None:
        """Marks it as alive at a position of the program."""
        self.first, self.last = min(self.first, position), max(self.last, position)


class _Slots(dict[BufferValue, BufferAllocation]):
    """Slots by array, which also knows the arrays of each slot."""

    def __init__(self) -> None:
        self._sources: dict[BufferAllocation, list[BufferValue]] = defaultdict(list)

    def __setitem__(self, source: BufferValue, slot: BufferAllocation) -> None:
        super().__setitem__(source, slot)
        self._sources[slot].append(source)

    def sources(self, slot: BufferAllocation) -> list[BufferValue]:
        """The arrays that have the slot, without those that have ended."""
        return [source for source in self._sources[slot] if self[source] is slot]

    def end(self, source: BufferValue) -> None:
        """Nobody reads the array any more: it keeps its slot, but is none of its `sources`."""
        sources = self._sources[self[source]]
        if source in sources:
            sources.remove(source)


class BufferAssignment:
    """Gives every array of a program its slot. Positions count the steps of all blocks in program order."""

    def __init__(self, entry: ScheduledComputation, target: Target):
        self.entry, self.target = entry, target
        self.slots = _Slots()
        self.arena: list[BufferAllocation] = []
        self.stack: list[BufferAllocation] = []
        self.constants: list[Instruction] = []
        self.arguments: list[BufferAllocation] = []
        self.results: list[BufferAllocation] = []
        self.given: list[tuple[BufferAllocation, BufferAllocation]] = []
        """Results that start as an argument, and those: one memory, if the caller gives the argument away."""
        self.positions: dict[Thunk, int] = {}
        self.ends: dict[ScheduledComputation, int] = {}
        """The position after all steps of a block."""
        self.arena_bytes = 0
        self._constant_arrays = 0
        self._stack_arrays = 0
        self._position = 0
        self._preset: dict[BufferValue, BufferAllocation] = {}
        self._read_only: set[BufferAllocation] = set()
        self._states: set[Instruction] = set()
        self._lent: set[BufferValue] = set()
        """What loops leave as it was and see where it lay before them: others may read it there."""
        self._origins: dict[BufferValue, BufferValue] = {}
        """Of what loops leave as it was, as `_before_loops` has found it."""

    def assign(self) -> None:
        """Gives every array its memory, in program order."""
        self._entry(self.entry)

    @property
    def rooms(self) -> list[BufferAllocation]:
        """Results that hold other arrays before they are written."""
        started = {result for result, _ in self.given}
        return [result for result in self.results if can_hold_others(result) and result not in started]

    def assign_offsets(self) -> None:
        """Decides where in the arena everything lies; until then more can be added to it."""
        self.arena_bytes = assign_offsets(self.arena, self.rooms)
        if self.arena_bytes > ADDRESSED:
            message = f"temporary arrays need {self.arena_bytes} bytes, more than a process can address"
            raise OutOfMemoryError(message, where=self.largest)

    @property
    def largest(self) -> str:
        """The largest temporary array: its name, its shape and its bytes."""
        made = [(slot.nbytes, source) for source, slot in self.slots.items() if slot.kind == "arena"]
        if not made:
            return ""
        _, (instruction, leaf) = max(made, key=lambda found: found[0])
        shape = leaf_shapes(instruction.shape)[leaf]
        return f"%{instruction.name} = {shape.to_text(layout=False)}, {shape.nbytes} bytes"

    def of(self, source: BufferValue) -> BufferAllocation:
        """The slot of an array, whatever instruction forwards it."""
        return self.slots[defining_value(*source)]

    # -- blocks
    def _entry(self, block: ScheduledComputation) -> None:
        shapes = leaf_shapes(block.computation.root.shape)
        self.results = [BufferAllocation("result", shape.nbytes, k) for k, shape in enumerate(shapes)]
        module = block.computation.module
        result_of = {a.argument: self.results[a.result] for a in aliases(module)} if module is not None else {}
        starts: dict[BufferAllocation, BufferValue] = {}
        for parameter in block.computation.parameters:
            for k, shape in enumerate(leaf_shapes(parameter.shape)):
                slot = BufferAllocation("argument", shape.nbytes, len(self.arguments))
                self.arguments.append(slot)
                self._read_only.add(slot)
                state = result_of.get(len(self.arguments) - 1)
                if state is not None:
                    self.given.append((state, slot))
                    self._states.add(parameter)
                    starts[state] = (parameter, k)
                self.slots[parameter, k] = state or slot
        taken: set[BufferValue] = set()
        for source, slot in zip(block.root, self.results, strict=True):
            if slot.nbytes <= SMALL or source in taken or source not in block.made:
                continue
            if slot not in starts or self._may_replace(block, source, starts[slot]):
                taken.add(source)
                self._reserve(block, source, slot)
        run(self._block(block))
        for slot in self.results:
            slot.use(self._position)

    def _reserve(self, block: ScheduledComputation, source: BufferValue, slot: BufferAllocation) -> None:
        """Makes `slot` the memory of an array to come, and of what it is made from in place, as far as that goes."""
        self._preset[source] = slot
        position = block.made[source]
        slot.reserved.append((block, position, source))
        changed, may_take = changed_operand(source), overwritable(block.steps[position], *source, self.target)
        for before in may_take if changed is None else [changed]:
            ours = before in block.made and before not in self._preset and block.last[before] == position
            fits = leaf_shapes(before[0].shape)[before[1]].nbytes == slot.nbytes
            if ours and fits and before in may_take and self._free_until(block, slot, before):
                self._reserve(block, before, slot)
                return

    def _free_until(self, block: ScheduledComputation, slot: BufferAllocation, source: BufferValue) -> bool:
        """True when no other array of the block that has `slot` is read after `source` is made."""
        made = block.made[source]
        others = [s for s in self.slots.sources(slot) if s in block.last]
        may_take = overwritable(block.steps[made], *source, self.target)
        return all(block.last[s] < made or (block.last[s] == made and s in may_take) for s in others)

    def _block(self, block: ScheduledComputation) -> Nested[None]:
        ending: dict[int, list[BufferValue]] = defaultdict(list)
        for source, last in block.last.items():
            ending[last].append(source)
        for number, step in enumerate(block.steps):
            self._position += 1
            here = self.positions[step] = self._position
            if isinstance(step, Instruction) and step.opcode == "while":
                yield self._while(block, step, number)
            elif isinstance(step, Instruction) and step.opcode == "conditional":
                yield self._conditional(block, step)
            elif isinstance(step, Instruction) and step.opcode == "constant":
                self._constant(step)
            else:
                self._outputs(block, step, number)
            for instruction in roots_of(step):
                self._touch_made(instruction, here)
            for source in ending[number]:
                if source in self.slots:
                    self.slots[source].use(self._position)
                    if source in block.made:
                        self.slots.end(source)
        self._position += 1
        self.ends[block] = self._position
        for source in block.root:
            if source in self.slots:
                self.slots[source].use(self._position)

    def _touch_made(self, instruction: Instruction, first: int) -> None:
        for k in range(len(leaf_shapes(instruction.shape))):
            slot = self.slots.get((instruction, k))
            if slot is not None:
                slot.use(first)
                slot.use(self._position)

    def _constant(self, instruction: Instruction) -> None:
        if instruction.shape.is_array and instruction.shape.nbytes <= SMALL:
            slot = BufferAllocation("code", instruction.shape.nbytes, data=instruction.literal.value.tobytes())
            self.slots[instruction, 0] = slot
            self._read_only.add(slot)
            return
        for k, shape in enumerate(leaf_shapes(instruction.shape)):
            slot = self.slots[instruction, k] = BufferAllocation("constant", shape.nbytes, self._constant_arrays)
            self._read_only.add(slot)
            self._constant_arrays += 1
        self.constants.append(instruction)

    def _outputs(self, block: ScheduledComputation, step: Thunk, number: int) -> None:
        if isinstance(step, Instruction):
            for k in unread_operands(step):
                if (step._operands[k], 0) not in self.slots:
                    self.slots[step._operands[k], 0] = BufferAllocation("nowhere", 0)
        for instruction in roots_of(step):
            for k, shape in enumerate(leaf_shapes(instruction.shape)):
                if not is_kept(block, step, (instruction, k), number):
                    continue
                if instruction.opcode in _SKIPS and (instruction, k) not in block.last:
                    self.slots[instruction, k] = BufferAllocation("nowhere", 0)
                    continue
                slot = self._preset.get((instruction, k)) or self._shared(block, step, instruction, k, number)
                self.slots[instruction, k] = slot or self._new(shape.nbytes)

    def fits_stack(self, nbytes: int) -> bool:
        """True of an array that may live on the stack, of which it then takes a part."""
        if nbytes > SMALL:
            return False
        self._stack_arrays += 1
        return self._stack_arrays <= STACK_ARRAYS

    def _new(self, nbytes: int) -> BufferAllocation:
        slot = BufferAllocation("stack" if self.fits_stack(nbytes) else "arena", nbytes)
        (self.stack if slot.kind == "stack" else self.arena).append(slot)
        return slot

    def _shared(
        self, block: ScheduledComputation, step: Thunk, made: Instruction, leaf: int, number: int
    ) -> BufferAllocation | None:
        """The slot of a dying array that the step may overwrite with this output."""
        nbytes = leaf_shapes(made.shape)[leaf].nbytes
        for source in overwritable(step, made, leaf, self.target):
            slot = self.slots.get(source)
            if slot is None or slot in self._read_only or slot.nbytes != nbytes:
                continue
            later = block.last.get((made, leaf), number)
            others = [s for s in self.slots.sources(slot) if s != source and block.last.get(s, -1) >= number]
            dying = block.last.get(source) == number and not others
            ours = (source in block.made and source not in self._lent) or source[0] in self._states
            if dying and ours and (not slot.reserved or self._is_gone(block, slot, (made, leaf), later)):
                return slot
        return None

    # -- control flow
    def _while(self, block: ScheduledComputation, instruction: Instruction, number: int) -> Nested[None]:
        body, condition = block.nested[instruction]
        (operand,) = instruction._operands
        shapes = leaf_shapes(instruction.shape)
        states: list[BufferAllocation] = []
        lent = self._unchanged(block, instruction, number)
        for k, shape in enumerate(shapes):
            slot = lent.get(k) or self._preset.get((instruction, k))
            slot = slot or self._initial(block, defining_value(operand, k), number, [*states, *lent.values()])
            slot = slot or self._new(shape.nbytes)
            slot.use(self._position)
            states.append(slot)
            self.slots[instruction, k] = slot
        self._lent.update((instruction, k) for k in lent)
        parameter_of = {b: b.computation.parameters[0] for b in (body, condition)}
        for nested in (condition, body):
            for k, slot in enumerate(states):
                self.slots[parameter_of[nested], k] = slot
        yield self._block(condition)
        self._states.add(parameter_of[body])
        roots = body.root
        for k, source in enumerate(roots):
            old = (parameter_of[body], k)
            if roots.count(source) == 1 and source in body.made and self._may_replace(body, source, old):
                self._reserve(body, source, states[k])
        yield self._block(body)
        for slot in states:
            slot.use(self._position)

    def _unchanged(
        self, block: ScheduledComputation, instruction: Instruction, number: int
    ) -> dict[int, BufferAllocation]:
        """The leaves of a loop's state that its body only reads, and where they lie already."""
        (operand,), body = instruction._operands, block.nested[instruction][0]
        found: dict[int, BufferAllocation] = {}
        for k, source in enumerate(body.root):
            slot, leaf = self.slots.get(defining_value(operand, k)), (instruction, k)
            before = run(self._before_loops(body, source))
            unchanged = before == (body.computation.parameters[0], k) and leaf not in self._preset
            if unchanged and slot is not None and slot.nbytes > SMALL and self._stays(block, slot, leaf, number):
                found[k] = slot
        return found

    def _before_loops(self, block: ScheduledComputation, source: BufferValue) -> Nested[BufferValue]:
        """The array that loops of the block leave as it was, before the first of them; any other one itself."""
        if source in self._origins:
            return self._origins[source]
        instruction, leaf = source
        while instruction in block.nested and instruction.opcode == "while":
            body = block.nested[instruction][0]
            before = yield self._before_loops(body, body.root[leaf])
            if before != (body.computation.parameters[0], leaf):
                break
            instruction, leaf = defining_value(instruction._operands[0], leaf)
        self._origins[source] = instruction, leaf
        return instruction, leaf

    def _initial(
        self, block: ScheduledComputation, source: BufferValue, number: int, taken: list[BufferAllocation]
    ) -> BufferAllocation | None:
        slot = self.slots.get(source)
        if slot is None or slot in self._read_only or slot in taken or slot.reserved:
            return None
        others = [s for s in self.slots.sources(slot) if s != source and block.last.get(s, -1) >= number]
        ours = source in block.made and source not in self._lent
        return slot if block.last.get(source) == number and ours and not others else None

    def _conditional(self, block: ScheduledComputation, instruction: Instruction) -> Nested[None]:
        shapes = leaf_shapes(instruction.shape)
        for k, shape in enumerate(shapes):
            slot = self._preset.get((instruction, k)) or self._new(shape.nbytes)
            slot.use(self._position)
            self.slots[instruction, k] = slot
        for nested, operand in zip(block.nested[instruction], instruction._operands[1:], strict=True):
            parameter = nested.computation.parameters[0]
            for k in range(len(leaf_shapes(parameter.shape))):
                self.slots[parameter, k] = self.slots[defining_value(operand, k)]
            roots = nested.root
            for k, source in enumerate(roots):
                slot = self.slots[instruction, k]
                if roots.count(source) == 1 and source in nested.made and slot.nbytes > SMALL:
                    self._reserve(nested, source, slot)
            yield self._block(nested)
            # what a branch reads lives until all of it has run
            for k in range(len(leaf_shapes(parameter.shape))):
                self.slots[parameter, k].use(self._position)

    # -- memory of one array for another
    def _may_replace(self, block: ScheduledComputation, source: BufferValue, old: BufferValue) -> bool:
        """True when an array may be written where an older one lies."""
        made, last = block.made[source], block.last.get(old, -1)
        if last < made:
            return True
        return last == made and old in overwritable(block.steps[made], *source, self.target)

    def _stays(self, block: ScheduledComputation, slot: BufferAllocation, source: BufferValue, number: int) -> bool:
        """True when what is in the slot at step `number` is there as long as it is read as `source`."""
        last = block.last.get(source, number)
        later = [(position, output) for b, position, output in slot.reserved if b is block and position > number]
        return all(
            last < at or (last == at and source in overwritable(block.steps[at], *output, self.target))
            for at, output in later
        )

    def _is_gone(self, block: ScheduledComputation, slot: BufferAllocation, source: BufferValue, last: int) -> bool:
        """True when an array that is read up to step `last` may have the slot until it is written as reserved."""
        reserved = [(position, output) for b, position, output in slot.reserved if b is block]
        if not reserved:
            return False
        first, output = min(reserved, key=lambda r: r[0])
        return last < first or (last == first and source in overwritable(block.steps[first], *output, self.target))


def is_kept(block: ScheduledComputation, step: Thunk, source: BufferValue, number: int) -> bool:
    """True unless it is made and read in one loop nest only."""
    return isinstance(step, Instruction) or len(step.roots) == 1 or block.last.get(source, -1) > number


def assigned(entry: ScheduledComputation, target: Target) -> BufferAssignment:
    """The memory of every array of a scheduled program on a target.

    Raises OutOfMemoryError for more than can be addressed.
    """
    assignment = BufferAssignment(entry, target)
    assignment.assign()
    return assignment
