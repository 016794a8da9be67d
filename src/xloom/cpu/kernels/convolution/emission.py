"""A convolution as phases of a kernel: its input copied and its kernel packed where that is needed, and its tiles."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import NamedTuple

from xloom.cpu.kernel_modules.choices import chosen as strategy_chosen
from xloom.cpu.kernel_modules.kernel import Kernel
from xloom.cpu.kernels.convolution.correlation import correlate, correlation_of
from xloom.cpu.kernels.convolution.depthwise import depthwise, plan_of
from xloom.cpu.kernels.convolution.depthwise_adjacent import depthwise_adjacent, lines_of
from xloom.cpu.kernels.convolution.depthwise_filter_gradient import depthwise_filter_gradient, filter_gradient_of
from xloom.cpu.kernels.convolution.depthwise_planes import depthwise_planes, planes_of
from xloom.cpu.kernels.convolution.edges import edges_of
from xloom.cpu.kernels.convolution.filter_lines import filter_in_lines, in_lines
from xloom.cpu.kernels.convolution.filter_panels import panel_width
from xloom.cpu.kernels.convolution.geometry import (
    Convolution,
    Spatial,
    as_gradient_product,
    as_pointwise_product,
    as_product,
    is_pointwise,
    spatial,
)
from xloom.cpu.kernels.convolution.nan_propagation import is_always_finite
from xloom.cpu.kernels.convolution.padding import Extent, padded
from xloom.cpu.kernels.convolution.strided_compaction import is_sparse, stride_of, thinned
from xloom.cpu.kernels.convolution.tile_loop import convolve
from xloom.cpu.kernels.convolution.tiling import could_be_dots, pair_axis, pairs_of, tiling, vectors_along
from xloom.cpu.kernels.convolution.zeros import multiply_zeros
from xloom.cpu.kernels.matmul.amx_product import is_tiled, missing_rows
from xloom.cpu.kernels.matmul.arithmetic import Arithmetic, accumulator
from xloom.cpu.kernels.matmul.axes import Axis, Product, row_major
from xloom.cpu.kernels.matmul.operands import Array, cleared, converted_array, given_whole, new_array, readable
from xloom.cpu.kernels.matmul.packed_pairs import BFloatPairArithmetic, in_pairs
from xloom.cpu.kernels.matmul.packing import BLOCK
from xloom.hlo.attributes import ConvolutionDimensions
from xloom.hlo.dtype import Kind, bf16, f32
from xloom.hlo.instruction import Instruction
from xloom.hlo.shape import Shape
from xloom.llvm import symbolic_dimension
from xloom.llvm.pass_pipeline import PassPipeline


class _Case(NamedTuple):
    """A convolution of arrays of certain sizes: its input, kernel and output."""

    instruction: Instruction
    arithmetic: Arithmetic
    problem: Convolution
    dims: tuple[Spatial, ...]
    groups: int
    lhs: Shape
    rhs: Shape
    out: Shape


def emit(kernel: Kernel, instruction: Instruction) -> None:
    """Multiplies tiles where that can be; else forms all sums, which go to an epilogue then if there is one."""
    kernel.pipeline = PassPipeline.TILES
    arrays = *kernel.operands, *kernel.outputs
    *sizes, (groups,) = kernel.problem or [*(s.dims for s in arrays), (instruction["feature_group_count"],)]
    lhs, rhs, out = (Shape(s.dtype, dims) for s, dims in zip(arrays, sizes, strict=True))
    y, size = Array("output", 0, out.dtype, has_epilogue=kernel.has_epilogue), prod(out.dims)
    case = None
    if 0 not in (*rhs.dims, *out.dims):
        window, positions = instruction["window"], instruction["dim_labels"].input_spatial
        dims = tuple(spatial(d, lhs.dims[p]) for d, p in zip(window, positions, strict=True))
        problem = _problem(instruction, groups, (lhs, rhs, out), dims, [0] * lhs.rank, row_major(lhs.dims))
        arithmetic = Arithmetic(accumulator(out.dtype), kernel.target)
        case = _Case(instruction, arithmetic, problem, dims, groups, lhs, rhs, out)
        if _is_multiplied_by_tiles(kernel, case, y):
            return  # and all zeros beside the input were multiplied
    sums = new_array(kernel, out.dtype, size) if y.has_epilogue else y
    if case is None:
        cleared(kernel, sums, size)
    else:
        _form_all_sums(kernel, case, sums)
    if sums is not y:
        given_whole(kernel, sums, size, y)


def _is_multiplied_by_tiles(kernel: Kernel, case: _Case, y: Array) -> bool:
    """Multiplies by AMX where that can be, with a copy of the input that has the zeros beside it; True if it did."""
    instruction, arithmetic, problem, dims, groups, lhs, rhs, out = case
    labels = instruction["dim_labels"]
    x, w = (Array("operand", k, s.dtype) for k, s in enumerate((lhs, rhs)))
    order = _tiled_order(arithmetic, instruction, problem, lhs, (x, w))
    if order is None or 0 in lhs.dims or any(d.base_dilation > 1 for d in instruction["window"]):
        return False
    extents, whole = _met(lhs, labels, dims), problem
    if _reaches_out(lhs, labels, dims) or order[-1] != lhs.rank - 1:
        whole = _problem(instruction, groups, (lhs, rhs, out), dims, *_copied(extents, order))
    product = as_product(whole)
    if product is None or not is_tiled(arithmetic, product, x, w):
        return False
    strategy_chosen("a product of matrices", f"the processor multiplies tiles of {x.dtype.name}")
    if whole is not problem:
        slack = missing_rows(product)
        pairs = BFloatPairArithmetic(f32, kernel.target)
        x = padded(kernel, pairs, x, [extents[k] for k in order], slack)
    _multiply(kernel, product, x, w, y)
    return True


def _form_all_sums(kernel: Kernel, case: _Case, y: Array) -> None:
    """Forms the sums, and makes NaN of those for which zeros beside the input meet what is not finite."""
    instruction, arithmetic, problem, dims, _, lhs, rhs, out = case
    labels, window = instruction["dim_labels"], instruction["window"]
    w = readable(kernel, arithmetic, Array("operand", 1, rhs.dtype), prod(rhs.dims))
    if 0 in lhs.dims:
        cleared(kernel, y, prod(out.dims))
    else:
        x = readable(kernel, arithmetic, Array("operand", 0, lhs.dtype), prod(lhs.dims))
        _form_sums(kernel, case, (x, w, y))
    is_whole = any(s.dtype.kind not in (Kind.FLOAT, Kind.COMPLEX) for s in (rhs, out))
    is_finite = is_whole or is_always_finite(rhs.dtype)
    if not is_finite and (_reaches_out(lhs, labels, dims) or any(d.base_dilation > 1 for d in window)):
        spatial_dims = zip(labels.input_spatial, labels.output_spatial, strict=True)
        spatial_sizes = [(lhs.dims[p], out.dims[q]) for p, q in spatial_dims]
        multiply_zeros(kernel, arithmetic, problem, window, spatial_sizes, (w, y))


def _form_sums(kernel: Kernel, case: _Case, arrays: tuple[Array, Array, Array]) -> None:
    """Copies the input and packs the kernel, where they are not read as they lie; then computes tiles of the output."""
    instruction, arithmetic, problem, dims, groups, lhs, rhs, out = case
    x, w, y = arrays
    labels, window = instruction["dim_labels"], instruction["window"]
    reaches_out = _reaches_out(lhs, labels, dims)
    starts, strides = [0] * lhs.rank, row_major(lhs.dims)
    positions = prod(sum(c.count for c in d.classes) for d in dims)
    is_gradient = prod(d.size for d in window) > positions
    nbytes = prod(rhs.dims) * arithmetic.dtype.bytes
    caches = kernel.target.caches
    large, largest = _LARGE_KERNEL * caches.second, _LARGEST_KERNEL * caches.last
    is_large = nbytes >= (large if is_gradient else largest)
    sums = y if arithmetic.stores(out.dtype) else new_array(kernel, arithmetic.dtype, prod(out.dims))
    sides = [lhs.dims[p] for p in labels.input_spatial]
    if not problem.in_panels and _across_groups(kernel, arithmetic, problem, instruction, sides, (x, w, sums)):
        if sums is not y:
            converted_array(kernel, sums, prod(out.dims), y)
        return
    extents = _met(lhs, labels, dims)
    if problem.batch.size > 1 and problem.feature.size > 1 and _is_thinned(arithmetic, lhs, labels, dims, x):
        copied = thinned(kernel, arithmetic, x, lhs.dims, dict(zip(labels.input_spatial, dims, strict=True)))
        x, lhs, dims = copied[0], Shape(x.dtype, tuple(copied[1])), tuple(copied[2].values())
        strides, sides = row_major(lhs.dims), [lhs.dims[p] for p in labels.input_spatial]
        problem = _problem(instruction, groups, (lhs, rhs, out), dims, starts, strides)
    product = None if problem.in_panels or reaches_out else as_pointwise_product(problem)
    if product is not None:
        strategy_chosen("a product of matrices", "each result is made of one place, which is read where it lies")
        _multiply(kernel, product, w, x, y)
        return
    is_packed = nbytes > caches.second // _POINTWISE_SHARE and not (is_gradient or reaches_out or problem.in_panels)
    product = as_product(problem) if is_packed and is_pointwise(problem) else None
    if product is not None:
        size = symbolic_dimension.number(nbytes)
        strategy_chosen("a product of matrices", f"each result is made of one place, by a kernel of {size} bytes")
        _multiply(kernel, product, x, w, y)
        return
    narrow = in_pairs(arithmetic, x.dtype, w.dtype)
    if is_gradient and narrow.pack_factor > 1 and _is_wide(problem):
        whole = _problem(instruction, groups, (lhs, rhs, out), dims, *_copied(extents, range(lhs.rank)))
        product = as_product(whole if reaches_out else problem)
        if product is not None:  # which makes pairs of lines that are not adjacent
            strategy_chosen(
                "a product of matrices", "the processor adds pairs of products, and the window is the long side"
            )
            x = padded(kernel, narrow, x, extents) if reaches_out else x
            _multiply(kernel, product, x, w, y)
            return
    paired = pairs_of(arithmetic, problem, x, w)
    arithmetic = paired or arithmetic
    held = x.dtype if paired else arithmetic.dtype
    edges = chosen = None
    pairs = pair_axis(problem) if paired else None
    is_read = x.dtype is held and (pairs != -1 or problem.feature.a == 1)
    are_dots = not problem.in_panels and could_be_dots(arithmetic, problem)
    is_input_moved = are_dots and problem.feature.a != 1
    if is_input_moved:
        is_input_moved = problem.group.size == 1 and tiling(arithmetic, problem, w).name != "spatial"
        are_dots = is_input_moved
    is_filter_moved = are_dots and (problem.feature.b != 1 or w.dtype is not arithmetic.dtype)
    if is_filter_moved:
        w = filter_in_lines(kernel, arithmetic, problem, w)
        problem = in_lines(problem)
    if is_read and reaches_out and nbytes < large:
        chosen = tiling(arithmetic, problem, w)
        edges = edges_of(problem, chosen, sides, x)
    if edges is None and (reaches_out or not is_read or is_input_moved):
        is_far = nbytes >= largest and problem.feature.b > problem.output.b  # scalars of it, page by page
        # of one image, planes with padding are as quick at the most, and take more memory
        is_better = nbytes >= large or (reaches_out and problem.batch.size == 1)
        is_moved = is_far or is_input_moved or _is_moved_last(arithmetic, instruction, problem, lhs.rank - 1, is_better)
        order = _order(arithmetic, instruction, lhs, is_moved, pairs)
        if reaches_out and order[-1] != lhs.rank - 1 and nbytes < large:  # what is copied to be moved needs no padding
            strides = _strides(order, lhs.dims)
            problem = _problem(instruction, groups, (lhs, rhs, out), dims, starts, strides)
            problem = in_lines(problem) if is_filter_moved else problem
            chosen = tiling(arithmetic, problem, w)
            edges = edges_of(problem, chosen, sides, Array("operand", 0, held))
        if edges is None:
            problem = _problem(instruction, groups, (lhs, rhs, out), dims, *_copied(extents, order))
            problem = in_lines(problem) if is_filter_moved else problem
            chosen = None
        else:
            extents = _met(lhs, labels, ())
        why = "windows reach out of it" if reaches_out else f"it is {x.dtype.name}, or not in the order of the products"
        strategy_chosen("the input is copied first", why)
        x = padded(kernel, arithmetic, x, [extents[k] for k in order])
    is_large = is_large and not problem.in_panels
    product = as_product(problem) if is_large and (positions == 1 or problem.output.size > _FEW_OUTPUTS) else None
    if product is not None:
        size = symbolic_dimension.number(nbytes)
        strategy_chosen("a product of matrices", f"the kernel of {size} bytes is so large that packing it decides")
        _multiply(kernel, product, x, w, y)
        return
    product = as_gradient_product(problem) if is_large else None
    if product is not None and (len(product.depth) == 1 or product.depth[-1].size % BLOCK == 0):
        size = symbolic_dimension.number(nbytes)
        strategy_chosen("a product of matrices", f"the window is all of the input, and has {size} bytes")
        _multiply(kernel, product, w, x, y)
        return
    strategy_chosen(
        "tiles of the output in registers, by a packed kernel", "it is neither a product nor of few features"
    )
    convolve(kernel, chosen or tiling(arithmetic, problem, w), problem, sides, edges, (x, w, sums))
    if sums is not y:
        converted_array(kernel, sums, prod(out.dims), y)


def _tiled_order(
    arithmetic: Arithmetic, instruction: Instruction, problem: Convolution, lhs: Shape, arrays: tuple[Array, Array]
) -> list[int] | None:
    """The dimensions of the input, its features last, where AMX could multiply them by the filter."""
    if not arithmetic.target.has_tiles or any(a.dtype is not bf16 for a in arrays) or problem.in_panels:
        return None
    feature = instruction["dim_labels"].input_feature
    return [*(k for k in range(lhs.rank) if k != feature), feature]


def _reaches_out(lhs: Shape, labels: ConvolutionDimensions, dims: Sequence[Spatial]) -> bool:
    return any(d.low < 0 or d.high >= lhs.dims[p] for p, d in zip(labels.input_spatial, dims, strict=True))


def _is_wide(problem: Convolution) -> bool:
    """True for a gradient of many features, of which the product's operands have vectors."""
    rows, columns = problem.batch, problem.output
    vectors = rows.a == columns.c == 1 and rows.size % BLOCK == 0
    return vectors and (columns.size > _FEW_OUTPUTS or pair_axis(problem) is None)


def _is_thinned(
    arithmetic: Arithmetic, shape: Shape, labels: ConvolutionDimensions, dims: tuple[Spatial, ...], x: Array
) -> bool:
    """True where only every second place of adjacent ones is met."""
    if not dims or labels.input_spatial[-1] != shape.rank - 1 or x.dtype is not arithmetic.dtype:
        return False
    inside = all(d.low >= 0 and d.high < shape.dims[p] for d, p in zip(dims, labels.input_spatial, strict=True))
    return inside and all(is_sparse(d) for d in dims) and stride_of(dims[-1]) == 2


def _across_groups(
    kernel: Kernel,
    arithmetic: Arithmetic,
    problem: Convolution,
    instruction: Instruction,
    sizes: Sequence[int],
    arrays: tuple[Array, ...],
) -> bool:
    """Emits a convolution of few features a group, in vectors across groups; False where it is another."""
    window = instruction["window"]
    x, w, sums = arrays
    if gradient := filter_gradient_of(arithmetic, problem, window, sizes):
        strategy_chosen("a sum of blocks of images for each tap", "groups have a feature each, side by side")
        depthwise_filter_gradient(kernel, gradient, problem, x, w, sums)
    elif lines := lines_of(arithmetic, problem, window, sizes):
        strategy_chosen(
            "a feature a group, groups side by side in vectors", "features lie together, and windows are small"
        )
        depthwise_adjacent(kernel, arithmetic, problem, lines, sizes, (x, w, sums))
    elif planes := planes_of(arithmetic, problem, window, sizes, x, w):
        strategy_chosen("planes of one feature, a group per lane", "groups have a feature each, and caches hold planes")
        depthwise_planes(kernel, planes, arithmetic, problem, sums)
    elif plan := plan_of(arithmetic, problem, window, sizes, x):
        strategy_chosen(
            "planes of one feature, one after another", "groups have a feature each, and places lie together"
        )
        depthwise(kernel, plan, problem, window, w, sums)
    elif correlation := correlation_of(arithmetic, problem, window, sizes, x, w):
        strategy_chosen("a correlation of few features", "groups have few features, and places lie together")
        correlate(kernel, correlation, problem, window, w, sums)
    else:
        return False
    return True


def _multiply(kernel: Kernel, product: Product, a: Array, b: Array, y: Array) -> None:
    from xloom.cpu.kernels.matmul.multiply import multiply  # which few convolutions need

    multiply(kernel, product, a, b, y)


_FEW_FEATURES = 8
_LONG = 8
"""A window whose own elements lie together long enough."""
_FEW_OUTPUTS = 128
"""For which it is better to read each element of the input several times than to pack it."""
_LARGE_KERNEL = 3 / 4
"""Of the second cache, what a kernel takes that does not stay there, so that it is better packed once."""
_POINTWISE_SHARE = 4
"""Of the second cache, what a kernel of one place takes one of so many parts of, that is read from there fast enough:
blocks of a larger one, as products have them, are in the first cache."""
_LARGEST_KERNEL = 1 / 16
"""Of the last cache, what one takes of which a panel is that large, so that sums are formed in blocks."""


def _order(
    arithmetic: Arithmetic, instruction: Instruction, shape: Shape, is_moved: bool, pairs: int | None
) -> list[int]:
    """The dimensions of a copy of the input, outermost first; many features are the last if it is better so."""
    feature, order = instruction["dim_labels"].input_feature, list(range(shape.rank))
    many = shape.dims[feature] >= _FEW_FEATURES and arithmetic.parts == 1 and instruction["feature_group_count"] == 1
    if pairs == -1 or (pairs is None and many and is_moved):
        order.remove(feature)
        order.append(feature)
    return order


def _met(lhs: Shape, labels: ConvolutionDimensions, dims: Sequence[Spatial]) -> list[Extent]:
    """All of the input's dimensions, and of the spatial `dims` what windows meet."""
    extents = [Extent(0, n, n, s) for n, s in zip(lhs.dims, row_major(lhs.dims), strict=True)]
    for number, dim in zip(labels.input_spatial, dims, strict=False):
        extents[number] = Extent(dim.low, dim.high - dim.low + 1, lhs.dims[number], extents[number].stride)
    return extents


def _copied(extents: list[Extent], order: Sequence[int]) -> tuple[list[int], list[int]]:
    """Where each dimension of such a copy begins, and its strides."""
    return [e.start for e in extents], _strides(order, [e.size for e in extents])


def _strides(order: Sequence[int], sizes: Sequence[int]) -> list[int]:
    """The strides of dimensions of these sizes, in a copy that has them in another order."""
    strides = dict(zip(order, row_major([sizes[k] for k in order]), strict=True))
    return [strides[k] for k in range(len(order))]


def _is_moved_last(
    arithmetic: Arithmetic, instruction: Instruction, problem: Convolution, last: int, is_better: bool
) -> bool:
    """True where the last dimension is spatial and it is better to have the features last: those that are summed."""
    labels = instruction["dim_labels"]
    if last not in labels.input_spatial:
        return False
    number = labels.input_spatial.index(last)
    dim, is_last = problem.dims[number], labels.output_spatial[number] == last
    along = is_last and len(dim.classes) == 1 and dim.input_stride == 1
    whole = along and vectors_along(arithmetic, problem.output.size, dim.classes[0].count)
    return not whole and instruction["window"][number].size < _LONG and (is_better or dim.input_stride > 1)


def _problem(
    instruction: Instruction,
    groups: int,
    shapes: tuple[Shape, ...],
    dims: tuple[Spatial, ...],
    starts: list[int],
    sx: list[int],
) -> Convolution:
    lhs, rhs, out = shapes
    labels, window = instruction["dim_labels"], instruction["window"]
    panel = panel_width(instruction)
    sw, sy = row_major([*rhs.dims[:-1], panel] if panel else rhs.dims), row_major(out.dims)
    batch_groups = instruction["batch_group_count"]
    features, outputs = rhs.dims[labels.kernel_input_feature], rhs.dims[labels.kernel_output_feature]
    batch = lhs.dims[labels.input_batch] // batch_groups
    each = outputs // (groups * batch_groups)
    group_stride = sx[labels.input_feature] * features if batch_groups == 1 else sx[labels.input_batch] * batch
    w_output, y_feature = sw[labels.kernel_output_feature], sy[labels.output_feature]
    taps = [
        Axis(d.size, sx[p], -sw[q] if d.window_reversal else sw[q], sy[r])
        for d, p, q, r in zip(window, labels.input_spatial, labels.kernel_spatial, labels.output_spatial, strict=True)
    ]
    if panel:
        groups, group_stride, each = outputs // panel, 0, panel
    w_group = prod(rhs.dims[:-1]) * panel if panel else w_output * each
    return Convolution(
        group=Axis(groups * batch_groups, group_stride, w_group, y_feature * each),
        batch=Axis(batch, sx[labels.input_batch], 0, sy[labels.output_batch]),
        feature=Axis(features, sx[labels.input_feature], sw[labels.kernel_input_feature], 0),
        output=Axis(each, 0, w_output, y_feature),
        dims=dims,
        taps=tuple(taps),
        x_base=-sum(a * s for a, s in zip(starts, sx, strict=True)),
        w_base=-sum((t.size - 1) * t.b for t in taps if t.b < 0),
        feature_groups=groups > 1 and not panel,
        in_panels=panel > 0,
    )
