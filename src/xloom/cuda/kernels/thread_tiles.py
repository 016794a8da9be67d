"""Products of any type: a block makes a tile of the output, of which each thread has a small one in registers."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

from llvmlite import ir

from xloom.codegen.emission.accumulators import Accumulator, Representation
from xloom.cuda.kernel import THREADS, KernelBuilder, strided
from xloom.cuda.kernels.epilogue import Epilogue, EpilogueCode
from xloom.cuda.kernels.product import Operand, Product, offset
from xloom.cuda.kernels.product_tile import TileStore
from xloom.cuda.kernels.split_sums import SplitSums, added
from xloom.hlo.dtype import DType, f32, f64
from xloom.hlo.instruction import Instruction
from xloom.llvm import element_access, types
from xloom.llvm.intrinsics import intrinsic
from xloom.llvm.scalar import elementwise  # noqa: F401 - registers the scalar rules
from xloom.llvm.scalar.conversion import converted
from xloom.llvm.scalar.operator import Operator
from xloom.llvm.scalar.rules import RULES
from xloom.llvm.types import I32, I64, Value

SIDE = 16
"""Threads along each side of a block's tile."""
DEPTH = 8
"""Elements along k that are in shared memory at once."""
_PAD = 4
"""Between rows in shared memory, so that loads of 16 bytes stay aligned and columns are in different banks."""
_VECTOR_BYTES = 16
"""Of one load."""
LARGE = 512
"""Rows and columns from which on a thread has more of the tile."""


class ThreadTiles:
    """How a product is cut, and the code of a block."""

    threads = THREADS

    def __init__(self, instruction: Instruction, product: Product, epilogue: Epilogue | None):
        self.product = product
        self.sources = [o.shape.dtype for o in instruction._operands]
        self.dtype = instruction.shape.dtype
        self.kept: DType = (
            f64 if f64 in self.sources else f32 if self.dtype.is_float and self.dtype.bits < 32 else self.dtype
        )
        least = min(product.m, product.n)
        each = next((each for each in (4, 2) if least >= each * SIDE), 1)
        if least >= LARGE and self.kept.bytes <= 4:
            each = 8
        self.each = each
        self.side = SIDE * each
        self.rows, self.columns = -(-product.m // self.side), -(-product.n // self.side)
        self.sums = SplitSums.of(product.batch * self.rows * self.columns, product, DEPTH, self.kept)
        result = epilogue.dtype if epilogue else self.dtype
        self.dtype = result if self.sums.parts == 1 else self.kept

    @property
    def count(self) -> int:
        """Blocks, one for each part of a tile's sums."""
        return self.sums.blocks

    def emit(self, kernel: KernelBuilder, pointers: Sequence[ir.Value], epilogue: EpilogueCode | None) -> None:
        """Emits the kernel; `pointers` are those of both operands and of the output."""
        b, product, side = kernel.b, self.product, self.side
        kernel.strategy = f"tiles of {side} x {side}, {self.each} x {self.each} a thread, {DEPTH} deep"
        # ptxas by itself gives out too few registers for the sake of more blocks, and spills
        kernel.resident_blocks = 4 if self.each == 4 and self.kept.bytes <= 4 else 2
        pitch = side + _PAD
        shared = [kernel.shared(DEPTH * pitch * self.kept.bytes) for _ in range(2)]
        share = self.sums.share(b, kernel.block, pointers[2])
        tile, column = b.udiv(share.tile, I64(self.columns)), b.urem(share.tile, I64(self.columns))
        batch, row = b.udiv(tile, I64(self.rows)), b.urem(tile, I64(self.rows))
        first = [b.mul(row, I64(side)), b.mul(column, I64(side))]
        sums = [[Accumulator(b, Representation(self.kept)) for _ in range(self.each)] for _ in range(self.each)]
        zero = types.constant(0, self.kept)
        for line in sums:
            for accumulator in line:
                accumulator.set(zero)
        mine = [b.udiv(kernel.thread, I64(SIDE)), b.urem(kernel.thread, I64(SIDE))]
        mine = [b.mul(x, I64(self.each), flags=["nsw", "nuw"]) for x in mine]
        sizes = (product.m, product.n)
        with strided(b, *share.span, DEPTH) as depth:
            for number, operand in enumerate((product.lhs, product.rhs)):
                self._load(
                    kernel,
                    operand,
                    pointers[number],
                    shared[number],
                    first[number],
                    batch,
                    depth,
                    sizes[number],
                    number,
                )
            kernel.barrier()
            for k in range(DEPTH):
                values = [self._line(b, shared[s], b.add(mine[s], I64(k * pitch), flags=["nsw"])) for s in range(2)]
                for i in range(self.each):
                    for j in range(self.each):
                        sums[i][j].set(self._added(b, sums[i][j].get(), values[0][i], values[1][j]))
            kernel.barrier()
        store = TileStore(product, (side, side), self.dtype, self.kept, epilogue)
        row, column = (b.add(f, x) for f, x in zip(first, mine, strict=True))
        for i in range(self.each):
            for j in range(self.each):
                place = batch, b.add(row, I64(i)), b.add(column, I64(j))
                store.one(b, share.output, place, sums[i][j].get())

    def _load(
        self,
        kernel: KernelBuilder,
        operand: Operand,
        pointer: ir.Value,
        shared: ir.Value,
        first: ir.Value,
        batch: ir.Value,
        depth: ir.Value,
        size: int,
        number: int,
    ) -> None:
        """A slice of an operand, DEPTH by the tile's side, to shared memory; zeros where there is none."""
        b, side, source = kernel.b, self.side, self.sources[number]
        base = offset(b, operand.batch, batch)
        total = DEPTH * side
        with strided(b, kernel.thread, I64(total), kernel.threads) as item:
            if operand.is_deep:
                line, k = b.udiv(item, I64(DEPTH)), b.urem(item, I64(DEPTH))
            else:
                k, line = b.udiv(item, I64(side)), b.urem(item, I64(side))
            at, deep = b.add(first, line), b.add(depth, k)
            place, conditions = operand.place(b, at, deep)
            conditions.append(b.icmp_signed("<", at, I64(size)))
            conditions.append(b.icmp_signed("<", deep, I64(self.product.k)))
            slot = Accumulator(b, Representation(self.kept))
            slot.set(types.constant(0, self.kept))
            with b.if_then(reduce(b.and_, conditions)):
                index = b.add(base, place, flags=["nsw"])
                value = element_access.load(b, pointer, source, index)
                slot.set(converted(b, value, source, self.kept))
            here = b.add(b.mul(k, I64(side + _PAD)), line)
            element_access.store(b, shared, self.kept, here, slot.get(), exact=True)

    def _line(self, b: ir.IRBuilder, shared: ir.Value, first: ir.Value) -> list[Value]:
        """What a thread has of a line in shared memory, from element `first` on, by as few loads as it takes."""
        kind, each = types.memory_type(self.kept), self.each
        width = min(each, _VECTOR_BYTES // self.kept.bytes)
        if self.kept.is_complex or kind != types.register_type(self.kept) or width == 1:
            places = [b.add(first, I64(i), flags=["nsw"]) for i in range(each)]
            return [element_access.load(b, shared, self.kept, place) for place in places]
        values = []
        for i in range(0, each, width):
            address = b.gep(shared, [b.add(first, I64(i), flags=["nsw"])], inbounds=True, source_etype=kind)
            vector = b.load(address, typ=ir.VectorType(kind, width), align=width * self.kept.bytes)
            values += [b.extract_element(vector, I32(lane)) for lane in range(width)]
        return values

    def _added(self, b: ir.IRBuilder, total: Value, x: Value, y: Value) -> Value:
        if self.kept.is_float:
            return intrinsic(b, "fma", x, y, total)
        pair = (self.kept, self.kept)
        return added(b, self.kept, total, RULES["multiply"](b, Operator("multiply", self.kept, pair), x, y))
