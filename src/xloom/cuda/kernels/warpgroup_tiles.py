"""Products by warpgroups (wgmma, of sm_90a): four warps multiply what is in shared memory, 64 rows at a time.

Some slices of both operands are on their way while one is multiplied, as in `tensor_core_tiles.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from llvmlite import ir

from xloom.cuda.kernel import WARP, KernelBuilder
from xloom.cuda.kernels.epilogue import Epilogue, EpilogueCode
from xloom.cuda.kernels.operand_lines import OperandLines
from xloom.cuda.kernels.product import Product
from xloom.cuda.kernels.product_tile import TileOrder, TileStore
from xloom.cuda.kernels.staged_slices import SliceShape, pipelined
from xloom.cuda.kernels.warpgroup_slices import ROW_BYTES, WarpgroupSlices
from xloom.hlo.dtype import f32
from xloom.hlo.instruction import Instruction
from xloom.llvm.loop import allocate
from xloom.llvm.target import Target
from xloom.llvm.types import FLOAT, I8, I16, I32, I64, VOID

_GROUP = 4 * WARP
"""Threads of a warpgroup."""
_ROWS = 64
"""Of its output."""


class Cut(NamedTuple):
    """Rows and columns of a block's tile, each 64 rows of a warpgroup; slices at a time."""

    rows: int
    columns: int
    slices: int


NARROW, WIDE = Cut(128, 128, 3), Cut(128, 256, 4)
"""The latter reads less of shared memory for each product, where there are enough tiles for all multiprocessors."""
_FEW, _MANY = 32, 132
"""Tiles from which on narrow ones, and wide ones, are taken."""


def cut_for(product: Product, kind: str, target: Target) -> Cut | None:
    """How warpgroups cut a product; None on other GPUs, of other types, of few tiles, of pieces of less than 16 B."""
    if target.name != "sm_90a" or kind not in ("bf16", "f16", "tf32"):
        return None
    nbytes = 4 if kind == "tf32" else 2
    for operand in (product.lhs, product.rhs):
        if operand.aligned * nbytes < 16 or (kind == "tf32" and not operand.is_deep):
            return None
    for cut, least in ((WIDE, _MANY), (NARROW, _FEW)):
        fills = product.m >= cut.rows and product.n >= cut.columns
        if fills and TileOrder(product, cut.rows, cut.columns).count >= least:
            return cut
    return None


class WarpgroupTiles:
    """The code of a block, and how many there are."""

    sums = None
    """Which are not split: there are enough tiles."""

    def __init__(self, instruction: Instruction, product: Product, kind: str, cut: Cut, epilogue: Epilogue | None):
        self.product, self.kind, self.cut = product, kind, cut
        self.dtype = epilogue.dtype if epilogue else instruction.shape.dtype
        self.order = TileOrder(product, cut.rows, cut.columns)
        self.threads = _GROUP * (cut.rows // _ROWS)
        self.element = I32 if kind == "tf32" else I16
        self.depth = ROW_BYTES * 8 // self.element.width

    @property
    def count(self) -> int:
        """Blocks, one for each tile."""
        return self.order.count

    def emit(self, kernel: KernelBuilder, pointers: Sequence[ir.Value], epilogue: EpilogueCode | None) -> None:
        """Emits the kernel; `pointers` are those of both operands and of the output."""
        b, product, cut = kernel.b, self.product, self.cut
        # places of windows in steps take registers of which there are too few for two blocks
        has_steps = any(window.stride > 1 for window in product.lhs.windows)
        kernel.tensor_cores, kernel.resident_blocks = self.kind, 1 if cut is WIDE or has_steps else 2
        how = f"by warpgroups ({self.kind}), {self.depth} deep, {cut.slices} at a time"
        kernel.strategy = f"tiles of {cut.rows} x {cut.columns} {how}"
        batch, first = self.order.place(b, kernel.block)
        sides = (cut.rows, cut.columns)
        sizes = [side * ROW_BYTES * cut.slices for side in sides]
        memory = kernel.dynamic_shared(sum(sizes))
        ends = [(start, size, product.k) for start, size in zip(first, (product.m, product.n), strict=False)]
        operands = [
            WarpgroupSlices(
                OperandLines(kernel, operand, pointers[number], lines, batch, self.element),
                SliceShape(sides[number], self.depth, cut.slices),
                b.gep(memory, [I64(number * sizes[0])], inbounds=True, source_etype=I8),
            )
            for number, (operand, lines) in enumerate(zip((product.lhs, product.rhs), ends, strict=True))
        ]
        group = b.udiv(kernel.thread, I64(_GROUP))
        mine = b.mul(group, I64(_ROWS), flags=["nsw", "nuw"])
        sums = [allocate(b, FLOAT) for _ in range(cut.columns // 2)]
        for slot in sums:
            b.store(FLOAT(0.0), slot)
        span = I64(0), I64(product.k)
        with pipelined(kernel, operands, span, arrived=lambda: _show_to_tensor_cores(b)) as (_, buffer):
            left, right = operands[0].descriptors(buffer, mine), operands[1].descriptors(buffer, I64(0))
            self._multiply(b, sums, left, right, [int(not operand.is_deep) for operand in operands])
        store = TileStore(product, sides, self.dtype, f32, epilogue)
        lane = kernel.lane
        row = b.add(mine, b.mul(b.urem(kernel.warp, I64(4)), I64(16)), flags=["nsw", "nuw"])
        row = b.add(b.add(first[0], row), b.lshr(lane, I64(2)), flags=["nsw", "nuw"])
        column = b.add(first[1], b.mul(b.and_(lane, I64(3)), I64(2)), flags=["nsw", "nuw"])
        for number in range(0, len(sums), 2):
            block, half = divmod(number, 4)
            at = b.add(row, I64(4 * half)), b.add(column, I64(8 * block))
            pair = [b.load(slot, typ=FLOAT) for slot in sums[number : number + 2]]
            store.pair(b, pointers[2], (batch, *at), pair)

    def _multiply(
        self,
        b: ir.IRBuilder,
        sums: Sequence[ir.Value],
        left: Sequence[ir.Value],
        right: Sequence[ir.Value],
        turned: Sequence[int],
    ) -> None:
        """Adds the product of a slice. All is one piece of assembly: nothing may come between, and touch the sums."""
        count, steps = len(sums), len(left)
        kind = self.kind
        outputs = ", ".join(f"${k}" for k in range(count))
        ways = "" if kind == "tf32" else f", {turned[0]}, {turned[1]}"
        shape = f"m64n{self.cut.columns}k{8 if kind == 'tf32' else 16}.f32.{kind}.{kind}"
        products = [
            f"wgmma.mma_async.sync.aligned.{shape} {{{outputs}}}, ${count + k}, ${count + steps + k}, p, 1, 1{ways};"
            for k in range(steps)
        ]
        code = " ".join(
            [
                "{ .reg .pred p; setp.ne.b32 p, 1, 0; wgmma.fence.sync.aligned;",
                *products,
                "wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0; }",
            ]
        )
        constraints = [*["=f"] * count, *["l"] * (2 * steps), *map(str, range(count)), "~{memory}"]
        result = ir.LiteralStructType([FLOAT] * count)
        signature = ir.FunctionType(result, [*[I64] * (2 * steps), *[FLOAT] * count])
        given = [*left, *right, *(b.load(slot, typ=FLOAT) for slot in sums)]
        found = b.asm(signature, code, ",".join(constraints), given, True)
        for number, slot in enumerate(sums):
            b.store(b.extract_value(found, number), slot)


def _show_to_tensor_cores(b: ir.IRBuilder) -> None:
    """What the thread has written to shared memory is seen by products, which read it on another way."""
    b.asm(ir.FunctionType(VOID, []), "fence.proxy.async.shared::cta;", "~{memory}", [], True)
