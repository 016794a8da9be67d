"""How an operator of op_db is given its tensors: as they are, computed by the program, in strides, empty."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch


class Form(NamedTuple):
    """What is made of a sample's tensor before the program, and in the program, of which the operator gets the result.

    Both sides do the same, so that `before` may change values; `computed` results are read by the program twice."""

    before: Callable[[torch.Tensor], torch.Tensor]
    inside: Callable[[torch.Tensor], torch.Tensor]
    is_computed: bool = False


def _same(x: torch.Tensor) -> torch.Tensor:
    return x


def calculates(x: torch.Tensor) -> bool:
    """True for floats and complex numbers."""
    return x.dtype.is_floating_point or x.dtype.is_complex


def _half(x: torch.Tensor) -> torch.Tensor:
    return x / 2 if calculates(x) else x


def _doubled(x: torch.Tensor) -> torch.Tensor:
    """An operand that is an operator's result, the sample's value but for denormals; integers and truth too."""
    if calculates(x):
        return x + x
    return x ^ False if x.dtype is torch.bool else x * 1


def _columns(x: torch.Tensor) -> torch.Tensor:
    """The same values, stored with the first dimension last."""
    return x.transpose(0, -1).contiguous().transpose(0, -1) if x.dim() > 1 else _spaced(x)


def _spaced(x: torch.Tensor) -> torch.Tensor:
    """The same values, every second element of a tensor."""
    return x.repeat_interleave(2, -1)[..., ::2] if x.dim() else x


def _expanded(x: torch.Tensor) -> torch.Tensor:
    """The first of the last dimension everywhere in it, at one place in memory."""
    return x[..., :1].expand(x.shape) if x.dim() and x.shape[-1] else x


def _turned(x: torch.Tensor) -> torch.Tensor:
    """Computed in the program, and a view there."""
    return (_doubled(x.transpose(0, -1))).transpose(0, -1) if x.dim() > 1 else _doubled(x)


def _first_empty(x: torch.Tensor) -> torch.Tensor:
    return x[:0] if x.dim() else x


def _last_empty(x: torch.Tensor) -> torch.Tensor:
    return x[..., :0] if x.dim() else x


FORMS = {
    "plain": Form(_same, _same),
    "computed": Form(_half, _doubled, True),
    "turned": Form(_half, _turned, True),
    "columns": Form(_columns, _same),
    "spaced": Form(_spaced, _same),
    "expanded": Form(_expanded, _same),
    "first_empty": Form(_first_empty, _same),
    "last_empty": Form(_last_empty, _doubled),
}
