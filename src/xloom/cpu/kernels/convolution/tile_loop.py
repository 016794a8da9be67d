"""The loop over tiles of a convolution's output."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import NamedTuple

from llvmlite import ir

from xloom.cpu.kernel_modules.kernel import Kernel
from xloom.cpu.kernels.convolution.blocks import TILES, LoopBlocks, PieceOfPanel, TileSums, blocks_of, is_scattered
from xloom.cpu.kernels.convolution.edges import CopiedWindow, Edges
from xloom.cpu.kernels.convolution.filter_prefetch import FilterPrefetch
from xloom.cpu.kernels.convolution.geometry import Convolution, OutputAxis
from xloom.cpu.kernels.convolution.packed_filter import packed_panels
from xloom.cpu.kernels.convolution.tile_product import Operands
from xloom.cpu.kernels.convolution.tiling import Tiling, pair_axis
from xloom.cpu.kernels.convolution.window_pointers import Loops
from xloom.cpu.kernels.matmul.axes import Axis, count, digits, merged
from xloom.cpu.kernels.matmul.grain import grain
from xloom.cpu.kernels.matmul.operands import Array
from xloom.cpu.kernels.matmul.tile import Sums, at_most, rolled
from xloom.llvm.constant_table import constant_table
from xloom.llvm.intrinsics import intrinsic
from xloom.llvm.types import I1, I64, i64


def convolve(
    kernel: Kernel,
    chosen: Tiling,
    problem: Convolution,
    sides: Sequence[int],
    edges: Edges | None,
    arrays: tuple[Array, Array, Array],
) -> None:
    """The phases of a convolution whose input holds all that its windows reach, or has `edges`.

    Without its padding the input has these `sides`.
    """
    x, w, y = arrays
    arithmetic = chosen.tile.arithmetic
    packed = None
    if chosen.packing is not None:
        groups = Axis(chosen.groups, 0, problem.group.b, 0)
        packed = packed_panels(kernel, chosen.packing, problem.w_base, groups)
    tile = chosen.tile
    columns = chosen.columns, tile.columns // chosen.unit
    walk = [(a, 1) for a in chosen.others]
    walk.insert(_before(chosen), (chosen.rows, tile.rows))
    # the columns change first, as a window is copied for all; or before the rows, where threads had better each have
    # places of their own, which the next convolution finds near; or last: their panel of the kernel stays in the cache
    stays = not edges and chosen.name == "features" and _stays(chosen, problem)
    walk.insert(len(walk) if edges else len(walk) - 1 if stays else 0, columns)
    items = []
    for axis, size in walk:
        items += [Axis(len(axis.classes), 0, 0, 0), Axis(-(-axis.most // size), 0, 0, 0)]
    cost = 2 * tile.rows * tile.columns * count(problem.taps) * problem.feature.size
    with kernel.phase(count(tuple(items)), grain(cost, arithmetic)) as phase:
        b = phase.b
        sums, operands = Sums(b, tile), Operands(phase, chosen, x, w, y, packed)
        walker = _Walker(b, problem, sides, chosen, walk, items)
        loops = _sums(chosen, [axis for axis, _ in walk])
        blocks = None if edges or loops is None else blocks_of(chosen, loops)
        tiles = count(tuple(items[4:]))  # of a panel: all axes but columns and groups, which are the first of others
        prefetch = None
        if not edges and loops is not None and chosen.name == "features" and not stays:
            prefetch = FilterPrefetch.of(tile, loops, tiles)
        if blocks is not None:
            _in_blocks(walker, blocks, sums, operands, prefetch)
            return
        window = CopiedWindow(phase, edges, problem, chosen, x) if edges else None
        with rolled(b, phase.begin, phase.end, name="tile") as item:
            tile_at = walker.at(item)
            with b.if_then(tile_at.present):
                sums.clear(b)
                axes = [x for x in tile_at.axes if not edges or x[0].dim in (None, edges.dim)]
                walked: Loops | None = _sums(chosen, [axis for axis, _ in axes])
                dims: Sequence[int | None] | None = None
                if walked is None:
                    walked, dims = _sums_of_classes(b, chosen, axes)
                if prefetch is not None:
                    operands.ahead = prefetch.distance(b, b.urem(item, i64(tiles)), prefetch.rows)
                origin, start, panel = x.pointer(phase), tile_at.x, tile_at.w
                if edges is None:
                    walked, (start, panel) = walker.clipped(tile_at, walked, dims)
                with ExitStack() as taps:
                    if window is not None:
                        number, across = b.udiv(item, i64(items[-1].size)), b.mul(tile_at.index, i64(chosen.columns.x))
                        starts = [tile_at.first[k] for k in range(len(tile_at.first))]
                        origin, start, tap_strides = window.locate(number, b.sub(start, across), starts)
                        start = b.add(start, across)
                        for axis, which in tile_at.axes:
                            if axis.dim in tap_strides:
                                low, high = walker.met(axis, which, tile_at)
                                tap = taps.enter_context(rolled(b, low, high, name="tap"))
                                start = b.add(start, b.mul(tap, tap_strides[axis.dim]))
                                panel = b.add(panel, b.mul(tap, i64(axis.tap_w)))
                    operands.walk(sums, walked, operands.pointers(origin, start, panel))
                operands.store(sums, tile_at.y)


_STAYS = 1 / 4
"""Of the second cache, what a kernel takes that stays there."""


def _stays(chosen: Tiling, problem: Convolution) -> bool:
    """Whether the second cache holds the kernel while tiles read it."""
    arithmetic = chosen.tile.arithmetic
    elements = problem.group.size * problem.output.size * count(problem.taps) * problem.feature.size
    return elements * arithmetic.dtype.bytes <= _STAYS * arithmetic.target.caches.second


def _before(chosen: Tiling) -> int:
    """How many other axes change after the rows: not spatial ones whose results lie closer together than images'."""
    others = chosen.others
    if chosen.name == "features" and chosen.rows.dim is None:
        return next((k for k, a in enumerate(others) if a.dim is not None and a.y < chosen.rows.y), len(others))
    return len(others)


def _in_blocks(
    walker: _Walker, blocks: LoopBlocks, sums: Sums, operands: Operands, prefetch: FilterPrefetch | None
) -> None:
    """The items of a phase, some at a time, piece by piece of their sums."""
    b, phase = walker.b, operands.phase
    kept, origin = TileSums(b, sums.tile), operands.x.pointer(phase)
    is_copied = walker.tiles_share_panels and is_scattered(blocks, sums.tile)
    held = PieceOfPanel(b, operands, blocks) if is_copied else None
    with ExitStack() as panels:
        begin, end = phase.begin, phase.end
        if held is not None:
            each = i64(count(tuple(walker.items[2:])))
            last = b.udiv(b.add(end, b.sub(each, i64(1))), each)
            number = panels.enter_context(rolled(b, b.udiv(begin, each), last, name="panel"))
            first = b.mul(number, each)
            begin, end = intrinsic(b, "smax", begin, first), intrinsic(b, "smin", end, b.add(first, each))
        with rolled(b, begin, end, TILES, name="tiles") as low:
            high = intrinsic(b, "smin", b.add(low, i64(TILES)), end)
            with rolled(b, 0, blocks.count, name="piece") as piece:
                (dx, dw), loops = blocks.piece(b, piece)
                if held is not None:
                    loops = held.fill(b.add(walker.at(low).w, dw), loops)
                with rolled(b, low, high, name="tile") as item:
                    tile_at, number = walker.at(item), b.sub(item, low)
                    with b.if_then(tile_at.present):
                        with b.if_else(b.icmp_signed("==", piece, i64(0))) as (first, later):
                            with first:
                                sums.clear(b)
                            with later:
                                kept.get(b, sums, number)
                        window, kernel = operands.pointers(origin, b.add(tile_at.x, dx), b.add(tile_at.w, dw))
                        if prefetch is not None and held is None:
                            operands.ahead = prefetch.distance(b, number, blocks.rows)
                        with b.if_then(walker.is_met(tile_at, blocks, piece)):
                            operands.walk(sums, loops, (window, kernel if held is None else held.start))
                        with b.if_else(b.icmp_signed("==", piece, i64(blocks.count - 1))) as (last, before):
                            with last:
                                operands.store(sums, tile_at.y)
                            with before:
                                kept.put(b, sums, number)


class _Tile(NamedTuple):
    """Where a tile begins in input, kernel and output, and whether there is one."""

    x: ir.Value
    w: ir.Value
    y: ir.Value
    present: ir.Value
    axes: list[tuple[OutputAxis, ir.Value]]
    """The axes of the output, each with its class."""
    first: dict[int, ir.Value]
    """The positions of the input where the window begins, by dimension."""
    index: ir.Value
    """Where it begins on the axis that changes first."""


@dataclass
class _Walker:
    """The order of the tiles: axes with the tile's size along each, and how items count them."""

    b: ir.IRBuilder
    problem: Convolution
    sides: Sequence[int]
    chosen: Tiling
    walk: Sequence[tuple[OutputAxis, int]]
    items: Sequence[Axis]

    @property
    def tiles_share_panels(self) -> bool:
        """True where tiles that follow each other read the same columns of a kernel that lies as its shape says."""
        chosen, (_, *others) = self.chosen, (axis for axis, _ in self.walk)
        return (
            chosen.packing is None
            and chosen.name == "features"
            and all(axis.w == 0 and [c.w for c in axis.classes] == [0] for axis in others if axis.most > 1)
        )

    def at(self, item: ir.Value) -> _Tile:
        """The tile with a number."""
        b, chosen, dims = self.b, self.chosen, self.problem.dims
        position = digits(b, self.items, item)
        at = [i64(self.problem.x_base), i64(chosen.w_base), i64(0)]
        present: ir.Value = I1(1)
        index: ir.Value = i64(0)
        axes: list[tuple[OutputAxis, ir.Value]] = []
        first: dict[int, ir.Value] = {}
        for k, (axis, size) in enumerate(self.walk):
            which, index = position[2 * k], position[2 * k + 1]
            if axis is chosen.columns and chosen.packing:
                at[1] = b.add(at[1], b.mul(index, i64(chosen.panel_size)))
            at, inside, index = _moved(b, axis, which, b.mul(index, i64(size)), size, at)
            if axis.dim is not None:
                begin = _choice(b, [c.input for c in dims[axis.dim].classes], which)
                first[axis.dim] = b.add(begin, b.mul(index, i64(dims[axis.dim].input_stride)))
            present = b.and_(present, inside)
            axes.append((axis, which))
        x, w, y = at
        return _Tile(x, w, y, present, axes, first, index)

    def met(self, axis: OutputAxis, which: ir.Value, tile: _Tile) -> tuple[ir.Value, ir.Value]:
        """Which taps of a dimension of which a tile has one position meet elements: from one to before another."""
        b, dim = self.b, axis.dim
        assert dim is not None
        stride, taps = self.problem.dims[dim].tap_input_stride, _taps(b, axis, which)
        low, high = (b.sub(i64(x), tile.first[dim]) for x in (0, self.sides[dim]))
        if stride > 1:
            low, high = (b.sdiv(b.add(x, i64(stride - 1)), i64(stride)) for x in (low, high))
        low = b.select(b.icmp_signed("<", low, i64(0)), i64(0), low)
        return low, b.select(b.icmp_signed("<", high, taps), high, taps)

    def clipped(
        self, tile: _Tile, loops: Loops, dims: Sequence[int | None] | None
    ) -> tuple[Loops, tuple[ir.Value, ir.Value]]:
        """The loops over a window, without what lies outside the input; and where they begin.

        If given, `dims` are the spatial dimensions that they are.
        """
        b, out, x, w = self.b, list(loops), tile.x, tile.w
        for k, axis, which in self._outer(tile, loops[:-1], dims):
            low, high = self.met(axis, which, tile)
            x, w = (b.add(p, b.mul(low, i64(s))) for p, s in zip((x, w), loops[k][1], strict=True))
            out[k] = b.sub(high, low), loops[k][1]
        return out, (x, w)

    def is_met(self, tile: _Tile, blocks: LoopBlocks, piece: ir.Value) -> ir.Value:
        """Whether a piece of a sum lies inside the input."""
        b, inside, position = self.b, I1(1), digits(self.b, blocks.axes, piece)
        for k, axis, which in self._outer(tile, blocks.loops[: blocks.number]):
            low, high = self.met(axis, which, tile)
            tap = position[k]
            inside = b.and_(inside, b.and_(b.icmp_signed(">=", tap, low), b.icmp_signed("<", tap, high)))
        return inside

    def _outer(
        self, tile: _Tile, loops: Loops, dims: Sequence[int | None] | None = None
    ) -> Iterator[tuple[int, OutputAxis, ir.Value]]:
        """The dimensions with one position per tile and windows that reach out: the loop over taps, and the class."""
        chosen, problem = self.chosen, self.problem
        paired = pair_axis(problem) if chosen.tile.arithmetic.pack_factor > 1 else None
        for axis, which in tile.axes:
            if axis is chosen.rows or axis is chosen.columns or axis.dim in (None, paired):
                continue
            dim = problem.dims[axis.dim]
            if dim.low < 0 or dim.high >= self.sides[axis.dim]:
                for k, (size, strides) in enumerate(loops):
                    # of loops that are not merged, two may have the same strides: features of one, say
                    known = dims is not None and dims[k] == axis.dim
                    alone = dims is None and size == axis.classes[0].taps
                    if known or (alone and tuple(strides) == (axis.tap_x, axis.tap_w)):
                        yield k, axis, which


def _moved(
    b: ir.IRBuilder, axis: OutputAxis, which: ir.Value, index: ir.Value, size: int, at: list[ir.Value]
) -> tuple[list[ir.Value], ir.Value, ir.Value]:
    """The offsets of a tile that begins at `index` of a class, or early enough to end with it.

    Also whether there is one, and where it begins.
    """
    counts = [p.count for p in axis.classes]
    inside: ir.Value = I1(1)
    if min(counts) == max(counts):
        index = at_most(b, index, max(0, counts[0] - size)) if size > 1 else index
    else:
        present = _choice(b, counts, which)
        inside = b.icmp_signed("<", index, present)
        last = b.sub(present, i64(size))
        index = b.select(b.icmp_signed("<", index, last), index, last)
    strides = (axis.x, axis.w, axis.y)
    starts = [[p.x for p in axis.classes], [p.w for p in axis.classes], [p.y for p in axis.classes]]
    moved = [
        b.add(b.add(o, _choice(b, values, which)), b.mul(index, i64(stride)))
        for o, values, stride in zip(at, starts, strides, strict=True)
    ]
    return moved, inside, index


def _sums(chosen: Tiling, axes: Sequence[OutputAxis]) -> list[tuple[int, tuple[int, ...]]] | None:
    """The loops over taps and features, in the order of the input in memory; None where classes have others."""
    loops = [Axis(axis.classes[0].taps, axis.tap_x, axis.tap_w, 0) for axis in axes if axis.tap_x]
    if any(len({p.taps for p in axis.classes}) > 1 for axis in axes if axis.tap_x):
        return None
    if chosen.name != "channels":
        loops.append(Axis(chosen.feature.size, chosen.feature.a, chosen.feature.b, 0))
    return [(x.size, (x.a, x.b)) for x in merged(sorted(loops, key=lambda x: -x.a))]


def _sums_of_classes(
    b: ir.IRBuilder, chosen: Tiling, axes: Sequence[tuple[OutputAxis, ir.Value]]
) -> tuple[Loops, list[int | None]]:
    """The same of outputs of these classes, and which spatial dimension each is."""
    loops: list[tuple[int | None, ir.Value, tuple[int, int]]] = []
    for axis, which in axes:
        if axis.tap_x:
            loops.append((axis.dim, _taps(b, axis, which), (axis.tap_x, axis.tap_w)))
    if chosen.name != "channels":
        feature = chosen.feature
        loops.append((None, i64(feature.size), (feature.a, feature.b)))
    loops.sort(key=lambda x: -x[2][0])
    return [(size, strides) for _, size, strides in loops], [dim for dim, *_ in loops]


def _taps(b: ir.IRBuilder, axis: OutputAxis, which: ir.Value) -> ir.Value:
    """How many taps outputs of a class meet."""
    return _choice(b, [p.taps for p in axis.classes], which)


def _choice(b: ir.IRBuilder, values: list[int], which: ir.Value) -> ir.Value:
    """The value of a class."""
    if min(values) == max(values):
        return i64(values[0])
    table = constant_table(b.module, b.module.get_unique_name("classes"), I64, values)
    pointer = b.gep(table, [i64(0), which], inbounds=True, source_etype=table.value_type)
    return b.load(pointer, typ=I64)
