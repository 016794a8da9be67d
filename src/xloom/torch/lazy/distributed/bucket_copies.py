"""DDP's copies of gradients into buckets, each divided by how many processes there are: the factor is noted with it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from xloom.torch.lazy.recording.table import handles
from xloom.torch.lazy.tensor.tensor import XlaTensor
from xloom.torch.lazy.views import mutation, overlap
from xloom.torch.lazy.views.stretches import Stretch

_OP = torch.ops.aten.mul.out
_own = mutation.handler(_OP)
assert _own is not None
_usual = overlap.guarded(_OP, _own)


@handles("aten.mul.out")
def scaled_copy(args: Sequence[Any], kwargs: Mapping[str, Any] | None) -> Any:
    """A gradient times a number, written to a stretch of a bucket."""
    x, y = args
    target = kwargs["out"]  # type: ignore[index]
    if y.__class__ is float and target.__class__ is XlaTensor and x.__class__ is XlaTensor:
        alias, source = target._alias, x._alias
        if (
            alias.__class__ is Stretch
            and alias.type.row_major is source.type.row_major
            and alias.type.dtype.is_floating_point
            and alias.storage is not source.storage
        ):
            alias.write(source.read(), y)
            return target
    return _usual(args, kwargs)


scaled_copy.guards = True  # type: ignore[attr-defined] - what it does not do itself is guarded
