"""Slices of a product's operand on their way through shared memory, several of them at a time.

What lies together in memory lies together there: an element along k beside the next one, or a line's beside the next
line's. Copies are asynchronous where some elements lie together; else they go through registers, one slice ahead.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple, Protocol

from llvmlite import ir

from xloom.cuda.kernel import KernelBuilder, strided
from xloom.cuda.kernels.async_copy import SIZES, begin_copy, commit_copies, wait_for_copies
from xloom.cuda.kernels.operand_lines import OperandLines
from xloom.llvm.loop import allocate
from xloom.llvm.types import I32, I64


class SliceShape(NamedTuple):
    """What is in shared memory at once of an operand: `length` lines of `depth` elements, `count` times."""

    length: int
    depth: int
    count: int


class Slices(Protocol):
    """Slices of one operand."""

    shape: SliceShape
    is_asynchronous: bool
    """Whether `begin` has asynchronous copies, which have to be waited for; else `end` ends them."""

    def begin(self, depth: ir.Value, buffer: ir.Value) -> None:
        """Begins to copy the slice that starts at `depth` to one of the buffers."""
        ...

    def end(self, buffer: ir.Value) -> None:
        """Ends it."""
        ...


class StagedSlices:
    """The slices of an operand's lines."""

    def __init__(self, lines: OperandLines, shape: SliceShape):
        kernel, operand, element = lines.kernel, lines.operand, lines.element
        self._kernel, self._b, self._lines = kernel, kernel.b, lines
        self.shape, self._element, self._nbytes = shape, element, element.width // 8
        self.is_deep = operand.is_deep
        """Whether neighbours in shared memory are neighbours along k."""
        self._width = min(operand.aligned, 16 // self._nbytes)
        self.is_asynchronous = self._width * self._nbytes in SIZES
        inner, outer = (shape.depth, shape.length) if self.is_deep else (shape.length, shape.depth)
        # rows that a warp reads at once begin in different banks: 4 apart for what reads 16 bytes of each, else 8
        is_wide = self._nbytes == 8 or (self._nbytes == 4 and not self.is_deep)
        pad = (32 if is_wide else 16) // self._nbytes
        self.pitch = inner + pad
        """Elements from one row to the next in shared memory."""
        self._elements = outer * self.pitch
        self._shared = kernel.shared(shape.count * self._elements * self._nbytes)
        self._places = [
            self._place(self._b.add(kernel.thread, I64(n * kernel.threads), flags=["nsw", "nuw"]))
            for n in range(shape.depth * shape.length // self._width // kernel.threads)
        ]
        self._kind = ir.VectorType(element, self._width) if self._width > 1 else element
        self._registers = [] if self.is_asynchronous else [allocate(self._b, self._kind) for _ in self._places]

    def _place(self, item: ir.Value) -> tuple[ir.Value, ir.Value]:
        """The line and the k of what a thread copies at once."""
        b = self._b
        inside = (self.shape.depth if self.is_deep else self.shape.length) // self._width
        inner = b.mul(b.urem(item, I64(inside)), I64(self._width), flags=["nsw", "nuw"])
        outer = b.udiv(item, I64(inside))
        return (outer, inner) if self.is_deep else (inner, outer)

    # -- from global memory
    def begin(self, depth: ir.Value, buffer: ir.Value) -> None:
        """Begins to copy the slice that starts at `depth` to one of the buffers; zeros where there is none."""
        b = self._b
        whole = self._width * self._nbytes
        for number, (line, k) in enumerate(self._places):
            address, inside = self._lines.source(line, b.add(depth, k, flags=["nsw"]))
            if self.is_asynchronous:
                target = self.pointer(buffer, self.index(line, k))
                begin_copy(self._kernel, target, address, whole, b.select(inside, I32(whole), I32(0)))
                continue
            slot = self._registers[number]
            b.store(ir.Constant(self._kind, [0] * self._width if self._width > 1 else 0), slot)
            with b.if_then(inside):
                b.store(b.load(address, typ=self._kind, align=whole), slot)

    def end(self, buffer: ir.Value) -> None:
        """Stores what is in registers to one of the buffers, which no thread reads any more."""
        b = self._b
        for (line, k), slot in zip(self._places, self._registers, strict=False):
            here = self.pointer(buffer, self.index(line, k))
            b.store(b.load(slot, typ=self._kind), here, align=self._width * self._nbytes)

    # -- in shared memory
    def pointer(self, buffer: ir.Value, index: ir.Value) -> ir.Value:
        """Where an element of one of the buffers (i64) lies."""
        first = self._b.mul(buffer, I64(self._elements), flags=["nsw", "nuw"])
        place = self._b.add(first, index, flags=["nsw", "nuw"])
        return self._b.gep(self._shared, [place], inbounds=True, source_etype=self._element)

    def index(self, line: ir.Value, k: ir.Value) -> ir.Value:
        """Where an element of a slice lies in its buffer."""
        b = self._b
        outer, inner = (line, k) if self.is_deep else (k, line)
        return b.add(b.mul(outer, I64(self.pitch), flags=["nsw", "nuw"]), inner, flags=["nsw", "nuw"])

    def step(self, line: int, k: int) -> int:
        """By how much an index grows with so many lines and elements along k."""
        return line * self.pitch + k if self.is_deep else k * self.pitch + line


class TurnedSlices:
    """Slices that lie along k and are read along their lines, as those of the other operand would be."""

    def __init__(self, slices: StagedSlices):
        self._slices = slices
        self.is_deep = not slices.is_deep
        self.pointer = slices.pointer

    def index(self, line: ir.Value, k: ir.Value) -> ir.Value:
        """Where an element of a slice lies in its buffer."""
        return self._slices.index(k, line)

    def step(self, line: int, k: int) -> int:
        """By how much an index grows with so many lines and elements along k."""
        return self._slices.step(k, line)


@contextmanager
def pipelined(
    kernel: KernelBuilder,
    operands: Sequence[Slices],
    span: tuple[ir.Value, ir.Value],
    arrived: Callable[[], None] = lambda: None,
) -> Iterator[tuple[ir.Value, ir.Value]]:
    """Goes along k from where `span` begins to where it ends, a multiple of the slices' depth further or the end of k.

    The `with` has where the slices of both operands begin, and the number of their buffer, with barriers.

    Each thread does what `arrived` emits with what it has copied, before others read it.
    """
    b, (depth, count) = kernel.b, operands[0].shape[1:]
    copied = [operand for operand in operands if operand.is_asynchronous]
    carried = [operand for operand in operands if not operand.is_asynchronous]
    ahead, (first, last) = count - 1, span
    for number in range(ahead if copied else 0):
        for operand in copied:
            operand.begin(b.add(first, I64(number * depth), flags=["nsw", "nuw"]), I64(number))
        commit_copies(kernel)
    for operand in carried:
        operand.begin(first, I64(0))
        operand.end(I64(0))
    with strided(b, first, last, depth) as start:
        number = b.udiv(b.sub(start, first, flags=["nsw", "nuw"]), I64(depth))
        if copied:
            wait_for_copies(kernel, ahead - 1)
            arrived()
        kernel.barrier()
        if copied:
            later = b.add(start, I64(ahead * depth), flags=["nsw", "nuw"])
            free = b.urem(b.add(number, I64(ahead), flags=["nsw", "nuw"]), I64(count))
            with b.if_then(b.icmp_signed("<", later, last)):
                for operand in copied:
                    operand.begin(later, free)
            commit_copies(kernel)
        following = b.urem(b.add(number, I64(1), flags=["nsw", "nuw"]), I64(count))
        for operand in carried:
            operand.begin(b.add(start, I64(depth), flags=["nsw", "nuw"]), following)
        yield start, b.urem(number, I64(count))
        for operand in carried:
            operand.end(following)
