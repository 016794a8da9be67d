"""Views: operators whose result shares memory with their argument."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from xloom.errors import UnsupportedError
from xloom.torch.lazy import view_values
from xloom.torch.lazy.array_type import array_type
from xloom.torch.lazy.geometry import Geometry, of_results
from xloom.torch.lazy.storage import Alias, View
from xloom.torch.lazy.table import Handler, handles
from xloom.torch.lazy.tensor import XlaTensor, memory_of, set_alias, tensor_on
from xloom.torch.lazy.transfer import new_memory

_SAME = ("aten.detach.default", "aten.alias.default", "aten.lift_fresh.default", "aten.detach_.default")
_OF_STORAGE = "aten.as_strided"


def handler(op: Any) -> Handler | None:
    """Views are told by torch's schema: a result that aliases an argument which is not written."""
    schema = op._schema
    first = schema.arguments[0] if schema.arguments else None
    if first is None or first.alias_info is None or not any(r.alias_info is not None for r in schema.returns):
        return None
    if torch.Tag.inplace_view in op.tags:
        return _in_place(op)
    if first.alias_info.is_write or torch._C._dispatch_has_kernel_for_dispatch_key(
        op.name(), torch._C.DispatchKey.CompositeImplicitAutograd
    ):
        return None
    return _view(op)


def _view(op: Any) -> Handler:
    known: dict[tuple, Any] = {}

    def run(args: Sequence[Any], kwargs: Mapping[str, Any] | None) -> Any:
        source: XlaTensor = args[0]
        alias = source._alias
        strides, offset = source.stride(), int(source.storage_offset())
        key = (alias.type, strides, offset, *[tuple(a) if a.__class__ is list else a for a in args[1:]])
        if kwargs:
            key += tuple([(name, tuple(a) if a.__class__ is list else a) for name, a in kwargs.items()])
        found = known.get(key)
        if found is None:
            found = known[key] = _Made(op, Geometry(alias.type, strides, offset), args[1:], kwargs or {})
        return found.of(alias)

    return run


class _Made:
    """What a view operator makes of tensors of one geometry."""

    def __init__(self, op: Any, source: Geometry, rest: Sequence[Any], kwargs: Mapping[str, Any]):
        results = of_results(op, source, rest, kwargs)
        self.several = isinstance(results, list)
        self.results: list[Geometry] = results if self.several else [results]
        self.from_storage = str(op).startswith(_OF_STORAGE)
        self.ways = [] if self.from_storage else view_values.ways(op, source, rest, kwargs, self.results)

    def of(self, alias: Alias) -> Any:
        """The views of `alias`."""
        if self.from_storage:
            base = alias.storage
            ways = [view_values.of_memory(base, result) for result in self.results]
        else:
            base, ways = alias, self.ways
        made = [
            tensor_on(View(base, result.type, *way), result.strides, result.offset)
            for result, way in zip(self.results, ways, strict=True)
        ]
        return made if self.several else made[0]


def _in_place(op: Any) -> Handler | None:
    """Operators such as squeeze_, which make a tensor a view of what it was."""
    name = op._schema.name.removeprefix("aten::").removesuffix("_")
    packet = getattr(torch.ops.aten, name, None)
    wanted = [str(a.type) for a in op._schema.arguments]
    overloads = [] if packet is None else [getattr(packet, overload) for overload in packet.overloads()]
    functional = next((o for o in overloads if [str(a.type) for a in o._schema.arguments] == wanted), None)
    if functional is None:
        return None
    from xloom.torch.lazy.dispatch import handler_of

    def run(args: Sequence[Any], kwargs: Mapping[str, Any] | None) -> Any:
        target: XlaTensor = args[0]
        view = handler_of(functional)(args, kwargs)
        set_alias(target, view)
        return target

    return run


@handles(*_SAME)
def same_memory(args: Sequence[Any], kwargs: Mapping[str, Any] | None) -> Any:
    """Another tensor over the same memory."""
    source = args[0]
    return tensor_on(source._alias, source.stride(), source.storage_offset())


@handles("aten.set_.source_Tensor")
def set_to_tensor(args: Sequence[Any], kwargs: Mapping[str, Any] | None) -> Any:
    """Makes a tensor share the memory of another one."""
    target, source = args
    set_alias(target, source)
    return target


@handles(
    "aten.set_.source_Storage", "aten.set_.source_Storage_storage_offset", "aten.set_.source_Tensor_storage_offset"
)
def set_to_memory(args: Sequence[Any], kwargs: Mapping[str, Any] | None) -> Any:
    """Makes a tensor a view of memory of the device."""
    target, source, *rest = args
    storage = source._alias.storage if isinstance(source, XlaTensor) else memory_of(source)
    if storage.type.dtype is not target.dtype:
        raise UnsupportedError(f"memory of {storage.type.dtype} as {target.dtype}", hint="use view(dtype)")
    offset, sizes, *strides = rest if rest else (0, (storage.type.size,))
    type = array_type(target.dtype, tuple(sizes))
    result = Geometry(type, tuple(strides[0]) if strides and strides[0] else type.strides, offset)
    view = View(storage, type, *view_values.of_memory(storage, result))
    set_alias(target, tensor_on(view, result.strides, offset))
    return target


@handles("aten.resize_.default", "aten.resize.default")
def resize(args: Sequence[Any], kwargs: Mapping[str, Any] | None) -> Any:
    """Other dimensions; elements keep their places in memory, and new ones are 0."""
    target, sizes = args[0], tuple(args[1])
    format = (kwargs or {}).get("memory_format")
    if format not in (None, torch.contiguous_format, torch.preserve_format):
        strides = torch.empty(sizes, device="meta", memory_format=format).stride()
        made = new_memory(sizes, target.dtype, strides)
        memory = made._alias.storage
        memory.write(view_values.resized(target._alias.storage, memory.type.dims).read())
        set_alias(target, made)
    elif sizes != tuple(target.shape):
        set_alias(target, tensor_on(view_values.resized(target._alias, sizes)))
    return target
