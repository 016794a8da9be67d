"""Transposes in registers: loads that run along another dimension than the stores, a square tile at a time."""

from __future__ import annotations

from collections.abc import Sequence

from llvmlite import ir

from xloom.cpu.emit.bits import bits_type, move
from xloom.cpu.emit.loop import PLAIN, allocate, loop
from xloom.cpu.emit.types import I32, I64
from xloom.cpu.loops.affine import Var
from xloom.cpu.loops.emission import Elements
from xloom.cpu.loops.nest import Stage
from xloom.cpu.loops.nodes import Load, walk

SIDE = 16
"""Elements along each side of a tile: a cache line of f32."""


def crossing(stage: Stage, loops: Sequence[Var]) -> tuple[Var, list[Load]] | None:
    """The loop along which some loads are contiguous while the innermost loop takes them far apart; and the loads."""
    if len(loops) < 2 or loops[-1].size < SIDE:
        return None
    inner = loops[-1]
    found: dict[Var, list[Load]] = {}
    for node in walk([s.node for s in stage.stores]):
        if isinstance(node, Load) and abs(node.address.factor(inner)) > 1 and node.dtype.bytes <= 8:
            for var in loops[:-1]:
                if node.address.factor(var) == 1 and var.size >= SIDE:
                    found.setdefault(var, []).append(node)
    if not found:
        return None
    var = max(found, key=lambda v: len(found[v]))
    return var, found[var]


class Tile:
    """A load's elements for a tile of two loops, in a local array where the inner loop is contiguous."""

    def __init__(self, elements: Elements, node: Load, outer: Var, inner: Var):
        self.node = node
        self._elements = elements
        self._stride = node.address.factor(inner)
        self.memory = allocate(elements.b, bits_type(node.dtype), SIDE * SIDE, "tile")
        self.memory.align = 64

    def fill(self, rows: ir.Value | None, columns: ir.Value | None) -> None:
        """Loads the tile at the present outer and inner variables: whole, or of `rows` (outer) by `columns` (inner)."""
        b, dtype = self._elements.b, self.node.dtype
        source = self._elements.pointers(self.node.source)
        base = self._elements.address_of(self.node)
        if rows is None:
            kind = ir.VectorType(bits_type(dtype), SIDE)
            lines = []
            for k in range(SIDE):
                place = b.add(base, I64(k * self._stride), flags=["nsw"])
                address = b.gep(source, [place], inbounds=True, source_etype=bits_type(dtype))
                lines.append(b.load(address, typ=kind, align=dtype.real.bytes))
            for k, line in enumerate(_transposed(b, lines)):
                address = b.gep(self.memory, [I64(k * SIDE)], inbounds=True, source_etype=bits_type(dtype))
                b.store(line, address, align=dtype.bytes)
            return
        with (
            loop(b, 0, columns, name="c", hints=PLAIN) as column,
            loop(b, 0, rows, name="r", hints=PLAIN) as row,
        ):
            place = b.add(base, b.add(b.mul(column, I64(self._stride)), row))
            move(b, source, place, self.memory, b.add(b.mul(row, I64(SIDE)), column), dtype)


def _transposed(b: ir.IRBuilder, lines: list[ir.Value]) -> list[ir.Value]:
    """The columns of a square of vectors, by log2(SIDE) rounds that interleave halves."""
    count = len(lines)
    low = ir.Constant(ir.VectorType(I32, count), [k // 2 + count * (k % 2) for k in range(count)])
    high = ir.Constant(ir.VectorType(I32, count), [k // 2 + count * (k % 2) + count // 2 for k in range(count)])
    half = count // 2
    for _ in range(count.bit_length() - 1):
        pairs = [(lines[k], lines[k + half]) for k in range(half)]
        lines = [b.shuffle_vector(x, y, mask) for x, y in pairs for mask in (low, high)]
    return lines
