"""A kernel: native code of one thunk of the program, in an LLVM module of its own.

A kernel is one or more phases that run one after another. A phase is a function `void(ptr buffers, i64 begin, i64 end)`
that does items [begin, end) of its `count`; items are independent, so that threads may share them. `buffers` is an
array of pointers: the operands, the outputs, then scratch memory; before the first, the table of sizes (i64) if any,
and before that the constant tables if its form has some.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from llvmlite import ir

from xloom.hlo.instruction import Instruction
from xloom.hlo.shape import Shape
from xloom.llvm import element_access
from xloom.llvm.constant_table import constant_table
from xloom.llvm.folding_builder import FoldingBuilder
from xloom.llvm.kept_ir import kept_ir
from xloom.llvm.noalias import Body, distinct
from xloom.llvm.pass_pipeline import PassPipeline
from xloom.llvm.symbolic_dimension import SymbolicDimension, SymbolicDimensions
from xloom.llvm.target import Target
from xloom.llvm.target_module import TargetModule
from xloom.llvm.types import I64, POINTER, VOID, Value

TASK = ir.FunctionType(VOID, [POINTER, I64, I64])
"""Type of a phase."""
STACK_SCRATCH = 1 << 17
"""Bytes of the stack that one kernel after another has as scratch memory, where it needs no more."""


@dataclass(frozen=True)
class Phase:
    """A function of the kernel: its symbol, how many items it has, and how many are worth a thread."""

    symbol: str
    count: int
    grain: int
    loops: tuple[str, ...] = ()
    """The names of the loops whose iterations the items are, when it is a loop nest that the phase does."""
    block: int = 1
    """How many iterations an item is."""


@dataclass
class Kernel:
    """A kernel while it is made, and what its callers need to know of it afterwards.

    `shapes` are those of the operands and then of the outputs, all arrays, dense and row-major.
    """

    name: str
    operands: tuple[Shape, ...]
    outputs: tuple[Shape, ...]
    module: TargetModule
    phases: list[Phase] = field(default_factory=list)
    scratch: list[int] = field(default_factory=list)
    unread: frozenset[int] = frozenset()
    """Numbers of the outputs that are not to be written."""
    made: frozenset[int] = frozenset()
    """Numbers of the operands that a function makes lines of: what is in their place is what `call_lines` takes."""
    has_epilogue: bool = False
    """True when sums are given to a function that computes the output of them: what is in the output's place is what
    `call_lines` takes."""
    in_place: dict[int, int] = field(default_factory=dict)
    """Output number to the operand number that it may share memory with; the kernel is right either way."""
    must_alias: bool = False
    """True when outputs in `in_place` must start as a copy of that operand (the caller copies unless they share)."""
    pipeline: PassPipeline = PassPipeline.LOOPS
    """What LLVM is to do with what the rule emits."""
    sizes: SymbolicDimensions | None = None
    """The table of a kernel with numbers that are known when it runs: each is then a `SymbolicDimension`."""
    problem: Any = None
    """What the rule of its form has made of the instruction, with such numbers, if there is one."""
    needed: dict[str, PassPipeline] = field(default_factory=dict)
    """Modules, as text, that have functions which the kernel calls. They are compiled once for all that need them."""

    @property
    def target(self) -> Target:
        """The target that its code is made for."""
        return self.module.target

    def need(self, text: str, pipeline: PassPipeline) -> None:
        """Links a module of LLVM IR, whose functions the kernel's module declares."""
        self.needed[text] = pipeline

    def need_routine(
        self,
        symbol: str,
        kind: ir.FunctionType,
        write: Callable[[], str],
        pipeline: PassPipeline = PassPipeline.ROUTINES,
    ) -> ir.Function:
        """Links the module that `write` gives, and declares its function, whose name says all that it depends on."""
        self.need(kept_ir(symbol, write, self.target), pipeline)
        return self.module.globals.get(symbol) or ir.Function(self.module, kind, symbol)

    def add_scratch(self, nbytes: int) -> int:
        """Reserves scratch memory (64-byte aligned, contents undefined), kept over all phases; returns its number."""
        self.scratch.append(nbytes)
        return len(self.scratch) - 1

    @contextmanager
    def phase(self, count: int = 1, grain: int = 1) -> Iterator[PhaseBuilder]:
        """Emits a phase of `count` items, of which `grain` are about 20 µs of work or more."""
        symbol = f"{self.name}.{len(self.phases)}"
        function = ir.Function(self.module, TASK, symbol)
        function.attributes.add("nounwind")
        b = FoldingBuilder(function.append_basic_block("entry"))
        builder = PhaseBuilder(self, b, function)
        if self.sizes:
            self.sizes.load = builder.size
        start = function.append_basic_block("start")
        b.position_at_end(start)
        yield builder
        b.ret_void()
        b.position_at_end(function.entry_basic_block)
        b.branch(start)
        self.phases.append(Phase(symbol, count, grain))


class PhaseBuilder:
    """Where a phase is emitted: `b`, the LLVM builder; `begin` and `end`, its range of items (i64)."""

    def __init__(self, kernel: Kernel, b: ir.IRBuilder, function: ir.Function):
        self.kernel = kernel
        self.b = b
        buffers, self.begin, self.end = function.args
        buffers.name, self.begin.name, self.end.name = "buffers", "begin", "end"
        self._buffers = buffers
        self._pointers: dict[int, ir.Value] = {}
        self._sizes: dict[int, ir.Value] = {}

    def size(self, number: int) -> ir.Value:
        """Entry `number` of the table of sizes (i64)."""
        if number not in self._sizes:
            table = self._pointer(-1)
            with self.b.goto_block(self.b.function.entry_basic_block):
                element = self.b.gep(table, [I64(number)], inbounds=True, source_etype=I64)
                value = self.b.load(element, typ=I64)
                value.set_metadata("invariant.load", self.b.module.add_metadata([]))
            self._sizes[number] = value
        return self._sizes[number]

    @contextmanager
    def distinct(self, pointers: Sequence[ir.Value]) -> Iterator[Body]:
        """`llvm.noalias.distinct`, of which the range of items are the values: numbers are known inside, too."""
        sizes = self.kernel.sizes
        table = [self._pointer(-1)] if sizes else []
        with distinct(self.b, [*pointers, *table], [self.begin, self.end]) as (b, inside, bounds):
            before = sizes.load if sizes else None
            if sizes:
                sizes.read_from(b, inside.pop())
            yield Body(b, inside, bounds)
            if sizes and before:
                sizes.load = before

    def numbers(self, row: Sequence[int | SymbolicDimension]) -> ir.Value:
        """The pointer to numbers (i64) side by side: in the table of sizes, if there is one."""
        if self.kernel.sizes is None:
            return constant_table(self.b.module, self.b.module.get_unique_name("numbers"), I64, row)
        return self.b.gep(self._pointer(-1), [I64(self.kernel.sizes.row(row))], inbounds=True, source_etype=I64)

    @property
    def tables(self) -> ir.Value:
        """The pointer to what the kernel's form says that its shape has as constants."""
        return self._pointer(-2)

    def _pointer(self, number: int) -> ir.Value:
        if number not in self._pointers:
            b = self.b
            with b.goto_block(b.function.entry_basic_block):
                element = b.gep(self._buffers, [I64(number)], inbounds=True, source_etype=POINTER)
                pointer = b.load(element, typ=POINTER)
                pointer.set_metadata("invariant.load", b.module.add_metadata([]))
            self._pointers[number] = pointer
        return self._pointers[number]

    def operand(self, number: int) -> ir.Value:
        """The pointer to an operand's elements."""
        return self._pointer(number)

    def output(self, number: int) -> ir.Value:
        """The pointer to an output's elements."""
        return self._pointer(len(self.kernel.operands) + number)

    def scratch(self, number: int) -> ir.Value:
        """The pointer to scratch memory."""
        return self._pointer(len(self.kernel.operands) + len(self.kernel.outputs) + number)

    def load(self, operand: int, index: ir.Value) -> Value:
        """Element `index` (i64, row-major) of an operand, in registers."""
        return element_access.load(self.b, self.operand(operand), self.kernel.operands[operand].dtype, index)

    def store(self, output: int, index: ir.Value, value: Value) -> None:
        """Writes element `index` of an output."""
        element_access.store(self.b, self.output(output), self.kernel.outputs[output].dtype, index, value)


Rule = Callable[[Kernel, Instruction], None]
KERNELS: dict[str, Rule] = {}


def kernel(*opcodes: str) -> Callable[[Rule], Rule]:
    """Registers `rule(kernel, instruction)`, which emits the phases of an instruction's own kernel."""

    def register(rule: Rule) -> Rule:
        for opcode in opcodes:
            KERNELS[opcode] = rule
        return rule

    return register
