"""Shapes of products, convolutions, factorisations, transforms and batch normalisation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from xloom.errors import ShapeError
from xloom.hlo.attributes import ConvolutionDimensions
from xloom.hlo.dtype import DType, c64, c128, f32, f64
from xloom.hlo.shape import UNBOUNDED, Shape, array_shape, tuple_shape
from xloom.infer.elementwise import require_array
from xloom.infer.layout import check_dimensions
from xloom.infer.registry import infers

Attrs = Mapping[str, Any]


def higher(a: DType, b: DType) -> DType:
    """The wider of two element types of a kind: the result type of a mixed-precision product."""
    if a is b:
        return a
    order = ("is_complex", "is_float", "is_integer")
    for kind in order:
        if getattr(a, kind) != getattr(b, kind):
            return a if getattr(a, kind) else b
    return a if a.bits >= b.bits else b


def _dot_dims(lhs: Shape, rhs: Shape, attrs: Attrs) -> tuple[list[int], list[bool]]:
    lb, rb = attrs.get("lhs_batch_dims", ()), attrs.get("rhs_batch_dims", ())
    lc, rc = attrs.get("lhs_contracting_dims", ()), attrs.get("rhs_contracting_dims", ())
    check_dimensions((*lb, *lc), require_array(lhs).rank)
    check_dimensions((*rb, *rc), require_array(rhs).rank)
    for name, left, right in (("batch", lb, rb), ("contracting", lc, rc)):
        if len(left) != len(right):
            raise ShapeError(
                f"{len(left)} {name} dimensions on the left, {len(right)} on the right",
                hint="name as many on both sides",
            )
        for a, b in zip(left, right, strict=True):
            free = lhs.is_dynamic_dimension(a) or rhs.is_dynamic_dimension(b)
            if lhs.dims[a] != rhs.dims[b] and not free:
                raise ShapeError(
                    f"{name} dimension {a} of {lhs} and {b} of {rhs} have different sizes",
                    hint="dimensions that are paired have one size: transpose, or name others",
                )
    left = [*lb, *(k for k in range(lhs.rank) if k not in (*lb, *lc))]
    right = [k for k in range(rhs.rank) if k not in (*rb, *rc)]
    dims = [lhs.dims[k] for k in left] + [rhs.dims[k] for k in right]
    dynamic = [lhs.is_dynamic_dimension(k) for k in left] + [rhs.is_dynamic_dimension(k) for k in right]
    return dims, dynamic


@infers("dot")
def dot(operands: Sequence[Shape], attrs: Attrs) -> Shape:
    """Batch dimensions, then the rest of the left operand, then the rest of the right one."""
    dims, dynamic = _dot_dims(operands[0], operands[1], attrs)
    return array_shape(higher(operands[0].dtype, operands[1].dtype), dims, dynamic)


@infers("scaled-dot")
def scaled_dot(operands: Sequence[Shape], attrs: Attrs) -> Shape:
    """As dot, of the first two operands."""
    dims, dynamic = _dot_dims(operands[0], operands[1], attrs)
    return array_shape(higher(operands[0].dtype, operands[1].dtype), dims, dynamic)


@infers("ragged-dot")
def ragged_dot(operands: Sequence[Shape], attrs: Attrs) -> Shape:
    """As dot, without the group dimension; a ragged contraction adds one in front."""
    lhs, rhs, sizes = operands
    ragged, groups = attrs.get("lhs_ragged_dims", ()), attrs.get("rhs_group_dims", ())
    if len(ragged) != 1:
        raise ShapeError(
            f"needs exactly one ragged dimension, found {ragged}",
            hint="group_sizes cut one dimension of the left operand",
        )
    keep = [k for k in range(rhs.rank) if k not in groups]
    renumber = {k: n for n, k in enumerate(keep)}
    reduced = array_shape(rhs.dtype, [rhs.dims[k] for k in keep])
    inner = dict(attrs)
    for name in ("rhs_batch_dims", "rhs_contracting_dims"):
        inner[name] = tuple(renumber[k] for k in attrs.get(name, ()))
    dims, _ = _dot_dims(lhs, reduced, inner)
    if ragged[0] in attrs.get("lhs_contracting_dims", ()):
        dims = [sizes.dims[-1], *dims]
    return array_shape(higher(lhs.dtype, rhs.dtype), dims)


@infers("convolution")
def convolution(operands: Sequence[Shape], attrs: Attrs) -> Shape:
    """Batch, output features, and the window positions of each spatial dimension."""
    lhs, rhs = require_array(operands[0]), require_array(operands[1])
    d: ConvolutionDimensions = attrs["dim_labels"]
    window = attrs.get("window", ())
    groups, batch_groups = attrs.get("feature_group_count", 1), attrs.get("batch_group_count", 1)
    if len(window) != len(d.input_spatial):
        raise ShapeError(
            f"window has {len(window)} dimensions, dim_labels {len(d.input_spatial)} spatial ones",
            hint="write a size for each spatial dimension, as in window={size=3x3}",
        )
    rank = len(d.input_spatial) + 2
    if lhs.rank != rank or rhs.rank != rank:
        raise ShapeError(
            f"dim_labels are for rank {rank}, operands are {lhs} and {rhs}",
            hint="label each dimension, as in dim_labels=b01f_01io->b01f",
        )
    features, channels = lhs.dims[d.input_feature], rhs.dims[d.kernel_input_feature]
    outputs, batch = rhs.dims[d.kernel_output_feature], lhs.dims[d.input_batch]
    if groups < 1 or batch_groups < 1:
        raise ShapeError("group counts must be at least 1", hint="leave them out for one group")
    if features >= 0 and channels >= 0 and features != channels * groups:
        raise ShapeError(
            f"{features} input features, but the kernel has {channels} in each of {groups} groups",
            hint="the kernel's input features are the input's by feature_group_count",
        )
    if outputs % groups or (batch >= 0 and batch % batch_groups) or outputs % batch_groups:
        raise ShapeError(
            "features or batch are not divisible by the group count",
            hint="batch and output features are multiples of the group counts",
        )
    dims, dynamic = [0] * rank, [False] * rank
    dims[d.output_batch] = UNBOUNDED if batch == UNBOUNDED else batch // batch_groups
    dynamic[d.output_batch] = lhs.is_dynamic_dimension(d.input_batch)
    dims[d.output_feature] = outputs
    for k, w in enumerate(window):
        size = lhs.dims[d.input_spatial[k]]
        if w.size != rhs.dims[d.kernel_spatial[k]]:
            raise ShapeError(
                f"window size {w.size} differs from the kernel's {rhs.dims[d.kernel_spatial[k]]}",
                hint="the window has the kernel's spatial sizes",
            )
        dims[d.output_spatial[k]] = UNBOUNDED if size == UNBOUNDED else w.output_size(size)
        dynamic[d.output_spatial[k]] = lhs.is_dynamic_dimension(d.input_spatial[k])
    return array_shape(higher(lhs.dtype, rhs.dtype), dims, dynamic)


@infers("fft")
def fft(operands: Sequence[Shape], attrs: Attrs) -> Shape:
    """Complex to complex; RFFT halves the last dimension, IRFFT restores it."""
    shape, lengths, kind = require_array(operands[0]), attrs["fft_length"], attrs.get("fft_type", "FFT")
    if not 1 <= len(lengths) <= 3 or len(lengths) > shape.rank:
        raise ShapeError(
            f"fft_length has {len(lengths)} dimensions; 1 to 3 of the operand's {shape.rank} are possible",
            hint="write the lengths of the innermost dimensions",
        )
    tail = list(shape.dims[shape.rank - len(lengths) :])
    if kind == "RFFT":
        if shape.dtype not in (f32, f64):
            raise ShapeError(f"RFFT needs f32 or f64, found {shape.dtype.name}", hint="convert it to f32")
        expected, dtype = list(lengths), c64 if shape.dtype is f32 else c128
        result = [*lengths[:-1], lengths[-1] // 2 + 1]
    elif shape.dtype not in (c64, c128):
        raise ShapeError(
            f"{kind} needs a complex operand, found {shape.dtype.name}", hint="make one by complex(real, imaginary)"
        )
    elif kind == "IRFFT":
        expected, dtype = [*lengths[:-1], lengths[-1] // 2 + 1], shape.dtype.real
        result = list(lengths)
    else:
        expected, dtype, result = list(lengths), shape.dtype, list(lengths)
    if tail != expected and 0 not in tail:
        raise ShapeError(
            f"{kind} of lengths {tuple(lengths)} needs innermost dimensions {expected}, found {tail}",
            hint="an RFFT gives, and an IRFFT takes, n / 2 + 1 points of the last length n",
        )
    return array_shape(dtype, [*shape.dims[: shape.rank - len(lengths)], *result], shape.dynamic)


@infers("cholesky")
def cholesky(operands: Sequence[Shape], attrs: Attrs) -> Shape:
    """The operand's shape: batches of square matrices."""
    shape = require_array(operands[0])
    if shape.rank < 2 or shape.dims[-1] != shape.dims[-2]:
        raise ShapeError(f"needs square matrices, found {shape}", hint="the last two dimensions have one size")
    return shape


@infers("triangular-solve")
def triangular_solve(operands: Sequence[Shape], attrs: Attrs) -> Shape:
    """The shape of b."""
    a, b = require_array(operands[0]), require_array(operands[1])
    if a.rank < 2 or a.rank != b.rank or a.dims[-1] != a.dims[-2]:
        raise ShapeError(
            f"needs square matrices a and b of equal rank, found {a} and {b}",
            hint="the last two dimensions have one size",
        )
    if a.dtype is not b.dtype:
        raise ShapeError(f"operands have different element types: {a} and {b}", hint="convert one of them")
    side = -2 if attrs.get("left_side") else -1
    if a.dims[-1] != b.dims[side] or a.dims[:-2] != b.dims[:-2]:
        raise ShapeError(
            f"{a} and {b} do not fit",
            hint="b has a's rows where a is on the left, else its columns, and the same batch",
        )
    return b


@infers("batch-norm-training")
def batch_norm_training(operands: Sequence[Shape], attrs: Attrs) -> Shape:
    """The normalised operand, the mean and the variance."""
    shape, scale = _normalised(operands, attrs)
    return tuple_shape([shape, scale, scale])


@infers("batch-norm-inference")
def batch_norm_inference(operands: Sequence[Shape], attrs: Attrs) -> Shape:
    """The operand's shape."""
    return _normalised(operands, attrs)[0]


@infers("batch-norm-grad")
def batch_norm_grad(operands: Sequence[Shape], attrs: Attrs) -> Shape:
    """Gradients of operand, scale and offset."""
    shape, scale = _normalised(operands, attrs)
    return tuple_shape([shape, scale, scale])


def _normalised(operands: Sequence[Shape], attrs: Attrs) -> tuple[Shape, Shape]:
    shape, scale, feature = require_array(operands[0]), operands[1], attrs["feature_index"]
    check_dimensions((feature,), shape.rank)
    if scale.dims != (shape.dims[feature],):
        raise ShapeError(
            f"scale must have {shape.dims[feature]} elements, found {scale}",
            hint="give one scale for each block of elements",
        )
    return shape, scale
