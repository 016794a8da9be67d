"""Large products: blocks of one operand are packed for as long as they fit the caches, and meet all of the other one.

Of the other operand a few rows are packed at a time; or none, when its scalars are as well read where they lie. Rows of
it that are pages apart, and would evict one another from the first cache, are copied as they are, a line further apart.
Panels that lie in memory as they are read are not packed, but fetched while those before them are multiplied.
"""

from __future__ import annotations

from typing import NamedTuple

from llvmlite import ir

from xloom.cpu.kernel_modules.kernel import Kernel, PhaseBuilder
from xloom.cpu.kernels.matmul.arithmetic import Arithmetic, Parts
from xloom.cpu.kernels.matmul.axes import Axis, Product, count, digits, inner, linear_offset
from xloom.cpu.kernels.matmul.grain import grain
from xloom.cpu.kernels.matmul.operands import Array
from xloom.cpu.kernels.matmul.packing import BLOCK, DEPTH_BYTES, Packing, PackingTask, block_bytes, depth_bytes
from xloom.cpu.kernels.matmul.tile import Sums, Tile, apart, at_most, fitting, rolled, share, spaced, trimmed
from xloom.llvm.cache_lines import LINE, fetch
from xloom.llvm.intrinsics import intrinsic
from xloom.llvm.loop import allocate
from xloom.llvm.memory_copy import copy
from xloom.llvm.symbolic_dimension import divides, greatest, if_less, least
from xloom.llvm.types import I8, POINTER, element_pointer, i64
from xloom.llvm.vectors import lanes_below, splat

_OTHER_ROWS = 128
"""Rows of the other operand that are gone over for each panel of a block."""
_READY_ROWS = 2 * _OTHER_ROWS
"""The same for panels that come from memory: the first of these rows wait for each, the others do not."""
_LEAST_BLOCKS = 8
"""For the threads to share, where there are as many panels."""
_COPYING_BLOCKS = 4
"""The same for panels that need no packing, where the other operand's rows are copied for each block."""
_MANY_BLOCKS = 4 * _LEAST_BLOCKS
"""So many that it matters little whether a thread has one more than another."""
_LEAST_ROWS = 128
"""Rows of a block, for which the other operand is packed anew."""
_FEW_ROWS = 32
"""So few that most of the time goes into reading the other operand: its blocks are flat, for long runs of memory."""


def depth_block(arithmetic: Arithmetic, product: Product) -> int:
    """How much of the depth is summed before the result is written, in packed elements."""
    depth = -(-count(product.depth) // arithmetic.pack_factor)
    rows, columns = count(product.rows), count(product.columns)
    large = inner(product.columns).b if rows <= columns else inner(product.rows).a
    few_bytes = DEPTH_BYTES // 4 if large == 1 else DEPTH_BYTES
    nbytes = if_less(least(rows, columns), _FEW_ROWS + 1, few_bytes, depth_bytes(arithmetic))
    size = share(depth, nbytes // (arithmetic.dtype.real.bytes * arithmetic.parts))
    return -(-size // BLOCK) * BLOCK


class _Blocks(NamedTuple):
    """The sizes of a blocked product."""

    tile: Tile
    depth: int
    depth_per_block: int
    left: Packing
    right: Packing
    blocks_right: bool
    """True when the right operand is the one in blocks."""
    panels: int
    """Panels in a block."""
    has_rows: bool
    """True when the other operand, the left one, is not packed, but read row by row."""
    copies_rows: bool
    """True when its rows would evict one another where they lie."""
    are_ready: bool
    """True when the right operand is panels already."""

    @property
    def other(self) -> Packing:
        return self.left if self.blocks_right else self.right

    @property
    def own(self) -> Packing:
        return self.right if self.blocks_right else self.left


def blocked(kernel: Kernel, arithmetic: Arithmetic, product: Product, a: Array, b_: Array, c: Array) -> None:
    """Adds one phase, whose items are blocks of the result."""
    rows, columns = count(product.rows), count(product.columns)
    many = arithmetic.has_plain_floats and least(rows, columns) > _FEW_ROWS
    tile = fitting(arithmetic, rows, columns, arithmetic.most_sums if many else arithmetic.few_sums)
    right = Packing(arithmetic, b_, "b", product.columns, product.depth, tile.columns)
    are_ready = right.lies_in_panels
    tile = trimmed(tile, rows) if are_ready else tile
    left = Packing(arithmetic, a, "a", product.rows, product.depth, tile.rows)
    depth = left.length
    has_rows = (are_ready or rows <= columns) and not a.is_made and has_scalars_in_rows(arithmetic, product, a)
    depth_per_block = depth_block(arithmetic, product)
    blocks_right = (
        are_ready
        or b_.is_made
        or has_rows
        or (not a.is_made and _packs_less(right, left, rows <= columns, depth_per_block))
    )
    own = right if blocks_right else left
    copies_rows = has_rows and _evict_each_other(arithmetic, product, a, tile)
    blocks = _COPYING_BLOCKS if are_ready and copies_rows else _LEAST_BLOCKS
    panels = _panels(own, depth_per_block, has_rows, blocks)
    sizes = _Blocks(tile, depth, depth_per_block, left, right, blocks_right, panels, has_rows, copies_rows, are_ready)
    outer = -(-own.panels // panels)
    cost = 2 * rows * columns * depth // outer
    with kernel.phase(count(product.batch) * outer, grain(cost, arithmetic)) as phase:
        _blocks(phase, product, sizes, c)


def _panels(own: Packing, depth_per_block: int, has_rows: bool, blocks: int = _LEAST_BLOCKS) -> int:
    """How many panels of `depth_per_block` packed elements of the depth a block has, of so many at least."""
    line = own.width * depth_per_block * own.arithmetic.parts * own.arithmetic.dtype.real.bytes
    panels = own.panels // blocks
    if not has_rows:
        panels = greatest(panels, _LEAST_ROWS // own.width)
    panels = greatest(1, least(block_bytes(own.arithmetic) // line, panels))
    outer = -(-own.panels // panels)
    even = -(-own.panels // (outer + outer % 2))  # for two threads to have as much
    return if_less(outer, _MANY_BLOCKS, even, panels)


def _packs_less(right: Packing, left: Packing, is_wide: bool, depth_per_block: int) -> bool:
    """True when blocks of the right operand are better: what is packed again for each should be little and quick."""
    if not right.is_copied:
        return is_wide
    if not left.is_copied:
        return False
    own, other = (x.panels * x.width for x in (right, left))
    again = (
        -(-right.panels // _panels(right, depth_per_block, False)),
        -(-left.panels // _panels(left, depth_per_block, False)),
    )
    return 4 * (own + again[0] * other) <= 3 * (other + again[1] * own)


def has_scalars_in_rows(arithmetic: Arithmetic, product: Product, a: Array) -> bool:
    """True when the left operand holds what a packed one would, and its rows are adjacent along the depth."""
    size = a.dtype.bytes * arithmetic.pack_factor
    if arithmetic.parts > 1 or a.dtype.kind is not arithmetic.dtype.kind or size != arithmetic.dtype.bytes:
        return False
    adjacent = len(product.rows) == len(product.depth) == 1 and product.depth[0].a == 1
    return adjacent and divides(arithmetic.pack_factor, product.depth[0].size)


def _evict_each_other(arithmetic: Arithmetic, product: Product, a: Array, tile: Tile) -> bool:
    """True when the rows of a tile have their scalars in lines for which the first cache has fewer places."""
    caches = arithmetic.target.caches
    return tile.rows > caches.ways and inner(product.rows).a * a.dtype.bytes % caches.period == 0


def _size(b: ir.IRBuilder, begin: ir.Value, blocks: _Blocks) -> ir.Value:
    return at_most(b, b.sub(i64(blocks.depth), begin), blocks.depth_per_block)


def _blocks(phase: PhaseBuilder, product: Product, blocks: _Blocks, c: Array) -> None:
    b, own, other = phase.b, blocks.own, blocks.other
    local = None if blocks.are_ready else _local(b, own, block_bytes(own.arithmetic))
    most = _READY_ROWS if blocks.are_ready else _OTHER_ROWS
    chunk = greatest(1, most // other.width)
    if blocks.are_ready:
        chunk = share(other.panels, chunk)
    if not blocks.has_rows or blocks.copies_rows:
        packed = _local(b, other, most * (depth_bytes(other.arithmetic) + blocks.copies_rows * LINE))
    else:
        packed = None
    source, their_source = own.source.pointer(phase), other.source.pointer(phase)
    sums = Sums(b, blocks.tile)
    outer = -(-own.panels // blocks.panels)
    with rolled(b, phase.begin, phase.end, name="item") as item:
        number, block = digits(b, [Axis(count(product.batch), 0, 0, 0), Axis(outer, 0, 0, 0)], item)
        base, their_base = (linear_offset(b, product.batch, number, x.operand) for x in (own, other))
        target = linear_offset(b, product.batch, number, "c")
        first, after = (b.udiv(b.mul(x, i64(own.panels)), i64(outer)) for x in (block, b.add(block, i64(1))))
        present = b.sub(after, first)
        with rolled(b, 0, blocks.depth, blocks.depth_per_block, name="block") as begin:
            size = _size(b, begin, blocks)
            if local is not None:
                own.emit(b, PackingTask(source, base, b.mul(first, i64(own.width)), begin, size, local, present))
            with rolled(b, 0, other.panels, chunk, name="chunk") as low:
                some = at_most(b, b.sub(i64(other.panels), low), chunk)
                row = b.mul(low, i64(other.width))
                if blocks.copies_rows:
                    row = at_most(b, row, count(product.rows) - other.width)
                    _copy_rows(b, other, PackingTask(their_source, their_base, row, begin, size, packed, some))
                elif packed is not None:
                    other.emit(b, PackingTask(their_source, their_base, row, begin, size, packed, some))
                bounds = {"own": (i64(0), present), "other": (i64(0), some)}
                kinds = ("own", "other") if blocks.blocks_right else ("other", "own")
                with rolled(b, *bounds[kinds[0]], name="column") as j, rolled(b, *bounds[kinds[1]], name="row") as i:
                    mine, theirs = (j, i) if blocks.blocks_right else (i, j)
                    ahead = None
                    if local is not None:
                        ours = _panel(b, own, local, mine, size)
                    else:
                        ours, after_it = (
                            own.ready_panel(b, source, base, b.add(first, n), begin)
                            for n in (mine, b.add(mine, i64(1)))
                        )
                        ahead = _Ahead(after_it, theirs, b.udiv(i64(own.width * own.source.dtype.bytes), some))
                    mine, theirs_at = b.add(first, mine), b.add(low, theirs)
                    numbers = (theirs_at, mine) if blocks.blocks_right else (mine, theirs_at)
                    position = _tile_position(b, blocks, numbers)
                    if packed is None:
                        line = b.mul(position.row, i64(inner(product.rows).a))
                        start = b.add(their_base, b.add(line, b.mul(begin, i64(blocks.left.arithmetic.pack_factor))))
                        others = element_pointer(b, their_source, other.source.dtype, start)
                    elif blocks.copies_rows:
                        line = b.mul(b.sub(position.row, row), _row_distance(b, other, size))
                        others = b.gep(packed, [line], inbounds=True, source_etype=I8)
                    else:
                        others = _panel(b, other, packed, theirs, size)
                    panels = (others, ours) if blocks.blocks_right else (ours, others)
                    _tile(phase, product, blocks, sums, c, target, panels, position, begin, size, ahead)


def _row_distance(b: ir.IRBuilder, packing: Packing, size: ir.Value) -> ir.Value:
    """Bytes from a row of a copy to the next: an odd number of lines, as rows are read side by side."""
    nbytes = b.mul(size, i64(packing.arithmetic.pack_factor * packing.source.dtype.bytes))
    return b.or_(b.and_(b.add(nbytes, i64(LINE - 1)), i64(-LINE)), i64(LINE))


def _copy_rows(b: ir.IRBuilder, packing: Packing, task: PackingTask) -> None:
    """Copies a part of the depth of the rows of panels, as far as there are rows."""
    factor, dtype = packing.arithmetic.pack_factor, packing.source.dtype
    rows = intrinsic(b, "smin", b.mul(task.panels, i64(packing.width)), b.sub(i64(count(packing.rows)), task.first))
    nbytes = b.mul(task.size, i64(factor * dtype.bytes))
    start, distance = b.add(task.base, b.mul(task.begin, i64(factor))), _row_distance(b, packing, task.size)
    with rolled(b, 0, rows, name="row") as row:
        line = b.mul(b.add(task.first, row), i64(inner(packing.rows).a))
        source = element_pointer(b, task.pointer, dtype, b.add(start, line))
        target = b.gep(task.panel, [b.mul(row, distance)], inbounds=True, source_etype=I8)
        copy(b, target, source, nbytes)


def _local(b: ir.IRBuilder, packing: Packing, nbytes: int) -> ir.Value:
    """Memory on the stack for panels of so many bytes, or for one."""
    size = packing.arithmetic.dtype.real.bytes
    most = max(nbytes, packing.panel_size(BLOCK) * size + packing.width * depth_bytes(packing.arithmetic))
    local = allocate(b, packing.arithmetic.element, most // size)
    local.align, local.type = 64, POINTER
    return local


def _panel(b: ir.IRBuilder, packing: Packing, memory: ir.Value, number: ir.Value, size: ir.Value) -> ir.Value:
    """A panel of `size` packed elements of the depth."""
    offset = b.mul(number, b.mul(size, i64(packing.panel_size(1))))
    return b.gep(memory, [offset], inbounds=True, source_etype=packing.arithmetic.element)


class _TilePosition(NamedTuple):
    """A tile's row and column, and which of its rows are its own: those before belong to the tile before it."""

    row: ir.Value
    column: ir.Value
    begin: ir.Value
    end: ir.Value


def _tile_position(b: ir.IRBuilder, blocks: _Blocks, numbers: tuple[ir.Value, ir.Value]) -> _TilePosition:
    """What is not packed has no rows past the end: the last tile begins early enough to end with it."""
    tile, rows = blocks.tile, count(blocks.left.rows)
    row, column = (b.mul(x, i64(n)) for x, n in zip(numbers, (tile.rows, tile.columns), strict=True))
    if not blocks.has_rows:
        return _TilePosition(row, column, i64(0), at_most(b, b.sub(i64(rows), row), tile.rows))
    first = at_most(b, row, rows - tile.rows)
    return _TilePosition(first, column, b.sub(row, first), i64(tile.rows))


class _Ahead(NamedTuple):
    """Of the next panel, what a tile fetches: so many bytes an element of the depth, from its number's part on."""

    panel: ir.Value
    tile: ir.Value
    nbytes: ir.Value


def _tile(
    phase: PhaseBuilder,
    product: Product,
    blocks: _Blocks,
    sums: Sums,
    c: Array,
    target: ir.Value,
    panels: tuple[ir.Value, ir.Value],
    at: _TilePosition,
    begin: ir.Value,
    size: ir.Value,
    ahead: _Ahead | None,
) -> None:
    b, tile, left, right = phase.b, blocks.tile, blocks.left, blocks.right
    pc = c.pointer(phase)
    line = inner(product.rows).c  # the rows are adjacent in the result, and so are the columns
    start = b.add(target, b.add(b.mul(at.row, i64(line)), at.column))
    pointer = element_pointer(b, pc, c.dtype, start)
    for r in range(tile.rows):
        for column in range(0, tile.columns, tile.arithmetic.target.registers.nbytes // c.dtype.bytes):
            fetch(b, element_pointer(b, pointer, c.dtype, i64(r * line + column)), to_write=True)
    sums.clear(b)
    # a pointer a panel, which advances, and constant distances from it: processors add these as they load
    distance = _row_distance(b, left, size)
    walks = [allocate(b, POINTER) for _ in panels]
    for walk, panel in zip(walks, panels, strict=True):
        b.store(panel, walk)
    soon = None
    if ahead:
        soon = allocate(b, POINTER)
        part = b.mul(b.mul(ahead.tile, size), ahead.nbytes)
        b.store(b.gep(ahead.panel, [part], source_etype=I8), soon)
    with rolled(b, 0, size, name="k"):
        here = [b.load(walk, typ=POINTER) for walk in walks]
        if ahead and soon:
            line = b.load(soon, typ=POINTER)
            fetch(b, line, near=False)
            b.store(b.gep(line, [ahead.nbytes], source_etype=I8), soon)
        scalars = None
        if blocks.copies_rows:
            scalars = apart(b, here[0], lambda times: b.mul(distance, i64(times)))
        elif blocks.has_rows:
            scalars = spaced(b, here[0], left.source.dtype, inner(product.rows).a)

        def scalar(r: int) -> Parts:
            if scalars is None:
                return left.get(b, here[0], r, 1)
            return tile.arithmetic.adjacent(b, scalars(r), left.source.dtype, i64(0), 1)

        sums.multiply(b, scalar, lambda v: right.get(b, here[1], v * tile.lanes, tile.lanes))
        strides = (1 if blocks.has_rows else left.panel_size(1), right.panel_size(1))
        for walk, panel, stride in zip(walks, here, strides, strict=True):
            b.store(b.gep(panel, [i64(stride)], inbounds=True, source_etype=tile.arithmetic.element), walk)
    later = b.icmp_signed(">", begin, i64(0)) if blocks.depth_per_block < blocks.depth else None
    _written(phase, product, sums, c, start, at, later)


def _written(
    phase: PhaseBuilder,
    product: Product,
    sums: Sums,
    c: Array,
    start: ir.Value,
    position: _TilePosition,
    later: ir.Value | None,
) -> None:
    """Writes the tile, or adds it to what is there when `later`."""
    b, tile, pc = phase.b, sums.tile, c.pointer(phase)
    arithmetic, line, column = tile.arithmetic, inner(product.rows).c, position.column
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
    whole_rows = b.icmp_signed("==", b.sub(position.end, position.begin), i64(tile.rows))
    fits = b.and_(whole_rows, b.icmp_signed("<=", column, i64(columns - tile.columns)))
    with b.if_else(fits, likely=True) as (inside, edge):
        with inside:
            whole()
        with edge:
            get = sums.in_memory(b, lefts)
            with rolled(b, position.begin, position.end, name="row") as r:
                for left in lefts:
                    at = b.add(b.add(start, b.mul(r, i64(line))), i64(left))
                    value = get(r, i64(left), tile.lanes)
                    if tile.lanes == 1:
                        _add_scalar(
                            b, arithmetic, c, pc, at, value, b.icmp_signed("<", column, i64(columns - left)), later
                        )
                        continue
                    mask = lanes_below(b, tile.lanes, b.sub(i64(columns - left), column))
                    if later is not None:
                        present = b.and_(mask, splat(b, later, tile.lanes))
                        value = arithmetic.add(b, arithmetic.load(b, pc, c.dtype, at, tile.lanes, present), value)
                    arithmetic.store(b, pc, c.dtype, at, value, mask)


def _add_scalar(
    b: ir.IRBuilder,
    arithmetic: Arithmetic,
    c: Array,
    pointer: ir.Value,
    at: ir.Value,
    value: Parts,
    exists: ir.Value,
    later: ir.Value | None,
) -> None:
    """Writes a result if there is one at that place, or adds to what is there `later`."""
    with b.if_then(exists):
        if later is None:
            arithmetic.store(b, pointer, c.dtype, at, value)
            return
        with b.if_else(later) as (again, first):
            with again:
                before = arithmetic.load(b, pointer, c.dtype, at, 1)
                arithmetic.store(b, pointer, c.dtype, at, arithmetic.add(b, before, value))
            with first:
                arithmetic.store(b, pointer, c.dtype, at, value)
