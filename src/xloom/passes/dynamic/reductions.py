"""Operators that reduce, contract or sort: they must not see what is beyond a size."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from xloom.hlo.attributes import WindowDimension
from xloom.hlo.computation import Computation
from xloom.hlo.dtype import DType, pred
from xloom.hlo.instruction import Instruction
from xloom.hlo.literal import literal
from xloom.hlo.shape import array_shape, tuple_shape
from xloom.passes.dynamic.values import Emitter, Padded, Place, Size, pads, static, unsupported
from xloom.passes.match import highest, lowest


@pads("reduce")
def reduce(e: Emitter, old: Instruction, operands: Sequence[Padded]) -> Padded:
    """The initial value beyond the sizes."""
    count = len(operands) // 2
    arrays, inits = operands[:count], [o.value for o in operands[count:]]
    dims = old["dimensions"]
    inputs = [e.masked(a, i, dims) for a, i in zip(arrays, inits, strict=True)]
    kept = [d for d in range(arrays[0].value.shape.rank) if d not in dims]
    sizes = {kept.index(d): s for a in arrays for (_, d), s in a.sizes.items() if d in kept}
    leaves = range(len(old.shape.elements)) if old.shape.is_tuple else range(1)
    return Padded(e.clone(old, [*inputs, *inits]), {(leaf, d): s for leaf in leaves for d, s in sizes.items()})


@pads("reduce-window")
def reduce_window(e: Emitter, old: Instruction, operands: Sequence[Padded]) -> Padded:
    """The initial values beyond the sizes, as in the padding of the window."""
    count = len(operands) // 2
    arrays, inits = operands[:count], [o.value for o in operands[count:]]
    sizes = {d: _steps(e, size, old["window"][d]) for a in arrays for (_, d), size in a.sizes.items()}
    inputs = [e.masked(a, i) for a, i in zip(arrays, inits, strict=True)]
    leaves = range(len(old.shape.elements)) if old.shape.is_tuple else range(1)
    return Padded(e.clone(old, [*inputs, *inits]), {(leaf, d): s for leaf in leaves for d, s in sizes.items()})


def _steps(e: Emitter, size: Size, w: WindowDimension) -> Instruction:
    """(dilated size + low + high - dilated window) / stride + 1"""
    spread = e.scalar("add", e.scalar("multiply", e.scalar("subtract", size, 1), w.base_dilation), 1)
    room = e.scalar("add", spread, w.padding_low + w.padding_high - w.dilated_size)
    steps = e.scalar("divide", e.scalar("add", room, w.stride), w.stride)
    return e.scalar("maximum", steps, 0)


@pads("dot")
def dot(e: Emitter, old: Instruction, operands: Sequence[Padded]) -> Padded:
    """Zeros beyond the sizes of contracted dimensions."""
    inputs, sizes = [], {}
    place = 0
    batch = len(old["lhs_batch_dims"])
    for operand, side in zip(operands, ("lhs", "rhs"), strict=True):
        contracted, batched = old[f"{side}_contracting_dims"], old[f"{side}_batch_dims"]
        inputs.append(e.masked(operand, e.zero(operand.value.shape), contracted))
        free = [d for d in range(operand.value.shape.rank) if d not in contracted and d not in batched]
        for (_, d), size in operand.sizes.items():
            if d in batched:
                sizes[0, batched.index(d)] = size
            elif d in free:
                sizes[0, batch + place + free.index(d)] = size
        place += len(free)
    return Padded(e.clone(old, inputs), sizes)


@pads("ragged-dot")
def ragged_dot(e: Emitter, old: Instruction, operands: Sequence[Padded]) -> Padded:
    """As a dot: what is beyond the size of the ragged dimension is in no group."""
    *factors, counts = operands
    contracted, batch = old["lhs_contracting_dims"], len(old["lhs_batch_dims"])
    groups = old["rhs_group_dims"]
    if counts.sizes or any(d in groups for _, d in factors[1].sizes):
        raise unsupported(old)
    first = 1 if old["lhs_ragged_dims"][0] in contracted else 0  # the groups come before
    inputs: list[Instruction] = []
    sizes: dict[Place, Size] = {}
    place = first + batch
    for operand, side in zip(factors, ("lhs", "rhs"), strict=True):
        summed, batched = old[f"{side}_contracting_dims"], old[f"{side}_batch_dims"]
        inputs.append(e.masked(operand, e.zero(operand.value.shape), summed))
        taken = {*summed, *batched, *(groups if side == "rhs" else ())}
        free = [d for d in range(operand.value.shape.rank) if d not in taken]
        for (_, d), size in operand.sizes.items():
            if d in batched:
                sizes[0, first + batched.index(d)] = size
            elif d in free:
                sizes[0, place + free.index(d)] = size
        place += len(free)
    return Padded(e.clone(old, [*inputs, counts.value]), sizes)


@pads("sort")
def sort(e: Emitter, old: Instruction, operands: Sequence[Padded]) -> Padded:
    """By one more key first: whether the element is beyond the size."""
    (dim,) = old["dimensions"]
    size = next((o.size(dim) for o in operands if o.size(dim) is not None), None)
    arrays = [o.value for o in operands]
    sizes = {(k, d): s for k in range(len(arrays)) for o in operands for (_, d), s in o.sizes.items()}
    if size is None:
        return Padded(e.clone(old, arrays), sizes)
    shape = arrays[0].shape
    outside = e("not", array_shape(pred, shape.dims), (e.inside(shape, dim, size),))
    comparator = _comparator(e, old["to_apply"], len(arrays))
    shapes = [a.shape for a in (*arrays, outside)]
    attrs = {**old.attrs, "to_apply": comparator}
    ordered = e("sort", tuple_shape(shapes), (*arrays, outside), attrs)
    parts = [e("get-tuple-element", a.shape, (ordered,), {"index": k}) for k, a in enumerate(arrays)]
    value = e("tuple", static(old.shape), parts) if old.shape.is_tuple else parts[0]
    return Padded(value, sizes)


@pads("topk")
def topk(e: Emitter, old: Instruction, operands: Sequence[Padded]) -> Padded:
    """The last in order beyond the size: of equal elements the first are taken."""
    (x,) = operands
    last = x.value.shape.rank - 1
    value = e.masked(x, _last_in_order(e, x.value.shape.dtype, largest=old["largest"]), (last,))
    sizes = {(leaf, d): s for leaf in range(len(old.shape.elements)) for (_, d), s in x.sizes.items() if d != last}
    return Padded(e.clone(old, [value]), sizes)


def _last_in_order(e: Emitter, dtype: DType, *, largest: bool) -> Instruction:
    """The scalar that no other comes after when the largest, or smallest, are first: in the total order, of floats."""
    if dtype.is_float:
        magnitude = (1 << (dtype.bits - 1)) - 1
        number = np.asarray(magnitude | (largest << (dtype.bits - 1)), f"u{dtype.bytes}").view(dtype.numpy)
    else:
        number = np.asarray(lowest(dtype) if largest else highest(dtype)).astype(dtype.numpy)
    return e("constant", array_shape(dtype, ()), (), {"literal": literal(number)})


def _comparator(e: Emitter, old: Computation, count: int) -> Computation:
    """before(a, b) with two more arguments: an element inside comes before one outside, else as `old` says."""
    assert old.module is not None
    new = old.clone("padded")
    flags = [
        new.add(Instruction("outside", "parameter", array_shape(pred, ()), (), {"parameter_number": 2 * count + k}))
        for k in (0, 1)
    ]
    scalar = array_shape(pred, ())
    differ = new.add(Instruction("differ", "xor", scalar, flags))
    new.root = new.add(Instruction("before", "select", scalar, (differ, flags[1], new.root)))
    return new


@pads("scatter")
def scatter(e: Emitter, old: Instruction, operands: Sequence[Padded]) -> Padded:
    """Updates beyond the sizes go nowhere; those beyond the array's go where nothing is."""
    count = len(operands) // 2
    targets, indices, updates = operands[:count], operands[count], operands[count + 1 :]
    windows = [d for d in range(old.operands[0].shape.rank) if d not in old["inserted_window_dims"]]
    windows = [d for d in windows if d not in old["input_batching_dims"]]
    for u in updates:
        for _, d in u.sizes:
            if d in old["update_window_dims"]:
                at = windows[old["update_window_dims"].index(d)]
                if at in old["scatter_dims_to_operand_dims"] or any(at not in [p for _, p in t.sizes] for t in targets):
                    raise unsupported(old)
    kept = indices.value
    if indices.sizes:
        kept = e.masked(indices, e.filled(kept.shape, -1))
    sizes = {(k, d): s for k, t in enumerate(targets) for (_, d), s in t.sizes.items()}
    return Padded(e.clone(old, [*(t.value for t in targets), kept, *(u.value for u in updates)]), sizes)


@pads("convolution")
def convolution(e: Emitter, old: Instruction, operands: Sequence[Padded]) -> Padded:
    """Zeros beyond the sizes of what is contracted, as in the padding of the window."""
    image, kernel = operands
    dims = old["dim_labels"]
    whole = old["batch_group_count"] == 1, old["feature_group_count"] == 1
    sizes: dict[Place, Size] = {}
    for (_, d), size in image.sizes.items():
        if d == dims.input_batch and whole[0]:
            sizes[0, dims.output_batch] = size
        elif d in dims.input_spatial:
            k = dims.input_spatial.index(d)
            sizes[0, dims.output_spatial[k]] = _steps(e, size, old["window"][k])
        elif d != dims.input_feature or not whole[1]:
            raise unsupported(old)
    for (_, d), size in kernel.sizes.items():
        if d == dims.kernel_output_feature and all(whole):
            sizes[0, dims.output_feature] = size
        elif d in dims.kernel_spatial:
            sizes.pop((0, dims.output_spatial[dims.kernel_spatial.index(d)]), None)
        elif d != dims.kernel_input_feature or not whole[1]:
            raise unsupported(old)
    zero = e.zero(image.value.shape)
    filled = e.masked(image, zero, (*dims.input_spatial, dims.input_feature))
    kernel_filled = e.masked(kernel, zero, (*dims.kernel_spatial, dims.kernel_input_feature))
    return Padded(e.clone(old, [filled, kernel_filled]), sizes)
