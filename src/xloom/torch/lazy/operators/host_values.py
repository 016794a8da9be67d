"""Operators whose result's shape depends on values: the host computes them, or finds what makes the shape known."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch.utils._pytree import tree_map_only

from xloom.hlo import dtype as dt
from xloom.torch.lazy.recording.lowered import lowered
from xloom.torch.lazy.recording.operation import apply
from xloom.torch.lazy.recording.table import Handler, handles
from xloom.torch.lazy.runtime.transfer import convert, host_tensor
from xloom.torch.lazy.tensor.tensor import XlaTensor
from xloom.torch.lazy.views import mutation
from xloom.torch.lazy.views.stores import store
from xloom.torch.lowering import Graph
from xloom.torch.lowering.registry import overload
from xloom.torch.metrics import METRICS
from xloom.torch.outside import outside_dispatch

_VALUE_DEPENDENT = {
    "aten.nonzero.default",
    "aten.masked_select.default",
    "aten.unique_dim.default",
    "aten.unique_consecutive.default",
    "aten.unique_dim_consecutive.default",
    "aten._unique.default",
    "aten._unique2.default",
    "aten.bincount.default",
    "aten.repeat_interleave.Tensor",
    "aten._linalg_check_errors.default",
}


def handler(op: Any) -> Handler | None:
    """For operators of that kind, and those that raise an error by values."""
    name = str(op)
    if name in _VALUE_DEPENDENT:
        return lambda args, kwargs: _counted(op, args, kwargs or {})
    form = name.removesuffix(".out") + ".default"
    if form not in _VALUE_DEPENDENT:
        return None
    functional = overload(form)
    names = [argument.name for argument in op._schema.arguments if argument.is_out]

    def into(args: Sequence[Any], kwargs: Mapping[str, Any] | None) -> Any:
        given = dict(kwargs or {})
        targets = [given.pop(name) for name in names]
        found = _counted(functional, args, given)
        for target, new in zip(targets, [found] if len(targets) == 1 else found, strict=True):
            store(target, new._alias.read())
        return targets[0] if len(targets) == 1 else tuple(targets)

    return into


def _counted(op: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    METRICS.on_host[str(op)] += 1
    return on_host(op, args, kwargs)


def on_host(op: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Computes `op` on the host, from copies; its results, on the device."""
    args, kwargs = tree_map_only(XlaTensor, lambda t: host_tensor(t._alias.read()), (args, kwargs))
    kwargs = {n: torch.device("cpu") if isinstance(v, torch.device) else v for n, v in kwargs.items()}
    with outside_dispatch():
        found = op(*args, **kwargs)
    return tree_map_only(torch.Tensor, lambda t: t.to("xla"), found)


# -- masks as indices


@handles("aten.index.Tensor", "aten._unsafe_index.Tensor")
def index(args: Sequence[Any], kwargs: Mapping[str, Any] | None) -> Any:
    """x[indices]; masks become the indices of their true elements."""
    source, indices = args
    run = _found.setdefault("index", lowered(torch.ops.aten.index.Tensor))
    return run((source, _without_masks(source, indices)), None)


@handles("aten.index_put_.default", "aten._index_put_impl_.default")
def index_put(args: Sequence[Any], kwargs: Mapping[str, Any] | None) -> Any:
    """x[indices] = values. One value where a mask is true needs no indices."""
    target, indices, values, *rest = [*args]
    accumulate = rest[0] if rest else (kwargs or {}).get("accumulate", False)
    masks = [each for each in indices if each is not None]
    if len(masks) == 1 and indices[0] is not None and _is_mask(masks[0]) and values.numel() == 1 and not accumulate:
        mask = masks[0] if isinstance(masks[0], XlaTensor) else masks[0].to("xla")
        value = values if isinstance(values, XlaTensor) else values.to("xla")
        _check_mask(mask, target, 0)
        one = apply(_reshaped, convert(value._alias.read(), target.dtype), ())
        target._alias.write(apply(_put_where, target._alias.read(), mask._alias.read(), one))
        return target
    run = _found.setdefault("index_put", mutation.handler(torch.ops.aten.index_put_.default))
    return run((target, _without_masks(target, indices), values, accumulate), None)


@handles("aten.index_put.default", "aten._unsafe_index_put.default")
def index_put_in_a_copy(args: Sequence[Any], kwargs: Mapping[str, Any] | None) -> Any:
    """x with values in x[indices], which gradients of x[indices] are made of."""
    target, indices, values, *rest = args
    run = _found.setdefault("index_put_in_a_copy", lowered(torch.ops.aten.index_put.default))
    if values.numel() != 1 or len([each for each in indices if each is not None]) != 1:
        indices = _without_masks(target, indices)
    return run((target, indices, values, *rest), kwargs)


_found: dict[str, Any] = {}


def _is_mask(index: Any) -> bool:
    return index is not None and index.dtype in (torch.bool, torch.uint8)


def _check_mask(mask: torch.Tensor, target: torch.Tensor, first: int) -> None:
    """Raises for a mask that is not of the dimensions it stands for, which begin at `first`."""
    if mask.dtype is torch.uint8:
        warnings.warn(
            "indexing with dtype torch.uint8 is now deprecated, please use a dtype torch.bool instead.", stacklevel=2
        )
    if first + mask.dim() > target.dim():
        raise IndexError(f"too many indices for tensor of dimension {target.dim()}")
    for k, size in enumerate(mask.shape):
        if size != target.shape[first + k]:
            raise IndexError(
                f"The shape of the mask {list(mask.shape)} at index {k} does not match the shape of the indexed tensor "
                f"{list(target.shape)} at index {first + k}"
            )


def _without_masks(target: torch.Tensor, indices: Sequence[Any]) -> list[Any]:
    out: list[Any] = []
    for each in indices:
        if not _is_mask(each):
            out.append(each)
            continue
        _check_mask(each, target, len(out))
        METRICS.on_host["mask as index"] += 1
        mask = host_tensor(each._alias.read()) if isinstance(each, XlaTensor) else each
        out.extend([found.to("xla") for found in mask.nonzero(as_tuple=True)])
    return out


def _reshaped(g: Graph, value: Any, dims: tuple[int, ...]) -> Any:
    return g.reshape_to(value, dims)


def _put_where(g: Graph, base: Any, mask: Any, value: Any) -> Any:
    dims = base.shape.dims
    rank = mask.shape.rank
    mask = g.reshape_to(g.cast(mask, dt.pred), (*mask.shape.dims, *[1] * (len(dims) - rank)))
    return g.select(g.expand(mask, dims), g.expand(value, dims), base)
