"""What a tile of a convolution's output is: which axes are its rows and its vectors.

features   rows are places of the output, vectors its features: scalars of the input times kernel, packed or as it lies
spatial    rows are features, vectors run along a spatial dimension: scalars of the kernel times input
channels   rows are places, vectors run over groups of few features: input times packed kernel, lane by lane
dots       rows are places, columns features, of which there are few: vectors run along what is summed
"""

from __future__ import annotations

from math import prod
from typing import NamedTuple

from xloom.cpu.kernels.convolution.geometry import Convolution, OutputAxis, plain
from xloom.cpu.kernels.matmul.arithmetic import Arithmetic
from xloom.cpu.kernels.matmul.axes import Axis, merged, row_major
from xloom.cpu.kernels.matmul.operands import Array
from xloom.cpu.kernels.matmul.packed_pairs import in_pairs
from xloom.cpu.kernels.matmul.packing import Packing
from xloom.cpu.kernels.matmul.tile import TALLEST, Tile, extent, fitting, needed_lanes, share
from xloom.hlo.dtype import f32
from xloom.llvm.symbolic_dimension import greatest, if_less, least


class Tiling(NamedTuple):
    """The tile, its two axes and the other axes of the output."""

    name: str
    tile: Tile
    rows: OutputAxis
    columns: OutputAxis
    others: tuple[OutputAxis, ...]
    feature: Axis
    """The sum over features of the input: size, strides of x ("a") and w ("b")."""
    w_base: int
    packing: Packing | None = None
    """How the kernel is packed; None when it is read where it lies."""
    groups: int = 1
    """How often."""
    unit: int = 1
    """Features of the output in a step of `columns`: in `channels`, those of a group."""

    @property
    def panel_size(self) -> int:
        """Elements of a packed panel, of which a tile of columns has one; 0 when the kernel is not packed."""
        return self.packing.panel_size(self.packing.length) if self.packing else 0

    @property
    def width(self) -> int:
        """How many columns the output has."""
        return self.columns.least * self.unit

    @property
    def lefts(self) -> list[int]:
        """The column at which each vector of the tile begins: the last may overlap the one before."""
        lanes = self.tile.lanes
        most = max(0, self.width - lanes)
        return [min(v * lanes, most) for v in range(self.tile.vectors)]


def tiling(arithmetic: Arithmetic, problem: Convolution, w: Array) -> Tiling:
    """The best tiling for a convolution."""
    if _in_small_groups(arithmetic, problem):
        return _channels(arithmetic, problem, w)
    if _are_dots(arithmetic, problem, w):
        return _dots(arithmetic, problem)
    if problem.output.c != 1 and arithmetic.pack_factor == 1:
        axes = problem.spatial_axes([t.b for t in problem.taps])
        along = [a for a in axes if len(a.classes) == 1 and a.x == 1 and a.y == 1]
        vectors = vectors_along(arithmetic, problem.output.size, along[0].most) if along else 0
        if vectors:
            return _spatial(arithmetic, problem, axes, along[0], vectors)
    return _features(arithmetic, problem, w)


def pairs_of(arithmetic: Arithmetic, problem: Convolution, x: Array, w: Array) -> Arithmetic | None:
    """Arithmetic for two addends of bf16 at once, where they are adjacent or can be; else None."""
    if arithmetic.dtype is not f32 or problem.output.size < _FEWEST or pair_axis(problem) is None:
        return None
    if _in_small_groups(arithmetic, problem) or (problem.feature.a != 1 and problem.group.size > 1):
        return None
    found = in_pairs(arithmetic, x.dtype, w.dtype)
    return found if found.pack_factor > 1 else None


def pair_axis(problem: Convolution) -> int | None:
    """Which sum has its addends in pairs: the number of its spatial dimension, or -1 for features."""
    pairs = problem.feature.size % 2 == 0
    if pairs and problem.feature.a == 1:
        return -1
    for number, (dim, tap) in enumerate(zip(problem.dims, problem.taps, strict=True)):
        is_even = tap.size >= _LONG and tap.size % 2 == 0
        if is_even and tap.a == 1 and len(dim.classes) == 1 and dim.tap_input_stride == 1:
            return number
    return -1 if pairs else None


_LONG = 8
"""A window of so many elements, to be gone through in pairs."""
_FEWEST = 16
"""Outputs, for vectors of them."""


def _in_small_groups(arithmetic: Arithmetic, problem: Convolution) -> bool:
    size, each, lanes = problem.feature.size, problem.output.size, arithmetic.lanes
    adjacent = problem.feature.a == 1 and problem.output.c == 1
    return problem.feature_groups and adjacent and each < lanes and lanes % each == 0 and size <= min(8, 4 * each)


_LEAST_DOTS = 2
"""Vectors of products for each sum, from which on it costs little to add up their lanes."""


def could_be_dots(arithmetic: Arithmetic, problem: Convolution) -> bool:
    """True where outputs would leave most lanes of a vector idle, and what is summed fills vectors."""
    lanes, feature = arithmetic.lanes, problem.feature
    if 2 * problem.output.size >= lanes or feature.size < lanes or arithmetic.parts * arithmetic.pack_factor > 1:
        return False
    taps = prod(min(c.taps for c in d.classes) for d in problem.dims)
    return feature.size % lanes == 0 and taps * feature.size >= _LEAST_DOTS * lanes


def _are_dots(arithmetic: Arithmetic, problem: Convolution, w: Array) -> bool:
    """The same, and it lies together in both operands."""
    is_read = problem.feature.a == problem.feature.b == 1 and w.dtype is arithmetic.dtype
    return is_read and could_be_dots(arithmetic, problem)


def _dots(arithmetic: Arithmetic, problem: Convolution) -> Tiling:
    lanes, outputs = arithmetic.lanes, int(problem.output.size)
    axes = [plain(problem.batch), *problem.spatial_axes([t.b for t in problem.taps])]
    rows = axes.pop()
    height = int(share(rows.least, least(TALLEST, greatest(1, arithmetic.most_sums // outputs - 1))))
    feature = Axis(problem.feature.size // lanes, lanes, lanes, 0)
    others = (plain(problem.group), *axes)
    tile = Tile(arithmetic, height, outputs, lanes)
    return Tiling("dots", tile, rows, plain(problem.output), others, feature, problem.w_base, unit=lanes)


def _features(arithmetic: Arithmetic, problem: Convolution, w: Array) -> Tiling:
    packing, kernel, feature, tile, number = _packed(arithmetic, problem, w, problem.output, arithmetic.most_sums)
    if problem.output.b == 1 and w.dtype is arithmetic.dtype and problem.output.size >= tile.lanes:
        axes = [plain(problem.batch), *problem.spatial_axes([t.b for t in problem.taps])]
        rows, group, columns = axes.pop(number), plain(problem.group), plain(problem.output)
        return Tiling("features", tile, rows, columns, (group, *axes), problem.feature, problem.w_base)
    panels = packing.panels * packing.panel_size(packing.length)
    group = OutputAxis(plain(problem.group).classes, problem.group.a, panels, problem.group.c)
    columns = OutputAxis(plain(problem.output).classes, 0, 0, problem.output.c)
    axes = [plain(problem.batch), *_in_pairs(arithmetic, problem).spatial_axes(kernel)]
    rows = axes.pop(number)
    return Tiling("features", tile, rows, columns, (group, *axes), feature, 0, packing, problem.group.size)


def _channels(arithmetic: Arithmetic, problem: Convolution, w: Array) -> Tiling:
    each = int(problem.output.size)
    output = Axis(each * problem.group.size, 0, problem.output.b, 1)
    # the sum over features is unrolled
    sums = arithmetic.most_sums if problem.feature.size == 1 else arithmetic.few_sums // 2
    packing, kernel, feature, tile, number = _packed(arithmetic, problem, w, output, sums)
    columns = OutputAxis(plain(problem.group).classes, problem.group.a, 0, problem.group.c)
    axes = [plain(problem.batch), *problem.spatial_axes(kernel)]
    rows = axes.pop(number)
    return Tiling("channels", tile, rows, columns, tuple(axes), feature, 0, packing, unit=each)


def vectors_along(arithmetic: Arithmetic, outputs: int, size: int) -> int:
    """How many vectors of a spatial dimension a tile has; 0 where they would not be filled well."""
    if 2 * outputs < arithmetic.lanes:
        return min(4, -(-size // needed_lanes(arithmetic, size))) if 2 * size >= arithmetic.lanes else 0
    return next((n for n in (3, 2) if size % (n * arithmetic.lanes) == 0), 0)


def _spatial(
    arithmetic: Arithmetic, problem: Convolution, axes: list[OutputAxis], along: OutputAxis, vectors: int
) -> Tiling:
    lanes = needed_lanes(arithmetic, along.most)
    # the vectors of the input are in registers, too
    rows = share(problem.output.size, (arithmetic.most_sums + 2 - vectors) // arithmetic.parts // vectors)
    others = (plain(problem.group), plain(problem.batch), *(a for a in axes if a is not along))
    tile = Tile(arithmetic, int(rows), vectors, lanes)
    return Tiling("spatial", tile, plain(problem.output), along, others, problem.feature, problem.w_base)


_REUSED = 4
"""How often a vector is used in the time that it takes from the second-level cache."""
_TIME = 1 << 16
"""Fractions of the time of a step that are told apart."""


def _narrowed(tile: Tile, output: Axis) -> Tile:
    """The tile with fewer vectors, if its operands find no registers or tiles of all columns overlap, and it may."""
    whole = -(-output.size // tile.lanes)
    held = tile.rows * tile.vectors + min(tile.rows, tile.vectors) + 1
    there_are = tile.arithmetic.target.registers.count
    if held > there_are and 10 * -(-whole // (tile.vectors - 1)) * (tile.vectors - 1) <= 11 * whole:
        return tile._replace(vectors=tile.vectors - 1)
    for vectors in range(tile.vectors, 1, -1):
        if tile.rows * vectors < tile.arithmetic.few_sums:
            break
        if whole % vectors == 0:
            return tile._replace(vectors=vectors)
    return tile


def _in_pairs(arithmetic: Arithmetic, problem: Convolution) -> Convolution:
    """The problem with a window whose elements are gone through in pairs, where they are."""
    number = pair_axis(problem)
    if arithmetic.pack_factor == 1 or number in (None, -1):
        return problem
    dims, dim = list(problem.dims), problem.dims[number]
    [only] = dim.classes
    each = arithmetic.pack_factor
    dims[number] = dim._replace(
        classes=(only._replace(taps=only.taps // each),), tap_input_stride=dim.tap_input_stride * each
    )
    return problem._replace(dims=tuple(dims))


def _lines(problem: Convolution, sizes: list[OutputAxis]) -> int:
    """The number of the axis whose elements lie closest in the input, or closer than features in the output."""
    if problem.batch.size > 1 and problem.batch.c < problem.output.c:
        return 0
    strides = [problem.batch.a, *(t.a for t in problem.taps)]
    several = [k for k, axis in enumerate(sizes) if axis.most > 1] or [len(sizes) - 1]
    return min(several, key=lambda k: strides[k])


def _tallest(arithmetic: Arithmetic, axis: OutputAxis) -> int:
    """How many rows a tile may have: no more than the nearest cache has lines for, where all need the same place."""
    apart = axis.x * (arithmetic.dtype.bytes // arithmetic.pack_factor)
    caches = arithmetic.target.caches
    return if_less(0, apart % caches.period, TALLEST, caches.ways)


def _packed(
    arithmetic: Arithmetic, problem: Convolution, w: Array, output: Axis, most: int
) -> tuple[Packing, list[int], Axis, Tile, int]:
    """The packing of the kernel; its strides in a panel, spatial and of features; the tile; the number of its rows."""
    sizes = [plain(problem.batch), *problem.spatial_axes([0] * len(problem.taps))]

    def time(number: int) -> int:
        axis = sizes[number]
        rows, vectors = extent(arithmetic, axis.least, output.size, most, _tallest(arithmetic, axis))
        cycles = greatest(greatest(rows, _REUSED) * vectors, greatest(8, rows + vectors))
        return -(-axis.most // rows) * cycles * _TIME // (axis.most * vectors)

    number = min(reversed(range(len(sizes))), key=time)
    along = _lines(problem, sizes)
    if time(along) * 15 <= time(number) * 16:  # about as fast, and tiles read or write what lies together
        number = along
    rows = sizes[number]
    tile = _narrowed(fitting(arithmetic, rows.least, output.size, most, _tallest(arithmetic, rows)), output)
    sums = [*(Axis(t.size, t.a, t.b, 0) for t in problem.taps), problem.feature]
    order = sorted(range(len(sums)), key=lambda k: -sums[k].a)  # as the input lies in memory
    depth = merged([Axis(sums[k].size, 0, sums[k].b, 0) for k in order])  # what lies together is packed together
    packing = Packing(arithmetic, w, "b", (output,), depth, tile.columns)
    strides = dict(zip(order, row_major([sums[k].size for k in order]), strict=True))
    each, line = arithmetic.pack_factor, packing.panel_size(1)
    packed_strides = [line * greatest(1, strides[k] // each) for k in range(len(sums))]
    together = each if pair_axis(problem) == -1 else 1
    feature = Axis(problem.feature.size // together, problem.feature.a * together, packed_strides.pop(), 0)
    return packing, packed_strides, feature, tile, number
