"""Views: operators whose result shares memory with their argument."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import torch
from torch._prims_common import suggest_memory_format

from xloom.errors import UnsupportedError
from xloom.torch.lazy.operators.checking import check
from xloom.torch.lazy.recording.table import Handler, handler_of, handles
from xloom.torch.lazy.recording.trimming import remember
from xloom.torch.lazy.tensor.array_type import ArrayType, array_type, type_of_copy
from xloom.torch.lazy.tensor.geometry import Geometry, extent, of_results
from xloom.torch.lazy.tensor.storage import Alias, Storage, View
from xloom.torch.lazy.tensor.tensor import XlaTensor, memory_of, set_alias, tensor_on
from xloom.torch.lazy.views import view_values
from xloom.torch.lazy.views.ranges import of_range
from xloom.torch.lazy.views.stretches import Stretch

aten = torch.ops.aten
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


def of_its_base_kind(op: Any, handler: Handler) -> Handler:
    """The handler of a view, but that views are inference tensors where their base is one, in inference mode or not.

    There, operators that torch takes apart for autograd come as they are."""
    schema = op._schema
    if not schema.arguments or schema.is_mutable or not any(each.alias_info is not None for each in schema.returns):
        return handler
    key = torch._C.DispatchKey.CompositeImplicitAutograd
    is_composite = torch._C._dispatch_has_kernel_for_dispatch_key(op.name(), key)

    def run(args: Sequence[Any], kwargs: Mapping[str, Any] | None) -> Any:
        source = args[0]
        if source.__class__ is not XlaTensor or source.is_inference() == torch.is_inference_mode_enabled():
            return handler(args, kwargs)
        if source.is_inference():
            with torch.inference_mode():
                return handler(args, kwargs)
        if is_composite:
            include, exclude = torch._C._dispatch_tls_local_include_set(), torch._C._dispatch_tls_local_exclude_set()
            with torch._C._ForceDispatchKeyGuard(include, exclude.remove(torch._C.DispatchKey.ADInplaceOrView)):
                return op._op_dk(key, *args, **(kwargs or {}))
        with torch.inference_mode(False):
            return handler(args, kwargs)

    return run


def _view(op: Any) -> Handler:
    known: dict[tuple, Any] = {}
    lists = any("List" in str(argument.type) for argument in op._schema.arguments)

    def run(args: Sequence[Any], kwargs: Mapping[str, Any] | None) -> Any:
        source: XlaTensor = args[0]
        alias = source._alias
        offset = int(source.storage_offset())
        given = [tuple(each) if each.__class__ is list else each for each in args[1:]] if lists else args[1:]
        key = (alias.type, offset, *given)
        if kwargs:
            key += tuple([(name, tuple(a) if a.__class__ is list else a) for name, a in kwargs.items()])
        found = known.get(key)
        if found is None:
            found = _Made(op, Geometry(alias.type, offset), args[1:], kwargs or {})
            remember(known, key, found)
        return found.of(alias)

    return run


class _Made:
    """What a view operator makes of tensors of one geometry."""

    def __init__(self, op: Any, source: Geometry, rest: Sequence[Any], kwargs: Mapping[str, Any]):
        results: Any = of_range(op, source, rest, kwargs) or of_results(op, source, rest, kwargs)
        self.several = isinstance(results, list)
        self.results: list[Geometry] = results if self.several else [results]
        self.from_storage = str(op).startswith(_OF_STORAGE)
        self.is_stretch_of: ArrayType | None = None
        """The type of a memory of which it is a stretch, and does not reach beyond it."""
        self.overlaps = any(each.type.overlaps for each in self.results)
        self.view_metas = [] if self.from_storage else view_values.view_metas(op, source, rest, kwargs, self.results)

    def of(self, alias: Alias) -> Any:
        """The views of `alias`."""
        if self.from_storage:
            (result,) = self.results
            storage = alias.storage
            if self.is_stretch_of is storage.type and not alias.through and not storage.is_untouched:
                return tensor_on(Stretch(storage, result.type, result.offset), result.offset)
            _refuse_outside(storage, result)
            if storage.type.dtype is result.type.dtype and view_values.is_stretch(storage.type, result):
                self.is_stretch_of = storage.type
            through = view_values.changes(alias.through, result) or ()
            return tensor_on(view_values.of_memory(storage, result, through), result.offset)
        if self.overlaps or alias.overlaps:
            found = [_of_overlapping(alias, *each) for each in zip(self.results, self.view_metas, strict=True)]
            return found if self.several else found[0]
        if not self.several:
            result = self.results[0]
            return tensor_on(View(alias, result.type, *self.view_metas[0]), result.offset)
        return [
            tensor_on(View(alias, result.type, *meta), result.offset)
            for result, meta in zip(self.results, self.view_metas, strict=True)
        ]


def _refuse_outside(memory: Storage, result: Geometry) -> None:
    """Raises torch's error for a view by strides that would reach beyond its memory."""
    type = result.type
    need, there = extent(result) * type.dtype.itemsize if type.size else 0, memory.type.nbytes
    if need > there:
        raise RuntimeError(
            f"setStorage: sizes {[*type.dims]}, strides {[*type.strides]}, storage offset {result.offset}, and "
            f"itemsize {type.dtype.itemsize} requiring a storage size of {need} are out of bounds for storage of size "
            f"{there}"
        )


def _of_overlapping(alias: Alias, result: Geometry, meta: view_values.ViewMeta) -> XlaTensor:
    view = View(alias, result.type, *meta)
    through = view_values.changes(view.through, result)
    if through is not None:
        view.memory = partial(view_values.of_memory, alias.storage, result, through)
    return tensor_on(view, result.offset)


def _in_place(op: Any) -> Handler | None:
    """Operators such as squeeze_, which make a tensor a view of what it was."""
    name = op._schema.name.removeprefix("aten::").removesuffix("_")
    packet = getattr(torch.ops.aten, name, None)
    wanted = [str(a.type) for a in op._schema.arguments]
    overloads = [] if packet is None else [getattr(packet, overload) for overload in packet.overloads()]
    functional = next((o for o in overloads if [str(a.type) for a in o._schema.arguments] == wanted), None)
    if functional is None:
        return None

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
    return tensor_on(source._alias, source.storage_offset())


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
    storage = source._alias.storage if isinstance(source, XlaTensor) else memory_of(source, target.dtype)
    if storage.type.dtype is not target.dtype:
        raise UnsupportedError(f"memory of {storage.type.dtype} as {target.dtype}", hint="use view(dtype)")
    offset, sizes, *strides = rest if rest else (0, (storage.type.size,))
    type = array_type(target.dtype, tuple(sizes))
    if strides and strides[0]:
        type = type.with_strides(strides[0])
    set_alias(target, tensor_on(view_values.of_memory(storage, Geometry(type, offset)), offset))
    return target


@handles("aten.slice_inverse.default")
def slice_inverse(args: Sequence[Any], kwargs: Mapping[str, Any] | None) -> Any:
    """What a slice was made of, seen in the slice's memory as a tensor like it lies in its own."""
    part, whole = args[:2]
    return aten.as_strided(part, whole.shape, whole.stride(), whole.storage_offset())


@handles("aten.as_strided_copy.default")
def as_strided_copy(args: Sequence[Any], kwargs: Mapping[str, Any] | None) -> Any:
    """A copy of what those strides reach in a tensor's memory."""
    return aten.as_strided(*args, **(kwargs or {})).clone(memory_format=torch.contiguous_format)


@handles("aten.as_strided_scatter.default")
def as_strided_scatter(args: Sequence[Any], kwargs: Mapping[str, Any] | None) -> Any:
    """A tensor in a copy of the memory, of which what those strides reach is overwritten."""
    check(aten.as_strided_scatter.default, args, kwargs or {})
    source, new, *where = args
    offset = int(source.storage_offset())
    memory = source._alias.storage
    copy = Storage(memory.type, memory.read())
    target = tensor_on(view_values.of_memory(copy, Geometry(source._alias.type, offset)), offset)
    aten.as_strided(target, *where, **(kwargs or {})).copy_(new)
    return target


@handles("aten.resize_as_.default")
def resize_as(args: Sequence[Any], kwargs: Mapping[str, Any] | None) -> Any:
    """The dimensions of another tensor; its memory format if that is to be preserved."""
    target, template = args
    format = (kwargs or {}).get("memory_format")
    format = suggest_memory_format(template) if format is torch.preserve_format else format
    return resize((target, template.shape), {"memory_format": format})


@handles("aten.resize_.default")
def resize(args: Sequence[Any], kwargs: Mapping[str, Any] | None) -> Any:
    """Other dimensions; elements keep their places in memory, and new ones are 0."""
    target, sizes = args[0], tuple(args[1])
    format = (kwargs or {}).get("memory_format")
    if format is None and sizes == tuple(target.shape):
        return target
    type = type_of_copy(array_type(target.dtype, sizes), target.dtype, format)
    wanted = Geometry(type, int(target.storage_offset()))
    set_alias(target, tensor_on(view_values.resized(target._alias.storage, wanted), wanted.offset))
    return target
