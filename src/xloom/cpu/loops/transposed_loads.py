"""Blocks of a load that runs along another dimension than the stores, transposed by tiles in registers."""

from __future__ import annotations

from dataclasses import dataclass

from llvmlite import ir

from xloom.codegen.loop_ir.affine import Var
from xloom.codegen.loop_ir.nodes import Load
from xloom.cpu.loops.emission import Elements
from xloom.llvm.cache_lines import LINE, fetch
from xloom.llvm.element_bits import bits_type, move
from xloom.llvm.intrinsics import intrinsic
from xloom.llvm.loop import PLAIN, allocate, loop
from xloom.llvm.register_transpose import transposed
from xloom.llvm.types import I64


@dataclass(frozen=True)
class TransposeBlocks:
    """How two loops are cut, in elements: `inner`, along which stores run, and `across`, along which loads do."""

    across: Var
    inner: Var
    depth: int
    """Of a block, along the loads."""
    width: int
    """Of a block, along the stores."""
    lanes: int
    """Of a tile, along the loads: those of a vector."""
    height: int
    """Of a tile, along the stores: how many vectors."""
    vector: int
    """Results that are computed at a time."""

    @property
    def tiles(self) -> int:
        """How many a block has; where they are not whole numbers of tiles, the last ones overlap those before."""
        return self.deep * -(-self.width // self.height)

    @property
    def deep(self) -> int:
        """How many a block has along the loads."""
        return -(-self.depth // self.lanes)

    @property
    def share(self) -> int:
        """Rows of a block that are stored after each of its tiles."""
        return -(-self.depth // self.tiles)

    @property
    def is_clipped(self) -> bool:
        """Whether some tiles' shares have fewer rows."""
        return self.share * self.tiles > self.depth or self.across.size % self.depth != 0

    @property
    def size(self) -> int:
        """Elements of a block."""
        return self.depth * self.width


class TransposedLoad:
    """A strided load, with the elements of two blocks in local memory where the inner loop is contiguous."""

    def __init__(self, elements: Elements, node: Load, blocks: TransposeBlocks, *, is_far: bool):
        self.node = node
        self._elements, self._blocks, self._is_far = elements, blocks, is_far
        self._direction = node.address.factor(blocks.across)
        self._stride = node.address.factor(blocks.inner)
        self.memory = allocate(elements.b, bits_type(node.dtype), 2 * blocks.size, "turned")
        self.memory.align = LINE

    def fill(self, at: ir.Value) -> None:
        """Loads a tile from the present variables on, or what there is of it, to index `at`."""
        b, blocks = self._elements.b, self._blocks
        across, inner = (self._elements.vars[v] for v in (blocks.across, blocks.inner))
        depth, height = b.sub(I64(blocks.across.size), across), b.sub(I64(blocks.inner.size), inner)
        cuts = ((blocks.across.size, blocks.depth, blocks.lanes), (blocks.inner.size, blocks.width, blocks.height))
        if all(size % block == 0 for size, block, _ in cuts):
            self._fill(at)
            return
        whole = b.and_(b.icmp_signed(">=", depth, I64(blocks.lanes)), b.icmp_signed(">=", height, I64(blocks.height)))
        if all(size % block == 0 or size % tile == 0 for size, block, tile in cuts):
            with b.if_then(whole), self._elements.scope():
                self._fill(at)
            return
        with b.if_else(whole) as (then, otherwise):
            with then, self._elements.scope():
                self._fill(at)
            with otherwise, self._elements.scope():
                limits = (
                    intrinsic(b, "smin", depth, I64(blocks.lanes)),
                    intrinsic(b, "smin", height, I64(blocks.height)),
                )
                self._fill_partly(at, *limits)

    def _fill(self, at: ir.Value) -> None:
        b, blocks, dtype = self._elements.b, self._blocks, self.node.dtype
        source, base = self._elements.pointers(self.node.source), self._elements.address_of(self.node)
        kind, backwards = bits_type(dtype), self._direction < 0
        squares: dict[int, list[ir.Value]] = {first: [] for first in range(0, blocks.lanes, blocks.height)}
        for k in range(blocks.height):
            index = b.add(base, I64(k * self._stride - backwards * (blocks.lanes - 1)), flags=["nsw"])
            address = b.gep(source, [index], inbounds=True, source_etype=kind)
            for first, lines in squares.items():
                part = b.gep(address, [I64(first)], inbounds=True, source_etype=kind)
                lines.append(b.load(part, typ=ir.VectorType(kind, blocks.height), align=dtype.real.bytes))
            if self._is_far:  # the next block's: as runs, these are too short for the hardware to see
                fetch(b, b.gep(address, [I64(self._direction * blocks.depth)], source_etype=kind))
        columns = [column for lines in squares.values() for column in transposed(b, lines)]
        for k, column in enumerate(reversed(columns) if backwards else columns):
            index = b.add(at, I64(k * blocks.width), flags=["nsw"])
            address = b.gep(self.memory, [index], inbounds=True, source_etype=kind)
            b.store(column, address, align=dtype.bytes * (1 if blocks.width % blocks.height else blocks.height))

    def _fill_partly(self, at: ir.Value, depth: ir.Value, height: ir.Value) -> None:
        b, source = self._elements.b, self._elements.pointers(self.node.source)
        base = self._elements.address_of(self.node)
        with loop(b, 0, height, name="c", hints=PLAIN) as column, loop(b, 0, depth, name="r", hints=PLAIN) as row:
            source_index = b.add(base, b.add(b.mul(column, I64(self._stride)), b.mul(row, I64(self._direction))))
            index = b.add(at, b.add(b.mul(row, I64(self._blocks.width)), column))
            move(b, source, source_index, self.memory, index, self.node.dtype)
