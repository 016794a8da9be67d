"""Large products: the smaller operand packed once for all threads, the other in blocks that fit the caches."""

from __future__ import annotations

from dataclasses import dataclass

from llvmlite import ir

from xloom.cpu.emit.loop import allocate
from xloom.cpu.emit.registers import registers
from xloom.cpu.emit.sizes import divides, greatest, least
from xloom.cpu.emit.types import POINTER, element_pointer, i64
from xloom.cpu.kernel import Kernel, PhaseBuilder
from xloom.cpu.kernels.matmul.arithmetic import Arithmetic, lanes_below, prefetch, splat
from xloom.cpu.kernels.matmul.axes import Axis, Product, count, digits, inner, linear_offset
from xloom.cpu.kernels.matmul.operands import Array
from xloom.cpu.kernels.matmul.packing import BLOCK, Packing, Part
from xloom.cpu.kernels.matmul.tile import Sums, Tile, at_most, few_sums, fitting, rolled, share
from xloom.cpu.kernels.matmul.work import grain

_BLOCK_BYTES = 1 << 18
"""Of the operand that is not shared, packed: a quarter of a second-level cache of 1 MiB."""
_DEPTH_BYTES = 1 << 10
"""Of a row in a panel: 32 columns of 256 f32 fill most of a first-level cache of 48 KiB."""
_SHARED_ROWS = 128
"""Rows of the shared operand that are gone over for each panel of the other."""
_LEAST_BLOCKS = 8
"""For the threads to share, where there are as many panels."""
_FEW_ROWS = 32
"""So few that most of the time goes into reading the other operand: its blocks are flat, for long runs of memory."""


def depth_block(arithmetic: Arithmetic, product: Product) -> int:
    """How much of the depth is summed before the result is written, in packed elements."""
    depth = -(-count(product.depth) // arithmetic.places)
    few = min(count(product.rows), count(product.columns)) <= _FEW_ROWS
    nbytes = _DEPTH_BYTES // 4 if few else _DEPTH_BYTES
    size = share(depth, nbytes // (arithmetic.dtype.real.bytes * arithmetic.parts))
    return -(-size // BLOCK) * BLOCK


@dataclass(frozen=True)
class _Blocks:
    """The sizes of a blocked product."""

    tile: Tile
    depth: int
    step: int
    left: Packing
    right: Packing
    shares_left: bool
    panels: int
    """Panels in a block of the operand that is not shared."""

    @property
    def shared(self) -> Packing:
        return self.left if self.shares_left else self.right

    @property
    def own(self) -> Packing:
        return self.right if self.shares_left else self.left


def blocked(kernel: Kernel, arithmetic: Arithmetic, product: Product, a: Array, b_: Array, c: Array) -> None:
    """Two phases: panels of the shared operand, then blocks of the result."""
    rows, columns = count(product.rows), count(product.columns)
    tile = fitting(arithmetic, rows, columns, few_sums())
    left = Packing(arithmetic, a, "a", product.rows, product.depth, tile.rows)
    right = Packing(arithmetic, b_, "b", product.columns, product.depth, tile.columns)
    depth = left.length
    shares_left = rows <= columns
    width = tile.columns if shares_left else tile.rows
    step = depth_block(arithmetic, product)
    line = width * step * arithmetic.parts * arithmetic.dtype.real.bytes
    own = right if shares_left else left
    panels = greatest(1, least(_BLOCK_BYTES // line, own.panels // _LEAST_BLOCKS))
    blocks = _Blocks(tile, depth, step, left, right, shares_left, panels)
    batch, shared = count(product.batch), blocks.shared
    memory = kernel.add_scratch(batch * shared.panels * shared.panel_size(depth) * arithmetic.dtype.real.bytes)
    items = batch * shared.panels
    with kernel.phase(items, grain(20 * shared.panel_size(depth), arithmetic)) as phase:
        _pack_shared(phase, product, blocks, memory)
    outer = -(-blocks.own.panels // blocks.panels)
    cost = 2 * rows * columns * depth // outer
    with kernel.phase(batch * outer, grain(cost, arithmetic)) as phase:
        _blocks(phase, product, blocks, memory, c)


def _pack_shared(phase: PhaseBuilder, product: Product, blocks: _Blocks, memory: int) -> None:
    """Memory lies as [batch][block of the depth][panel]."""
    b, packing = phase.b, blocks.shared
    pointer, target = packing.source.pointer(phase), phase.scratch(memory)
    with rolled(b, phase.begin, phase.end, name="panel") as item:
        number, panel = digits(b, [Axis(count(product.batch), 0, 0, 0), Axis(packing.panels, 0, 0, 0)], item)
        base = linear_offset(b, product.batch, number, packing.operand)
        with rolled(b, 0, blocks.depth, blocks.step, name="block") as begin:
            size = _size(b, begin, blocks)
            place = _shared_panel(b, blocks, target, number, begin, size, panel)
            packing.emit(b, Part(pointer, base, b.mul(panel, i64(packing.width)), begin, size, place))


def _size(b: ir.IRBuilder, begin: ir.Value, blocks: _Blocks) -> ir.Value:
    return at_most(b, b.sub(i64(blocks.depth), begin), blocks.step)


def _shared_panel(
    b: ir.IRBuilder,
    blocks: _Blocks,
    memory: ir.Value,
    batch: ir.Value,
    begin: ir.Value,
    size: ir.Value,
    panel: ir.Value,
) -> ir.Value:
    packing = blocks.shared
    place = b.mul(batch, i64(packing.panels * packing.panel_size(blocks.depth)))
    place = b.add(place, b.mul(begin, i64(packing.panels * packing.panel_size(1))))
    place = b.add(place, b.mul(b.mul(panel, size), i64(packing.panel_size(1))))
    return b.gep(memory, [place], inbounds=True, source_etype=packing.arithmetic.element)


def _blocks(phase: PhaseBuilder, product: Product, blocks: _Blocks, memory: int, c: Array) -> None:
    b, own, shared = phase.b, blocks.own, blocks.shared
    element = own.arithmetic.element
    most = max(_BLOCK_BYTES, own.panel_size(BLOCK) * own.arithmetic.dtype.real.bytes + own.width * _DEPTH_BYTES)
    local = allocate(b, element, most // own.arithmetic.dtype.real.bytes)
    local.align, local.type = 64, POINTER
    source, packed = own.source.pointer(phase), phase.scratch(memory)
    sums = Sums(b, blocks.tile)
    outer = -(-own.panels // blocks.panels)
    chunk = max(1, _SHARED_ROWS // shared.width) if blocks.shares_left else shared.panels
    with rolled(b, phase.begin, phase.end, name="item") as item:
        number, block = digits(b, [Axis(count(product.batch), 0, 0, 0), Axis(outer, 0, 0, 0)], item)
        base = linear_offset(b, product.batch, number, own.operand)
        target = linear_offset(b, product.batch, number, "c")
        first = b.mul(block, i64(blocks.panels))
        present = at_most(b, b.sub(i64(own.panels), first), blocks.panels)
        with rolled(b, 0, blocks.depth, blocks.step, name="block") as begin:
            size = _size(b, begin, blocks)
            step = b.mul(size, i64(own.panel_size(1)))
            own.emit(b, Part(source, base, b.mul(first, i64(own.width)), begin, size, local, present))
            with rolled(b, 0, shared.panels, chunk, name="chunk") as low:
                high = b.add(low, at_most(b, b.sub(i64(shared.panels), low), chunk))
                bounds = {"own": (i64(0), present), "shared": (low, high)}
                kinds = ("own", "shared") if blocks.shares_left else ("shared", "own")
                with rolled(b, *bounds[kinds[0]], name="column") as j, rolled(b, *bounds[kinds[1]], name="row") as i:
                    mine, other = (j, i) if blocks.shares_left else (i, j)
                    ours = b.gep(local, [b.mul(mine, step)], inbounds=True, source_etype=element)
                    theirs = _shared_panel(b, blocks, packed, number, begin, size, other)
                    mine = b.add(first, mine)
                    panels = (theirs, ours) if blocks.shares_left else (ours, theirs)
                    places = (other, mine) if blocks.shares_left else (mine, other)
                    _tile(phase, product, blocks, sums, c, target, panels, places, begin, size)


def _tile(
    phase: PhaseBuilder,
    product: Product,
    blocks: _Blocks,
    sums: Sums,
    c: Array,
    target: ir.Value,
    panels: tuple[ir.Value, ir.Value],
    places: tuple[ir.Value, ir.Value],
    begin: ir.Value,
    size: ir.Value,
) -> None:
    b, tile, left, right = phase.b, blocks.tile, blocks.left, blocks.right
    pc = c.pointer(phase)
    row, column = (b.mul(x, i64(n)) for x, n in zip(places, (tile.rows, tile.columns), strict=True))
    line = inner(product.rows).c  # the rows are adjacent in the result, and so are the columns
    start = b.add(target, b.add(b.mul(row, i64(line)), column))
    place = element_pointer(b, pc, c.dtype, start)
    for r in range(tile.rows):
        for at in range(0, tile.columns, registers().nbytes // c.dtype.bytes):
            prefetch(b, element_pointer(b, place, c.dtype, i64(r * line + at)))
    sums.clear(b)
    # a pointer a panel, which advances, and constant distances from it: processors add these as they load
    walks = [allocate(b, POINTER) for _ in panels]
    for walk, panel in zip(walks, panels, strict=True):
        b.store(panel, walk)
    with rolled(b, 0, size, name="k"):
        here = [b.load(walk, typ=POINTER) for walk in walks]
        sums.multiply(
            b,
            lambda r: left.get(b, here[0], r, 1),
            lambda v: right.get(b, here[1], v * tile.lanes, tile.lanes),
        )
        for walk, at, x in zip(walks, here, (left, right), strict=True):
            b.store(b.gep(at, [i64(x.panel_size(1))], inbounds=True, source_etype=tile.arithmetic.element), walk)
    later = b.icmp_signed(">", begin, i64(0)) if blocks.step < blocks.depth else None
    _written(phase, product, sums, c, start, (row, column), later)


def _written(
    phase: PhaseBuilder,
    product: Product,
    sums: Sums,
    c: Array,
    start: ir.Value,
    place: tuple[ir.Value, ir.Value],
    later: ir.Value | None,
) -> None:
    """Writes the tile at row and column `place`, or adds it to what is there when `later`."""
    b, tile, pc = phase.b, sums.tile, c.pointer(phase)
    arithmetic, line, (row, column) = tile.arithmetic, inner(product.rows).c, place
    lefts = [v * tile.lanes for v in range(tile.vectors)]
    first = element_pointer(b, pc, c.dtype, start)

    def whole() -> None:
        if later is not None:
            with b.if_then(later):
                for r in range(tile.rows):
                    for v, at in enumerate(lefts):
                        before = arithmetic.load(b, first, c.dtype, i64(r * line + at), tile.lanes)
                        sums.set(b, r, v, arithmetic.add(b, before, sums.get(b, r, v)))
        for r in range(tile.rows):
            for v, at in enumerate(lefts):
                arithmetic.store(b, first, c.dtype, i64(r * line + at), sums.get(b, r, v))

    rows, columns = (count(x) for x in (product.rows, product.columns))
    if divides(tile.rows, rows) and divides(tile.columns, columns):
        whole()
        return
    fits = b.and_(
        b.icmp_signed("<=", row, i64(rows - tile.rows)), b.icmp_signed("<=", column, i64(columns - tile.columns))
    )
    with b.if_else(fits, likely=True) as (inside, edge):
        with inside:
            whole()
        with edge:
            get = sums.in_memory(b, lefts)
            with rolled(b, 0, at_most(b, b.sub(i64(rows), row), tile.rows), name="row") as r:
                for left in lefts:
                    mask = lanes_below(b, tile.lanes, b.sub(i64(columns - left), column))
                    at = b.add(b.add(start, b.mul(r, i64(line))), i64(left))
                    value = get(r, i64(left), tile.lanes)
                    if later is not None:
                        present = b.and_(mask, splat(b, later, tile.lanes))
                        value = arithmetic.add(b, arithmetic.load(b, pc, c.dtype, at, tile.lanes, present), value)
                    arithmetic.store(b, pc, c.dtype, at, value, mask)
