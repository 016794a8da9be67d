"""A kernel while it is made: a function that all threads of a grid run, and what its launches need."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from llvmlite import ir

from xloom.errors import LoweringError
from xloom.llvm.folding_builder import FoldingBuilder
from xloom.llvm.intrinsics import intrinsic
from xloom.llvm.loop import AS_OFTEN, loop
from xloom.llvm.module_text import module_text
from xloom.llvm.target import Target
from xloom.llvm.target_module import TargetModule
from xloom.llvm.types import I8, I32, I64, POINTER, VOID, Complex, Value

WARP = 32
"""Threads that run in step, and see each other's registers."""
THREADS = 256
"""In a block, unless there is a reason."""
BLOCKS = 4096
"""In a grid, at most: more work than that is done by the same threads in turn."""
SHARED_BYTES = 48 << 10
"""Shared memory that every kernel may have without asking."""
DYNAMIC_SHARED = "dynamic_shared"
"""The name of what launches ask for."""
ALL_LANES = I32(-1)
ALIGNMENT = 16
"""Of each pointer that a kernel is given."""


@dataclass(frozen=True)
class DeviceKernel:
    """A kernel as LLVM IR. Equal kernels have equal texts, whatever program they are of."""

    text: str
    threads: int
    """In a block."""
    shared_bytes: int
    strategy: str
    """How it computes, for people."""
    may_store_again: bool = False
    """Threads may store what others have stored, the same values."""
    dynamic_shared_bytes: int = 0
    """Shared memory that a launch has to ask for, beside `shared_bytes`, which the kernel has by itself."""
    tensor_cores: str = ""
    """The type of the elements that tensor cores multiply; empty where they do not."""

    name = "xloom_kernel"
    """Of its function."""


class KernelBuilder:
    """Emits a kernel of one-dimensional blocks and grids; its arguments are `pointers`, none of which meet, and
    `numbers` (i64)."""

    def __init__(self, target: Target, pointers: int, threads: int = THREADS, strategy: str = "", *, numbers: int = 0):
        assert threads % WARP == 0
        self.target, self.threads, self.strategy = target, threads, strategy
        self.module = TargetModule(target)
        arguments = [*[POINTER] * pointers, *[I64] * numbers]
        function = ir.Function(self.module, ir.FunctionType(VOID, arguments), DeviceKernel.name)
        function.calling_convention = "ptx_kernel"
        function.attributes.add("nounwind")
        self.function = function
        self.pointers: Sequence[ir.Argument] = function.args[:pointers]
        self.numbers: Sequence[ir.Value] = function.args[pointers:]
        for pointer in self.pointers:
            pointer.attributes.align = ALIGNMENT
        self.tensor_cores = ""
        self.resident_blocks = 0
        """How many blocks a multiprocessor is to have room for, by registers; 0 for any number."""
        self._shared_bytes = self._dynamic_shared_bytes = 0
        self._has_barrier = False
        b = self.b = FoldingBuilder(function.append_basic_block("entry"))
        self.thread32 = self._special("tid.x")
        self.block32 = self._special("ctaid.x")
        self._grid32: ir.Value | None = None
        self.thread, self.block = (b.zext(x, I64) for x in (self.thread32, self.block32))
        """The thread's number in its block, and the block's in the grid."""
        self._entry = function.entry_basic_block
        start = function.append_basic_block("start")
        b.position_at_end(start)
        self._start = start

    def finished(self) -> DeviceKernel:
        """The kernel, at whose end the builder is. Raises LoweringError for one with too much shared memory."""
        if self._shared_bytes > SHARED_BYTES:
            raise LoweringError(
                f"a kernel with {self._shared_bytes} B of shared memory, of {SHARED_BYTES}: {self.strategy}",
                hint="report it with the program",
            )
        self.b.ret_void()
        # LLVM believes that a barrier changes nothing that is reached through a pointer that no other one meets
        written = self._written() if self._has_barrier else set()
        for pointer in self.pointers:
            if pointer not in written:
                pointer.add_attribute("noalias")
        self.b.position_at_end(self._entry)
        self.b.branch(self._start)
        self._annotate("maxntidx", self.threads)
        if self.resident_blocks:
            self._annotate("minctasm", self.resident_blocks)
        return DeviceKernel(
            module_text(self.module),
            self.threads,
            self._shared_bytes,
            self.strategy,
            dynamic_shared_bytes=self._dynamic_shared_bytes,
            tensor_cores=self.tensor_cores,
        )

    def _annotate(self, name: str, value: int) -> None:
        annotation = [self.function, ir.MetaDataString(self.module, name), I32(value)]
        self.module.add_named_metadata("nvvm.annotations").add(self.module.add_metadata(annotation))

    def _written(self) -> set[ir.Value]:
        """The arguments through which the kernel may store; all of them where one cannot tell."""
        found: set[ir.Value] = set()
        for block in self.function.blocks:
            for instruction in block.instructions:
                if isinstance(instruction, ir.StoreInstr):
                    pointer = instruction.operands[1]
                elif isinstance(instruction, ir.AtomicRMW):
                    pointer = instruction.operands[0]
                else:
                    continue
                while isinstance(pointer, ir.GEPInstr):
                    pointer = pointer.pointer
                if isinstance(pointer, (ir.PhiInstr, ir.SelectInstr)):
                    return set(self.function.args)
                found.add(pointer)
        return found

    # -- which thread it is
    def _special(self, register: str) -> ir.Value:
        name = f"llvm.nvvm.read.ptx.sreg.{register}"
        declared = self.module.globals.get(name) or ir.Function(self.module, ir.FunctionType(I32, []), name)
        return self.b.call(declared, [])

    @property
    def grid(self) -> ir.Value:
        """How many blocks there are (i64)."""
        with self.b.goto_block(self._entry):
            if self._grid32 is None:
                self._grid32 = self.b.zext(self._special("nctaid.x"), I64)
        return self._grid32

    @property
    def lane(self) -> ir.Value:
        """The thread's number in its warp (i64)."""
        return self.b.and_(self.thread, I64(WARP - 1))

    @property
    def warp(self) -> ir.Value:
        """The warp's number in its block (i64)."""
        return self.b.lshr(self.thread, I64(5))

    # -- what threads share
    def barrier(self) -> None:
        """Waits for all threads of the block: each has to come here. What they wrote to memory is seen afterwards."""
        self._has_barrier = True
        name, kind = "llvm.nvvm.barrier.cta.sync.aligned.all", ir.FunctionType(VOID, [I32])
        self.b.call(self.module.globals.get(name) or ir.Function(self.module, kind, name), [I32(0)])

    def shared(self, nbytes: int) -> ir.Value:
        """Memory that the threads of a block share, whose contents are undefined. Its pointer is a generic one."""
        self._shared_bytes += -(-nbytes // 16) * 16
        kind = ir.ArrayType(I8, nbytes)
        memory = ir.GlobalVariable(self.module, kind, self.module.get_unique_name("shared"), addrspace=3)
        memory.linkage, memory.align = "internal", 16
        memory.initializer = ir.Constant(kind, ir.Undefined)
        with self.b.goto_block(self._entry):
            return self.b.addrspacecast(memory, POINTER)

    def dynamic_shared(self, nbytes: int) -> ir.Value:
        """The same, once in a kernel, of any size: launches ask for it. Aligned to 1024 bytes."""
        self._dynamic_shared_bytes = nbytes
        memory = ir.GlobalVariable(self.module, ir.ArrayType(I8, 0), DYNAMIC_SHARED, addrspace=3)
        memory.linkage, memory.align = "external", 1024
        with self.b.goto_block(self._entry):
            return self.b.addrspacecast(memory, POINTER)

    def shuffled_down(self, value: Value, offset: int, width: int = WARP) -> Value:
        """The value of the lane `offset` further in each group of `width` lanes; its own where there is none."""
        return self._shuffled("down", value, I32(offset), ((WARP - width) << 8) | (WARP - 1))

    def shuffled_up(self, value: Value, offset: int) -> Value:
        """The value of the lane `offset` before; its own where there is none."""
        return self._shuffled("up", value, I32(offset), 0)

    def broadcast(self, value: Value, lane: int = 0) -> Value:
        """The value that a lane of the warp has."""
        return self.of_lane(value, I32(lane))

    def of_lane(self, value: Value, lane: ir.Value) -> Value:
        """The value of a lane (i32) that each lane chooses."""
        return self._shuffled("idx", value, lane, WARP - 1)

    def ballot(self, predicate: ir.Value) -> ir.Value:
        """The lanes of the warp whose predicates (i1) are true, as a mask (i32)."""
        name, kind = "llvm.nvvm.vote.ballot.sync", ir.FunctionType(I32, [I32, predicate.type])
        declared = self.module.globals.get(name) or ir.Function(self.module, kind, name)
        return self.b.call(declared, [ALL_LANES, predicate])

    def _shuffled(self, mode: str, value: Value, by: ir.Value, control: int) -> Value:
        b = self.b
        if isinstance(value, Complex):
            return Complex(*(self._shuffled(mode, part, by, control) for part in value))
        kind, bits = value.type, _bits_of(value.type)
        whole = value if isinstance(kind, ir.IntType) else b.bitcast(value, ir.IntType(bits))
        name, signature = f"llvm.nvvm.shfl.sync.{mode}.i32", ir.FunctionType(I32, [I32] * 4)
        shuffle = self.module.globals.get(name) or ir.Function(self.module, signature, name)
        parts = []
        for k in range(-(-bits // 32)):
            part = whole if bits == 32 else b.trunc(b.lshr(whole, whole.type(32 * k)), I32) if bits == 64 else None
            part = b.zext(whole, I32) if part is None else part
            parts.append(b.call(shuffle, [ALL_LANES, part, by, I32(control)]))
        if bits == 64:
            high = b.shl(b.zext(parts[1], I64), I64(32))
            moved = b.or_(b.zext(parts[0], I64), high)
        else:
            moved = parts[0] if bits == 32 else b.trunc(parts[0], ir.IntType(bits))
        return moved if isinstance(kind, ir.IntType) else b.bitcast(moved, kind)

    # -- loops
    @contextmanager
    def each(self, count: int, blocks: int, items_per_block: int, first: ir.Value) -> Iterator[ir.Value]:
        """Does the items `first + block * items_per_block`, `+ grid * items_per_block`, ... that are less than `count`.

        `blocks` of them are launched: where they are enough for all items, this is no loop.
        """
        b = self.b
        begin = b.add(b.mul(self.block, I64(items_per_block), flags=["nsw"]), first, flags=["nsw"])
        if blocks * items_per_block >= count:
            if blocks * items_per_block == count:
                yield begin
                return
            with b.if_then(b.icmp_signed("<", begin, I64(count))):
                yield begin
            return
        step = b.mul(self.grid, I64(items_per_block), flags=["nsw"])
        with strided(b, begin, I64(count), step) as item:
            yield item

    @contextmanager
    def each_row(self, count: int, blocks: int, rows_per_block: int = 1) -> Iterator[ir.Value]:
        """The same for groups of `rows_per_block` rows; all threads of a block see the group's first row at once."""
        b = self.b
        begin = b.mul(self.block, I64(rows_per_block), flags=["nsw"])
        if blocks * rows_per_block >= count:
            yield begin
            return
        with strided(b, begin, I64(count), b.mul(self.grid, I64(rows_per_block))) as row:
            yield row


@contextmanager
def strided(b: ir.IRBuilder, begin: ir.Value, end: ir.Value, step: ir.Value | int) -> Iterator[ir.Value]:
    """`for (i64 i = begin; i < end; i += step)`, with a step that may be known when it runs only."""
    if isinstance(step, int):
        with loop(b, begin, end, step, name="item", hints=AS_OFTEN) as item:
            yield item
        return
    before = b.block
    head, body, done = (b.append_basic_block(f"item.{part}") for part in ("head", "body", "done"))
    b.branch(head)
    b.position_at_end(head)
    item = b.phi(I64, "item")
    item.add_incoming(begin, before)
    b.cbranch(b.icmp_signed("<", item, end), body, done)
    b.position_at_end(body)
    yield item
    item.add_incoming(b.add(item, step, flags=["nsw"]), b.block)
    b.branch(head)
    b.position_at_end(done)


def blocks_for(count: int, items_per_block: int, most: int = BLOCKS) -> int:
    """How many blocks are launched for so many items."""
    return max(1, min(most, -(-count // items_per_block)))


def least(b: ir.IRBuilder, x: ir.Value, y: ir.Value) -> ir.Value:
    """The lesser of two signed integers."""
    return intrinsic(b, "smin", x, y)


def _bits_of(kind: ir.Type) -> int:
    if isinstance(kind, ir.IntType):
        return kind.width
    return {"half": 16, "float": 32, "double": 64}[str(kind)]
