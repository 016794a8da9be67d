"""The one native function of a program: its kernels called in order, loops and branches around them.

`i32 xloom_main(ptr arguments, ptr results, ptr constants, ptr arena, ptr run)`: the first three are arrays of pointers,
`run` is what Python called from here gets; 0 means that all went well, any other number is that of the call (counted
from 1) that failed, or less than 0 for a run that another reason has ended.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from llvmlite import ir

from xloom import checks
from xloom.calls import registry
from xloom.calls.jaxlib_handlers import is_lapack
from xloom.calls.registry import Registration
from xloom.codegen.buffer_values import BufferValue, defining_value, dtype_of, leaf_shapes
from xloom.codegen.buffers.allocation import BufferAllocation
from xloom.codegen.buffers.assignment import BufferAssignment, needs_allocation
from xloom.codegen.buffers.in_place import overwritable
from xloom.codegen.buffers.parallel_copies import Copies, one_by_one
from xloom.codegen.fusion.fusion_group import FusionGroup
from xloom.codegen.fusion.multi_output import Thunk, nest_of
from xloom.codegen.kernel_facts import unread_operands
from xloom.codegen.loop_ir.nest import LoopNest, loaded_values, nest_cost
from xloom.codegen.loop_ir.verify import verify_nest
from xloom.codegen.schedule.thunks import ScheduledComputation
from xloom.cpu.buffer_verifier.events import Access, Copy, Event, Overwrite, RunNest, RunThunk, Start
from xloom.cpu.custom_calls.io import infeed, outfeed, receive, send
from xloom.cpu.entry.allocation_pointers import AllocationPointers
from xloom.cpu.entry.collectives import COLLECTIVES, device_counts, own_rank
from xloom.cpu.entry.control_flow import conditional, while_loop
from xloom.cpu.entry.emitted_program import DEEP, PARALLEL_FOR, EmittedProgram, KernelModule, ThunkCode
from xloom.cpu.entry.float_environment import entry_function
from xloom.cpu.entry.fused_dot import fused_dot
from xloom.cpu.entry.fused_scatter import fused_scatter
from xloom.cpu.entry.horizontal_fusion import HorizontalFusion
from xloom.cpu.entry.interruption import OF_CALL, Polling, kernel_cost
from xloom.cpu.entry.main_function import MAIN
from xloom.cpu.entry.serial_loops import begins_serial_loops
from xloom.cpu.entry.slice_views import SliceViews
from xloom.cpu.kernel_modules.choices import choices_made
from xloom.cpu.kernel_modules.copies import LARGE
from xloom.cpu.kernel_modules.deduplication import KernelCode, KernelModules
from xloom.cpu.kernel_modules.kernel import TASK, Rule
from xloom.cpu.kernels import rule_of
from xloom.cpu.kernels.call_rules import call_rule
from xloom.cpu.loops.lowering import Lowering
from xloom.cpu.loops.unmasked_part import is_one_masked_result
from xloom.cpu.runtime.threads.program_autotuning_ir import BEGIN_PASS, BEGIN_RUN, END_RUN
from xloom.cpu.runtime.threads.rendezvous_ir import rendezvous_bytes
from xloom.errors import LoweringError
from xloom.hlo.instruction import Instruction
from xloom.hlo.shape import Shape
from xloom.hlo.stack_frames import place
from xloom.interpreter.custom_call import NO_CODE
from xloom.llvm.constant_table import constant_table
from xloom.llvm.loop import allocate
from xloom.llvm.memory_copy import FEW_ELEMENTS, copy, copy_elements, fill
from xloom.llvm.module_text import module_text
from xloom.llvm.target_module import TargetModule
from xloom.llvm.types import I8, I32, I64, POINTER, VOID
from xloom.trampoline import Nested, run

INLINE_COST = 3000
"""Loop nests that cost no more additions are part of the entry function."""
INLINE_NESTS = 16
LOOP_NESTS = 64
"""So many at most, in what runs once and in the body of a loop: LLVM's time grows faster than the function."""
ALL_NESTS = 512
"""So many at most in all."""
STACK_POINTERS = 1 << 16
"""In tables on the stack, at most: a thread's stack ends without warning."""
_BEGIN, _END = ir.FunctionType(I64, [POINTER]), ir.FunctionType(VOID, [POINTER, I64])
"""Types of what says when runs and passes begin and end."""


class EntryBuilder:
    """Emits the entry function of a program; `on_kernel` gets each kernel as soon as it is there.

    Without it no machine code is made, and kernels are written out that are known already.
    """

    def __init__(
        self,
        assignment: BufferAssignment,
        on_kernel: Callable[[KernelModule], None] | None = None,
    ):
        self.assignment = assignment
        self.target = assignment.target
        self.module = TargetModule(self.target)
        self.program = EmittedProgram("")
        self.kernel_modules = KernelModules(self.program, self.target, on_kernel)
        self.status: ir.Value | None = None
        """The status of native calls, once one has it."""
        self._nests = 0
        self._nest_of: dict[FusionGroup, LoopNest] = {}
        self._is_apart = False
        self._size_tables: dict[tuple[int, ...], ir.Value] = {}
        self._loops = 0
        """Around the computation whose thunks are emitted."""
        self._table_pointers = 0
        """In all tables of kernels."""
        self._timed_loops = 0
        self._depth = 0
        """Computations around a thunk, those of branches as well."""
        function = ir.Function(self.module, ir.FunctionType(I32, [POINTER] * 5), f"{MAIN}.body")
        function.attributes.add("nounwind")
        self.function = function
        self.arguments, _, self.constants, self.arena, self.run = function.args
        for argument in function.args[:4]:
            argument.add_attribute("noalias")
        self.b = ir.IRBuilder(function.append_basic_block("entry"))
        self._memory = AllocationPointers(self.b, assignment, function.args[:4])
        self._argument_count = sum(len(leaf_shapes(p.shape)) for p in assignment.entry.computation.parameters)
        self._participant: ir.Value | None = None
        self.parallel_for = ir.Function(self.module, ir.FunctionType(VOID, [POINTER, POINTER, I64, I64]), PARALLEL_FOR)
        self.events: list[Event] = []
        """What is emitted does to memory."""
        self._starts: dict[BufferAllocation, ir.Value] = {}
        """Of parts of arrays that are gathered, in these."""
        self._slots: dict[BufferAllocation, ir.Value] = {}
        """The present addresses of allocations that the loops around move."""
        self.views = SliceViews(self)
        self.polling = Polling(self.b)
        self.horizontal_fusion = HorizontalFusion(self.b, self.parallel_for, self.events)

    def emit(self) -> EmittedProgram:
        """The whole program. Raises LoweringError for what has no native code."""
        assignment, entry = self.assignment, self.assignment.entry
        start = self.function.append_basic_block("start")
        self.b.position_at_end(start)
        for result, argument in assignment.input_output_aliases:
            self._start_as(result, argument)
        run(self.emit_schedule(entry))
        self.copies(list(zip(assignment.results, (assignment.allocations[s] for s in entry.root), strict=True)))
        self._time_runs()
        self.b.ret(I32(0))
        self.b.position_at_end(self.function.entry_basic_block)
        self.b.branch(start)
        entry_function(self.function, MAIN, self.target)
        self.program.arena_bytes = self._memory.assign_offsets()
        self.kernel_modules.close()
        if self.program.collectives:
            replicas, partitions = device_counts(entry.computation.root)
            self.program.rendezvous_bytes = rendezvous_bytes(len(self.program.collectives), replicas * partitions)
        self.program.main = module_text(self.module)
        return self.program

    def begin_function(self, b: ir.IRBuilder, memory: AllocationPointers, polling: Polling) -> None:
        """Makes this the builder of another function of the same program, which one thread runs."""
        self.function, self.b, self._memory, self.polling = b.function, b, memory, polling
        self.events = []
        self.horizontal_fusion = HorizontalFusion(b, None, self.events)
        self._slots, self._starts, self._table_pointers, self._participant = {}, {}, 0, None

    def take_from(self, inner: EntryBuilder) -> None:
        """Goes on after what a copy of this builder has emitted elsewhere."""
        self._nests = inner._nests
        self._memory.scratch_memory += inner.scratch_memory

    def _time_runs(self) -> None:
        """Says when runs begin and end, where threads share steps and no other device is waited for."""
        if self.horizontal_fusion.shares and not self.program.collectives:
            with self.b.goto_block(self.function.entry_basic_block):
                begun = self.b.call(self.declared(BEGIN_RUN, _BEGIN), [self.function])
            self.b.call(self.declared(END_RUN, _END), [self.function, begun])

    @contextmanager
    def timed_pass(self, first: ir.Block) -> Iterator[None]:
        """Says when passes of a loop begin and end, whose `first` block is empty, where threads share steps of them."""
        b, before = self.b, self.horizontal_fusion.shares
        self.horizontal_fusion.shares = False
        yield
        if self.horizontal_fusion.shares and not self.program.collectives:
            self._timed_loops += 1
            last = b.block
            b.position_at_start(first)
            loop = b.gep(self.function, [I64(self._timed_loops)], source_etype=I8)
            begun = b.call(self.declared(BEGIN_PASS, _BEGIN), [loop])
            b.position_at_end(last)
            b.call(self.declared(END_RUN, _END), [loop, begun])
        self.horizontal_fusion.shares |= before

    # -- memory
    def pointer(self, allocation: BufferAllocation) -> ir.Value:
        """The address of an allocation: what its slot says, while a loop moves it."""
        slot = self._slots.get(allocation)
        if slot is not None:
            return self.b.load(slot, typ=POINTER)
        if allocation.gathered is not None:
            return self.b.gep(self.pointer(allocation.gathered[0]), [self._start_of(allocation)], source_etype=I8)
        return self._memory.of(allocation)

    def _start_of(self, part: BufferAllocation) -> ir.Value:
        """The offset of what this device gives to an all-gather in what comes of it."""
        if part not in self._starts:
            assert part.gathered is not None
            with self.b.goto_block(self.function.entry_basic_block):
                self._starts[part] = self.b.mul(own_rank(self, part.gathered[1]), I64(part.nbytes))
        return self._starts[part]

    def is_moving(self, allocation: BufferAllocation) -> bool:
        """Whether a loop moves an allocation: it lies where only its slot says."""
        return allocation in self._slots

    def move_allocations(self, slots: dict[BufferAllocation, ir.Value]) -> dict[BufferAllocation, ir.Value]:
        """From now on the addresses of these allocations are in slots; returns all slots until now, to restore."""
        before, self._slots = self._slots, {**self._slots, **slots}
        return before

    def restore_allocations(self, slots: dict[BufferAllocation, ir.Value]) -> None:
        """Undoes `move_allocations`, which returned `slots`."""
        self._slots = slots

    def of(self, value: BufferValue) -> ir.Value:
        """The address of an array."""
        return self.pointer(self.assignment.of(value))

    @property
    def participant(self) -> ir.Value:
        """The pointer to the device's participant in a rendezvous: the last argument of programs of several devices."""
        if self._participant is None:
            b = self.b
            with b.goto_block(self.function.entry_basic_block):
                element = b.gep(self.arguments, [I64(self._argument_count)], inbounds=True, source_etype=POINTER)
                self._participant = b.load(element, typ=POINTER)
        return self._participant

    def copy(self, target: BufferAllocation, source: BufferAllocation) -> None:
        """Copies a whole array, unless it lies there already."""
        if target is source or not target.nbytes:
            return
        self.events.append(Copy(target, source, target.nbytes))
        nbytes, width = target.nbytes, self.assignment.element_bytes(source)
        if nbytes <= FEW_ELEMENTS * width:
            copy_elements(self.b, self.pointer(target), self.pointer(source), nbytes // width, width)
        else:
            self.copy_bytes(self.pointer(target), self.pointer(source), nbytes)

    def copy_bytes(self, to: ir.Value, origin: ir.Value, nbytes: int) -> None:
        """Copies from one address to another, on several threads where it is much."""
        b = self.b
        if nbytes >= LARGE * self.target.caches.last:
            code, left = self.kernel_modules.of_copy(nbytes)
            self.call(code, [to, origin])
            to, origin = (b.gep(p, [I64(nbytes - left)], inbounds=True, source_etype=I8) for p in (to, origin))
            nbytes = left
        copy(b, to, origin, nbytes)

    def _start_as(self, target: BufferAllocation, source: BufferAllocation) -> None:
        """Copies an array, unless the caller gave both the same memory."""
        apart = self.b.icmp_unsigned("!=", self.pointer(target), self.pointer(source))
        with self.recorded(), self.b.if_then(apart):
            self.copy(target, source)
        self.events.append(Start(target, source))

    def transpose_in_place(self, allocation: BufferAllocation, shape: Shape) -> None:
        """Transposes the square matrices of an array."""
        code = self.kernel_modules.of_transposition(shape.dtype, math.prod(shape.dims[:-2]), shape.dims[-1])
        self.call(code, [self.pointer(allocation)])

    def copies(self, pairs: Copies) -> None:
        """Copies as if all at once."""
        for target, source in one_by_one(pairs, self._memory.temporary):
            self.copy(target, source)

    def clear(self, allocation: BufferAllocation, byte: int = 0) -> None:
        """Writes zeros, or another number, to all bytes of an allocation."""
        if allocation.nbytes:
            self.events.append(Overwrite(allocation))
            fill(self.b, self.pointer(allocation), byte, I64(allocation.nbytes))

    def scratch(self, nbytes: int) -> BufferAllocation:
        """Memory for the current thunk."""
        return self._memory.scratch(nbytes)

    @property
    def scratch_memory(self) -> list[BufferAllocation]:
        """What thunks have of the arena for themselves, each alive at the position of its thunk."""
        return self._memory.scratch_memory

    @contextmanager
    def recorded(self) -> Iterator[list[Event]]:
        """What is emitted in the `with` does to memory, which is no part of `events` then."""
        found: list[Event] = []
        first = len(self.events)
        yield found
        found += self.events[first:]
        del self.events[first:]

    # -- code outside
    def registration_of(self, call: Instruction) -> Registration:
        """What a custom call calls. Raises CustomCallError when there is nothing that fits."""
        return registry.target_of(call)

    def takes_any_address(self, registration: Registration) -> bool:
        """True for code that takes arrays wherever they lie; other gets them aligned."""
        return is_lapack(registration)

    def declared(self, name: str, kind: ir.FunctionType) -> ir.Function:
        """The function of that name, which is defined elsewhere."""
        function = self.module.globals.get(name)
        return ir.Function(self.module, kind, name) if function is None else function

    def imported(self, address: int, kind: ir.FunctionType, keep: object) -> ir.Function:
        """The function at an address; `keep` lives as long as the program."""
        name = f"xloom_outside.{len(self.program.imports)}"
        self.program.imports[name] = address
        self.program.kept.append(keep)
        return self.declared(name, kind)

    def stop_if(self, failed: ir.Value, instruction: Instruction) -> None:
        """Ends the program here, with the number of `instruction`, where `failed` (i1) is true."""
        self.program.calls.append(instruction)
        with self.b.if_then(failed, likely=False):
            self.b.ret(I32(len(self.program.calls)))

    # -- thunks
    def emit_schedule(self, schedule: ScheduledComputation, *, repeated: bool = False) -> Nested[None]:
        """Emits a computation's thunks, of a loop's body if `repeated`; what comes next is done after them all."""
        self._loops += repeated
        before, limit = self._is_apart, LOOP_NESTS if self._loops else INLINE_NESTS
        self._depth += 1
        self.program.depth = max(self.program.depth, self._depth)
        many = sum(isinstance(thunk, FusionGroup) for thunk in schedule.thunks) > limit
        self._is_apart = many or self._depth > DEEP or self._nests > ALL_NESTS
        for number, thunk in enumerate(schedule.thunks):
            nested = self.emit_thunk(schedule, thunk, number)
            if nested is not None:
                yield nested
            self.polling.between_thunks()
        self.horizontal_fusion.finish()
        self._is_apart = before
        self._depth -= 1
        self._loops -= repeated
        self._memory.position = self.assignment.ends[schedule]

    def emit_thunk(self, schedule: ScheduledComputation, thunk: Thunk, number: int) -> Nested[None] | None:
        """Emits thunk `number`; returns what is left to run where it calls other computations."""
        self._memory.position = self.assignment.positions[thunk]
        if isinstance(thunk, FusionGroup):
            self._nest(schedule, thunk, number)
            return None
        self.horizontal_fusion.finish()
        if (nested := CONTROL_FLOW_EMITTERS.get(thunk.opcode)) is not None:
            return nested(self, schedule, thunk)
        if thunk.opcode == "custom-call" and (rule := call_rule(thunk)) is not None:
            self._kernel(thunk, rule)
        elif (emit := THUNK_EMITTERS.get(thunk.opcode)) is not None:
            emit(self, schedule, thunk)
            if thunk.opcode in COLLECTIVES or thunk.opcode == "fusion":
                self.polling.cost += kernel_cost(thunk)
                self._record(thunk)
        elif (rule := rule_of(thunk.opcode)) is not None:
            self._kernel(thunk, rule)
        else:
            raise LoweringError(
                f"{thunk.opcode} has no native code yet",
                where=place(thunk),
                hint="run the program on the interpreter: xloom.evaluate",
            )
        return None

    def nest_of(self, schedule: ScheduledComputation, group: FusionGroup, number: int) -> LoopNest:
        """The loop nest of thunk `number`: the same object each time."""
        if group not in self._nest_of:
            kept = {(r, k) for r in group.roots for k in range(len(leaf_shapes(r.shape)))}
            kept = {s for s in kept if needs_allocation(schedule, group, s, number)}
            self._nest_of[group] = nest_of(group, kept)
        return self._nest_of[group]

    def _nest(self, schedule: ScheduledComputation, group: FusionGroup, number: int) -> None:
        updates = [root for root in group.roots if root.opcode == "dynamic-update-slice"]
        for root in updates:
            self.horizontal_fusion.finish()
            self.copy(self.assignment.of((root, 0)), self.assignment.of((root._operands[0], 0)))
        if self.views.emit(self, schedule, group):
            self._view(schedule, group, number)
            return
        nest, alone = self.nest_of(schedule, group, number), begins_serial_loops(self, schedule, group, number)
        self.program.code[group] = self.emit_nest(nest, may_wait=not updates and not alone, alone=alone)

    def _view(self, schedule: ScheduledComputation, group: FusionGroup, number: int) -> None:
        """Notes what a nest that need not run would have done."""
        nest = self.nest_of(schedule, group, number)
        numbers, _ = self.numbered(nest, self.assignment.of)
        self.events.append(RunNest(nest, {value: self.assignment.of(value) for value in numbers}))
        self.program.code[group] = ThunkCode("", [], nest, is_view=True)

    def numbered(
        self, nest: LoopNest, allocation_of: Callable[[BufferValue], BufferAllocation]
    ) -> tuple[dict[BufferValue, int], list[BufferAllocation]]:
        """The numbers of a nest's arrays, and the allocations that have these."""
        number_of: dict[BufferAllocation, int] = {}
        numbers: dict[BufferValue, int] = {}
        for value in [*loaded_values(nest), *(s.target for stage in nest.stages for s in stage.stores)]:
            if value not in nest.private:
                numbers[value] = number_of.setdefault(allocation_of(value), len(number_of))
        return numbers, list(number_of)

    def emit_nest(
        self,
        nest: LoopNest,
        *,
        may_wait: bool = False,
        alone: bool = False,
        allocations: dict[BufferValue, BufferAllocation] | None = None,
    ) -> ThunkCode:
        """Calls a loop nest: a part of this function when it is small, else a kernel of its own.

        One that may wait is called later, with others that it does not depend on; one `alone` has one thread do it.
        `allocations` are those of its values where the assignment does not know them.
        """
        if not nest.stages or any(v.size == 0 for stage in nest.stages for v in (*nest.outer, *stage.vars)):
            return ThunkCode("", [], nest)
        if checks.is_checked("loops"):
            verify_nest(nest)
        allocation_of = self.assignment.of if allocations is None else allocations.__getitem__
        numbers, number_of = self.numbered(nest, allocation_of)
        pointers = [self.pointer(s) for s in number_of]
        event = RunNest(nest, {value: allocation_of(value) for value in numbers})
        if may_wait or alone:  # which goes before what waits, if its memory is not what they read
            written = {allocation_of(s.target).home for g in nest.stages for s in g.stores if s.target in numbers}
            self.horizontal_fusion.admit(self._memory.position, {s.home for s in number_of} - written, written)
        cost = nest_cost(nest)
        self.polling.cost += cost
        small = cost <= INLINE_COST and not nest.read_soon  # of which others call parts
        if small and not self._is_apart:
            self.events.append(event)
            return self._inlined(nest, numbers, pointers)
        seldom = small and not self._loops
        serial = bool(self._loops) and not small and is_one_masked_result(nest)
        code = self.kernel_modules.of_nest(nest, numbers, len(pointers), small=small, seldom=seldom, serial=serial)
        code = code.unshared if alone else code
        waits = may_wait and not code.symbol and len(code.phases) == 1 and not code.scratch
        waits = waits and self._table_pointers < STACK_POINTERS // 2  # scratch memory is for the present thunk
        event.scratch = self.call(code, pointers, waiting=event if waits else None)
        if not waits:
            self.events.append(event)
        return ThunkCode(code.module_name, code.phases, nest, code.choices)

    def _inlined(self, nest: LoopNest, numbers: dict[BufferValue, int], pointers: Sequence[ir.Value]) -> ThunkCode:
        """Emits a nest as a part of this function."""
        name, seldom = f"xloom.nest{self._nests}", not self._loops
        lowering = Lowering(self.module, name, nest, numbers, dtype_of, seldom=seldom)
        with choices_made() as choices:
            lowering.run()
        self.program.has_vectors &= lowering.vectorize(whole=True)
        self.program.work += nest_cost(nest)
        self._nests += 1
        for phase in lowering.phases:
            self.module.globals[phase.symbol].linkage = "internal"  # it is not called
            body = self.module.globals[f"{phase.symbol}.body"]
            self.b.call(body, [*pointers, I64(0), I64(phase.count)])
        return ThunkCode("", lowering.phases, nest, tuple(choices))

    def _kernel(self, instruction: Instruction, rule: Rule) -> None:
        inputs = [self.assignment.of((o, 0)) for o in instruction._operands]
        targets = [self.assignment.of((instruction, k)) for k in range(len(leaf_shapes(instruction.shape)))]
        unread = frozenset(k for k, allocation in enumerate(targets) if allocation.kind == "unused")
        if targets and len(unread) == len(targets):
            return  # a part of a tuple of which others are read
        kernel, code = self.kernel_modules.of_rule(instruction, rule, unread)
        if kernel.must_alias:
            for output, operand in kernel.in_place.items():
                self.copy(targets[output], inputs[operand])
        scratch = self.call(code, [self.pointer(s) for s in (*inputs, *targets)])
        self.polling.cost += kernel_cost(instruction)
        self._record(instruction, scratch)
        self.program.code[instruction] = ThunkCode(code.module_name, code.phases, choices=code.choices)

    def _record(self, instruction: Instruction, scratch: Sequence[BufferAllocation] = ()) -> None:
        """Notes that a thunk reads all its operands, and writes all its outputs, each in its allocation."""
        skipped = unread_operands(instruction)
        operands = [
            Access(defining_value(operand, k), self.assignment.of((operand, k)), Shape(shape.dtype, shape.dims))
            for number, operand in enumerate(instruction._operands)
            if number not in skipped
            for k, shape in enumerate(leaf_shapes(operand.shape))
        ]
        outputs = [
            Access((instruction, k), self.assignment.of((instruction, k)), Shape(shape.dtype, shape.dims))
            for k, shape in enumerate(leaf_shapes(instruction.shape))
        ]
        reads = [access.value for access in operands]
        in_place = {
            k: reads.index(s)
            for k in range(len(outputs))
            for s in overwritable(instruction, instruction, k, self.target)
        }
        self.events.append(RunThunk(instruction, operands, outputs, scratch, in_place))

    def call(
        self, code: KernelCode, pointers: Sequence[ir.Value], *, waiting: RunNest | None = None
    ) -> list[BufferAllocation]:
        """Does all phases of a kernel on the arrays at `pointers`, or, where it is `waiting`, its single phase later.

        Returns the allocations of its scratch memory.
        """
        b = self.b
        if code.symbol:
            b.call(self.declared(code.symbol, ir.FunctionType(VOID, [POINTER] * len(pointers))), pointers)
            return []
        scratch, allocations = self._memory.of_scratch(code.scratch)
        buffers = [*pointers, *scratch]
        self._table_pointers += len(buffers)
        before = [self._kernel_tables(code.tables)] if code.tables else []
        before += [self._size_table(code.sizes)] if code.sizes or code.tables else []
        buffers = self.table([*before, *buffers])
        if before:
            buffers = b.gep(buffers, [I64(len(before))], inbounds=True, source_etype=POINTER)
        for phase in code.phases:
            if phase.count <= 0:
                continue
            function = self.declared(phase.symbol, TASK)
            if waiting is not None:
                self.horizontal_fusion.wait(function, buffers, phase, waiting)
            else:
                self.horizontal_fusion.call(function, buffers, phase)
        return allocations

    def table(self, pointers: Sequence[ir.Value]) -> ir.Value:
        """An array of pointers on the stack, while that has room."""
        b = self.b
        if self._table_pointers > STACK_POINTERS:
            table = self.pointer(self.scratch(8 * max(1, len(pointers))))
        else:
            table = allocate(b, POINTER, max(1, len(pointers)))
        for k, pointer in enumerate(pointers):
            b.store(pointer, b.gep(table, [I64(k)], inbounds=True, source_etype=POINTER))
        return table

    def _kernel_tables(self, contents: bytes) -> ir.Value:
        """The address of constants of a kernel, which lie among the program's."""
        tables = self.program.tables
        if contents not in tables:
            number = len(self.assignment.constant_arrays) + len(tables)
            tables[contents] = BufferAllocation("constant", len(contents), number)
        return self.pointer(tables[contents])

    def _size_table(self, values: tuple[int, ...]) -> ir.Value:
        if values not in self._size_tables:
            name = f"xloom.sizes{len(self._size_tables)}"
            self._size_tables[values] = constant_table(self.module, name, I64, values)
        return self._size_tables[values]


def _nothing(entry: EntryBuilder, schedule: ScheduledComputation, instruction: Instruction) -> None:
    """A value that is in memory already, or a token."""


def _fusion(entry: EntryBuilder, schedule: ScheduledComputation, fusion: Instruction) -> None:
    """A kernel that computes its operands, or what is done to its result."""
    emit = fused_scatter if fusion["calls"].root.opcode == "scatter" else fused_dot
    emit(entry, schedule, fusion)


def _custom_call(entry: EntryBuilder, schedule: ScheduledComputation, call: Instruction) -> None:
    """A call of code outside; nothing is done for some of XLA's own."""
    target = call["custom_call_target"]
    if target in NO_CODE and not registry.is_registered(target):
        entry._record(call)
        return
    from xloom.cpu.custom_calls.custom_call import custom_call  # here: few programs need it

    custom_call(entry, schedule, call)
    entry.polling.cost += OF_CALL
    entry.polling.calls += 1


ThunkRule = Callable[[EntryBuilder, ScheduledComputation, Instruction], None]
CONTROL_FLOW_EMITTERS: dict[str, Callable[[EntryBuilder, ScheduledComputation, Instruction], Nested[None]]] = {
    "while": while_loop,
    "conditional": conditional,
}
"""Thunks that call other computations."""
THUNK_EMITTERS: dict[str, ThunkRule] = {
    "constant": _nothing,
    "after-all": _nothing,
    "custom-call": _custom_call,
    "infeed": infeed,
    "outfeed": outfeed,
    "send": send,
    "send-done": _nothing,
    "recv": receive,
    "fusion": _fusion,
    **COLLECTIVES,
}
"""Other thunks that are neither loop nests nor kernels."""
