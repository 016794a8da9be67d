"""Between host and device, and between tensors: copies, conversions, numbers that Python asks for, new memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch

from xloom.torch.dtypes import hlo_dtype
from xloom.torch.lazy.operators.checking import check
from xloom.torch.lazy.recording.operation import apply
from xloom.torch.lazy.recording.record import mixed
from xloom.torch.lazy.recording.table import handles
from xloom.torch.lazy.recording.trace import TRACE, Value
from xloom.torch.lazy.runtime import device_client, device_module
from xloom.torch.lazy.runtime.execution import buffer_of, flush
from xloom.torch.lazy.tensor.array_type import ArrayType, array_type, type_of_copy
from xloom.torch.lazy.tensor.geometry import Geometry, extent
from xloom.torch.lazy.tensor.storage import Alias, Storage, View
from xloom.torch.lazy.tensor.tensor import XlaTensor, tensor_on
from xloom.torch.lazy.views.view_values import of_memory
from xloom.torch.lowering import Graph
from xloom.torch.metrics import METRICS

LONGEST = 256
"""With more results than this recorded, data from the host begins a program: it is likely to be the next batch."""


def host_tensor(value: Value) -> torch.Tensor:
    """A copy on the host. Waits for it."""
    return device_client.to_host(buffer_of(value))


def host_copy(tensor: XlaTensor) -> torch.Tensor:
    """A tensor's value on the host. Waits for it. A part of memory that is there needs no program: it is read there."""
    alias = tensor._alias
    if isinstance(alias, View) and alias.moves_only and (value := alias.storage.ready()) is not None:
        return device_client.part_to_host(value, alias.storage.type, alias.type, int(tensor.storage_offset()))
    return host_tensor(alias.read())


def new_memory(type: ArrayType) -> XlaTensor:
    """A tensor of zeros in memory of its own."""
    if type.order is not None:
        return tensor_on(Storage(type, make=lambda: zeros(type.dims, type.dtype)))
    place = Geometry(type, 0)
    size = extent(place)
    memory = Storage(array_type(type.dtype, (size,)), make=lambda: zeros((size,), type.dtype))
    return tensor_on(of_memory(memory, place))


def copy_of(source: XlaTensor, dtype: torch.dtype, memory_format: torch.memory_format | None) -> XlaTensor:
    """The same value in other memory: values never change, so nothing is copied."""
    return tensor_on(
        Storage(type_of_copy(source._alias.type, dtype, memory_format), convert(source._alias.read(), dtype))
    )


def zeros(dims: tuple[int, ...], dtype: torch.dtype) -> Value:
    """Zeros."""
    return apply(_zeros, dims, hlo_dtype(dtype))


def _zeros(g: Graph, dims: tuple[int, ...], dtype: Any) -> Any:
    return g.full(dims, 0, dtype)


def convert(value: Value, dtype: torch.dtype) -> Value:
    """The value as another dtype."""
    return value if value.type.dtype is dtype else apply(_convert, value, hlo_dtype(dtype))


def _convert(g: Graph, value: Any, dtype: Any) -> Any:
    return g.cast(value, dtype)


def broadcast(value: Value, dims: tuple[int, ...]) -> Value:
    """The value repeated to `dims`."""
    return value if value.type.dims == dims else apply(_broadcast, value, dims)


def _broadcast(g: Graph, value: Any, dims: tuple[int, ...]) -> Any:
    return g.expand(value, dims)


@handles("aten._to_copy.default")
def to_copy(args: Sequence[Any], kwargs: Mapping[str, Any] | None) -> torch.Tensor:
    """Another dtype, or the host."""
    (source,) = args
    options = kwargs or {}
    dtype = options.get("dtype") or source.dtype
    device = torch.device(options.get("device") or source.device)
    format = options.get("memory_format")
    if device.type == "xla":
        device_module.check(device)
        return copy_of(source, dtype, format)
    type = type_of_copy(source._alias.type, dtype, format)
    if device.type == "meta":
        return torch.empty_strided(type.dims, type.strides, dtype=dtype, device="meta")
    host = host_copy(source) if dtype is source.dtype else host_tensor(convert(source._alias.read(), dtype))
    return (
        host
        if type is type.row_major
        else torch.empty_strided(type.dims, type.strides, dtype=dtype, device="cpu").copy_(host)
    )


@handles("aten.clone.default", "aten.lift_fresh_copy.default")
def clone(args: Sequence[Any], kwargs: Mapping[str, Any] | None) -> torch.Tensor:
    """The same value in other memory."""
    source = args[0]
    return copy_of(source, source._alias.type.dtype, (kwargs or {}).get("memory_format"))


@handles("aten.copy_.default")
def copy(args: Sequence[Any], kwargs: Mapping[str, Any] | None) -> torch.Tensor:
    """Overwrites a tensor, of the device or the host, with another one."""
    target, source = args[0], args[1]
    if not isinstance(target, XlaTensor):
        return target.copy_(host_copy(source))
    alias: Alias = target._alias
    if isinstance(source, XlaTensor):
        value = source._alias.read()
        if value.type.row_major is alias.type.row_major:  # as large, of the same dtype
            alias.write(value)
            return target
    else:
        if len(TRACE.results) > LONGEST:
            flush()
        host = source if isinstance(source, torch.Tensor) else torch.from_numpy(np.array(source))
        value = device_client.to_device(host.to("cpu", target.dtype))
    if not _stretches(value.type.dims, alias.type.dims):
        check(torch.ops.aten.copy_.default, args, {})
    alias.write(broadcast(convert(value, target.dtype), alias.type.dims))
    return target


def _stretches(dims: tuple[int, ...], to: tuple[int, ...]) -> bool:
    tail = to[len(to) - len(dims) :]
    return len(dims) <= len(to) and all(size in (1, wanted) for size, wanted in zip(dims, tail, strict=True))


@handles("aten._local_scalar_dense.default", "aten.item.default")
def item(args: Sequence[Any], kwargs: Mapping[str, Any] | None) -> bool | int | float | complex:
    """The element of a tensor that has one. Waits for it."""
    METRICS.numbers += 1
    alias = args[0]._alias
    if alias.__class__ is Storage and alias.type.size == 1:
        return device_client.number(buffer_of(alias.read()))
    return host_copy(args[0]).item()


@handles("aten.equal.default")
def equal(args: Sequence[Any], kwargs: Mapping[str, Any] | None) -> bool:
    """Whether both have the same elements. Waits for them."""
    a, b = args
    if not (isinstance(a, XlaTensor) and isinstance(b, XlaTensor)):
        raise mixed("aten.equal", b if isinstance(a, XlaTensor) else a)
    return tuple(a.shape) == tuple(b.shape) and bool((a == b).all().item())


@handles("aten.is_nonzero.default")
def is_nonzero(args: Sequence[Any], kwargs: Mapping[str, Any] | None) -> bool:
    """Whether the only element is not 0. Waits for it."""
    return bool(host_copy(args[0]).item())


@handles("aten.record_stream.default")
def record_stream(args: Sequence[Any], kwargs: Mapping[str, Any] | None) -> None:
    """Nothing: memory lives as long as what uses it."""


# -- memory that torch asks for


def empty(
    size: Sequence[int],
    *,
    dtype: torch.dtype | None = None,
    layout: Any = None,
    device: torch.device | None = None,
    pin_memory: bool | None = None,
    memory_format: torch.memory_format | None = None,
) -> torch.Tensor:
    """`torch.empty(..., device="xla")`."""
    device_module.check(device)
    type = array_type(dtype or torch.get_default_dtype(), tuple(size))
    return new_memory(type_of_copy(type, type.dtype, memory_format))


def empty_strided(
    size: Sequence[int],
    stride: Sequence[int],
    *,
    dtype: torch.dtype | None = None,
    layout: Any = None,
    device: torch.device | None = None,
    pin_memory: bool | None = None,
) -> torch.Tensor:
    """`torch.empty_strided(..., device="xla")`."""
    device_module.check(device)
    return new_memory(array_type(dtype or torch.get_default_dtype(), tuple(size)).with_strides(stride))


@handles("aten.empty_like.default", "aten.new_empty.default", "aten.new_empty_strided.default")
def empty_like(args: Sequence[Any], kwargs: Mapping[str, Any] | None) -> torch.Tensor:
    """New memory beside a tensor."""
    source, *rest = args
    options = dict(kwargs or {})
    dtype = options.get("dtype") or source.dtype
    device = torch.device(options.get("device") or source.device)
    if device.type != "xla":
        return torch.empty(rest[0] if rest else source.shape, dtype=dtype, device=device)
    device_module.check(device)
    if not rest:
        return new_memory(type_of_copy(source._alias.type, dtype, options.get("memory_format")))
    type = array_type(dtype, tuple(rest[0]))
    return new_memory(type.with_strides(rest[1]) if len(rest) > 1 else type)


def number(source: torch.Tensor) -> bool | int | float | complex:
    """What torch.tensor([tensor, ...], device="xla") reads numbers with, in the same way."""
    return item((source,), None)


def copy_from(source: torch.Tensor, target: torch.Tensor, non_blocking: bool = False) -> torch.Tensor:
    """What torch.tensor(..., device="xla") copies with, which has no dispatcher to go through."""
    return copy((target, source), None)
