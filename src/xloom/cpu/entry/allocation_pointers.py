"""The addresses of a program's memory in its entry function."""

from __future__ import annotations

from collections.abc import Sequence

from llvmlite import ir

from xloom.codegen.buffers.assignment import BufferAllocation, BufferAssignment
from xloom.codegen.thresholds import ALIGNMENT
from xloom.cpu.kernel_modules.kernel import STACK_SCRATCH
from xloom.llvm.constant_table import constant_table
from xloom.llvm.loop import allocate
from xloom.llvm.types import I8, I64, POINTER


class AllocationPointers:
    """Where slots lie, for code that comes after the function's first block. What is in the arena is known at the end.

    `tables` are the function's arguments and results, constants, which are arrays of pointers, and the arena.
    """

    def __init__(self, b: ir.IRBuilder, assignment: BufferAssignment, tables: Sequence[ir.Value]):
        self.position = 0
        """Of the step whose code is emitted."""
        self._b = b
        self._assignment = assignment
        arguments, results, constants, self._arena = tables
        self._tables = {"argument": arguments, "result": results, "constant": constants}
        self._found: dict[BufferAllocation, ir.Value] = {}
        self._in_arena: dict[BufferAllocation, ir.GEPInstr] = {}
        self._stack: ir.Value | None = None
        for result in assignment.rooms:
            self.of(result)  # before anything that lies there

    def of(self, slot: BufferAllocation) -> ir.Value:
        """The address of a slot."""
        if slot not in self._found:
            b = self._b
            with b.goto_block(b.function.entry_basic_block):
                if slot.kind == "nowhere":
                    value = ir.Constant(POINTER, None)
                elif slot.kind == "arena":
                    value = b.gep(self._arena, [I64(0)], inbounds=True, source_etype=I8)
                    self._in_arena[slot] = value
                elif slot.kind == "code":
                    value = constant_table(b.module, b.module.get_unique_name("constant"), I8, bytearray(slot.data))
                    value.align = ALIGNMENT
                elif slot.kind == "stack":
                    value = self._on_stack(max(slot.nbytes, 1))
                else:
                    place = b.gep(self._tables[slot.kind], [I64(slot.number)], inbounds=True, source_etype=POINTER)
                    value = b.load(place, typ=POINTER)
            self._found[slot] = value
        return self._found[slot]

    def scratch(self, nbytes: int) -> BufferAllocation:
        """Memory for the current step."""
        slot = BufferAllocation("arena", nbytes)
        slot.use(self.position)
        self._assignment.arena.append(slot)
        return slot

    def of_scratch(self, sizes: Sequence[int]) -> tuple[list[ir.Value], list[BufferAllocation]]:
        """The addresses of a kernel's scratch memory, and the slots of what is not on the stack."""
        out: list[ir.Value] = []
        slots: list[BufferAllocation] = []
        end = 0
        for nbytes in sizes:
            if end + nbytes > STACK_SCRATCH:
                slots.append(self.scratch(nbytes))
                out.append(self.of(slots[-1]))
                continue
            if self._stack is None:
                self._stack = self._on_stack(STACK_SCRATCH)
            out.append(self._b.gep(self._stack, [I64(end)], inbounds=True, source_etype=I8))
            end += -(-nbytes // ALIGNMENT) * ALIGNMENT
        return out, slots

    def settle(self) -> None:
        """Decides where in the arena everything lies, now that all is known that does."""
        self._assignment.assign_offsets()
        for slot, place in self._in_arena.items():
            place.pointer = self.of(slot.home) if slot.home else self._arena
            place.indices = [I64(slot.offset)]

    def _on_stack(self, nbytes: int) -> ir.Value:
        place = allocate(self._b, I8, nbytes)
        place.align = ALIGNMENT
        return place
