"""Transposes in registers: loads that run along another dimension than the stores, a square tile at a time."""

from __future__ import annotations

from collections.abc import Sequence

from llvmlite import ir

from xloom.cpu.emit.bits import bits_type, move
from xloom.cpu.emit.intrinsics import intrinsic
from xloom.cpu.emit.loop import PLAIN, VECTOR_ONLY, allocate, loop
from xloom.cpu.emit.types import I32, I64
from xloom.cpu.loops.affine import Var
from xloom.cpu.loops.emission import Elements
from xloom.cpu.loops.nest import Stage
from xloom.cpu.loops.nodes import Load, walk
from xloom.cpu.loops.phases import Phases

SIDE = 16
"""Elements along each side of a tile: a cache line of f32."""
PATCH = 128
"""Elements along each side of the squares that transposes are done in: so that few pages are touched at a time."""


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


def emit_tiled(
    phases: Phases,
    stage: Stage,
    loops: list[Var],
    gone: dict[Var, None],
    cost: int,
    across: Var,
    nodes: list[Load],
) -> None:
    """Square tiles of two loops: what is loaded along one of them is transposed in registers."""
    inner = loops[-1]
    rows = Var("rows", -(-across.size // PATCH), None, -1)
    columns = Var("columns", -(-inner.size // PATCH), None, -2)
    others = [v for v in loops[:-1] if v != across]
    with phases.phase([*others, rows, columns], cost * PATCH * PATCH) as elements:
        elements.unbind(gone)
        b = elements.b
        tiles = [Tile(elements, node, across, inner) for node in nodes]

        def bounds(patch: Var, size: int) -> tuple[ir.Value, ir.Value]:
            begin = b.mul(elements.vars[patch], I64(PATCH), flags=["nsw"])
            return begin, intrinsic(b, "smin", b.add(begin, I64(PATCH)), I64(size))

        first, second = bounds(rows, across.size), bounds(columns, inner.size)
        with (
            loop(b, *first, SIDE, name="rows", hints=PLAIN) as row,
            loop(b, *second, SIDE, name="columns", hints=PLAIN) as column,
            elements.scope(),
        ):
            _emit_tile(phases, elements, stage, tiles, (across, row), (inner, column))


def _emit_tile(
    phases: Phases,
    elements: Elements,
    stage: Stage,
    tiles: list[Tile],
    across: tuple[Var, ir.Value],
    along: tuple[Var, ir.Value],
) -> None:
    b = elements.b
    left = [b.sub(I64(var.size), first) for var, first in (across, along)]

    def emit(height: ir.Value | None, width: ir.Value | None) -> None:
        elements.vars.update((across, along))
        hints = VECTOR_ONLY if height is None else PLAIN
        with elements.scope():
            for tile in tiles:
                tile.fill(height, width)
        with (
            loop(b, 0, SIDE if height is None else height, name="row", hints=hints) as row,
            loop(b, 0, SIDE if width is None else width, name="column", hints=hints) as column,
            elements.scope(),
        ):
            elements.vars[across[0]] = b.add(across[1], row, flags=["nsw"])
            elements.vars[along[0]] = b.add(along[1], column, flags=["nsw"])
            at = b.add(b.mul(row, I64(SIDE), flags=["nsw"]), column, flags=["nsw"])
            elements.staged = {id(t.node): (t.memory, at) for t in tiles}
            phases.stores(elements, stage.stores)
        elements.staged = {}

    whole = b.and_(*(b.icmp_signed(">=", n, I64(SIDE)) for n in left))
    with b.if_else(whole) as (then, otherwise):
        with then:
            emit(None, None)
        with otherwise:
            emit(*(intrinsic(b, "smin", n, I64(SIDE)) for n in left))
