"""Products by tensor cores: each warp of a block has a part of the tile, of products of 16 x 8 elements (mma).

The sums are in f32, those of s8 in s32.

Some slices of both operands are in shared memory: one is multiplied while the next are on their way, with one barrier
for each.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from llvmlite import ir

from xloom.cuda.kernel import WARP, KernelBuilder
from xloom.cuda.kernels.async_copy import SIZES
from xloom.cuda.kernels.epilogue import Epilogue, EpilogueCode
from xloom.cuda.kernels.matrix_fragments import Fragments
from xloom.cuda.kernels.mma import BYTES, COLUMNS, KINDS, add_product, zeros
from xloom.cuda.kernels.operand_lines import OperandLines
from xloom.cuda.kernels.product import Product
from xloom.cuda.kernels.product_tile import TileOrder, TileStore
from xloom.cuda.kernels.split_sums import SplitSums
from xloom.cuda.kernels.staged_slices import SliceShape, StagedSlices, pipelined
from xloom.hlo.dtype import bf16, f16, f32, f64, s8, s32, u8
from xloom.hlo.instruction import Instruction
from xloom.llvm.types import I64

DEPTH = 32
"""Elements along k of a slice; twice as many of one byte."""
_DEPTH_OF_F64 = 8
"""The same of f64."""
_MOST_SLICES, _SLICE_BYTES = 4, 44 << 10
"""How many slices there are at once, as long as they have room beside another."""


class Cut(NamedTuple):
    """How a product is cut: rows and columns of a block's tile, and of a warp's part."""

    rows: int
    columns: int
    part_rows: int
    part_columns: int


SMALL = Cut(64, 64, 32, 32)
LARGE = Cut(128, 128, 32, 64)
"""For products of which there are enough such tiles for all multiprocessors."""
_MANY = 64
"""Large tiles that are enough."""


def suits(product: Product, kind: str) -> bool:
    """Whether a product's operands lie as tensor cores read them: those of a byte along k, since none are turned."""
    return kind not in BYTES or (product.lhs.is_deep and product.rhs.is_deep)


def tensor_core_kind(instruction: Instruction) -> str:
    """The element type by which tensor cores do a product, one of `mma.KINDS`; empty where they would lose digits."""
    types = {o.shape.dtype for o in instruction._operands}
    result = instruction.shape.dtype
    for kind in (s8, u8):
        if types == {kind}:
            return kind.name if result is s32 else ""
    if types == {f64}:
        return "f64" if result is f64 else ""
    for kind in (bf16, f16):
        if types == {kind} and result in (bf16, f16, f32):
            return kind.name
    return "tf32" if types == {f32} and result is f32 and _allows_tf32(instruction) else ""


def _allows_tf32(instruction: Instruction) -> bool:
    """Whether a program asks for less than f32: by the algorithm, or by the precision, as XLA reads it for GPUs.

    XLA takes tf32 for the default precision too, which programs have that have thought of none: here it is f32.
    """
    if instruction["algorithm"] != "unset":
        return instruction["algorithm"] == "dot_tf32_tf32_f32"
    return set(instruction["operand_precision"]) == {"high"}


class TensorCoreTiles:
    """The code of a block, and how many there are."""

    def __init__(self, instruction: Instruction, product: Product, kind: str, epilogue: Epilogue | None):
        self.product, self.kind, self._how = product, kind, KINDS[kind]
        many = product.batch * (product.m // LARGE.rows) * (product.n // LARGE.columns) >= _MANY
        # what is copied element by element goes through registers, of which large tiles have none left
        together = min(operand.aligned for operand in (product.lhs, product.rhs)) * self._how.element.width // 8
        self.cut = LARGE if many and self._how.element.width <= 16 and together >= min(SIZES) else SMALL
        self.order = TileOrder(product, self.cut.rows, self.cut.columns)
        self.threads = WARP * (self.cut.rows // self.cut.part_rows) * (self.cut.columns // self.cut.part_columns)
        self.element = self._how.element
        self.depth = 2 * DEPTH if kind in BYTES else _DEPTH_OF_F64 if kind == "f64" else DEPTH
        padded = self.depth + (4 if kind == "f64" else 8)
        nbytes = (self.cut.rows + self.cut.columns) * padded * self.element.width // 8
        self.slices = max(2, min(_MOST_SLICES, _SLICE_BYTES // nbytes))
        self.sums = SplitSums.of(self.order.count, product, self.depth, self._how.kept)
        result = epilogue.dtype if epilogue else instruction.shape.dtype
        self.dtype = result if self.sums.parts == 1 else self._how.kept

    @property
    def count(self) -> int:
        """Blocks, one for each part of a tile's sums."""
        return self.sums.blocks

    def emit(self, kernel: KernelBuilder, pointers: Sequence[ir.Value], epilogue: EpilogueCode | None) -> None:
        """Emits the kernel; `pointers` are those of both operands and of the output."""
        b, product, cut = kernel.b, self.product, self.cut
        kernel.tensor_cores, kernel.resident_blocks = self.kind, 2 if self.cut is LARGE else 0
        how = f"by tensor cores ({self.kind}), {self.depth} deep, {self.slices} at a time"
        kernel.strategy = f"tiles of {cut.rows} x {cut.columns} {how}"
        share = self.sums.share(b, kernel.block, pointers[2])
        batch, first = self.order.place(b, share.tile)
        operands = [
            StagedSlices(
                OperandLines(kernel, operand, pointer, (start, size, product.k), batch, self.element),
                SliceShape(length, self.depth, self.slices),
            )
            for operand, pointer, start, length, size in zip(
                (product.lhs, product.rhs),
                pointers,
                first,
                (cut.rows, cut.columns),
                (product.m, product.n),
                strict=False,
            )
        ]
        warps = cut.columns // cut.part_columns
        part = [
            b.mul(b.udiv(kernel.warp, I64(warps)), I64(cut.part_rows)),
            b.mul(b.urem(kernel.warp, I64(warps)), I64(cut.part_columns)),
        ]
        rows, count = self._how.rows, self._how.sums
        across, down = cut.part_columns // COLUMNS, cut.part_rows // rows
        sums = [[zeros(b, self._how) for _ in range(across)] for _ in range(down)]
        fragments = [Fragments(kernel, slices, start, self.kind) for slices, start in zip(operands, part, strict=True)]
        with pipelined(kernel, operands, share.span) as (_, buffer):
            for k in range(0, self.depth, self._how.deep):
                left = fragments[0].left(buffer, k, down)
                right = fragments[1].right(buffer, k, across)
                for i in range(down):
                    for j in range(across):
                        add_product(b, self._how, sums[i][j], left[i], right[j])
        store = TileStore(product, (cut.rows, cut.columns), self.dtype, self._how.kept, epilogue)
        group, within = b.lshr(kernel.lane, I64(2)), b.and_(kernel.lane, I64(3))
        corner = [b.add(f, p, flags=["nsw"]) for f, p in zip(first, part, strict=True)]
        for i in range(down):
            for j in range(across):
                for half in range(count // 2):
                    at = b.add(corner[0], b.add(group, I64(i * rows + 8 * half)), flags=["nsw"])
                    place = b.add(b.mul(within, I64(2), flags=["nsw"]), I64(j * COLUMNS), flags=["nsw"])
                    place = b.add(corner[1], place, flags=["nsw"])
                    pair = [accumulator.get() for accumulator in sums[i][j][2 * half : 2 * half + 2]]
                    store.pair(b, share.output, (batch, at, place), pair)
