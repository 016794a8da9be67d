"""Functional collectives, `torch.ops._c10d_functional`: they give new tensors, and name their group."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from torch import Tensor
from torch.distributed._functional_collectives import AsyncCollectiveTensor

from xloom.torch.lazy.distributed.c10d import write
from xloom.torch.lazy.distributed.collectives import Group, shaped
from xloom.torch.lazy.distributed.process_group import group_of
from xloom.torch.lazy.recording.table import handles
from xloom.torch.lazy.recording.trace import Value
from xloom.torch.lazy.tensor.tensor import XlaTensor, tensor_of

_Change = Callable[..., Value]
"""What a collective makes of a group, a value, and its other arguments."""


def _all_reduce(group: Group, value: Value, reduction: str) -> Value:
    return group.all_reduce(value, reduction)


def _broadcast(group: Group, value: Value, root: int) -> Value:
    return group.broadcast(value, root)


def _all_gather(group: Group, value: Value, size: int) -> Value:
    dims = value.type.dims or (1,)
    return shaped(group.all_gather(value), (size * dims[0], *dims[1:]))


def _reduce_scatter(group: Group, value: Value, reduction: str, size: int) -> Value:
    first, *rest = value.type.dims
    return group.reduce_scatter(shaped(value, (size, first // size, *rest)), reduction)


def _all_to_all(group: Group, value: Value, received: Sequence[int], sent: Sequence[int]) -> Value:
    return group.exchange(value, list(sent), list(received))


def _register(name: str, change: _Change) -> None:
    """The operator, and its forms: of several tensors, in place, into a tensor that is given."""

    def one(args: Sequence[Any], kwargs: Mapping[str, Any] | None) -> Tensor:
        tensor, *rest, group = args
        return tensor_of(change(group_of(group), tensor._alias.read(), *rest))

    def several(args: Sequence[Any], kwargs: Mapping[str, Any] | None) -> list[Tensor]:
        tensors, *rest = args
        return [one((tensor, *rest), None) for tensor in tensors]

    def in_place(args: Sequence[Any], kwargs: Mapping[str, Any] | None) -> Tensor:
        tensor, *rest, group = args
        write(tensor, change(group_of(group), tensor._alias.read(), *rest))
        return tensor

    def several_in_place(args: Sequence[Any], kwargs: Mapping[str, Any] | None) -> list[Tensor]:
        tensors, *rest = args
        return [in_place((tensor, *rest), None) for tensor in tensors]

    def into(args: Sequence[Any], kwargs: Mapping[str, Any] | None) -> Tensor:
        tensor, *rest, group = args
        out = (kwargs or {})["out"]
        write(out, change(group_of(group), tensor._alias.read(), *rest))
        return out

    forms = {"": one, "_coalesced": several, "_": in_place, "_coalesced_": several_in_place, "_out": into}
    for form, handler in forms.items():
        handles(f"_c10d_functional.{name}{form}.default")(handler)


_register("all_reduce", _all_reduce)
_register("broadcast", _broadcast)
_register("all_gather_into_tensor", _all_gather)
_register("reduce_scatter_tensor", _reduce_scatter)
_register("all_to_all_single", _all_to_all)


@handles("_c10d_functional.wait_tensor.default")
def same(args: Sequence[Any], kwargs: Mapping[str, Any] | None) -> Tensor:
    """The tensor: who reads it waits."""
    (tensor,) = args
    assert isinstance(tensor, XlaTensor)
    return tensor


@handles("_c10d_functional._wrap_tensor_autograd.default")
def asynchronous(args: Sequence[Any], kwargs: Mapping[str, Any] | None) -> Tensor:
    """The tensor in torch's wrapper, which callers look for and may ask to wait."""
    (tensor,) = args
    return AsyncCollectiveTensor(tensor)
