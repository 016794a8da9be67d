"""Sizes, strides and offsets: torch's own arithmetic of views, on tensors without memory, each case once."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import torch

from xloom.torch import strides
from xloom.torch.lazy.tensor.array_type import ArrayType, array_type


class Geometry(NamedTuple):
    """Where a tensor's elements lie in its storage."""

    type: ArrayType
    offset: int


def geometry(tensor: torch.Tensor) -> Geometry:
    """That of a tensor."""
    type = array_type(tensor.dtype, tuple(tensor.shape)).with_strides(tensor.stride())
    return Geometry(type, int(tensor.storage_offset()))


def extent(of: Geometry) -> int:
    """How many elements memory has up to the last one of such a tensor."""
    return of.offset + strides.extent(of.type.dims, of.type.strides)


def without_values(
    of: Geometry, device: str = "meta", filled: Callable[..., torch.Tensor] = torch.zeros
) -> torch.Tensor:
    """A tensor of that geometry: without memory, or on the host of zeros or ones."""
    storage = filled(extent(of), dtype=of.type.dtype, device=device)
    return storage.as_strided(of.type.dims, of.type.strides, of.offset)


def of_results(op: Any, source: Geometry, rest: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """The geometry, or a list of them, that a view operator makes of `source`. Raises as torch does."""
    found = op(without_values(source), *rest, **kwargs)
    return geometry(found) if isinstance(found, torch.Tensor) else [geometry(each) for each in found]
