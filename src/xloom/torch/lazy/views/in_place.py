"""Methods that make a tensor a view of what it was, such as `squeeze_`, where autograd has views of it.

Of tensors of a class that dispatches to Python, autograd keeps for each view the operators that have made it and its
base, and calls them again once the base has been written to. By then `squeeze_` would have given the base other
dimensions. So the base stays as it is: the Python object changes over to a new view of it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.autograd.graph import increment_version

from xloom.torch.lazy.tensor.tensor import XlaTensor

_METHODS = ("squeeze_", "unsqueeze_", "transpose_", "swapaxes_", "swapdims_", "t_", "as_strided_")
_swap: Callable[[torch.Tensor, torch.Tensor], None] = torch._C._swap_tensor_impl  # type: ignore[attr-defined]
_creation: Any = torch._C._autograd  # type: ignore[attr-defined]


def register() -> None:
    """Gives tensors of the device these methods."""
    for name in _METHODS:
        setattr(XlaTensor, name, _method(name))


def _method(name: str) -> Callable[..., torch.Tensor]:
    in_place, view_of = getattr(torch.Tensor, name), getattr(torch.Tensor, name.removesuffix("_"))

    def method(self: XlaTensor, *args: Any, **kwargs: Any) -> torch.Tensor:
        if not _has_views(self):
            return in_place(self, *args, **kwargs)
        view = view_of(self, *args, **kwargs)
        _swap(self, view)
        self._alias, view._alias = view._alias, self._alias
        increment_version(self)  # what was saved for backward was another shape
        return self

    method.__name__ = method.__qualname__ = name
    method.__doc__ = in_place.__doc__
    return method


def _has_views(tensor: XlaTensor) -> bool:
    """Whether a tensor is a base or a view to autograd, which allows it to be changed."""
    if not torch.is_grad_enabled():
        return False
    if tensor._is_view():
        base = tensor._base
        default = _creation._get_creation_meta(tensor) == _creation.CreationMeta.DEFAULT
        return default and not (base is not None and base.is_leaf and base.requires_grad)
    return tensor._use_count() > 1 and not (tensor.is_leaf and tensor.requires_grad)  # type: ignore[attr-defined]
