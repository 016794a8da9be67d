"""The computation of a windowed reduction, applied to elements in memory."""

from __future__ import annotations

from collections.abc import Sequence

from llvmlite import ir

from xloom.cpu.kernel_modules.kernel import Kernel, PhaseBuilder
from xloom.hlo.computation import Computation
from xloom.llvm.element_access import load, store
from xloom.llvm.loop import allocate
from xloom.llvm.scalar.promotion import apply_promoted
from xloom.llvm.types import I64, Value, memory_type


class Reducer:
    """`to_apply` of n operands, n initial values and n outputs, which have the types of the initial values."""

    def __init__(self, kernel: Kernel, body: Computation):
        self.count, self.body = len(kernel.outputs), body
        self.inputs = [s.dtype for s in kernel.operands[: self.count]]
        self.states = [s.dtype for s in kernel.outputs]

    def pointers(self, phase: PhaseBuilder) -> list[ir.Value]:
        """Operands, initial values and outputs."""
        operands = [phase.operand(k) for k in range(2 * self.count)]
        return [*operands, *(phase.output(k) for k in range(self.count))]

    def in_registers(self, b: ir.IRBuilder, pointers: Sequence[ir.Value], count: int) -> list[ir.Value]:
        """`pointers` with `count` elements of each output on the stack, which constant numbers keep in registers."""
        local = [allocate(b, memory_type(t), count * (1 + t.is_complex)) for t in self.states]
        return [*pointers[: 2 * self.count], *local]

    def initial(self, b: ir.IRBuilder, pointers: Sequence[ir.Value]) -> list[Value]:
        """The initial value of each output."""
        inits = pointers[self.count : 2 * self.count]
        return [load(b, p, t, I64(0)) for p, t in zip(inits, self.states, strict=True)]

    def elements(self, b: ir.IRBuilder, pointers: Sequence[ir.Value], index: ir.Value) -> list[Value]:
        """The element of each operand at `index`."""
        return [load(b, p, t, index) for p, t in zip(pointers[: self.count], self.inputs, strict=True)]

    def state(self, b: ir.IRBuilder, pointers: Sequence[ir.Value], index: ir.Value) -> list[Value]:
        """The element of each output at `index`."""
        return [load(b, p, t, index) for p, t in zip(pointers[2 * self.count :], self.states, strict=True)]

    def keep(self, b: ir.IRBuilder, pointers: Sequence[ir.Value], index: ir.Value, state: Sequence[Value]) -> None:
        """Writes a value to each output at `index`."""
        for p, t, v in zip(pointers[2 * self.count :], self.states, state, strict=True):
            store(b, p, t, index, v)

    def accumulate(self, b: ir.IRBuilder, state: Sequence[Value], elements: Sequence[Value]) -> list[Value]:
        """The state with one more element."""
        return apply_promoted(b, self.body, [*state, *elements], [*self.states, *self.inputs], self.states)

    def accumulate_reversed(self, b: ir.IRBuilder, elements: Sequence[Value], state: Sequence[Value]) -> list[Value]:
        """The state with one more element, which comes before the others."""
        return apply_promoted(b, self.body, [*elements, *state], [*self.inputs, *self.states], self.states)
