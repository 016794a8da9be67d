"""Parameters and buffers of lazy modules on the device: without a shape until the module has seen an input."""

from __future__ import annotations

from typing import Any

import torch
from torch.nn.parameter import UninitializedBuffer, UninitializedParameter

from xloom.errors import UnsupportedError
from xloom.torch.lazy.tensor.tensor import DEVICE, XlaTensor


class _OnDevice(XlaTensor):
    cls_to_become = XlaTensor
    __torch_function__ = torch._C._disabled_torch_function_impl  # type: ignore[assignment]

    def detach(self) -> Any:
        """Another one: torch makes a parameter of what this gives."""
        return _uninitialized(type(self), super().detach())

    def to(self, *args: Any, **kwargs: Any) -> Any:  # type: ignore[override]
        """One of another dtype."""
        moved = torch.empty(0, dtype=self.dtype, device=DEVICE).to(*args, **kwargs)
        if not isinstance(moved, XlaTensor):
            raise UnsupportedError("moving a lazy module back to the host", hint="call it once with an input before")
        return _uninitialized(type(self), moved)

    def __repr__(self, **options: Any) -> str:
        return f"<{type(self).__name__}>"

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        if id(self) not in memo:
            copy = self.to(self.dtype, copy=True)
            memo[id(self)] = copy.requires_grad_(self.requires_grad)
        return memo[id(self)]


class UninitializedXlaParameter(_OnDevice, UninitializedParameter):
    """torch's UninitializedParameter, there."""


class UninitializedXlaBuffer(_OnDevice, UninitializedBuffer):
    """torch's UninitializedBuffer, there."""


def _uninitialized(kind: type[_OnDevice], data: torch.Tensor) -> Any:
    made: Any = data
    made.__class__ = kind
    if kind is UninitializedXlaParameter:  # by this torch knows them, as long as they live
        made._is_param = True
    else:
        made._is_buffer = made.persistent = True
    return made


_MIXIN: Any = UninitializedParameter.__mro__[1]


def register() -> None:
    """Makes torch's classes give these where the device is ours."""
    for ours in (UninitializedXlaParameter, UninitializedXlaBuffer):
        host = ours.__bases__[1]
        host.__new__ = _maker(host.__new__, ours)  # type: ignore[method-assign]
    by_torch = _MIXIN.__torch_function__.__func__  # type: ignore[attr-defined]
    _MIXIN.__torch_function__ = classmethod(_moving(by_torch))  # type: ignore[assignment]


def _maker(make: Any, ours: type[_OnDevice]) -> Any:
    learns = ours is UninitializedXlaParameter

    def __new__(
        cls: Any, requires_grad: bool = learns, device: Any = None, dtype: torch.dtype | None = None, **options: Any
    ) -> Any:
        where = torch.get_default_device() if device is None else torch.device(device)
        if where.type != DEVICE.type:
            return make(cls, requires_grad, device, dtype, **options)
        return _uninitialized(ours, torch.empty(0, device=where, dtype=dtype)).requires_grad_(requires_grad)

    return __new__


def _moving(torch_function: Any) -> Any:
    def __torch_function__(cls: Any, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is not torch.Tensor.to:
            return torch_function(cls, func, types, args, kwargs)
        with torch._C.DisableTorchFunctionSubclass():
            found = func(*args, **(kwargs or {}))
        if type(found) is not XlaTensor:
            return torch_function(cls, func, types, args, kwargs)
        buffer = isinstance(args[0], UninitializedBuffer)
        return _uninitialized(UninitializedXlaBuffer if buffer else UninitializedXlaParameter, found)

    return __torch_function__
