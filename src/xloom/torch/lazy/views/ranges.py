"""Views that are ranges of one dimension: their geometry by arithmetic, as loops take one after another."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from xloom.torch.lazy.tensor.array_type import array_type
from xloom.torch.lazy.tensor.geometry import Geometry


def of_range(op: Any, source: Geometry, rest: Sequence[Any], kwargs: Mapping[str, Any]) -> Geometry | None:
    """What `select` and `slice` make of a tensor; None for other operators, and for arguments that may be wrong."""
    name = op._schema.name
    if kwargs or len(rest) < 2 or any(each.__class__ is not int for each in rest):
        return None
    dims, strides = list(source.type.dims), list(source.type.strides)
    dim = rest[0] + (len(dims) if rest[0] < 0 else 0)
    if not 0 <= dim < len(dims):
        return None
    size, stride = dims[dim], strides[dim]
    if name == "aten::select":
        index = rest[1] + (size if rest[1] < 0 else 0)
        if not 0 <= index < size:
            return None
        del dims[dim], strides[dim]
        offset = index * stride
    elif name == "aten::slice":
        start, end, step = (*rest[1:], *[size, 1][len(rest) - 2 :])
        if step < 1:
            return None
        start, end = (min(max(each + (size if each < 0 else 0), 0), size) for each in (start, end))
        dims[dim], strides[dim] = len(range(start, end, step)), stride * step
        offset = start * stride
    else:
        return None
    return Geometry(array_type(source.type.dtype, tuple(dims)).with_strides(tuple(strides)), source.offset + offset)
