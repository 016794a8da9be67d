"""What the rule of a thunk is given: the memory of its values, and where its launches go."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from xloom import checks
from xloom.codegen.buffer_values import BufferValue, leaf_shapes
from xloom.codegen.buffers.allocation import BufferAllocation
from xloom.codegen.buffers.assignment import BufferAssignment
from xloom.codegen.fusion.fusion_group import FusionGroup
from xloom.codegen.fusion.multi_output import Thunk
from xloom.codegen.loop_ir.nest import LoopNest
from xloom.codegen.loop_ir.verify import verify_nest
from xloom.codegen.schedule.thunks import roots_of
from xloom.cuda.kernel import DeviceKernel
from xloom.cuda.loops.lowering import NestLowering
from xloom.cuda.program import Launch, Step
from xloom.hlo.cost import flops
from xloom.hlo.dtype import c128, f64
from xloom.hlo.instruction import Instruction


class ProgramLowering(Protocol):
    """Where the steps of a program are made."""

    assignment: BufferAssignment
    steps: list[Step]

    def scratch(self, nbytes: int) -> BufferAllocation:
        """Memory for the thunk at hand."""
        ...

    def copies(self, pairs: list[tuple[BufferAllocation, BufferAllocation]]) -> None:
        """Copies as if all at once."""
        ...


class ThunkLowering:
    """What the rule of a thunk is given: the memory of its values, and where its launches go."""

    def __init__(self, program: ProgramLowering, thunk: Thunk):
        self._program, self._thunk = program, thunk
        self.target = program.assignment.target
        self._flops = sum(map(flops, _instructions(thunk)))

    def of(self, value: BufferValue) -> BufferAllocation:
        """The memory of an array; in a fusion, its parameters are operands, and its root the result."""
        instruction, leaf = value
        thunk = self._thunk
        if isinstance(thunk, Instruction) and thunk.opcode == "fusion" and instruction.parent is thunk["calls"]:
            is_operand = instruction.opcode == "parameter"
            return self.operand(instruction["parameter_number"]) if is_operand else self.output(leaf)
        return self._program.assignment.of(value)

    def operand(self, number: int) -> BufferAllocation:
        """The memory of an operand of the instruction."""
        assert isinstance(self._thunk, Instruction)
        return self._program.assignment.of((self._thunk._operands[number], 0))

    def output(self, number: int = 0) -> BufferAllocation:
        """The memory of a leaf of the instruction's result."""
        assert isinstance(self._thunk, Instruction)
        return self._program.assignment.of((self._thunk, number))

    def scratch(self, nbytes: int) -> BufferAllocation:
        """Memory for this thunk alone."""
        return self._program.scratch(nbytes)

    def copy(self, target: BufferAllocation, source: BufferAllocation) -> None:
        """Copies an array, unless it lies there already."""
        self._program.copies([(target, source)])

    def launch(self, kernel: DeviceKernel, blocks: int, arguments: Sequence[BufferAllocation]) -> None:
        """Launches a kernel whose pointers are those of `arguments`."""
        makes = ", ".join(f"%{i.name} {i.metadata.location}".strip() for i in roots_of(self._thunk))
        roots = roots_of(self._thunk)
        inside = [i for root in roots if root.opcode == "fusion" for i in root["calls"]]
        is_wide = any(leaf.dtype in (f64, c128) for i in (*roots, *inside) for leaf in leaf_shapes(i.shape))
        computes_in = "f64" if is_wide else "f32"
        self._program.steps.append(Launch(kernel, blocks, tuple(arguments), makes, self._flops, computes_in))
        self._flops = 0

    def nest(self, nest: LoopNest, *, in_order: bool = False) -> None:
        """Launches the kernels of a nest; a thread takes all elements of a result where they have to be `in_order`."""
        if checks.is_checked("loops") and nest.stages:
            verify_nest(nest)
        for kernel, blocks, arguments in NestLowering(self.target, nest, self.of, self.scratch, in_order).made():
            self.launch(kernel, blocks, arguments)


def _instructions(thunk: Thunk) -> list[Instruction]:
    """All that a thunk computes."""
    if isinstance(thunk, FusionGroup):
        return [*thunk.roots, *thunk.inlined]
    return list(thunk["calls"]) if thunk.opcode == "fusion" else [thunk]
