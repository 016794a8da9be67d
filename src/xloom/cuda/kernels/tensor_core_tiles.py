"""Products by tensor cores: each warp of a block has a part of the tile, of products of 16 x 8 elements (mma)."""

from __future__ import annotations

from collections.abc import Sequence

from llvmlite import ir

from xloom.codegen.emission.accumulators import Accumulator, Representation
from xloom.cuda.kernel import WARP, KernelBuilder, strided
from xloom.cuda.kernels.product import Operand, Product, offset
from xloom.hlo.dtype import bf16, f16, f32
from xloom.hlo.instruction import Instruction
from xloom.llvm import element_access
from xloom.llvm.loop import allocate
from xloom.llvm.scalar.conversion import converted
from xloom.llvm.types import FLOAT, HALF, I16, I32, I64

SIDE = 64
"""Rows and columns of a block's tile."""
PART = 32
"""Rows and columns of a warp's part."""
DEPTH = 32
"""Elements along k in shared memory at once."""
_PAD = 8
"""Between rows in shared memory: those that a warp reads at once are in different banks."""
_ROWS, _COLUMNS = 16, 8
"""Of one instruction's output."""
_RESULT = ir.LiteralStructType([FLOAT] * 4)


def tensor_core_kind(instruction: Instruction) -> str:
    """The element type by which tensor cores do a product: bf16, f16, tf32; empty where they would lose digits."""
    types = {o.shape.dtype for o in instruction._operands}
    result = instruction.shape.dtype
    if types == {bf16} and result in (bf16, f32):
        return "bf16"
    if types == {f16} and result in (f16, f32):
        return "f16"
    is_asked_for = str(instruction.attrs.get("algorithm", "")) == "dot_tf32_tf32_f32"
    return "tf32" if types == {f32} and result is f32 and is_asked_for else ""


class TensorCoreTiles:
    """How a product is cut, and the code of a block."""

    threads = WARP * (SIDE // PART) ** 2

    def __init__(self, instruction: Instruction, product: Product, kind: str):
        self.product, self.kind, self.dtype = product, kind, instruction.shape.dtype
        self.rows, self.columns = -(-product.m // SIDE), -(-product.n // SIDE)
        self.element = I32 if kind == "tf32" else I16
        self.nbytes = self.element.width // 8
        self.pitch = DEPTH + _PAD * 2 // self.nbytes

    @property
    def count(self) -> int:
        """Blocks, one for each tile."""
        return self.product.batch * self.rows * self.columns

    def emit(self, kernel: KernelBuilder, pointers: Sequence[ir.Value]) -> None:
        """Emits the kernel; `pointers` are those of both operands and of the output."""
        b, product = kernel.b, self.product
        kernel.strategy = f"tiles of {SIDE} x {SIDE} by tensor cores ({self.kind}), {DEPTH} deep"
        shared = [kernel.shared(SIDE * self.pitch * self.nbytes) for _ in range(2)]
        tile, column = b.udiv(kernel.block, I64(self.columns)), b.urem(kernel.block, I64(self.columns))
        batch, row = b.udiv(tile, I64(self.rows)), b.urem(tile, I64(self.rows))
        first = [b.mul(row, I64(SIDE), flags=["nsw"]), b.mul(column, I64(SIDE), flags=["nsw"])]
        across, down = PART // _COLUMNS, PART // _ROWS
        sums = [[[_zero(b) for _ in range(4)] for _ in range(across)] for _ in range(down)]
        warps = SIDE // PART
        part = [b.mul(x, I64(PART)) for x in (b.udiv(kernel.warp, I64(warps)), b.urem(kernel.warp, I64(warps)))]
        group, within = b.lshr(kernel.lane, I64(2)), b.and_(kernel.lane, I64(3))
        depth_of_one = 8 if self.kind == "tf32" else 16
        with strided(b, I64(0), I64(product.k), DEPTH) as depth:
            for s, (operand, size) in enumerate(((product.lhs, product.m), (product.rhs, product.n))):
                self._load(kernel, operand, pointers[s], shared[s], first[s], batch, depth, size)
            kernel.barrier()
            for k in range(0, DEPTH, depth_of_one):
                left = [self._left(b, shared[0], part[0], i, k, group, within) for i in range(down)]
                right = [self._right(b, shared[1], part[1], j, k, group, within) for j in range(across)]
                for i in range(down):
                    for j in range(across):
                        self._multiply(b, sums[i][j], left[i], right[j])
            kernel.barrier()
        for i in range(down):
            for j in range(across):
                for number, accumulator in enumerate(sums[i][j]):
                    at = b.add(b.add(first[0], part[0]), b.add(group, I64(i * _ROWS + 8 * (number // 2))))
                    place = b.add(b.mul(within, I64(2)), I64(j * _COLUMNS + number % 2))
                    self._store(b, pointers[2], batch, at, b.add(b.add(first[1], part[1]), place), accumulator)

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
    ) -> None:
        """A slice of an operand to shared memory, k innermost; zeros where there is none."""
        b = kernel.b
        along = operand.depth if operand.is_deep else operand.own
        width = min(operand.aligned(along), 16 // self.nbytes)
        lengths = (DEPTH, SIDE) if operand.is_deep else (SIDE, DEPTH)
        base = offset(b, operand.batch, batch)
        vector = ir.VectorType(self.element, width) if width > 1 else self.element
        nothing = ir.Constant(vector, [0] * width if width > 1 else 0)
        with strided(b, kernel.thread, I64(DEPTH * SIDE // width), kernel.threads) as item:
            inner = b.mul(b.urem(item, I64(lengths[0] // width)), I64(width), flags=["nsw", "nuw"])
            outer = b.udiv(item, I64(lengths[0] // width))
            k, line = (inner, outer) if operand.is_deep else (outer, inner)
            at, deep = b.add(first, line, flags=["nsw"]), b.add(depth, k, flags=["nsw"])
            inside = b.and_(b.icmp_signed("<", at, I64(size)), b.icmp_signed("<", deep, I64(self.product.k)))
            slot = allocate(b, vector)
            b.store(nothing, slot)
            with b.if_then(inside):
                index = b.add(base, b.add(offset(b, operand.own, at), offset(b, operand.depth, deep)), flags=["nsw"])
                address = b.gep(pointer, [index], inbounds=True, source_etype=self.element)
                b.store(b.load(address, typ=vector, align=width * self.nbytes), slot)
            value = b.load(slot, typ=vector)
            place = b.add(b.mul(line, I64(self.pitch), flags=["nsw"]), k, flags=["nsw"])
            if width == 1 or operand.is_deep:
                here = b.gep(shared, [place], inbounds=True, source_etype=self.element)
                b.store(value, here, align=width * self.nbytes)
            else:
                for lane in range(width):
                    here = b.gep(
                        shared, [b.add(place, I64(lane * self.pitch))], inbounds=True, source_etype=self.element
                    )
                    b.store(b.extract_element(value, I32(lane)), here, align=self.nbytes)

    # -- what a lane has of the operands of an instruction, as PTX says
    def _word(self, b: ir.IRBuilder, shared: ir.Value, line: ir.Value, k: ir.Value) -> ir.Value:
        index = b.add(b.mul(line, I64(self.pitch), flags=["nsw"]), k, flags=["nsw"])
        return b.load(b.gep(shared, [index], inbounds=True, source_etype=self.element), typ=I32, align=4)

    def _left(
        self, b: ir.IRBuilder, shared: ir.Value, part: ir.Value, i: int, k: int, group: ir.Value, within: ir.Value
    ) -> list[ir.Value]:
        per_word, half = (1, 4) if self.kind == "tf32" else (2, 8)
        deep = b.mul(within, I64(per_word))
        lines = [b.add(b.add(part, group), I64(i * _ROWS + 8 * r)) for r in range(2)]
        return [self._word(b, shared, lines[r], b.add(deep, I64(k + half * h))) for h in range(2) for r in range(2)]

    def _right(
        self, b: ir.IRBuilder, shared: ir.Value, part: ir.Value, j: int, k: int, group: ir.Value, within: ir.Value
    ) -> list[ir.Value]:
        per_word, half = (1, 4) if self.kind == "tf32" else (2, 8)
        deep, line = b.mul(within, I64(per_word)), b.add(b.add(part, group), I64(j * _COLUMNS))
        return [self._word(b, shared, line, b.add(deep, I64(k + half * h))) for h in range(2)]

    def _multiply(self, b: ir.IRBuilder, sums: list[Accumulator], left: list[ir.Value], right: list[ir.Value]) -> None:
        name, kind = {
            "bf16": ("m16n8k16.row.col.bf16", I32),
            "f16": ("m16n8k16.row.col.f32.f32", ir.VectorType(HALF, 2)),
            "tf32": ("m16n8k8.row.col.tf32", I32),
        }[self.kind]
        words = [w if kind is I32 else b.bitcast(w, kind) for w in (*left, *right)]
        full, signature = f"llvm.nvvm.mma.{name}", ir.FunctionType(_RESULT, [kind] * len(words) + [FLOAT] * 4)
        function = b.module.globals.get(full) or ir.Function(b.module, signature, full)
        result = b.call(function, [*words, *(a.get() for a in sums)])
        for number, accumulator in enumerate(sums):
            accumulator.set(b.extract_value(result, number))

    def _store(
        self,
        b: ir.IRBuilder,
        pointer: ir.Value,
        batch: ir.Value,
        row: ir.Value,
        column: ir.Value,
        accumulator: Accumulator,
    ) -> None:
        product = self.product
        inside = b.and_(b.icmp_signed("<", row, I64(product.m)), b.icmp_signed("<", column, I64(product.n)))
        with b.if_then(inside):
            line = b.add(b.mul(batch, I64(product.m), flags=["nsw"]), row, flags=["nsw"])
            index = b.add(b.mul(line, I64(product.n), flags=["nsw"]), column, flags=["nsw"])
            value = converted(b, accumulator.get(), f32, self.dtype)
            element_access.store(b, pointer, self.dtype, index, value, exact=True)


def _zero(b: ir.IRBuilder) -> Accumulator:
    accumulator = Accumulator(b, Representation(f32))
    accumulator.set(FLOAT(0.0))
    return accumulator
