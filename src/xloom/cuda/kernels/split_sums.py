"""Products with few tiles and long sums: blocks add up parts of the sums, which another kernel puts together."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from llvmlite import ir

from xloom.codegen.buffers.allocation import BufferAllocation
from xloom.cuda.kernel import THREADS, KernelBuilder, blocks_for
from xloom.cuda.kernels.epilogue import Epilogue
from xloom.cuda.kernels.product import Product
from xloom.cuda.lowering import ThunkLowering
from xloom.hlo.dtype import DType
from xloom.llvm import element_access, types
from xloom.llvm.scalar import elementwise  # noqa: F401 - registers the scalar rules
from xloom.llvm.scalar.conversion import converted
from xloom.llvm.scalar.operator import Operator
from xloom.llvm.scalar.rules import RULES
from xloom.llvm.types import I64, Value

_ENOUGH = 128
"""Blocks that keep all multiprocessors busy."""
_LEAST, _MOST = 512, 64
"""Elements of a sum's part, at least; and parts, at most."""


class Share(NamedTuple):
    """What a block does: a tile, from where to where along k (both i64), and where its elements go."""

    tile: ir.Value
    span: tuple[ir.Value, ir.Value]
    output: ir.Value


@dataclass(frozen=True)
class SplitSums:
    """How the sums of `tiles` tiles are split: into parts of `length` elements, with `size` results of type `kept`."""

    tiles: int
    parts: int
    length: int
    k: int
    size: int
    kept: DType

    @staticmethod
    def of(tiles: int, product: Product, depth: int, kept: DType) -> SplitSums:
        """What is best for so many tiles whose slices are `depth` deep."""
        k, size = product.k, product.batch * product.m * product.n
        wanted = min(_MOST, k // _LEAST, -(-_ENOUGH // tiles)) if 2 * tiles <= _ENOUGH else 1
        length = -(-k // (max(1, wanted) * depth)) * depth
        return SplitSums(tiles, -(-k // length), length, k, size, kept)

    @property
    def blocks(self) -> int:
        """For all parts of all tiles."""
        return self.tiles * self.parts

    @property
    def nbytes(self) -> int:
        """Memory for the parts."""
        return self.parts * self.size * self.kept.bytes

    def share(self, b: ir.IRBuilder, block: ir.Value, output: ir.Value) -> Share:
        """What a block does; all parts of the results are at `output`, if there are several."""
        if self.parts == 1:
            return Share(block, (I64(0), I64(self.k)), output)
        part, tile = b.udiv(block, I64(self.tiles)), b.urem(block, I64(self.tiles))
        begin = b.mul(part, I64(self.length), flags=["nsw", "nuw"])
        is_last = b.icmp_signed("==", part, I64(self.parts - 1))
        end = b.select(is_last, I64(self.k), b.add(begin, I64(self.length), flags=["nsw", "nuw"]))
        first = b.mul(part, I64(self.size * self.kept.bytes), flags=["nsw", "nuw"])
        return Share(tile, (begin, end), b.gep(output, [first], inbounds=True, source_etype=types.I8))

    def join(
        self,
        lowering: ThunkLowering,
        parts: BufferAllocation,
        dtype: DType,
        product: Product,
        epilogue: Epilogue | None,
    ) -> None:
        """A launch that puts the parts together, and does what an epilogue does: a thread a result."""
        arrays = epilogue.arrays if epilogue else []
        places = [parts, lowering.output(), *map(lowering.of, arrays)]
        arguments = list(dict.fromkeys(places))
        kernel = KernelBuilder(lowering.target, len(arguments))
        numbers = {value: arguments.index(place) for value, place in zip(arrays, places[2:], strict=True)}
        code = epilogue.code(kernel, numbers, product.flat) if epilogue else None
        kernel.strategy = f"puts {self.parts} parts of each of {self.size} sums together"
        b, blocks = kernel.b, blocks_for(self.size, THREADS)
        with kernel.each(self.size, blocks, THREADS, kernel.thread) as item:
            total = element_access.load(b, kernel.pointers[0], self.kept, item)
            for part in range(1, self.parts):
                place = b.add(item, I64(part * self.size), flags=["nsw", "nuw"])
                total = added(b, self.kept, total, element_access.load(b, kernel.pointers[0], self.kept, place))
            if code is None:
                value = converted(b, total, self.kept, dtype)
            else:
                value = code.to_store((I64(0), I64(0), item), total, self.kept)
            element_access.store(b, kernel.pointers[1], dtype, item, value, exact=True)
        lowering.launch(kernel.finished(), blocks, arguments)


def added(b: ir.IRBuilder, dtype: DType, x: Value, y: Value) -> Value:
    """The sum of two numbers of a type."""
    return RULES["add"](b, Operator("add", dtype, (dtype, dtype)), x, y)
