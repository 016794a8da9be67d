"""Operators that are written with others of ATen: torch's own decompositions, and some that torch lacks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import torch
from torch import Tensor
from torch._ops import OpOverload

from xloom.torch.lowering.registry import has_lowering

Decomposition = Callable[..., Any]
aten = torch.ops.aten

_OWN: dict[OpOverload, Decomposition] = {}
# torch has these, but not among its core decompositions
_BEYOND_CORE = (
    aten.batch_norm_backward.default,
    aten.dist.default,
    aten.grid_sampler_2d.default,
    aten.narrow_copy.default,
)


@cache
def decompositions() -> dict[OpOverload, Decomposition]:
    """By operator; only of operators that the lowering table lacks."""
    from torch._decomp import core_aten_decompositions, get_decompositions

    found = {**core_aten_decompositions(), **get_decompositions(_BEYOND_CORE), **_OWN}
    return {op: rule for op, rule in found.items() if isinstance(op, OpOverload) and not has_lowering(op)}


def _decomposes(op: OpOverload) -> Callable[[Decomposition], Decomposition]:
    def register(rule: Decomposition) -> Decomposition:
        _OWN[op] = rule
        return rule

    return register


@_decomposes(aten.ldexp.Tensor)
def ldexp(x: Tensor, other: Tensor) -> Tensor:
    """x 2^other."""
    return x * torch.pow(2.0, other)


@_decomposes(aten._efficientzerotensor.default)
def efficientzerotensor(size: Sequence[int], **options: Any) -> Tensor:
    """Zeros."""
    return torch.zeros(size, **options)


@_decomposes(aten.rrelu_with_noise_functional.default)
def rrelu_with_noise(
    x: Tensor, noise: Tensor, lower: float = 0.125, upper: float = 1 / 3, training: bool = False, generator: Any = None
) -> tuple[Tensor, Tensor]:
    """x, multiplied where it is not positive by a random slope, or by their mean."""
    if not training:
        return torch.where(x > 0, x, x * ((lower + upper) / 2)), noise
    slopes = torch.where(x > 0, torch.ones_like(x), torch.rand_like(x) * (upper - lower) + lower)
    return x * slopes, slopes


@_decomposes(aten.rrelu_with_noise_backward.default)
def rrelu_with_noise_backward(
    grad: Tensor, x: Tensor, noise: Tensor, lower: float, upper: float, training: bool, self_is_result: bool
) -> Tensor:
    """The gradient times the slopes that were drawn, or their mean."""
    if training and upper - lower > 1e-6:
        return grad * noise
    return torch.where(x > 0, grad, grad * ((lower + upper) / 2))


@_decomposes(aten.masked_scatter_backward.default)
def masked_scatter_backward(grad: Tensor, mask: Tensor, sizes: Sequence[int]) -> Tensor:
    """The gradients where the mask is true, in order, then zeros."""
    count = 1
    for size in sizes:
        count *= size
    chosen = mask.expand_as(grad).reshape(-1)
    place = torch.where(chosen, torch.cumsum(chosen, 0) - 1, count)
    filled = torch.zeros(count + 1, dtype=grad.dtype, device=grad.device)
    place = torch.clamp(place, max=count)
    return filled.index_put((place,), grad.reshape(-1), accumulate=True)[:count].reshape(list(sizes))


def _replicated(grad: Tensor, x: Tensor, padding: Sequence[int]) -> Tensor:
    """Each padded place's gradient goes to the edge that it repeats."""
    for k in range(len(padding) // 2):
        dim = x.dim() - 1 - k
        size = x.shape[dim]
        places = torch.clamp(torch.arange(grad.shape[dim], device=grad.device) - padding[2 * k], 0, size - 1)
        dims = list(grad.shape)
        dims[dim] = size
        grad = torch.zeros(dims, dtype=grad.dtype, device=grad.device).index_add(dim, places, grad)
    return grad


for _rank in (1, 2, 3):
    _decomposes(getattr(aten, f"replication_pad{_rank}d_backward").default)(_replicated)


@_decomposes(aten.histc.default)
def histc(x: Tensor, bins: int = 100, min: float = 0, max: float = 0) -> Tensor:
    """How many elements are in each of equal intervals."""
    x = x.reshape(-1)
    low, high = torch.full((), min, dtype=x.dtype), torch.full((), max, dtype=x.dtype)
    if min == max and x.numel():
        low, high = torch.amin(x), torch.amax(x)
        same = low == high
        low, high = torch.where(same, low - 1, low), torch.where(same, high + 1, high)
    place = torch.clamp(((x - low) * bins / (high - low)).to(torch.int64), 0, bins - 1)
    inside = ((x >= low) & (x <= high)).to(x.dtype)
    return torch.zeros(bins, dtype=x.dtype, device=x.device).index_add(0, place, inside)


@_decomposes(aten.nonzero_static.default)
def nonzero_static(x: Tensor, *, size: int, fill_value: int = -1) -> Tensor:
    """The places of the first so many elements that are not zero; then rows of fill_value."""
    chosen = (x != 0).reshape(-1)
    if x.dim() == 0:
        return torch.zeros((size, 0), dtype=torch.int64, device=x.device)
    place = torch.where(chosen, torch.clamp(torch.cumsum(chosen, 0) - 1, max=size), size)
    columns = []
    for dim, length in enumerate(x.shape):
        steps = torch.arange(length, device=x.device).reshape([-1 if k == dim else 1 for k in range(x.dim())])
        empty = torch.full((size + 1,), fill_value, dtype=torch.int64, device=x.device)
        columns.append(empty.index_put((place,), steps.expand(x.shape).reshape(-1))[:size])
    return torch.stack(columns, 1)


@_decomposes(aten.linalg_pinv.atol_rtol_tensor)
def linalg_pinv(x: Tensor, *, atol: Tensor | None = None, rtol: Tensor | None = None, hermitian=False) -> Tensor:
    """The pseudo-inverse, from singular values (or eigenvalues) above a tolerance."""
    if x.numel() == 0:
        return x.mH
    epsilon = torch.finfo(x.dtype).eps
    if atol is None and rtol is None:
        rtol = torch.full((), epsilon * max(x.shape[-2:]), device=x.device)
    rtol = torch.zeros((), device=x.device) if rtol is None else rtol
    atol = torch.zeros((), device=x.device) if atol is None else atol
    if hermitian:
        values, vectors = torch.linalg.eigh(x)
        size = values.abs()
        left, right = vectors, vectors.mH
    else:
        u, values, right_h = torch.linalg.svd(x, full_matrices=False)
        size, left, right = values, right_h.mH, u.mH
    bound = torch.maximum(atol.unsqueeze(-1), rtol.unsqueeze(-1) * torch.amax(size, -1, keepdim=True))
    inverse = torch.where(size > bound, values.reciprocal(), torch.zeros_like(values))
    return (left * inverse.unsqueeze(-2).to(left.dtype)) @ right


@_decomposes(aten._embedding_bag.default)
def embedding_bag(
    weight: Tensor,
    indices: Tensor,
    offsets: Tensor,
    scale_grad_by_freq: bool = False,
    mode: int = 0,
    sparse: bool = False,
    per_sample_weights: Tensor | None = None,
    include_last_offset: bool = False,
    padding_idx: int = -1,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Sums (0), means (1) or maxima (2) of bags of rows; the bag of each index, their sizes, where maxima are."""
    starts = offsets[:-1] if include_last_offset else offsets
    bags, count, width = starts.shape[0], indices.shape[0], weight.shape[1]
    steps = torch.arange(count, device=indices.device)
    bag = (torch.searchsorted(starts.contiguous(), steps.to(starts.dtype), right=True) - 1).to(indices.dtype)
    rows = weight[indices]
    counted = (indices != padding_idx) if padding_idx >= 0 else torch.ones_like(indices, dtype=torch.bool)
    sizes = torch.zeros(bags, dtype=indices.dtype, device=indices.device).index_add(0, bag, counted.to(indices.dtype))
    if mode == 2:
        wide = bag.unsqueeze(1).expand(count, width)
        lowest = torch.full((bags, width), float("-inf"), dtype=weight.dtype, device=weight.device)
        seen = torch.where(counted.unsqueeze(1), rows, float("-inf"))
        top = lowest.scatter_reduce(0, wide, seen, "amax")
        hit = (seen == top[bag]) & counted.unsqueeze(1)
        first = torch.where(hit, indices.unsqueeze(1).expand(count, width), -1)
        places = torch.full((bags, width), -1, dtype=indices.dtype, device=indices.device)
        places = places.scatter_reduce(0, wide, first, "amax")
        return torch.where(sizes.unsqueeze(1) > 0, top, 0.0), bag, sizes, torch.clamp(places, min=0)
    factor = counted.to(weight.dtype)
    if per_sample_weights is not None:
        factor = factor * per_sample_weights
    wide = torch.promote_types(weight.dtype, torch.float32)
    total = torch.zeros((bags, width), dtype=wide, device=weight.device)
    total = total.index_add(0, bag, rows.to(wide) * factor.to(wide).unsqueeze(1))
    if mode == 1:
        total = total / torch.clamp(sizes, min=1).unsqueeze(1)
    return total.to(weight.dtype), bag, sizes, sizes.clone()


@_decomposes(aten._embedding_bag_forward_only.default)
def embedding_bag_forward_only(*args: Any, **kwargs: Any) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The same."""
    return embedding_bag(*args, **kwargs)


@_decomposes(aten._embedding_bag_per_sample_weights_backward.default)
def embedding_bag_weights_backward(
    grad: Tensor, weight: Tensor, indices: Tensor, offsets: Tensor, bag: Tensor, mode: int, padding_idx: int = -1
) -> Tensor:
    """The gradient of the weights of rows in sums."""
    result = (grad[bag] * weight[indices]).sum(-1)
    return torch.where(indices == padding_idx, 0.0, result) if padding_idx >= 0 else result


@_decomposes(aten._embedding_bag_dense_backward.default)
def embedding_bag_dense_backward(
    grad: Tensor,
    indices: Tensor,
    bag: Tensor,
    sizes: Tensor,
    places: Tensor,
    num_weights: int,
    scale_grad_by_freq: bool,
    mode: int,
    per_sample_weights: Tensor | None,
    padding_idx: int = -1,
) -> Tensor:
    """The table's gradient."""
    table = torch.zeros((num_weights, grad.shape[1]), dtype=grad.dtype, device=grad.device)
    if mode == 2:
        filled = torch.where(sizes.unsqueeze(1) > 0, grad, 0.0)
        return table.scatter_add(0, places.to(torch.int64), filled)
    rows = grad[bag]
    if mode == 1:
        rows = rows / torch.clamp(sizes, min=1)[bag].unsqueeze(1)
    if per_sample_weights is not None:
        rows = rows * per_sample_weights.unsqueeze(1)
    if scale_grad_by_freq:
        counts = torch.zeros(num_weights, dtype=grad.dtype, device=grad.device)
        counts = counts.index_add(0, indices, torch.ones_like(indices, dtype=grad.dtype))
        rows = rows / counts[indices].unsqueeze(1)
    if padding_idx >= 0:
        rows = torch.where((indices == padding_idx).unsqueeze(1), 0.0, rows)
    return table.index_add(0, indices, rows)


@_decomposes(aten.segment_reduce.default)
def segment_reduce(
    data: Tensor,
    reduce: str,
    *,
    lengths: Tensor | None = None,
    indices: Tensor | None = None,
    offsets: Tensor | None = None,
    axis: int = 0,
    unsafe: bool = False,
    initial: float | None = None,
) -> Tensor:
    """Folds of runs of elements along a dimension; those of empty runs are what the fold starts from."""
    ends = _segment_ends(lengths, offsets)
    neutral = {"sum": 0.0, "mean": 0.0, "prod": 1.0, "max": float("-inf"), "min": float("inf")}[reduce]
    start = neutral if initial is None else initial
    segment, counts = _segments(data, ends, axis)
    dims = [*data.shape[:axis], ends.shape[axis] + 1, *data.shape[axis + 1 :]]
    how = {"sum": "sum", "mean": "sum", "prod": "prod", "max": "amax", "min": "amin"}[reduce]
    wide = segment.reshape([*segment.shape, *[1] * (data.dim() - axis - 1)]).expand(data.shape)
    base = torch.full(dims, start, dtype=data.dtype, device=data.device)
    result = base.scatter_reduce(axis, wide, data, how).narrow(axis, 0, dims[axis] - 1)
    if reduce != "mean":
        return result
    counts = counts.reshape([*counts.shape, *[1] * (data.dim() - axis - 1)])
    empty = torch.full_like(result, float("nan") if initial is None else initial)
    return torch.where(counts > 0, result / torch.clamp(counts, min=1), empty)


def _segment_ends(lengths: Tensor | None, offsets: Tensor | None) -> Tensor:
    if lengths is not None:
        return torch.cumsum(lengths, -1)
    assert offsets is not None
    return offsets[..., 1:]


def _segments(data: Tensor, ends: Tensor, axis: int) -> tuple[Tensor, Tensor]:
    """The run that each place is in (one more than the last for none), and how long runs are."""
    place = torch.arange(data.shape[axis], device=data.device)
    segment = (place.unsqueeze(-1) >= ends.unsqueeze(-2)).sum(-1)
    first = torch.zeros_like(ends[..., :1])
    return segment, torch.diff(ends, dim=-1, prepend=first)


@_decomposes(aten._segment_reduce_backward.default)
def segment_reduce_backward(
    grad: Tensor,
    output: Tensor,
    data: Tensor,
    reduce: str,
    *,
    lengths: Tensor | None = None,
    offsets: Tensor | None = None,
    axis: int = 0,
    initial: float | None = None,
) -> Tensor:
    """The gradient of such folds."""
    segment, counts = _segments(data, _segment_ends(lengths, offsets), axis)
    tail = [1] * (data.dim() - axis - 1)
    counts = counts.reshape([*counts.shape, *tail])

    def spread(x: Tensor) -> Tensor:
        room = torch.zeros_like(x.narrow(axis, 0, 1))
        wide = segment.reshape([*segment.shape, *tail]).expand(data.shape)
        return torch.cat([x, room], axis).gather(axis, wide)

    if reduce == "sum":
        return spread(grad)
    if reduce == "mean":
        return spread(grad / torch.clamp(counts, min=1))
    if reduce == "prod":
        return spread(grad * output) / data
    hit = (data == spread(output)) | torch.isnan(data)
    ties = torch.zeros_like(output)
    room = torch.zeros_like(output.narrow(axis, 0, 1))
    wide = segment.reshape([*segment.shape, *tail]).expand(data.shape)
    ties = torch.cat([ties, room], axis).scatter_add(axis, wide, hit.to(data.dtype)).narrow(axis, 0, output.shape[axis])
    return torch.where(hit, spread(grad / torch.clamp(ties, min=1)), torch.zeros_like(data))


@_decomposes(aten._embedding_bag_backward.default)
def embedding_bag_backward(
    grad: Tensor,
    indices: Tensor,
    offsets: Tensor,
    bag: Tensor,
    sizes: Tensor,
    places: Tensor,
    num_weights: int,
    scale_grad_by_freq: bool,
    mode: int,
    sparse: bool,
    per_sample_weights: Tensor | None,
    padding_idx: int = -1,
) -> Tensor:
    """The table's gradient, dense."""
    arguments = (scale_grad_by_freq, mode, per_sample_weights, padding_idx)
    return embedding_bag_dense_backward(grad, indices, bag, sizes, places, num_weights, *arguments)
