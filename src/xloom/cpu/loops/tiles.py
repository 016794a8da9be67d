"""Transposes in registers: loads that run along another dimension than the stores, a square tile at a time."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from llvmlite import ir

from xloom.cpu.emit import types
from xloom.cpu.emit.bits import bits_type, move
from xloom.cpu.emit.intrinsics import intrinsic
from xloom.cpu.emit.lines import LINE, fetch, write_around
from xloom.cpu.emit.loop import PLAIN, VECTOR_ONLY, allocate, loop
from xloom.cpu.emit.squares import transposed
from xloom.cpu.emit.types import I8, I64
from xloom.cpu.loops.affine import Var
from xloom.cpu.loops.emission import Elements
from xloom.cpu.loops.nest import Stage
from xloom.cpu.loops.nodes import Load, walk
from xloom.cpu.loops.phases import Phases
from xloom.cpu.loops.streaming import is_streamed

LEAST_SIDE = 16
"""Elements along each side of a tile, of which each is a cache line: of f32, and of what has not more of them."""
WIDE_SIDE = 32
"""The same of 16 and 8 bits: two lines of vectors that long would take all registers."""
PATCH = (256, 32)
"""Elements of a patch that is done at a time, along the loads and along the stores: of few pages, some lines each."""
SQUARE = (128, 128)
"""The same where something is loaded that lies as the stores do, in longer runs."""


def crossing(stage: Stage, loops: Sequence[Var]) -> tuple[Var, list[Load]] | None:
    """The loop along which some loads are contiguous while the innermost loop takes them far apart; and the loads."""
    if len(loops) < 2 or loops[-1].size < LEAST_SIDE:
        return None
    inner = loops[-1]
    found: dict[Var, list[Load]] = {}
    for node in walk([s.node for s in stage.stores], guarded=False):  # a tile is loaded whole
        if isinstance(node, Load) and abs(node.address.factor(inner)) > 1 and node.dtype.bytes <= 8:
            for var in loops[:-1]:
                if abs(node.address.factor(var)) == 1 and var.size >= LEAST_SIDE:
                    found.setdefault(var, []).append(node)
    if not found:
        return None
    var = max(found, key=lambda v: len(found[v]))
    return var, found[var]


class Tile:
    """A load's elements for a tile of two loops, in a local array where the inner loop is contiguous."""

    def __init__(self, elements: Elements, node: Load, across: Var, inner: Var, side: int):
        self.node = node
        self.side = side
        self._elements = elements
        self._direction = node.address.factor(across)
        self._stride = node.address.factor(inner)
        self.memory = allocate(elements.b, bits_type(node.dtype), side * side, "tile")
        self.memory.align = 64

    def fill(self, rows: ir.Value | None, columns: ir.Value | None) -> None:
        """Loads the tile at the present outer and inner variables: whole, or of `rows` (outer) by `columns` (inner)."""
        b, dtype = self._elements.b, self.node.dtype
        source = self._elements.pointers(self.node.source)
        base = self._elements.address_of(self.node)
        if rows is None:
            kind = ir.VectorType(bits_type(dtype), self.side)
            backwards = self._direction < 0
            lines = []
            for k in range(self.side):
                place = b.add(base, I64(k * self._stride - backwards * (self.side - 1)), flags=["nsw"])
                address = b.gep(source, [place], inbounds=True, source_etype=bits_type(dtype))
                lines.append(b.load(address, typ=kind, align=dtype.real.bytes))
                # the next row of tiles begins where this one ends, in lines too far apart for the hardware to see
                for at in range(0, self.side, LINE // dtype.bytes):
                    fetch(b, b.gep(address, [I64(at + self.side * self._direction)], source_etype=bits_type(dtype)))
            made = transposed(b, lines)
            for k, line in enumerate(reversed(made) if backwards else made):
                address = b.gep(self.memory, [I64(k * self.side)], inbounds=True, source_etype=bits_type(dtype))
                b.store(line, address, align=dtype.bytes)
            return
        with (
            loop(b, 0, columns, name="c", hints=PLAIN) as column,
            loop(b, 0, rows, name="r", hints=PLAIN) as row,
        ):
            place = b.add(base, b.add(b.mul(column, I64(self._stride)), b.mul(row, I64(self._direction))))
            move(b, source, place, self.memory, b.add(b.mul(row, I64(self.side)), column), dtype)


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
    straight = _straight(stage, nodes, (across, inner))
    patch = SQUARE if straight else PATCH
    rows = Var("rows", -(-across.size // patch[0]), None, -1)
    columns = Var("columns", -(-inner.size // patch[1]), None, -2)
    others = [v for v in loops[:-1] if v != across]
    with phases.phase([*others, rows, columns], cost * patch[0] * patch[1]) as elements:
        elements.unbind(gone)
        b = elements.b
        side = _side(phases, stage, nodes, (across, inner))
        tiles = [Tile(elements, node, across, inner, side) for node in nodes]

        def bounds(number: Var, extent: int, size: int) -> tuple[ir.Value, ir.Value]:
            begin = b.mul(elements.vars[number], I64(extent), flags=["nsw"])
            end = b.add(begin, I64(extent), flags=["nsw"])
            return begin, end if size % extent == 0 else intrinsic(b, "smin", end, I64(size))

        first, second = bounds(rows, patch[0], across.size), bounds(columns, patch[1], inner.size)
        elements.vars[across] = first[0]
        streamed = is_streamed(phases, elements.vars, stage, inner, patch[1])
        lines = Lines(phases, elements, stage, side, patch[1]) if streamed else None
        with loop(b, *first, side, name="rows", hints=PLAIN) as row:
            with loop(b, *second, side, name="columns", hints=PLAIN) as column, elements.scope():

                def stores(r: ir.Value, c: ir.Value, column: ir.Value = column) -> None:
                    if lines is None:
                        phases.stores(elements, stage.stores)
                    else:
                        lines.put(r, b.add(b.sub(column, second[0]), c))

                _fetch_ahead(elements, straight, (across, row), (inner, column), side)
                _emit_tile(elements, tiles, (across, row), (inner, column), stores)
            if lines is not None:
                elements.vars[inner] = second[0]
                left = b.sub(first[1], row)
                height = I64(side) if across.size % side == 0 else intrinsic(b, "smin", left, I64(side))
                lines.write((across, row, height), b.sub(second[1], second[0]))


def _side(phases: Phases, stage: Stage, nodes: Sequence[Load], loops: tuple[Var, Var]) -> int:
    widest = max(t.bytes for t in [*(n.dtype for n in nodes), *(phases.types_of(s.target) for s in stage.stores)])
    side = min(LINE // widest, WIDE_SIDE)
    return side if min(v.size for v in loops) >= side else LEAST_SIDE


def _straight(stage: Stage, nodes: Sequence[Load], loops: tuple[Var, Var]) -> list[Load]:
    """Loads that run along the stores, in other rows with each row of the result."""
    across, inner = loops
    loads = [n for n in walk([s.node for s in stage.stores]) if isinstance(n, Load) and n not in nodes]
    return [n for n in loads if n.address.factor(inner) == 1 and n.address.factor(across)]


def _fetch_ahead(
    elements: Elements, nodes: Sequence[Load], across: tuple[Var, ir.Value], along: tuple[Var, ir.Value], side: int
) -> None:
    """Has brought what loads need a row of tiles later: as runs, these are too short for the hardware to see."""
    b = elements.b
    elements.vars.update((across, along))
    for node in nodes:
        with loop(b, 0, side, name="ahead", hints=PLAIN) as row, elements.scope():
            elements.vars[across[0]] = b.add(across[1], b.add(row, I64(side)), flags=["nsw"])
            place = elements.address_of(node)
            fetch(b, b.gep(elements.pointers(node.source), [place], source_etype=bits_type(node.dtype)))


class Lines:
    """What a row of tiles makes, in local memory until its lines are whole."""

    def __init__(self, phases: Phases, elements: Elements, stage: Stage, height: int, width: int):
        self._phases = phases
        self._width = width
        self._elements = elements
        self._stores = stage.stores
        self._types = [phases.types_of(s.target) for s in stage.stores]
        self._made = [allocate(elements.b, I8, height * width * t.bytes, "lines") for t in self._types]
        for memory in self._made:
            memory.align = LINE
        elements.ends_with_fence = True

    def put(self, row: ir.Value, column: ir.Value) -> None:
        """Computes an element of each result, and keeps it."""
        b, elements = self._elements.b, self._elements
        at = b.add(b.mul(row, I64(self._width), flags=["nsw"]), column, flags=["nsw"])
        values = [elements.value(store.node) for store in self._stores]
        for memory, dtype, value in zip(self._made, self._types, values, strict=True):
            types.store(b, memory, dtype, at, value, exact=True)

    def write(self, across: tuple[Var, ir.Value, ir.Value], width: ir.Value) -> None:
        """Writes `width` elements of the rows from the present inner variable on: variable, first row, how many."""
        b, elements = self._elements.b, self._elements
        var, first, height = across
        with loop(b, 0, height, name="row", hints=PLAIN) as row, elements.scope():
            elements.vars[var] = b.add(first, row, flags=["nsw"])
            for store, memory, dtype in zip(self._stores, self._made, self._types, strict=True):
                target = self._phases.pointers[store.target]
                target = types.element_pointer(b, target, dtype, elements.index(store.address))
                line = types.element_pointer(b, memory, dtype, b.mul(row, I64(self._width)))
                write_around(b, target, line, b.mul(width, I64(dtype.bytes)))


def _emit_tile(
    elements: Elements,
    tiles: list[Tile],
    across: tuple[Var, ir.Value],
    along: tuple[Var, ir.Value],
    stores: Callable[[ir.Value, ir.Value], None],
) -> None:
    """One tile: `stores(row, column)` where each of its elements is done."""
    b, side = elements.b, tiles[0].side
    left = [b.sub(I64(var.size), first) for var, first in (across, along)]

    def emit(height: ir.Value | None, width: ir.Value | None) -> None:
        elements.vars.update((across, along))
        hints = VECTOR_ONLY if height is None else PLAIN
        with elements.scope():
            for tile in tiles:
                tile.fill(height, width)
        with (
            loop(b, 0, side if height is None else height, name="row", hints=hints) as row,
            loop(b, 0, side if width is None else width, name="column", hints=hints) as column,
            elements.scope(),
        ):
            elements.vars[across[0]] = b.add(across[1], row, flags=["nsw"])
            elements.vars[along[0]] = b.add(along[1], column, flags=["nsw"])
            at = b.add(b.mul(row, I64(side), flags=["nsw"]), column, flags=["nsw"])
            elements.staged = {id(t.node): (t.memory, at) for t in tiles}
            stores(row, column)
        elements.staged = {}

    if all(var.size % side == 0 for var, _ in (across, along)):
        emit(None, None)
        return
    whole = b.and_(*(b.icmp_signed(">=", n, I64(side)) for n in left))
    with b.if_else(whole) as (then, otherwise):
        with then:
            emit(None, None)
        with otherwise:
            emit(*(intrinsic(b, "smin", n, I64(side)) for n in left))
