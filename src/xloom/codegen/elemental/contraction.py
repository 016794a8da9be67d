"""Products, convolutions and windows: what one element is, as a reduction. Backends may have better algorithms."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xloom.codegen.elemental.lowering import IndexTuple, Tracer, element_of, joined
from xloom.codegen.elemental.reduce import plain_operator
from xloom.codegen.loop_ir.affine import Affine, constant
from xloom.codegen.loop_ir.nodes import AccumulatorValue, Constant, If, Node, Reduced, Reduction
from xloom.codegen.loop_ir.scalar_ops import alias, scalar_op
from xloom.hlo.attributes import WindowDimension
from xloom.hlo.dtype import DType, f32, f64
from xloom.hlo.instruction import Instruction
from xloom.llvm.scalar.operator import Operator
from xloom.trampoline import Nested, each


@element_of("dot")
def dot(t: Tracer, instruction: Instruction, index: IndexTuple) -> Nested[Node]:
    """The sum of products along the contracting dimensions."""
    lhs, rhs = instruction._operands
    batch = len(instruction["lhs_batch_dims"])
    contracted = list(zip(instruction["lhs_contracting_dims"], instruction["rhs_contracting_dims"], strict=True))
    loops = [t.loops((instruction, k), lhs.shape.dims[d], "k") for k, (d, _) in enumerate(contracted)]
    free = iter(index[batch:])
    operands = []
    for operand, side, batch_dims in ((lhs, 0, "lhs_batch_dims"), (rhs, 1, "rhs_batch_dims")):
        at: list[Affine | None] = [None] * operand.shape.rank
        for k, dims in enumerate(contracted):
            at[dims[side]] = joined(loops[k])
        for k, d in enumerate(instruction[batch_dims]):
            at[d] = index[k]
        operands.append((operand, tuple(next(free) if i is None else i for i in at)))
    elements = yield each(t.element(*operand) for operand in operands)
    return _sum_of_products(instruction.shape.dtype, [v for loop in loops for v in loop], elements)


@element_of("convolution")
def convolution(t: Tracer, instruction: Instruction, index: IndexTuple) -> Nested[Node]:
    """The sum of products of the input's elements in the window with the kernel's, over the features of a group."""
    lhs, rhs = instruction._operands
    labels, window = instruction["dim_labels"], instruction["window"]
    feature_groups, batch_groups = instruction["feature_group_count"], instruction["batch_group_count"]
    features = rhs.shape.dims[labels.kernel_input_feature]
    outputs = instruction.shape.dims[labels.output_feature]
    feature = index[labels.output_feature]
    group, _ = t.divide(feature, max(1, outputs // (feature_groups * batch_groups)))
    inner = t.loops((instruction, "feature"), features, "k")
    lhs_at: dict[int, Affine] = {labels.input_feature: joined(inner)}
    if feature_groups > 1:
        lhs_at[labels.input_feature] = lhs_at[labels.input_feature] + group * features
    batch = index[labels.output_batch]
    if batch_groups > 1:
        batch = batch + group * (lhs.shape.dims[labels.input_batch] // batch_groups)
    lhs_at[labels.input_batch] = batch
    rhs_at: dict[int, Affine] = {labels.kernel_input_feature: joined(inner), labels.kernel_output_feature: feature}
    loops, conditions = list(inner), []
    for k, dimension in enumerate(window):
        d = labels.input_spatial[k]
        taps = t.loops((instruction, k), dimension.size, "k")
        loops += taps
        tap = joined(taps)
        place, tests = window_position(t, index[labels.output_spatial[k]], tap, dimension, lhs.shape.dims[d])
        lhs_at[d] = place
        conditions += tests
        reversed_tap = constant(dimension.size - 1) - tap if dimension.window_reversal else tap
        rhs_at[labels.kernel_spatial[k]] = reversed_tap
    dtype = instruction.shape.dtype
    if not lhs.shape.size or not rhs.shape.size:
        return Constant(dtype, 0)
    places = (
        (lhs, tuple(lhs_at[d] for d in range(lhs.shape.rank))),
        (rhs, tuple(rhs_at[d] for d in range(rhs.shape.rank))),
    )
    elements = yield each(t.element(*place) for place in places)
    return _sum_of_products(dtype, loops, elements, tuple(conditions))


def window_reduction(t: Tracer, instruction: Instruction, index: IndexTuple) -> Nested[Reduction]:
    """The reduction that a reduce-window is at `index` of its results; what is outside leaves the state as it was."""
    operands = instruction._operands
    count = len(operands) // 2
    dims, window = operands[0].shape.dims, instruction["window"]
    loops = [t.loops((instruction, k), dimension.size, "k") for k, dimension in enumerate(window)]
    inits = tuple((yield each(t.element(o, ()) for o in operands[count:])))
    places, conditions = [], []
    for k, (i, dimension) in enumerate(zip(index, window, strict=True)):
        tap = joined(loops[k])
        if dimension.window_reversal:
            tap = constant(dimension.size - 1) - tap
        place, tests = window_position(t, i, tap, dimension, dims[k])
        places.append(place)
        conditions += tests
    body = instruction["to_apply"]
    arguments = tuple(AccumulatorValue(i.dtype, k) for k, i in enumerate(inits))
    variables = tuple(v for loop in loops for v in loop if v.size != 1)
    if not operands[0].shape.size:
        return Reduction((), inits, arguments, arguments, inits)
    elements = tuple(map(alias, (yield each(t.element(o, tuple(places)) for o in operands[:count]))))
    new = t.region(body, [*arguments, *elements])
    if not conditions:
        return Reduction(variables, inits, arguments, new, elements, plain_operator(body) if count == 1 else "")
    bodies = tuple(If(n.dtype, tuple(conditions), n, a) for n, a in zip(new, arguments, strict=True))
    return Reduction(variables, inits, arguments, bodies, elements)


Condition = tuple[Affine, int, int]


def window_position(
    t: Tracer, output: Affine, tap: Affine, dimension: WindowDimension, size: int
) -> tuple[Affine, list[Condition]]:
    """Which element a window's tap is at, and the conditions on which there is one."""
    place = output * dimension.stride + tap * dimension.window_dilation - dimension.padding_low
    conditions: list[Condition] = []
    if dimension.base_dilation > 1:
        place, rest = t.divide(place, dimension.base_dilation)
        if rest.low < 0 or rest.high > 0:
            conditions.append((rest, 0, 1))
    if place.low < 0 or place.high >= size:
        conditions.append((place, 0, size))
    return place, conditions


def _sum_of_products(
    dtype: DType, loops: Sequence[Any], elements: Sequence[Node], conditions: tuple[Condition, ...] = ()
) -> Node:
    """The sum of products over loops; of narrow floats in f32, rounded once.

    The first element is zero where the conditions do not hold: times what is not finite that is NaN.
    """
    wide = f64 if any(e.dtype is f64 for e in elements) else f32 if dtype.is_float and dtype.bits < 32 else dtype
    x, y = (_converted(e, wide) for e in elements)
    zero = Constant(wide, 0)
    if conditions:
        x = If(wide, conditions, x, zero)
    element = alias(scalar_op(Operator("multiply", wide, (wide, wide)), (x, y)))
    total = AccumulatorValue(wide, 0)
    body = scalar_op(Operator("add", wide, (wide, wide)), (total, element))
    variables = tuple(v for v in loops if v.size != 1)
    reduction = Reduction(variables, (zero,), (total,), (body,), (element,), "add")
    return _converted(Reduced(wide, reduction, 0), dtype)


def _converted(node: Node, dtype: DType) -> Node:
    return node if node.dtype is dtype else scalar_op(Operator("convert", dtype, (node.dtype,)), (node,))
