"""The addresses of a program's memory in its entry function."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from llvmlite import ir

from xloom.calls.buffers import ALIGNMENT
from xloom.codegen.buffers.allocation import BufferAllocation
from xloom.codegen.buffers.assignment import BufferAssignment
from xloom.codegen.buffers.offsets import assign_offsets
from xloom.codegen.buffers.stack_budget import StackBudget
from xloom.cpu.kernel_modules.kernel import STACK_SCRATCH
from xloom.errors import OutOfMemoryError
from xloom.hlo.literal import ADDRESSED
from xloom.llvm.constant_table import constant_table
from xloom.llvm.loop import allocate
from xloom.llvm.types import I8, I64, POINTER


class AllocationPointers:
    """The pointers to allocations, for code that comes after the function's first block; those into the arena get their
    offsets at the end.

    `tables` are the function's arguments and results, constants, which are arrays of pointers, and the arena. A
    function with memory of its own for temporary arrays is `given` the addresses of others.
    """

    def __init__(
        self,
        b: ir.IRBuilder,
        assignment: BufferAssignment,
        tables: Sequence[ir.Value],
        given: Mapping[BufferAllocation, ir.Value] | None = None,
    ):
        self.position = 0
        """Of the thunk whose code is emitted."""
        self._b = b
        self._assignment = assignment
        arguments, results, constants, self._arena = tables
        self._tables = {"argument": arguments, "result": results, "constant": constants}
        self._found: dict[BufferAllocation, ir.Value] = dict(given or {})
        self._in_arena: dict[BufferAllocation, ir.GEPInstr] = {}
        self._stack: ir.Value | None = None
        self._stack_budget = StackBudget(len(assignment.stack))
        self.scratch_memory: list[BufferAllocation] = []
        """What thunks have of the arena for themselves, each for one position."""
        for result in assignment.results_for_temporaries if given is None else ():
            self.of(result)  # before anything that lies there

    def of(self, allocation: BufferAllocation) -> ir.Value:
        """The address of an allocation."""
        if allocation not in self._found:
            b = self._b
            with b.goto_block(b.function.entry_basic_block):
                if allocation.kind == "unused":
                    value = ir.Constant(POINTER, None)
                elif allocation.kind == "arena":
                    value = b.gep(self._arena, [I64(0)], inbounds=True, source_etype=I8)
                    self._in_arena[allocation] = value
                elif allocation.kind == "code":
                    name = b.module.get_unique_name("constant")
                    value = constant_table(b.module, name, I8, bytearray(allocation.data))
                    value.align = ALIGNMENT
                elif allocation.kind == "stack":
                    value = self._on_stack(max(allocation.nbytes, 1))
                else:
                    table = self._tables[allocation.kind]
                    element = b.gep(table, [I64(allocation.number)], inbounds=True, source_etype=POINTER)
                    value = b.load(element, typ=POINTER)
            self._found[allocation] = value
        return self._found[allocation]

    def scratch(self, nbytes: int) -> BufferAllocation:
        """Memory for the current thunk."""
        allocation = BufferAllocation("arena", nbytes)
        allocation.use(self.position)
        self.scratch_memory.append(allocation)
        return allocation

    def temporary(self, nbytes: int) -> BufferAllocation:
        """Memory for the current thunk, on the stack where it is small."""
        return BufferAllocation("stack", nbytes) if self._stack_budget.admits(nbytes) else self.scratch(nbytes)

    def of_scratch(self, sizes: Sequence[int]) -> tuple[list[ir.Value], list[BufferAllocation]]:
        """The addresses of a kernel's scratch memory, and the allocations of what is not on the stack."""
        out: list[ir.Value] = []
        allocations: list[BufferAllocation] = []
        end = 0
        for nbytes in sizes:
            if end + nbytes > STACK_SCRATCH:
                allocations.append(self.scratch(nbytes))
                out.append(self.of(allocations[-1]))
                continue
            if self._stack is None:
                self._stack = self._on_stack(STACK_SCRATCH)
            out.append(self._b.gep(self._stack, [I64(end)], inbounds=True, source_etype=I8))
            end += -(-nbytes // ALIGNMENT) * ALIGNMENT
        return out, allocations

    def assign_offsets(self) -> int:
        """Assigns offsets in the arena, once all that lies there is known; returns the arena's bytes.

        Raises OutOfMemoryError for more than can be addressed.
        """
        temporaries = [*self._assignment.arena, *self.scratch_memory]
        arena_bytes = assign_offsets(temporaries, self._assignment.results_for_temporaries)
        if arena_bytes > ADDRESSED:
            message = f"temporary arrays need {arena_bytes} bytes, more than a process can address"
            raise OutOfMemoryError(message, where=self._assignment.largest)
        self.place_in(self._arena)
        return arena_bytes

    def own_bytes(self) -> int:
        """Assigns offsets in the function's own memory to the temporary arrays that it has; returns the bytes."""
        nbytes = assign_offsets(dict.fromkeys([*self._in_arena, *self.scratch_memory]), ())
        return -(-nbytes // ALIGNMENT) * ALIGNMENT

    def place_in(self, arena: ir.Value) -> None:
        """Says where the memory of temporary arrays is, once they have offsets in it."""
        for allocation, address in self._in_arena.items():
            address.pointer = self.of(allocation.colocated_with) if allocation.colocated_with else arena
            address.indices = [I64(allocation.offset)]

    def _on_stack(self, nbytes: int) -> ir.Value:
        array = allocate(self._b, I8, nbytes, in_parts=True)
        array.align = ALIGNMENT
        return array
