"""The one native function of a program: its kernels called in order, loops and branches around them.

`i32 xloom_main(ptr arguments, ptr results, ptr constants, ptr arena, ptr run)`: the first three are arrays of pointers,
`run` is what Python called from here gets; 0 means that all went well, any other number is that of the call (counted
from 1) that failed.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field, replace

from llvmlite import ir

from xloom.cpu.batches import PLACEHOLDER as SMALL
from xloom.cpu.batches import Batches
from xloom.cpu.buffers import SMALL as STACK_BYTES
from xloom.cpu.buffers import Assignment, Slot, is_kept
from xloom.cpu.collectives import COLLECTIVES, device_counts
from xloom.cpu.content import Content
from xloom.cpu.copying import LARGE, copying, pieces
from xloom.cpu.custom_call import custom_call
from xloom.cpu.emit.constant_table import constant_table
from xloom.cpu.emit.loop import allocate
from xloom.cpu.emit.sizes import Sizes
from xloom.cpu.emit.types import I1, I8, I32, I64, POINTER, VOID
from xloom.cpu.form import FORMS
from xloom.cpu.fusion import Group
from xloom.cpu.grouping import Step, nest_of
from xloom.cpu.host_operators import infeed, outfeed, receive, send
from xloom.cpu.kernel import TASK, Kernel, Phase, Rule
from xloom.cpu.kernels import rule_of
from xloom.cpu.leaves import Source, leaf_shapes, owner
from xloom.cpu.loops.identity import nest_key
from xloom.cpu.loops.lowering import Lowering
from xloom.cpu.loops.nest import Nest, nest_cost, sources
from xloom.cpu.plan import Block
from xloom.cpu.sized_kernels import find, for_shape, remember
from xloom.cpu.slot_pointers import SlotPointers
from xloom.cpu.threads.meeting_ir import room_bytes
from xloom.errors import LoweringError
from xloom.hlo.dtype import DType, Kind
from xloom.hlo.instruction import Instruction
from xloom.hlo.shape import Shape

MAIN = "xloom_main"
PARALLEL_FOR = "xloom_parallel_for"
INLINE_COST = 3000
"""Loop nests that cost no more additions are part of the entry function."""
INLINE_NESTS = 16
LOOP_NESTS = 64
"""So many at most, in what runs once and in the body of a loop: LLVM's time grows faster than the function."""
SHAPED = frozenset({"dot", "convolution", "fft", "cholesky", "triangular-solve"})
"""Opcodes whose kernels depend on nothing but shapes and attributes."""
PLACEHOLDER = "xloom.kernel"


@dataclass
class Unit:
    """A kernel's LLVM module as text, by a name that its content gives."""

    name: str
    text: str
    phases: list[Phase]
    content: Content = Content.LOOPS
    objects: tuple[bytes, ...] = ()
    """Its machine code where that is known: then there is no text."""


@dataclass(frozen=True)
class StepCode:
    """What a step became: phases of a unit or, without a name, a part of the entry function; and the loops if any."""

    unit: str
    phases: list[Phase]
    nest: Nest | None = None


@dataclass(frozen=True)
class _Code:
    """A kernel that can be called on any arrays of its shapes: phase by phase, or all of it by `symbol`."""

    unit: str
    phases: list[Phase]
    scratch: tuple[int, ...]
    symbol: str = ""
    sizes: tuple[int, ...] = ()
    """The table of a kernel that serves many shapes."""


@dataclass
class Program:
    """Native code to be: the entry function's module, and the kernels that it calls."""

    main: str
    units: dict[str, Unit] = field(default_factory=dict)
    code: dict[Step, StepCode] = field(default_factory=dict)
    """Of loop nests and kernels."""
    calls: list[Instruction] = field(default_factory=list)
    """What calls code outside the program and may fail, in the order of their numbers."""
    imports: dict[str, int] = field(default_factory=dict)
    """Addresses of that code by symbol."""
    kept: list[object] = field(default_factory=list)
    """What must live as long as the program may run."""
    aligned_results: set[int] = field(default_factory=set)
    """Results that such code sees, by number."""
    collectives: int = 0
    """How many of its steps other devices take part in."""
    meeting_bytes: int = 0

    @property
    def main_content(self) -> Content:
        """What the entry function consists of."""
        return Content.LOOPS if any(c.phases and not c.unit for c in self.code.values()) else Content.CALLS


class EntryBuilder:
    """Emits the entry function of a planned program; `heard` gets each kernel as soon as it is there.

    Without it nobody makes machine code, and kernels are written out that are known already.
    """

    def __init__(self, block: Block, assignment: Assignment, heard: Callable[[Unit], None] | None = None):
        self.assignment = assignment
        self._heard = heard
        self.module = ir.Module()
        self.program = Program("")
        self.status: ir.Value | None = None
        """The status of native calls, once one has it."""
        self._nests = 0
        self._batches = Batches()
        self._is_apart = False
        self._equal: dict[Hashable, _Code] = {}
        self._kernels: dict[Hashable, tuple[Kernel, _Code]] = {}
        self._size_tables: dict[tuple[int, ...], ir.Value] = {}
        self._depth = 0
        function = ir.Function(self.module, ir.FunctionType(I32, [POINTER] * 5), MAIN)
        function.attributes.add("nounwind")
        self.function = function
        self.arguments, _, _, self.arena, self.run = function.args
        for argument in function.args[:4]:
            argument.add_attribute("noalias")
        self.b = ir.IRBuilder(function.append_basic_block("entry"))
        self._memory = SlotPointers(self.b, assignment, function.args[:4])
        self._argument_count = sum(len(leaf_shapes(p.shape)) for p in block.computation.parameters)
        self._device_words: ir.Value | None = None
        self._parallel = ir.Function(self.module, ir.FunctionType(VOID, [POINTER, POINTER, I64, I64]), PARALLEL_FOR)
        start = function.append_basic_block("start")
        self.b.position_at_end(start)
        for result, argument in assignment.given:
            self._start_as(result, argument)
        self._block(block)
        self._memory.position = assignment.ends[block]
        self.copies(list(zip(assignment.results, (assignment.slots[s] for s in block.root), strict=True)))
        self.b.ret(I32(0))
        self.b.position_at_end(function.entry_basic_block)
        self.b.branch(start)
        self._memory.settle()
        self._batches.close()
        for name, text in self._batches.modules.items():
            self._add(Unit(name, text, [], Content.ROWS))
        if self.program.collectives:
            replicas, partitions = device_counts(block.computation.root)
            self.program.meeting_bytes = room_bytes(self.program.collectives, replicas * partitions)
        self.program.main = str(self.module)

    # -- memory
    def pointer(self, slot: Slot) -> ir.Value:
        """The address of a slot."""
        return self._memory.of(slot)

    def of(self, source: Source) -> ir.Value:
        """The address of an array."""
        return self.pointer(self.assignment.of(source))

    @property
    def device_words(self) -> ir.Value:
        """The address of what the device knows of itself, in programs of several devices: the last argument."""
        if self._device_words is None:
            b = self.b
            with b.goto_block(self.function.entry_basic_block):
                place = b.gep(self.arguments, [I64(self._argument_count)], inbounds=True, source_etype=POINTER)
                self._device_words = b.load(place, typ=POINTER)
        return self._device_words

    def copy(self, target: Slot, source: Slot) -> None:
        """Copies a whole array, unless it lies there already."""
        if target is source or not target.nbytes:
            return
        b, to, origin = self.b, self.pointer(target), self.pointer(source)
        nbytes = target.nbytes
        if nbytes >= LARGE:
            phase, left = pieces(nbytes, f"{PLACEHOLDER}.0")
            self._call(self._unit(copying(phase.symbol), [phase], (), Content.VECTORS), [to, origin])
            to, origin = (b.gep(p, [I64(nbytes - left)], inbounds=True, source_etype=I8) for p in (to, origin))
            nbytes = left
        memcpy = self.declared("llvm.memcpy.p0.p0.i64", ir.FunctionType(VOID, [POINTER, POINTER, I64, I1]))
        b.call(memcpy, [to, origin, I64(nbytes), I1(0)])

    def _start_as(self, target: Slot, source: Slot) -> None:
        """Copies an array, unless the caller gave both the same memory."""
        with self.b.if_then(self.b.icmp_unsigned("!=", self.pointer(target), self.pointer(source))):
            self.copy(target, source)

    def clear(self, slot: Slot) -> None:
        """Zeros a whole array."""
        if slot.nbytes:
            memset = self.declared("llvm.memset.p0.i64", ir.FunctionType(VOID, [POINTER, I8, I64, I1]))
            self.b.call(memset, [self.pointer(slot), I8(0), I64(slot.nbytes), I1(0)])

    def scratch(self, nbytes: int) -> Slot:
        """Memory for the current step."""
        return self._memory.scratch(nbytes)

    # -- code outside
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

    # -- steps
    def _block(self, block: Block) -> None:
        before, limit = self._is_apart, LOOP_NESTS if self._depth else INLINE_NESTS
        self._is_apart = sum(isinstance(step, Group) for step in block.steps) > limit
        for number, step in enumerate(block.steps):
            self.step(block, step, number)
        self._is_apart = before

    def step(self, block: Block, step: Step, number: int) -> None:
        """Emits step `number` of a block."""
        self._memory.position = self.assignment.positions[step]
        if isinstance(step, Group):
            self._nest(block, step, number)
        elif (emit := STEPS.get(step.opcode)) is not None:
            emit(self, block, step)
        elif (rule := rule_of(step.opcode)) is not None:
            self._kernel(step, rule)
        else:
            raise LoweringError(
                f"{step.opcode} has no native code yet",
                where=f"{step.name} {step.metadata.location}".strip(),
                hint="run the program on the interpreter: xloom.evaluate",
            )

    def _nest(self, block: Block, group: Group, number: int) -> None:
        kept = {(r, k) for r in group.roots for k in range(len(leaf_shapes(r.shape)))}
        kept = {s for s in kept if is_kept(block, group, s, number)}
        for root in group.roots:
            if root.opcode == "dynamic-update-slice":
                self.copy(self.assignment.of((root, 0)), self.assignment.of((root._operands[0], 0)))
        self.program.code[group] = self.emit_nest(nest_of(group, kept))

    def emit_nest(self, nest: Nest) -> StepCode:
        """Calls a loop nest: a part of this function when it is small, else a kernel of its own."""
        if any(v.size == 0 for stage in nest.stages for v in (*nest.outer, *stage.vars)):
            return StepCode("", [], nest)
        found = [*sources(nest), *(s.target for stage in nest.stages for s in stage.stores)]
        slots: dict[Slot, int] = {}
        numbers: dict[Source, int] = {}
        for source in found:
            if source not in nest.private:
                numbers[source] = slots.setdefault(self.assignment.of(source), len(slots))
        pointers = [self.pointer(s) for s in slots]
        small = nest_cost(nest) <= INLINE_COST
        if small and not self._is_apart:
            return self._inlined(nest, numbers, pointers)
        key = nest_key(nest, numbers, _dtype_of)
        code = self._equal.get(key)
        if code is None:
            code = self._nest_code(nest, numbers, small, len(pointers))
            if key is not None:
                self._equal[key] = code
        self._call(code, pointers)
        return StepCode(code.unit, code.phases, nest)

    def _inlined(self, nest: Nest, numbers: dict[Source, int], pointers: Sequence[ir.Value]) -> StepCode:
        """Emits a nest as a part of this function."""
        lowering = Lowering(self.module, f"xloom.nest{self._nests}", nest, numbers, _dtype_of)
        lowering.run()
        self._nests += 1
        for phase in lowering.phases:
            self.module.globals[phase.symbol].linkage = "internal"  # nobody calls it
            body = self.module.globals[f"{phase.symbol}.body"]
            self.b.call(body, [*pointers, I64(0), I64(phase.count)])
        return StepCode("", lowering.phases, nest)

    def _nest_code(self, nest: Nest, numbers: dict[Source, int], small: bool, pointers: int) -> _Code:
        module = ir.Module()
        lowering = Lowering(module, SMALL if small else PLACEHOLDER, nest, numbers, _dtype_of)
        lowering.run()
        if small:
            symbol, unit = self._batches.add(module, lowering.phases, pointers)
            return _Code(unit, lowering.phases, (), symbol)
        content = Content.ROWS if nest.outer else Content.LOOPS
        return self._unit(str(module), lowering.phases, lowering.scratch, content)

    def _kernel(self, instruction: Instruction, rule: Rule) -> None:
        operands = [_dense(o.shape) for o in instruction._operands]
        outputs = [_dense(s) for s in leaf_shapes(instruction.shape)]
        key = (instruction.opcode, *operands, *outputs, repr(instruction.attrs))
        kernel, code = self._kernels.get(key, (None, None))
        if kernel is None or code is None:
            slots = (self.assignment.of((instruction, k)) for k in range(len(outputs)))
            unread = frozenset(k for k, slot in enumerate(slots) if slot.kind == "nowhere")
            kernel = Kernel(PLACEHOLDER, tuple(operands), tuple(outputs), unread=unread)
            if instruction.opcode in FORMS:
                code = self._sized(instruction, kernel, rule)
            else:
                rule(kernel, instruction)
                for text, content in kernel.needed.items():
                    self._unit(text, [], [], content)
                code = self._unit(str(kernel.module), kernel.phases, kernel.scratch, kernel.content)
            if instruction.opcode in SHAPED:
                self._kernels[key] = kernel, code
        inputs = [self.assignment.of((o, 0)) for o in instruction._operands]
        targets = [self.assignment.of((instruction, k)) for k in range(len(outputs))]
        if kernel.must_alias:
            for output, operand in kernel.in_place.items():
                self.copy(targets[output], inputs[operand])
        self._call(code, [self.pointer(s) for s in (*inputs, *targets)])
        self.program.code[instruction] = StepCode(code.unit, code.phases)

    def _sized(self, instruction: Instruction, kernel: Kernel, rule: Rule) -> _Code:
        """Code that serves other shapes too, or served another."""
        form = FORMS[instruction.opcode](instruction, (*kernel.operands, *kernel.outputs))
        known = find(form) if self._heard else None
        if known:
            if known.name not in self.program.units:
                self._add(Unit(known.name, "", known.phases, known.content, known.objects))
            return _Code(known.name, known.phases, known.scratch, sizes=known.table)
        kernel.sizes = Sizes(form.values)
        kernel.problem = form.problem(kernel.sizes)
        rule(kernel, instruction)
        text = str(kernel.module)
        code = self._unit(text, *for_shape(kernel), kernel.content)
        if self._heard:
            symbols = [phase.symbol for phase in code.phases]
            remember(form, kernel, code.unit, text.replace(PLACEHOLDER, code.unit), symbols)
        return replace(code, sizes=tuple(kernel.sizes.loaded))

    def _unit(
        self, text: str, phases: Sequence[Phase], scratch: Sequence[int], content: Content = Content.LOOPS
    ) -> _Code:
        """A kernel, which becomes a unit of its own unless there is an equal one."""
        name = f"k{hashlib.sha256(text.encode()).hexdigest()[:24]}"
        phases = [replace(p, symbol=p.symbol.replace(PLACEHOLDER, name)) for p in phases]
        if name not in self.program.units:
            self._add(Unit(name, text.replace(PLACEHOLDER, name), phases, content))
        return _Code(name, phases, tuple(scratch))

    def _add(self, unit: Unit) -> None:
        self.program.units[unit.name] = unit
        if self._heard:
            self._heard(unit)

    def _call(self, code: _Code, pointers: Sequence[ir.Value]) -> None:
        """Does all phases of a kernel, on the arrays at `pointers`."""
        b = self.b
        if code.symbol:
            b.call(self.declared(code.symbol, ir.FunctionType(VOID, [POINTER] * len(pointers))), pointers)
            return
        buffers = [*pointers, *self._memory.of_scratch(code.scratch)]
        if code.sizes:
            whole = self.table([self._size_table(code.sizes), *buffers])
            buffers = b.gep(whole, [I64(1)], inbounds=True, source_etype=POINTER)
        else:
            buffers = self.table(buffers)
        for phase in code.phases:
            if phase.count <= 0:
                continue
            function = self.declared(phase.symbol, TASK)
            if phase.count <= phase.grain:
                b.call(function, [buffers, I64(0), I64(phase.count)])
            else:
                b.call(self._parallel, [function, buffers, I64(phase.count), I64(phase.grain)])

    def table(self, pointers: Sequence[ir.Value]) -> ir.Value:
        """An array of pointers on the stack."""
        b = self.b
        table = allocate(b, POINTER, max(1, len(pointers)))
        for k, pointer in enumerate(pointers):
            b.store(pointer, b.gep(table, [I64(k)], inbounds=True, source_etype=POINTER))
        return table

    def _size_table(self, values: tuple[int, ...]) -> ir.Value:
        if values not in self._size_tables:
            name = f"xloom.sizes{len(self._size_tables)}"
            self._size_tables[values] = constant_table(self.module, name, I64, values)
        return self._size_tables[values]

    # -- control flow
    def predicate(self, source: Source) -> ir.Value:
        """A scalar pred in memory, as an i1."""
        return self.b.icmp_unsigned("!=", self.b.load(self.of(source), typ=I8), I8(0))

    def while_(self, block: Block, instruction: Instruction) -> None:
        """State in place: condition, body, and again."""
        b, assignment = self.b, self.assignment
        body, condition = block.nested[instruction]
        (operand,) = instruction._operands
        states = [assignment.slots[instruction, k] for k in range(len(leaf_shapes(instruction.shape)))]
        self.copies([(slot, assignment.slots[owner(operand, k)]) for k, slot in enumerate(states)])
        head, inside, done = (self.function.append_basic_block(f"while.{n}") for n in ("head", "body", "done"))
        b.branch(head)
        b.position_at_end(head)
        self._block(condition)
        b.cbranch(self.predicate(condition.root[0]), inside, done)
        b.position_at_end(inside)
        self._depth += 1
        self._block(body)
        self._depth -= 1
        self._memory.position = assignment.ends[body]
        self.copies([(slot, assignment.slots[source]) for slot, source in zip(states, body.root, strict=True)])
        b.branch(head)
        b.position_at_end(done)

    def copies(self, pairs: list[tuple[Slot, Slot]]) -> None:
        """Copies as if all at once: sources that are targets too are saved first."""
        pairs = [(t, s) for t, s in pairs if t is not s and t.nbytes]
        targets = {t for t, _ in pairs}
        saved: dict[Slot, Slot] = {}
        for _, source in pairs:
            if source in targets and source not in saved:
                small = source.nbytes <= STACK_BYTES
                saved[source] = Slot("stack", source.nbytes) if small else self.scratch(source.nbytes)
                self.copy(saved[source], source)
        for target, source in pairs:
            self.copy(target, saved.get(source, source))

    def conditional(self, block: Block, instruction: Instruction) -> None:
        """One of the branches; an index out of range means the last."""
        b, assignment = self.b, self.assignment
        chooser = instruction._operands[0]
        branches = block.nested[instruction]
        if chooser.shape.dtype.kind is Kind.PRED:
            number = b.select(self.predicate(owner(chooser)), I32(0), I32(1))
        else:
            number = b.load(self.of((chooser, 0)), typ=I32)
        done = self.function.append_basic_block("branch.done")
        blocks = [self.function.append_basic_block(f"branch.{k}") for k in range(len(branches))]
        switch = b.switch(number, blocks[-1])
        for k, (nested, place) in enumerate(zip(branches, blocks, strict=True)):
            switch.add_case(I32(k), place)
            b.position_at_end(place)
            self._block(nested)
            for leaf, source in enumerate(nested.root):
                self.copy(assignment.slots[instruction, leaf], assignment.slots[source])
            b.branch(done)
        b.position_at_end(done)


def _nothing(entry: EntryBuilder, block: Block, instruction: Instruction) -> None:
    """A value that is in memory already, or a token."""


StepRule = Callable[[EntryBuilder, Block, Instruction], None]
STEPS: dict[str, StepRule] = {
    "while": EntryBuilder.while_,
    "conditional": EntryBuilder.conditional,
    "constant": _nothing,
    "after-all": _nothing,
    "custom-call": custom_call,
    "infeed": infeed,
    "outfeed": outfeed,
    "send": send,
    "send-done": _nothing,
    "recv": receive,
    **COLLECTIVES,
}
"""Steps that are neither loop nests nor kernels."""


def _dense(shape: Shape) -> Shape:
    return Shape(shape.dtype, shape.dims)


def _dtype_of(source: Source) -> DType:
    return leaf_shapes(source[0].shape)[source[1]].dtype
