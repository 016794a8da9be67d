"""What has no kernels of its own here: the processor's, whose phases are of independent items, with a thread an item.

Their loads are seldom side by side, and phases may have few items: this is right, and slow.
"""

from __future__ import annotations

import llvmlite.binding as llvm
from llvmlite import ir

from xloom.calls.buffers import ALIGNMENT
from xloom.codegen.buffer_values import leaf_shapes
from xloom.codegen.buffers.allocation import BufferAllocation
from xloom.cpu.kernel_modules.form import constant_tables
from xloom.cpu.kernel_modules.kernel import TASK, Kernel, Phase, Rule
from xloom.cpu.kernels import rule_of
from xloom.cuda.kernel import THREADS, WARP, DeviceKernel, KernelBuilder, blocks_for
from xloom.cuda.lowering import ThunkLowering
from xloom.errors import LoweringError
from xloom.hlo.instruction import Instruction
from xloom.hlo.shape import Shape
from xloom.llvm.constant_table import constant_table
from xloom.llvm.jit import target_header
from xloom.llvm.loop import allocate
from xloom.llvm.module_text import module_text
from xloom.llvm.target import Target
from xloom.llvm.target_module import TargetModule
from xloom.llvm.types import I8, I64, POINTER

_NO_TARGET = 'target triple = "unknown-unknown-unknown"\ntarget datalayout = ""\n'


def has_item_kernels(opcode: str) -> bool:
    """Whether the processor has kernels of an opcode."""
    return rule_of(opcode) is not None


def lower_by_items(lowering: ThunkLowering, instruction: Instruction) -> None:
    """Adds a launch for each phase of the processor's kernel. Raises LoweringError for what it has none of."""
    ItemKernels(lowering, instruction).launch()


class ItemKernels:
    """The phases of the processor's kernel of an instruction."""

    def __init__(self, lowering: ThunkLowering, instruction: Instruction):
        """Raises LoweringError for what it has none of."""
        rule = rule_of(instruction.opcode)
        assert rule is not None
        self._lowering = lowering
        inputs = [lowering.operand(k) for k in range(len(instruction._operands))]
        outputs = [lowering.output(k) for k in range(len(leaf_shapes(instruction.shape)))]
        unread = frozenset(k for k, allocation in enumerate(outputs) if allocation.kind == "unused")
        self._kernel = _emitted(rule, instruction, unread, lowering.target)
        shapes = *self._kernel.operands, *self._kernel.outputs
        self._tables = constant_tables(instruction, shapes, lowering.target)
        if self._kernel.must_alias:
            for output, operand in self._kernel.in_place.items():
                lowering.copy(outputs[output], inputs[operand])
        self.scratch = [lowering.scratch(nbytes) for nbytes in self._kernel.scratch]
        """Memory that phases leave to later ones."""
        self._buffers = [*inputs, *outputs, *self.scratch]

    def launch(self, first: int = 0) -> None:
        """Adds a launch for each phase from number `first` on."""
        kernel, arguments = self._kernel, list(dict.fromkeys(self._buffers))
        numbers = [arguments.index(buffer) for buffer in self._buffers]
        text = module_text(kernel.module)
        for phase in kernel.phases[first:]:
            if phase.count > 0:
                made, blocks = _of_phase(kernel, text, phase, numbers, arguments, self._tables)
                self._lowering.launch(made, blocks, arguments)


def _emitted(rule: Rule, instruction: Instruction, unread: frozenset[int], target: Target) -> Kernel:
    operands = tuple(Shape(o.shape.dtype, o.shape.dims) for o in instruction._operands)
    outputs = tuple(Shape(s.dtype, s.dims) for s in leaf_shapes(instruction.shape))
    kernel = Kernel("xloom_items", operands, outputs, TargetModule(target), unread=unread)
    rule(kernel, instruction)
    return kernel


def _of_phase(
    kernel: Kernel,
    text: str,
    phase: Phase,
    numbers: list[int],
    arguments: list[BufferAllocation],
    tables: bytes,
) -> tuple[DeviceKernel, int]:
    """The kernel of a phase, and its blocks."""
    threads = min(THREADS, -(-phase.count // WARP) * WARP)
    blocks = blocks_for(phase.count, threads)
    builder = KernelBuilder(kernel.target, len(arguments), threads)
    b = builder.b
    task = ir.Function(builder.module, TASK, phase.symbol)
    pointers = [builder.pointers[number] for number in numbers]
    if tables:
        constants = constant_table(builder.module, "tables", I8, bytearray(tables))
        constants.align = ALIGNMENT
        pointers = [constants, ir.Constant(POINTER, None), *pointers]
    whole = allocate(b, POINTER, max(1, len(pointers)))
    for k, pointer in enumerate(pointers):
        b.store(pointer, b.gep(whole, [I64(k)], inbounds=True, source_etype=POINTER))
    table = b.gep(whole, [I64(len(pointers) - len(numbers))], inbounds=True, source_etype=POINTER)
    with builder.each(phase.count, blocks, threads, builder.thread) as item:
        b.call(task, [table, item, b.add(item, I64(1))])
    builder.strategy = f"a thread for each of {phase.count} items of the processor's kernel"
    made = builder.finished()
    parts = [made.text, text, *kernel.needed]
    return DeviceKernel(_linked(parts, kernel.target), threads, 0, made.strategy, may_store_again=True), blocks


def _linked(parts: list[str], target: Target) -> str:
    """One module of several; all functions but the kernel are its own."""
    try:
        modules = [llvm.parse_assembly(part.replace(_NO_TARGET, target_header(target), 1)) for part in parts]
    except RuntimeError as error:
        raise LoweringError(
            f"the processor's kernel is no LLVM IR for {target.name}: {error}",
            hint="report it with the program; xloom run --on cpu runs it on the processor",
        ) from error
    whole = modules[0]
    for other in modules[1:]:
        whole.link_in(other)
    for function in whole.functions:
        if not function.is_declaration and function.name != DeviceKernel.name:
            function.linkage = "internal"
    for variable in whole.global_variables:
        if not variable.is_declaration:
            variable.linkage = "internal"
    return str(whole)
