"""convolution: of filters that are read backwards; of padded inputs; of spread ones, with filters larger than sums."""

from __future__ import annotations

from dataclasses import replace
from math import prod

from xloom.hlo.attributes import ConvolutionDimensions, WindowDimension
from xloom.hlo.computation import Computation
from xloom.hlo.dtype import pred
from xloom.hlo.instruction import Instruction
from xloom.hlo.shape import array_shape, tuple_shape
from xloom.passes.match import splat
from xloom.passes.rewrite import Rewriter, RuleTable

# what a backend config says of operands holds for these operands: such convolutions stay as they are
rule = RuleTable()


# convolution(x, w) == dot(x, w), where each is of one place
@rule("convolution")
def _one_place(i: Instruction, rw: Rewriter) -> Instruction | None:
    """So a matrix meets few vectors, of which products know more."""
    x, labels, window = i.operands[0], i["dim_labels"], i["window"]
    plain = max(i["feature_group_count"], i["batch_group_count"]) == 1 and not i.attrs.get("sparsity_config")
    if i.backend_config or not plain or not window:
        return None
    if any(d.padding_low or d.padding_high or d.size != 1 for d in window):
        return None
    if any(x.shape.dims[d] != 1 for d in labels.input_spatial):
        return None
    ends = (labels.input_batch, labels.input_feature), (labels.kernel_output_feature, labels.kernel_input_feature)
    matrices, summed = [], []
    for operand, pair in zip(i.operands, ends, strict=True):
        kept = sorted(pair)
        matrices.append(
            rw.make("reshape", array_shape(operand.shape.dtype, [operand.shape.dims[d] for d in kept]), [operand])
        )
        summed.append((kept.index(pair[1]),))
    is_turned = labels.output_feature < labels.output_batch
    dims = [i.shape.dims[d] for d in sorted((labels.output_batch, labels.output_feature))]
    order = (1, 0) if is_turned else (0, 1)
    precision = i["operand_precision"]
    attrs = {
        "lhs_contracting_dims": summed[order[0]],
        "rhs_contracting_dims": summed[order[1]],
        "operand_precision": precision and tuple(precision[k] for k in order),
        "algorithm": i["algorithm"],
    }
    product = rw.make("dot", array_shape(i.shape.dtype, dims), [matrices[k] for k in order], **attrs)
    return rw.make("reshape", i.shape, [product])


# convolution(x, reverse(w, spatial dimensions)) == convolution(x, w), with windows reversed there
@rule("convolution")
def _reversed_kernel(i: Instruction, rw: Rewriter) -> Instruction | None:
    x, w = i.operands
    spatial = i["dim_labels"].kernel_spatial
    if i.backend_config or w.opcode != "reverse" or not set(w["dimensions"]) <= set(spatial):
        return None
    window = tuple(
        replace(d, window_reversal=d.window_reversal != (place in w["dimensions"]))
        for d, place in zip(i["window"], spatial, strict=True)
    )
    return rw.make("convolution", i.shape, [x, w.operands[0]], **{**i.attrs, "window": window})


# convolution(pad(x, 0), w) == convolution(x, w), with windows that reach out so much further; in spatial dimensions
@rule("convolution")
def _padded_input(i: Instruction, rw: Rewriter) -> Instruction | None:
    (x, w), labels = i.operands, i["dim_labels"]
    if i.backend_config or x.opcode != "pad" or splat(x.operands[1]) != 0 or not all(x.operands[0].shape.dims):
        return None
    padding = x["padding"]
    still = (padding[labels.input_batch], padding[labels.input_feature])
    spatial = [padding[d] for d in labels.input_spatial]
    if any(tuple(p) != (0, 0, 0) for p in still) or any(p.interior or p.low < 0 or p.high < 0 for p in spatial):
        return None
    if any(d.base_dilation > 1 for d in i["window"]):
        return None
    window = tuple(
        replace(d, padding_low=d.padding_low + p.low, padding_high=d.padding_high + p.high)
        for d, p in zip(i["window"], spatial, strict=True)
    )
    if any(d.padding_low < 0 or d.padding_high < 0 for d in i["window"]):
        return None  # which cut what the other adds
    return rw.make("convolution", i.shape, [x.operands[0], w], **{**i.attrs, "window": window})


# convolution(spread x, w) == reverse(convolution(w, x), spatial dimensions), with spread windows; of finite numbers:
# zeros between elements of x are no longer multiplied with w, but zeros around w with x
# whatever is not finite shows in this result, or is a place of w that meets no element of x
@rule("convolution")
def _spread_input(i: Instruction, rw: Rewriter) -> Instruction | None:
    """Filter gradients of transposed convolutions: so all elements of the result meet the same of an operand."""
    (x, w), labels, window = i.operands, i["dim_labels"], i["window"]
    groups = max(i["feature_group_count"], i["batch_group_count"])
    sides = [i.shape.dims[d] for d in labels.output_spatial]
    if (
        i.backend_config
        or groups > 1
        or prod(d.size for d in window) <= prod(sides)
        or 0 in (*x.shape.dims, *w.shape.dims, *sides)
    ):
        return None
    if all(d.base_dilation == 1 for d in window) or any(d.window_dilation > 1 for d in window):
        return None
    if i.backend_config or i.frontend_attributes.get(_EXCHANGEABLE) == "false" or i.shape.dtype.name in _ALWAYS_FINITE:
        return None
    sizes = [x.shape.dims[d] for d in labels.input_spatial]
    exchanged = tuple(_exchanged_dimension(d, n, o) for d, n, o in zip(window, sizes, sides, strict=True))
    places = zip(window, labels.output_spatial, strict=True)
    backwards = tuple(sorted(place for d, place in places if not d.window_reversal))
    attrs = {**i.attrs, "window": exchanged, "dim_labels": _exchanged(labels)}
    if "operand_precision" in attrs:
        attrs["operand_precision"] = attrs["operand_precision"][::-1]
    new = rw.make("convolution", i.shape, [w, x], **attrs)
    new = rw.make("reverse", i.shape, [new], dimensions=backwards) if backwards else new
    if i.shape.dtype.is_integer:
        return new
    met = all(_meets_all(d, n, o) for d, n, o in zip(window, sizes, sides, strict=True))
    return _if_finite(i, rw, new, (new,) if met else (new, w))


_EXCHANGEABLE = "exchangeable"
"""The frontend attribute, "false" of a convolution whose operands stay in their order."""
_ALWAYS_FINITE = frozenset({"f4e2m1fn", "f6e2m3fn", "f6e3m2fn"})


def _meets_all(d: WindowDimension, size: int, places: int) -> bool:
    """True where each place of the window meets an element somewhere, of so many that are spread."""
    met: set[int] = set()
    for place in range(places):
        # of elements at multiples of base_dilation, the tap k meets the one at place * stride + k - padding
        first = d.padding_low - place * d.stride
        met.update(range(first, first + size * d.base_dilation, d.base_dilation))
    return met >= set(range(d.size))


# x == y where what is `checked` is finite
def _if_finite(x: Instruction, rw: Rewriter, y: Instruction, checked: tuple[Instruction, ...]) -> Instruction:
    """`y`, or `x` as it is where something is not: computed then."""
    module = rw.computation.module
    assert module is not None
    are_finite = [_is_finite(rw, value) for value in checked]
    chosen = rw.make("and", are_finite[0].shape, are_finite) if len(are_finite) > 1 else are_finite[0]
    operands = rw.make("tuple", tuple_shape([o.shape for o in x.operands]), x.operands)
    branches = []
    for operand in (y, operands):
        inner = Rewriter(module.add(Computation(f"{x.name}.{'exchanged' if operand is y else 'whole'}")))
        inner.computation.execution_thread = rw.computation.execution_thread
        root = inner.make("parameter", operand.shape, parameter_number=0)
        if operand is operands:
            parts = [inner.make("get-tuple-element", o.shape, [root], index=k) for k, o in enumerate(x.operands)]
            root = inner.computation.add(x.clone(parts))
            root.frontend_attributes = {**x.frontend_attributes, _EXCHANGEABLE: "false"}
            root.sharding = None
        inner.computation.root = root
        branches.append(inner.computation)
    attrs = dict(zip(("true_computation", "false_computation"), branches, strict=True))
    return rw.make("conditional", x.shape, [chosen, y, operands], **attrs)


def _is_finite(rw: Rewriter, x: Instruction) -> Instruction:
    """Whether all elements are: 0 * x is NaN where one is not."""
    zero = rw.splat(array_shape(x.shape.dtype, ()), 0)
    zeros = rw.make("multiply", x.shape, [x, rw.splat(x.shape, 0)])
    body = rw.sum_of(x.shape.dtype)
    total = rw.make("reduce", zero.shape, [zeros, zero], dimensions=tuple(range(x.shape.rank)), to_apply=body)
    return rw.make("compare", array_shape(pred, ()), [total, zero], direction="EQ")


def _exchanged_dimension(d: WindowDimension, size: int, places: int) -> WindowDimension:
    """The window of a dimension when its operands change places: of `size` elements, at as many places."""
    # place o meets elements j and k where o * stride + k == j * base_dilation + padding; or -k, of those backwards
    spread = (size - 1) * d.base_dilation
    low = d.padding_low + spread - (d.size - 1) if d.window_reversal else (places - 1) * d.stride - d.padding_low
    high = (places - 1) * d.stride + spread + 1 - d.size - low
    return WindowDimension(size, d.stride, low, high, d.base_dilation, 1, d.window_reversal)


def _exchanged(labels: ConvolutionDimensions) -> ConvolutionDimensions:
    return ConvolutionDimensions(
        labels.kernel_output_feature,
        labels.kernel_input_feature,
        labels.kernel_spatial,
        labels.input_feature,
        labels.input_batch,
        labels.input_spatial,
        labels.output_feature,
        labels.output_batch,
        labels.output_spatial,
    )
