"""Sorts of any computation: runs are merged, a thread an element, which finds its place by bisection. All are stable.

Long rows that a computation compares by keys are sorted by these (`radix_sort.py`).

What is sorted are the numbers of a row's elements; the elements themselves are moved once. Where the computation is no
order (of NaN, say), rows are no permutations, but nothing outside of them is touched.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from llvmlite import ir

from xloom.codegen.buffers.allocation import BufferAllocation
from xloom.codegen.kernel_facts import unread_operands
from xloom.cpu.kernels.sort.keys import plain_keys
from xloom.cuda.kernel import THREADS, WARP, KernelBuilder, blocks_for
from xloom.cuda.kernels import kernel
from xloom.cuda.kernels.radix_sort import RadixSort, Rows, suits
from xloom.cuda.lowering import ThunkLowering
from xloom.hlo.instruction import Instruction
from xloom.llvm import element_access
from xloom.llvm.intrinsics import intrinsic
from xloom.llvm.loop import allocate
from xloom.llvm.routine import repeat
from xloom.llvm.scalar import elementwise  # noqa: F401 - registers the scalar rules
from xloom.llvm.scalar.scalar_computation import apply
from xloom.llvm.types import I32, I64, Value, register_type

TILE = 256
"""Elements of a row that a block sorts in shared memory."""


@kernel("sort")
def sort(lowering: ThunkLowering, instruction: Instruction) -> None:
    """A launch that sorts tiles, one for each time that runs are merged, and one that moves the elements."""
    shape = instruction._operands[0].shape
    if not shape.size:
        return
    _Sort(lowering, instruction).launch()


class _Sort:
    def __init__(self, lowering: ThunkLowering, instruction: Instruction):
        self._lowering, self._instruction = lowering, instruction
        shape = instruction._operands[0].shape
        dimension = instruction["dimensions"][0] if shape.rank else 0
        self._size = shape.dims[dimension] if shape.rank else 1
        self._inner = math.prod(shape.dims[dimension + 1 :])
        self._rows = shape.size // self._size
        self._dtypes = [o.shape.dtype for o in instruction._operands]
        self._unread = unread_operands(instruction)
        operands = [lowering.operand(k) for k in range(len(self._dtypes)) if k not in self._unread]
        self._read = list(dict.fromkeys(operands))
        self._numbers = {
            k: self._read.index(lowering.operand(k)) for k in range(len(self._dtypes)) if k not in self._unread
        }

    def launch(self) -> None:
        """Adds all launches."""
        keys, rows = plain_keys(self._instruction["to_apply"]), Rows(self._rows, self._size)
        if keys is not None and suits(keys, rows):
            self._move_all(RadixSort(self._lowering, rows, keys).order(self._read, self._all_elements))
        else:
            self._move_all(self._merged())

    def _merged(self) -> BufferAllocation:
        """The numbers of elements in order, by any comparison."""
        tile = min(TILE, max(WARP, 1 << (self._size - 1).bit_length()))
        total = self._rows * self._size
        order = self._lowering.scratch(4 * total)
        builder = KernelBuilder(self._lowering.target, len(self._read) + 1, tile)
        blocks = self._rows * -(-self._size // tile)
        self._sort_tiles(builder, tile)
        self._lowering.launch(builder.finished(), blocks, [*self._read, order])
        width = tile
        while width < self._size:
            merged = self._lowering.scratch(4 * total)
            builder = KernelBuilder(self._lowering.target, len(self._read) + 2)
            self._merge(builder, width, total)
            self._lowering.launch(builder.finished(), blocks_for(total, THREADS), [*self._read, order, merged])
            order, width = merged, 2 * width
        return order

    def _move_all(self, order: BufferAllocation) -> None:
        """Moves the elements of all operands."""
        total = self._rows * self._size
        outputs = [(k, self._lowering.output(k)) for k in range(len(self._dtypes))]
        kept = [(k, allocation) for k, allocation in outputs if allocation.kind != "unused"]
        builder = KernelBuilder(self._lowering.target, len(self._read) + 1 + len(kept))
        self._move(builder, [k for k, _ in kept], total)
        arguments = [*self._read, order, *(allocation for _, allocation in kept)]
        self._lowering.launch(builder.finished(), blocks_for(total, THREADS), arguments)

    # -- kernels
    def _sort_tiles(self, k: KernelBuilder, tile: int) -> None:
        """A block for each tile of each row."""
        b = k.b
        k.strategy = f"tiles of {tile} elements of {self._rows} rows of {self._size}, sorted in shared memory"
        tiles = -(-self._size // tile)
        row, first = b.udiv(k.block, I64(tiles)), b.mul(b.urem(k.block, I64(tiles)), I64(tile), flags=["nsw"])
        length = intrinsic(b, "smin", b.sub(I64(self._size), first), I64(tile))
        memory = [k.shared(4 * tile) for _ in range(2)]
        number = b.trunc(b.add(first, k.thread), I32)
        for pointer in memory:
            _write(b, pointer, k.thread, number)
        k.barrier()
        width, inside = 1, b.icmp_signed("<", k.thread, length)
        while width < min(tile, self._size):
            with b.if_then(inside):
                self._place(k, memory[0], memory[1], I64(0), k.thread, length, width, row)
            k.barrier()
            memory.reverse()
            width *= 2
        with b.if_then(inside):
            start = b.add(b.mul(row, I64(self._size), flags=["nsw"]), first, flags=["nsw"])
            _write(b, k.pointers[-1], b.add(start, k.thread, flags=["nsw"]), _read(b, memory[0], k.thread))

    def _merge(self, k: KernelBuilder, width: int, total: int) -> None:
        """A thread for each element of runs of `width` elements, of which pairs are merged."""
        k.strategy = f"merges runs of {width} elements of {self._rows} rows of {self._size}"
        with k.each(total, blocks_for(total, THREADS), k.threads, k.thread) as item:
            b = k.b
            row, position = b.udiv(item, I64(self._size)), b.urem(item, I64(self._size))
            start = b.mul(row, I64(self._size), flags=["nsw"])
            self._place(k, k.pointers[-2], k.pointers[-1], start, position, I64(self._size), width, row)

    def _move(self, k: KernelBuilder, kept: Sequence[int], total: int) -> None:
        """A thread for each element, of all operands."""
        b = k.b
        k.strategy = f"moves the elements of {self._rows} rows of {self._size}"
        first = len(self._read) + 1
        with k.each(total, blocks_for(total, THREADS), k.threads, k.thread) as item:
            outer, rest = b.udiv(item, I64(self._size * self._inner)), b.urem(item, I64(self._size * self._inner))
            position, inner = b.udiv(rest, I64(self._inner)), b.urem(rest, I64(self._inner))
            row = b.add(b.mul(outer, I64(self._inner), flags=["nsw"]), inner, flags=["nsw"])
            place = b.add(b.mul(row, I64(self._size), flags=["nsw"]), position, flags=["nsw"])
            number = self._number(b, _read(b, k.pointers[first - 1], place))
            for n, operand in enumerate(kept):
                value = self._element(k, operand, row, number)
                element_access.store(b, k.pointers[first + n], self._dtypes[operand], item, value, exact=True)

    # -- what an element does
    def _place(
        self,
        k: KernelBuilder,
        source: ir.Value,
        target: ir.Value,
        start: ir.Value,
        position: ir.Value,
        length: ir.Value,
        width: int,
        row: ir.Value,
    ) -> None:
        """Puts the number at `position` of sorted runs where it belongs in the pair of its run and its neighbour."""
        b = k.b
        mine = _read(b, source, b.add(start, position, flags=["nsw"]))
        run = b.udiv(position, I64(width))
        is_left = b.icmp_signed("==", b.and_(run, I64(1)), I64(0))
        begin = b.mul(b.xor(run, I64(1)), I64(width), flags=["nsw"])
        begin = intrinsic(b, "smin", begin, length)
        end = intrinsic(b, "smin", b.add(begin, I64(width), flags=["nsw"]), length)
        low, high = allocate(b, I64), allocate(b, I64)
        b.store(begin, low)
        b.store(end, high)
        me = self._elements(k, row, mine)
        with repeat(b, lambda: b.icmp_signed("<", b.load(low, typ=I64), b.load(high, typ=I64))):
            middle = b.lshr(b.add(b.load(low, typ=I64), b.load(high, typ=I64)), I64(1))
            other = self._elements(k, row, _read(b, source, b.add(start, middle, flags=["nsw"])))
            # of equal ones those of the left run are first
            comes_before = b.select(is_left, self._less(b, other, me), b.not_(self._less(b, me, other)))
            b.store(b.select(comes_before, b.add(middle, I64(1)), b.load(low, typ=I64)), low)
            b.store(b.select(comes_before, b.load(high, typ=I64), middle), high)
        before = b.sub(b.load(low, typ=I64), begin)
        pair = b.and_(run, I64(-2))
        within = b.sub(position, b.mul(run, I64(width), flags=["nsw"]))
        place = b.add(b.mul(pair, I64(width), flags=["nsw"]), b.add(within, before, flags=["nsw"]), flags=["nsw"])
        _write(b, target, b.add(start, place, flags=["nsw"]), mine)

    def _less(self, b: ir.IRBuilder, x: Sequence[Value], y: Sequence[Value]) -> ir.Value:
        arguments = [value for pair in zip(x, y, strict=True) for value in pair]
        return apply(b, self._instruction["to_apply"], arguments)[0]

    def _elements(self, k: KernelBuilder, row: ir.Value, number: ir.Value) -> list[Value]:
        """All operands' elements of a number (i32) in a row."""
        return self._all_elements(k, row, self._number(k.b, number))

    def _all_elements(self, k: KernelBuilder, row: ir.Value, number: ir.Value) -> list[Value]:
        """The same of a number (i64) that is one of the row's."""
        return [self._element(k, operand, row, number) for operand in range(len(self._dtypes))]

    def _number(self, b: ir.IRBuilder, number: ir.Value) -> ir.Value:
        """A number as an i64 that is one of the row's."""
        return b.zext(intrinsic(b, "umin", number, I32(self._size - 1)), I64)

    def _element(self, k: KernelBuilder, operand: int, row: ir.Value, number: ir.Value) -> Value:
        b, dtype = k.b, self._dtypes[operand]
        if operand in self._unread:
            kind = register_type(dtype)
            return number if kind == I64 else b.trunc(number, kind)
        outer, inner = b.udiv(row, I64(self._inner)), b.urem(row, I64(self._inner))
        line = b.add(b.mul(outer, I64(self._size), flags=["nsw"]), number, flags=["nsw"])
        index = b.add(b.mul(line, I64(self._inner), flags=["nsw"]), inner, flags=["nsw"])
        return element_access.load(b, k.pointers[self._numbers[operand]], dtype, index)


def _read(b: ir.IRBuilder, pointer: ir.Value, index: ir.Value) -> ir.Value:
    return b.load(b.gep(pointer, [index], inbounds=True, source_etype=I32), typ=I32, align=4)


def _write(b: ir.IRBuilder, pointer: ir.Value, index: ir.Value, value: ir.Value) -> None:
    b.store(value, b.gep(pointer, [index], inbounds=True, source_etype=I32), align=4)
