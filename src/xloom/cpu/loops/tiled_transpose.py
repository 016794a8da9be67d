"""Transposes in registers: loads that run along another dimension than the stores, block by block.

What a block loads is transposed into local memory, and stored while the next block is loaded, a part after each of its
tiles: so neither waits for the other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from llvmlite import ir

from xloom.codegen.loop_ir.affine import Var
from xloom.codegen.loop_ir.nest import LoopBody, Store
from xloom.codegen.loop_ir.nodes import Load, indices_of
from xloom.cpu.loops.emission import Elements
from xloom.cpu.loops.nontemporal_stores import footprint, is_nontemporal
from xloom.cpu.loops.phases import Phases, counters
from xloom.cpu.loops.transposed_loads import TransposeBlocks, TransposedLoad
from xloom.llvm import element_access, types
from xloom.llvm.cache_lines import LINE, fetch, write_around
from xloom.llvm.intrinsics import intrinsic
from xloom.llvm.loop import AS_OFTEN, PLAIN, VECTOR_ONLY, allocate, loop
from xloom.llvm.types import I8, I64

HEIGHT = 16
"""Vectors of a tile at most: they fill half of the registers."""
NEAR, CACHED, STRAIGHT = (4 * LINE, 2 * LINE), (2 * LINE, 4 * LINE), (4 * LINE, 4 * LINE)
"""Bytes of a block along the loads and along the stores: lines are fetched in pairs.

The second is of results that stay in a far cache, whose lines are loaded before they are changed; the third of those
beside which something is loaded that lies as they do."""
MEMORY = 2
"""Of the first cache, what all that is transposed takes at most."""
FAR = 3 / 8
"""Of the last cache, what all arrays take of which so little is in the nearer ones that lines are fetched ahead."""


def emit_tiled(
    phases: Phases,
    stage: LoopBody,
    loops: list[Var],
    gone: dict[Var, None],
    cost: int,
    across: Var,
    nodes: list[Load],
) -> None:
    """Blocks of two loops: what is loaded along one of them is transposed in registers."""
    inner = loops[-1]
    straight = _straight(stage, nodes, (across, inner))
    is_far = footprint(phases, stage) >= FAR * phases.module.target.caches.last
    blocks = _blocks(phases, stage, nodes, (across, inner), STRAIGHT if straight else NEAR)
    outer = [v for v in loops[:-1] if v != across]
    around = is_nontemporal(phases, [*outer, across], stage, inner, blocks.width)
    if is_far and not around and not straight:
        blocks = _blocks(phases, stage, nodes, (across, inner), CACHED)
    rows = Var("rows", -(-across.size // blocks.depth), None, -1)
    columns = Var("columns", -(-inner.size // blocks.width), None, -2)
    order = [*outer, columns, rows]
    with phases.phase(order, cost * blocks.size, open_ended=True) as elements:
        elements.unbind(gone)
        b, (begin, end) = elements.b, elements.bounds
        transposed = [TransposedLoad(elements, node, blocks, is_far=is_far) for node in nodes]
        results = TiledResults(phases, elements, stage, blocks, transposed, around=around)

        def origin(item: ir.Value) -> dict[Var, ir.Value]:
            found = counters(b, order, item)
            starts = {across: (rows, blocks.depth), inner: (columns, blocks.width)}
            return found | {v: b.mul(found[n], I64(size), flags=["nsw"]) for v, (n, size) in starts.items()}

        with loop(b, begin, b.add(end, I64(1)), name="item", hints=AS_OFTEN) as item:
            loaded, stored = origin(item), origin(b.sub(item, I64(1)))
            half = b.mul(b.and_(item, I64(1)), I64(blocks.size))
            with loop(b, 0, blocks.tiles, name="tile", hints=PLAIN) as tile:
                with b.if_then(b.icmp_signed("<", item, end)), elements.scope():
                    _fill(elements, blocks, transposed, loaded, tile, half)
                    if is_far:
                        results.fetch(straight, loaded, tile)
                with b.if_then(b.icmp_signed(">", item, begin)), elements.scope():
                    results.emit(stored, tile, b.sub(I64(blocks.size), half))


def _blocks(
    phases: Phases, stage: LoopBody, nodes: Sequence[Load], loops: tuple[Var, Var], sides: tuple[int, int]
) -> TransposeBlocks:
    across, inner = loops
    memory = MEMORY * phases.module.target.caches.first
    made = [phases.types_of(s.target).bytes for s in stage.stores]
    widest = max(*(n.dtype.bytes for n in nodes), *made)
    vector = LINE // widest
    lanes = min(vector, 1 << across.size.bit_length() - 1)
    height = min(lanes, HEIGHT, 1 << inner.size.bit_length() - 1)
    depth, width = sides[0] // widest, max(sides[1] // widest, LINE // min(made))
    # short loops are whole, and the other one is longer for that
    if inner.size <= (2 * width if inner.size % vector else width):
        depth, width = depth * max(1, width // inner.size), inner.size
    if across.size <= (2 * depth if across.size % lanes else depth):
        longer = 1 if width == inner.size else max(1, depth // across.size)
        depth, width = across.size, width * longer
    while 2 * depth * width * sum(n.dtype.bytes for n in nodes) > memory and depth > lanes:
        depth = -(-depth // 2 // lanes) * lanes
    return TransposeBlocks(across, inner, depth, width, lanes, height, vector)


def _straight(stage: LoopBody, nodes: Sequence[Load], loops: tuple[Var, Var]) -> list[Load]:
    """Loads that run along the stores, in other rows with each row of the result."""
    across, inner = loops
    loads = [n for n in stage.nodes if isinstance(n, Load) and n not in nodes]
    return [n for n in loads if n.address.factor(inner) == 1 and n.address.factor(across)]


def _fill(
    elements: Elements,
    blocks: TransposeBlocks,
    transposed: Sequence[TransposedLoad],
    origin: Mapping[Var, ir.Value],
    tile: ir.Value,
    half: ir.Value,
) -> None:
    """Loads a tile of the block at `origin`."""
    b = elements.b
    row = b.mul(b.urem(tile, I64(blocks.deep)), I64(blocks.lanes))
    column = b.mul(b.udiv(tile, I64(blocks.deep)), I64(blocks.height))
    if blocks.depth % blocks.lanes:
        row = intrinsic(b, "smin", row, I64(blocks.depth - blocks.lanes))
    if blocks.width % blocks.height:
        column = intrinsic(b, "smin", column, I64(blocks.width - blocks.height))
    elements.vars.update(origin)
    elements.vars[blocks.across] = b.add(origin[blocks.across], row, flags=["nsw"])
    elements.vars[blocks.inner] = b.add(origin[blocks.inner], column, flags=["nsw"])
    at = b.add(half, b.add(b.mul(row, I64(blocks.width)), column))
    for load in transposed:
        load.fill(at)


class TiledResults:
    """What a stage makes of blocks, a part of a block for each of its tiles."""

    def __init__(
        self,
        phases: Phases,
        elements: Elements,
        stage: LoopBody,
        blocks: TransposeBlocks,
        transposed: Sequence[TransposedLoad],
        *,
        around: bool,
    ):
        self._phases, self._elements, self._stores, self._blocks = phases, elements, stage.stores, blocks
        self._transposed = {id(t.node): t.memory for t in transposed}
        self._is_joined = self._are_rows_joined(stage)
        """Whether rows of a block are one to all that they are computed from."""
        size, self._vector = blocks.width, blocks.vector
        """Elements that are computed at a time."""
        if self._is_joined:
            size *= blocks.share
            self._has_rest = size % blocks.vector != 0 or blocks.is_clipped
        else:
            if blocks.inner.size % blocks.vector:
                self._vector = min(blocks.vector, HEIGHT)
            self._has_rest = blocks.inner.size % self._vector != 0
        self._lines = [(store, *self._line_of(store, size)) for store in stage.stores] if around else []
        """Of each result that goes around the caches: where a row of a block is, and whether it is as it was loaded."""
        elements.ends_with_fence = around

    def _are_rows_joined(self, stage: LoopBody) -> bool:
        across, inner = self._blocks.across, self._blocks.inner
        nodes = [n for n in stage.nodes if id(n) not in self._transposed]
        found = [*(s.address for s in stage.stores), *(i for n in nodes for i in indices_of(n))]
        is_cut = self._blocks.width != inner.size or self._blocks.width % self._blocks.vector == 0
        return not is_cut and all(i.factor(across) == i.factor(inner) * inner.size for i in found)

    def _line_of(self, store: Store, size: int) -> tuple[ir.Value, bool]:
        dtype = self._phases.types_of(store.target)
        if id(store.node) in self._transposed and store.node.dtype == dtype:
            return self._transposed[id(store.node)], True
        line = allocate(self._elements.b, I8, size * dtype.bytes, "line")
        line.align = LINE
        return line, False

    def fetch(self, straight: Sequence[Load], origin: Mapping[Var, ir.Value], tile: ir.Value) -> None:
        """Has brought what a tile's share of the block at `origin` needs besides what is transposed."""
        b, elements, blocks = self._elements.b, self._elements, self._blocks
        prefetched = [
            (elements.pointers(n.source), n.dtype, elements.address(n.source, n.address), False) for n in straight
        ]
        if self._is_joined and not self._lines:  # rows next to each other; of others, this takes as long as it saves
            for store in self._stores:
                dtype = self._phases.types_of(store.target)
                prefetched.append((self._phases.pointers[store.target], dtype, store.address, True))
        if not prefetched:
            return
        elements.vars.update(origin)
        with loop(b, *_share(b, blocks, origin, tile), name="row", hints=PLAIN) as row, elements.scope():
            elements.vars[blocks.across] = b.add(origin[blocks.across], row, flags=["nsw"])
            for pointer, dtype, address, to_write in prefetched:
                line = types.element_pointer(b, pointer, dtype, elements.index(address))
                for at in range(0, blocks.width * dtype.bytes, LINE):
                    fetch(b, b.gep(line, [I64(at)], source_etype=I8), to_write=to_write)

    def emit(self, origin: Mapping[Var, ir.Value], tile: ir.Value, half: ir.Value) -> None:
        """Stores a tile's share of the block at `origin`, whose transposed elements are from index `half` on."""
        b, elements, blocks = self._elements.b, self._elements, self._blocks
        elements.vars.update(origin)
        begin, end = _share(b, blocks, origin, tile)
        if self._is_joined:
            self._row(origin, half, begin, b.mul(b.sub(end, begin), I64(blocks.width), flags=["nsw"]))
            return
        width = _clipped(b, blocks.inner, origin, blocks.width)
        with loop(b, begin, end, name="row", hints=PLAIN) as row, elements.scope():
            self._row(origin, half, row, width)

    def _row(self, origin: Mapping[Var, ir.Value], half: ir.Value, row: ir.Value, width: ir.Value) -> None:
        """Stores so many results from a row of a block on."""
        b, elements, blocks = self._elements.b, self._elements, self._blocks
        elements.vars[blocks.across] = b.add(origin[blocks.across], row, flags=["nsw"])
        line = b.add(half, b.mul(row, I64(blocks.width)), flags=["nsw"])
        if not self._lines or not all(is_as_loaded for *_, is_as_loaded in self._lines):
            self._compute(origin[blocks.inner], line, width)
        elements.vars[blocks.inner] = origin[blocks.inner]
        for store, memory, is_as_loaded in self._lines:
            dtype = self._phases.types_of(store.target)
            target = types.element_pointer(b, self._phases.pointers[store.target], dtype, elements.index(store.address))
            source = types.element_pointer(b, memory, dtype, line if is_as_loaded else I64(0))
            align = dtype.real.bytes if blocks.width * dtype.bytes % LINE else LINE
            write_around(b, target, source, b.mul(width, I64(dtype.bytes)), align)

    def _compute(self, first: ir.Value, line: ir.Value, width: ir.Value) -> None:
        """A row, a vector at a time."""
        b, vector, rest = self._elements.b, self._vector, self._has_rest
        vectors = b.and_(width, I64(-vector)) if rest else width
        with (
            loop(b, 0, vectors, vector, name="vector", hints=PLAIN) as start,
            loop(b, 0, vector, name="column", hints=VECTOR_ONLY) as k,
        ):
            self._element(first, line, b.add(start, k, flags=["nsw"]))
        if rest:
            with loop(b, vectors, width, name="column", hints=PLAIN) as column:
                self._element(first, line, column)

    def _element(self, first: ir.Value, line: ir.Value, column: ir.Value) -> None:
        b, elements = self._elements.b, self._elements
        with elements.scope():
            elements.vars[self._blocks.inner] = b.add(first, column, flags=["nsw"])
            index = b.add(line, column, flags=["nsw"])
            elements.staged = {node: (memory, index) for node, memory in self._transposed.items()}
            if not self._lines:
                self._phases.stores(elements, self._stores)
            for store, memory, is_as_loaded in self._lines:
                if not is_as_loaded:
                    value = elements.value(store.node)
                    element_access.store(b, memory, self._phases.types_of(store.target), column, value, exact=True)
            elements.staged = {}


def _share(
    b: ir.IRBuilder, blocks: TransposeBlocks, origin: Mapping[Var, ir.Value], tile: ir.Value
) -> tuple[ir.Value, ir.Value]:
    """The rows of the block at `origin` that are done with a tile."""
    begin = b.mul(tile, I64(blocks.share), flags=["nsw"])
    end = b.add(begin, I64(blocks.share), flags=["nsw"])
    if blocks.is_clipped:
        end = intrinsic(b, "smin", end, _clipped(b, blocks.across, origin, blocks.depth))
        end = intrinsic(b, "smax", end, begin)
    return begin, end


def _clipped(b: ir.IRBuilder, var: Var, origin: Mapping[Var, ir.Value], most: int) -> ir.Value:
    """How many iterations are left of a loop, at most so many."""
    if var.size % most == 0:
        return I64(most)
    return intrinsic(b, "smin", b.sub(I64(var.size), origin[var]), I64(most))
