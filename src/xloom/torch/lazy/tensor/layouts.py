"""How torch orders the memory of an operator's results: by what it makes of tensors without values."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch._prims_common import suggest_memory_format
from torch.utils._pytree import tree_map_only

from xloom.torch.lazy.recording.signature import Signature
from xloom.torch.lazy.tensor.array_type import ArrayType, array_type, type_of_copy
from xloom.torch.lazy.tensor.geometry import geometry, without_values
from xloom.torch.strides import dense_order, inverse

_BY_MEMORY_FORMAT = {
    "aten.convolution.default": (0, 1),
    "aten.convolution_backward.default": (1, 2),
    "aten.channel_shuffle.default": (0,),
    "aten.roll.default": (0,),
    "aten.reflection_pad2d_backward.default": (1,),
    "aten.reflection_pad3d_backward.default": (1,),
    "aten.replication_pad2d_backward.default": (1,),
    "aten.replication_pad3d_backward.default": (1,),
    "aten.native_batch_norm.default": (0,),
    "aten._native_batch_norm_legit.default": (0,),
    "aten._batch_norm_with_update.default": (0,),
    "aten.batch_norm_elemt.default": (0,),
    "aten.batch_norm_backward_elemt.default": (1,),
}
"""Operators whose results are channels-last if one of those arguments is. Tensors without memory do not tell it so."""

_AS_SUMS = frozenset(
    [
        *("aten.floor_divide.default", "aten.copysign.Tensor", "aten.xlogy.Tensor", "aten.special_xlog1py.default"),
        *("aten.heaviside.default", "aten.logaddexp.default", "aten.logaddexp2.default"),
        *("aten.logical_and.default", "aten.logical_or.default", "aten.logical_xor.default"),
    ]
)
"""Operators that torch computes without memory from operands in other order, or broadcast: theirs as they are count."""

_ROW_MAJOR = frozenset(
    [
        *("aten.isin.Tensor_Tensor", "aten.isin.Tensor_Scalar", "aten.log_sigmoid_forward.default"),
        "aten.glu_backward.default",
        *("aten.normal.Tensor_Tensor", "aten.normal.Tensor_float", "aten.normal.float_Tensor"),
        *("aten.poisson.default", "aten.pow.Scalar", "aten.rrelu_with_noise_functional.default"),
    ]
)
"""Operators whose results the CPU makes row-major, and torch without memory does not."""

_ROLL = "aten.roll.default"
"""Keeps a format where it is told dimensions; without them it goes through memory as one line."""

_VOLUMES = "aten.max_pool3d_with_indices.default"
"""Makes a batch of one of what is none: that batch's format counts."""


def output_types(op: Any, args: Sequence[Any], found: Any, signature: Signature) -> tuple[ArrayType, ...]:
    """The types of the results of `signature` with the strides that torch gives them. Its own are `found`."""
    name = str(op)
    if name in _ROW_MAJOR:
        return signature.outputs
    followed = _BY_MEMORY_FORMAT.get(name)
    if name == _ROLL and not any(args[2:]):
        followed = None
    if name == _VOLUMES and args[0].dim() == 4:
        return tuple([_of_one(type, args[0]) for type in signature.outputs])
    if name in _AS_SUMS and all(isinstance(each, torch.Tensor) for each in args[:2]):
        found = _sum(args)
    if followed is None:
        return tuple(_as_found(found, signature))
    return tuple([_in_format(type, [args[k] for k in followed]) for type in signature.outputs])


def of_decomposition(op: Any, made: Callable[..., Any]) -> Callable[..., Any]:
    """What is made by other operators, in the order of memory in which torch has it where that is not theirs."""
    name = str(op)
    if name not in _ROW_MAJOR and name not in _AS_SUMS and name not in _BY_MEMORY_FORMAT:
        return made

    def run(*args: Any, **kwargs: Any) -> Any:
        results = made(*args, **kwargs)
        if name in _AS_SUMS:
            return _ordered(results, _sum(args).stride())
        if name in _BY_MEMORY_FORMAT:
            chosen = _format([args[k] for k in _BY_MEMORY_FORMAT[name]], results.dim())
            return results if chosen is None else results.contiguous(memory_format=chosen)
        return tree_map_only(torch.Tensor, torch.Tensor.contiguous, results)

    return run


def _sum(operands: Sequence[torch.Tensor]) -> torch.Tensor:
    return torch.ops.aten.add.Tensor(*[without_values(geometry(each)) for each in operands[:2]])


def _ordered(tensor: torch.Tensor, strides: Sequence[int]) -> torch.Tensor:
    if tensor.stride() == strides:
        return tensor
    order = dense_order(tensor.shape, strides)
    assert order is not None
    return tensor.permute(order).contiguous().permute(inverse(order))


def _in_format(type: ArrayType, followed: Sequence[torch.Tensor]) -> ArrayType:
    chosen = _format(followed, len(type.dims))
    return type if chosen is None else type_of_copy(type, type.dtype, chosen)


def _format(followed: Sequence[torch.Tensor], rank: int) -> torch.memory_format | None:
    """The channels-last format that one of them has."""
    formats = [suggest_memory_format(each) for each in followed if each.dim() == rank]
    return next((each for each in formats if each is not torch.contiguous_format), None)


def _of_one(type: ArrayType, volume: torch.Tensor) -> ArrayType:
    if volume.is_contiguous() or not volume.unsqueeze(0).is_contiguous(memory_format=torch.channels_last_3d):
        return type
    batch = array_type(type.dtype, (1, *type.dims))
    return type.with_strides(type_of_copy(batch, type.dtype, torch.channels_last_3d).strides[1:])


def _as_found(found: Any, signature: Signature) -> list[ArrayType]:
    types = list(signature.outputs)
    places = [0] if signature.places is None else signature.places
    results = found if isinstance(found, (list, tuple)) else [found]
    for place, result in zip(places, results, strict=False):
        if place is not None and isinstance(result, torch.Tensor) and tuple(result.shape) == types[place].dims:
            strided = types[place].with_strides(result.stride())
            if strided.order is None:  # it is a view there, and has memory of its own here
                strided = type_of_copy(strided, strided.dtype, None)
            types[place] = strided
    return types
