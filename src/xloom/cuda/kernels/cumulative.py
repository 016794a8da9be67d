"""Cumulative windows in linear time: a block scans a row, by shuffles in warps and shared memory among them; a thread
does where neighbours belong to different rows, or where only the order of elements is known to be right.

Few long rows are scanned in parts: one kernel has what each part is together, and another one, of which each block or
thread puts together what is before its part, scans them.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from llvmlite import ir

from xloom.codegen.buffers.allocation import BufferAllocation
from xloom.codegen.elemental.reduce import plain_operator
from xloom.cuda.kernel import THREADS, WARP, KernelBuilder, blocks_for, least, strided
from xloom.cuda.lowering import ThunkLowering
from xloom.hlo.dtype import DType, f32
from xloom.hlo.instruction import Instruction
from xloom.llvm import element_access, types
from xloom.llvm.loop import allocate
from xloom.llvm.scalar import elementwise  # noqa: F401 - registers the scalar rules
from xloom.llvm.scalar.conversion import rounded_result
from xloom.llvm.scalar.identity_value import identity_value
from xloom.llvm.scalar.operator import Operator
from xloom.llvm.scalar.rules import RULES
from xloom.llvm.scalar.scalar_computation import apply, is_scalar_region
from xloom.llvm.types import I64, Value


def cumulative_axis(instruction: Instruction) -> int | None:
    """The dimension along which each window is the one before and an element more; None where there is none.

    Only of one operand, and of computations that have its type.
    """
    operands, window = instruction._operands, instruction["window"]
    if len(operands) != 2 or not instruction.shape.is_array or instruction.shape.dtype.is_complex:
        return None
    shape, body = operands[0].shape, instruction["to_apply"]
    types = {i.shape.dtype for i in (*operands, *body.parameters, body.root)}
    if types != {shape.dtype} or shape.dtype.bits < 8 or not is_scalar_region(body):
        return None
    moving = [k for k, w in enumerate(window) if w.size != 1 or w.stride != 1 or w.padding_low or w.padding_high]
    if len(moving) != 1 or any(w.base_dilation != 1 for w in window):
        return None
    (axis,) = moving
    w, size = window[axis], shape.dims[axis]
    plain = (w.stride, w.window_dilation, w.window_reversal) == (1, 1, False)
    ends = [(w.size - 1, 0), (0, w.size - 1)]
    grows = w.size >= size and (w.padding_low, w.padding_high) in ends[: 2 if _is_plain(instruction) else 1]
    return axis if plain and grows and w.output_size(size) == size else None


def _is_plain(instruction: Instruction) -> bool:
    """Whether elements may be put together in any order: by an operator whose identity value is known."""
    return identity_value(plain_operator(instruction["to_apply"]), instruction.shape.dtype) is not None


_PART = 8 * THREADS
"""Elements of a part that a block scans."""
_LEAST_PART, _LONG = 64, 256
"""Of one that a thread scans, at least; and of a row that is worth a second launch."""
_MANY_THREADS = 1 << 16
"""That keep all multiprocessors busy."""
_FEW = 128
"""Rows that are too few for the multiprocessors, a block for each."""


def scan_along(lowering: ThunkLowering, instruction: Instruction, axis: int) -> None:
    """A launch: a block for each row, or a thread for each where neighbours belong to different ones; two in parts."""
    shape = instruction.shape
    if not shape.size:
        return
    size, inner = shape.dims[axis], math.prod(shape.dims[axis + 1 :])
    rows, is_plain = shape.size // size, _is_plain(instruction)
    is_forward = instruction["window"][axis].padding_high == 0
    arguments = [lowering.operand(0), lowering.operand(1), lowering.output()]
    distinct = list(dict.fromkeys(arguments))
    by_threads = inner > 1 or not is_plain
    threads = THREADS if by_threads else min(THREADS, max(WARP, 1 << (size - 1).bit_length()))
    parts = 1
    if is_plain and by_threads and size >= _LONG:
        parts = max(1, min(size // _LEAST_PART, _MANY_THREADS // rows))
    elif is_plain and rows < _FEW and size >= 4 * _PART:
        parts = -(-size // _PART)
    blocks = blocks_for(rows * parts, threads if by_threads else 1)
    if parts > 1:
        distinct.append(lowering.scratch(rows * parts * _kept(shape.dtype).bytes))
    for is_last in (False, True) if parts > 1 else (True,):
        scan = _Scan(lowering, instruction, (arguments, distinct), (size, inner), is_forward, threads)
        if by_threads:
            scan.by_threads(rows, parts, blocks, is_last)
        elif parts > 1:
            scan.in_parts(rows, blocks, is_last)
        else:
            scan.by_blocks(rows, blocks)
        lowering.launch(scan.kernel.finished(), blocks, distinct)


def _kept(dtype: DType) -> DType:
    """The type of sums."""
    return f32 if dtype.is_float and dtype.bits < 32 else dtype


class _Scan:
    """Emits the scan of rows of `extent[0]` elements that lie `extent[1]` apart."""

    def __init__(
        self,
        lowering: ThunkLowering,
        instruction: Instruction,
        arguments: tuple[list[BufferAllocation], list[BufferAllocation]],
        extent: tuple[int, int],
        is_forward: bool,
        threads: int,
    ):
        """`arguments`: the source, the initial value and the target, and the kernel's pointers, each once."""
        used, distinct = arguments
        self.kernel = KernelBuilder(lowering.target, len(distinct), threads)
        self._b = self.kernel.b
        self._source, self._initial, self._target = (self.kernel.pointers[distinct.index(a)] for a in used)
        self._totals = self.kernel.pointers[-1]
        self._size, self._inner = extent
        self._is_forward = is_forward
        self._dtype = instruction.shape.dtype
        self._body = instruction["to_apply"]
        is_plain = _is_plain(instruction)
        self._opcode = plain_operator(self._body) if is_plain else ""
        self._kept = _kept(self._dtype) if is_plain else self._dtype
        self._kind = types.register_type(self._kept)
        if is_plain:
            self._identity = types.constant(identity_value(self._opcode, self._dtype), self._kept)

    def by_threads(self, rows: int, parts: int, blocks: int, is_last: bool) -> None:
        """A thread goes along its row, or along a part, of which one kernel has what it is together."""
        kernel, b = self.kernel, self._b
        what = f"a thread along each of {rows} rows of {self._size}, of which each result is the next element's"
        if parts > 1:
            what = f"{'scans' if is_last else 'sums'} each of {parts} parts of {rows} rows of {self._size}, by threads"
        kernel.strategy, length = what, -(-self._size // parts)
        with kernel.each(rows * parts, blocks, kernel.threads, kernel.thread) as item:
            row, part = (b.urem(item, I64(rows)), b.udiv(item, I64(rows))) if parts > 1 else (item, I64(0))
            begin = b.mul(part, I64(length), flags=["nsw"])
            end = least(b, b.add(begin, I64(length), flags=["nsw"]), I64(self._size))
            state = allocate(b, self._kind)
            b.store(self._load(self._initial, I64(0)) if is_last else self._identity, state)
            if is_last and parts > 1:
                with strided(b, I64(0), part, 1) as before:
                    place = b.add(b.mul(before, I64(rows), flags=["nsw"]), row, flags=["nsw"])
                    self._put(state, element_access.load(b, self._totals, self._kept, place))
            with strided(b, begin, end, 1) as step:
                place = self._place(row, step)
                value = self._put(state, self._load(self._source, place))
                if is_last:
                    self._store(place, value)
            if not is_last:
                element_access.store(b, self._totals, self._kept, item, b.load(state, typ=self._kind), exact=True)

    def _put(self, state: ir.Value, element: Value) -> Value:
        """What a slot and an element are together, which is in the slot then."""
        value = self._both(self._b.load(state, typ=self._kind), element)
        self._b.store(value, state)
        return value

    def by_blocks(self, rows: int, blocks: int) -> None:
        """A block goes along its row, as many elements at a time as it has threads."""
        kernel, b = self.kernel, self._b
        kernel.strategy = f"a block along each of {rows} rows of {self._size}, {kernel.threads} elements at a time"
        shared = self._shared()
        with kernel.each_row(rows, blocks) as row:
            before = allocate(b, self._kind)
            b.store(self._load(self._initial, I64(0)), before)
            self._run(
                lambda step: self._load(self._source, self._place(row, step)),
                (I64(0), I64(self._size)),
                before,
                shared,
                lambda step, value: self._store(self._place(row, step), value),
            )

    def in_parts(self, rows: int, blocks: int, is_last: bool) -> None:
        """A block for each part of each row: what it is together or, in the last kernel, its scan."""
        kernel, b = self.kernel, self._b
        parts = -(-self._size // _PART)
        what = "scans" if is_last else "sums"
        kernel.strategy = f"{what} each of {parts} parts of {rows} rows of {self._size}"
        shared = self._shared()
        with kernel.each_row(rows * parts, blocks) as item:
            row, part = b.udiv(item, I64(parts)), b.urem(item, I64(parts))
            begin = b.mul(part, I64(_PART), flags=["nsw"])
            extent = begin, least(b, b.add(begin, I64(_PART), flags=["nsw"]), I64(self._size))
            before = allocate(b, self._kind)

            def element(step: ir.Value, row: ir.Value = row) -> Value:
                return self._load(self._source, self._place(row, step))

            if not is_last:
                b.store(self._identity, before)
                self._run(element, extent, before, shared)
                with b.if_then(b.icmp_signed("==", kernel.thread, I64(0))):
                    element_access.store(b, self._totals, self._kept, item, b.load(before, typ=self._kind), exact=True)
                return
            b.store(self._load(self._initial, I64(0)), before)
            first = b.mul(row, I64(parts), flags=["nsw"])
            self._run(
                lambda step: element_access.load(b, self._totals, self._kept, b.add(first, step, flags=["nsw"])),
                (I64(0), part),
                before,
                shared,
            )
            self._run(element, extent, before, shared, lambda step, value: self._store(self._place(row, step), value))

    def _shared(self) -> ir.Value:
        """Room for what each warp has together."""
        return self.kernel.shared(self.kernel.threads // WARP * self._kept.bytes)

    def _run(
        self,
        element: Callable[[ir.Value], Value],
        extent: tuple[ir.Value, ir.Value],
        before: ir.Value,
        shared: ir.Value,
        done: Callable[[ir.Value, Value], None] | None = None,
    ) -> None:
        """The block goes through a range, and gives `done` each number and what there is up to it.

        `before` is a slot for what comes before, in which is in the end what all are together.
        """
        kernel, b = self.kernel, self._b
        begin, end = extent
        warps = kernel.threads // WARP
        with strided(b, begin, end, kernel.threads) as first:
            step = b.add(first, kernel.thread, flags=["nsw"])
            inside = b.icmp_signed("<", step, end)
            slot = allocate(b, self._kind)
            b.store(self._identity, slot)
            with b.if_then(inside):
                b.store(element(step), slot)
            value = self._of_warp(b.load(slot, typ=self._kind))
            with b.if_then(b.icmp_signed("==", kernel.lane, I64(WARP - 1))):
                element_access.store(b, shared, self._kept, kernel.warp, value, exact=True)
            kernel.barrier()
            total = mine = b.load(before, typ=self._kind)
            for warp in range(warps):
                total = self._both(total, element_access.load(b, shared, self._kept, I64(warp)))
                if warp + 1 < warps:
                    mine = b.select(b.icmp_signed(">", kernel.warp, I64(warp)), total, mine)
            b.store(total, before)
            if done is not None:
                with b.if_then(inside):
                    done(step, self._both(mine, value))
            kernel.barrier()

    def _of_warp(self, value: Value) -> Value:
        """What the lanes up to each have together."""
        kernel, b, offset = self.kernel, self._b, 1
        while offset < WARP:
            other = kernel.shuffled_up(value, offset)
            value = b.select(b.icmp_signed(">=", kernel.lane, I64(offset)), self._both(other, value), value)
            offset *= 2
        return value

    def _both(self, x: Value, y: Value) -> Value:
        if not self._opcode:
            return apply(self._b, self._body, [x, y])[0]
        operator = Operator(self._opcode, self._kept, (self._kept, self._kept))
        return RULES[self._opcode](self._b, operator, x, y)

    def _place(self, row: ir.Value, step: ir.Value) -> ir.Value:
        """Where element number `step` of a row lies, from the end at which windows begin."""
        b = self._b
        position = step if self._is_forward else b.sub(I64(self._size - 1), step)
        outer, column = b.udiv(row, I64(self._inner)), b.urem(row, I64(self._inner))
        line = b.add(b.mul(outer, I64(self._size), flags=["nsw"]), position, flags=["nsw"])
        return b.add(b.mul(line, I64(self._inner), flags=["nsw"]), column, flags=["nsw"])

    def _load(self, pointer: ir.Value, index: ir.Value) -> Value:
        return element_access.load(self._b, pointer, self._dtype, index)

    def _store(self, place: ir.Value, value: Value) -> None:
        if self._kept is not self._dtype:
            value = rounded_result(self._b, value, self._dtype)
        element_access.store(self._b, self._target, self._dtype, place, value)
