"""Writes whose value is a matter of order: to memory that has several of the target's elements at one place.

What torch's kernels for the CPU make of them, an error or the value that their order gives, is what those kernels say:
they run on a copy of the memory. Where only an operand lies across the target, torch refuses some operators, and the
others take what was there before; so it is where an operand is the target, unless the operator goes element by element.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch.utils._pytree import tree_map

from xloom.torch.lazy.recording.table import Handler
from xloom.torch.lazy.runtime import device_client
from xloom.torch.lazy.runtime.execution import buffer_of
from xloom.torch.lazy.runtime.transfer import host_copy
from xloom.torch.lazy.tensor.argument_tensors import argument_tensors
from xloom.torch.lazy.tensor.common_bytes import with_common_bytes
from xloom.torch.lazy.tensor.geometry import Geometry, extent, geometry
from xloom.torch.lazy.tensor.storage import Storage
from xloom.torch.lazy.tensor.tensor import XlaTensor
from xloom.torch.lazy.views.stores import resize_and_write
from xloom.torch.lazy.views.view_values import changes
from xloom.torch.outside import outside_dispatch
from xloom.torch.strides import inverse

_MOST = 1 << 20
"""So many elements of memory are made to learn whether torch refuses an operator."""


def guarded(op: Any, handler: Handler) -> Handler:
    """What runs an operator that writes, but for targets whose elements overlap."""
    written = [(k, a.name) for k, a in enumerate(op._schema.arguments) if a.alias_info and a.alias_info.is_write]
    if torch.Tag.nondeterministic_seeded in op.tags or getattr(handler, "guards", False):
        return handler  # the device draws its own numbers; and operators in place look for themselves
    return _of_one(op, handler, *written[0]) if len(written) == 1 else _of_any(op, handler, written)


def _of_one(op: Any, handler: Handler, place: int, name: str) -> Handler:
    is_out = op._schema.arguments[place].is_out
    beside = not may_be_operand(op)
    alike: set[tuple] = set()

    def run(args: Sequence[Any], kwargs: Mapping[str, Any] | None) -> Any:
        target = args[place] if place < len(args) else kwargs[name]  # type: ignore[index]
        if target.__class__ is XlaTensor:
            alias = target._alias
            if alias.type.overlaps:
                return by_order(op, [target], args, kwargs or {})
            storage = alias.storage
            given = (*args, *kwargs.values()) if kwargs else args
            for k, each in enumerate(given):
                shares = each.__class__ is XlaTensor and each._alias.storage is storage
                shares = shares and (each is not target or (beside and not is_out and k != place))
                if shares or each.__class__ is list:
                    check(op, [target], args, kwargs or {})
                    break
            if is_out and any(each is target for each in args):
                _check_alike(alike, op, [target], args, kwargs or {})
        elif place:
            return on_any(args, kwargs)  # a list of targets
        return handler(args, kwargs)

    on_any = _of_any(op, handler, [(place, name)])
    return run


def _check_alike(
    known: set[tuple], op: Any, targets: Sequence[XlaTensor], args: Sequence[Any], kwargs: Mapping[str, Any]
) -> None:
    """Raises what torch raises where operands are targets themselves, as most operators may have them.

    Those that may, of tensors of these types, are known from then on."""
    leaves = [each for each in argument_tensors((*args, *kwargs.values())) if type(each) is XlaTensor]
    numbers = {id(target): number for number, target in enumerate(targets)}
    case = tuple([(each._alias.type, numbers.get(id(each))) for each in leaves])
    if case not in known:
        _refuse(op, targets, args, kwargs)
        known.add(case)


def _of_any(op: Any, handler: Handler, written: Sequence[tuple[int, str]]) -> Handler:
    are_out = all(op._schema.arguments[k].is_out for k, _ in written)
    alike: set[tuple] = set()

    def run(args: Sequence[Any], kwargs: Mapping[str, Any] | None) -> Any:
        given = kwargs or {}
        named = [args[k] if k < len(args) else given.get(name) for k, name in written]
        targets = [each for each in argument_tensors(named) if type(each) is XlaTensor]
        if any(target._alias.type.overlaps for target in targets):
            return by_order(op, targets, args, given)
        check(op, targets, args, given)
        if are_out and any(each is target for each in args for target in targets):
            _check_alike(alike, op, targets, args, given)
        return handler(args, kwargs)

    return run


def may_be_operand(op: Any) -> bool:
    """Whether what is written may be what is read, as each element is read before it is written."""
    return torch.Tag.pointwise in op.tags


def check(op: Any, targets: Sequence[XlaTensor], args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
    """Raises what torch raises where an operand lies across a target, partly or, of some operators, at all."""
    leaves = [each for each in argument_tensors((*args, *kwargs.values())) if type(each) is XlaTensor]
    shares = len({id(each._alias.storage) for each in leaves}) < len(leaves)
    if shares and _lie_across(targets, leaves, may_be_operand(op)):
        _refuse(op, targets, args, kwargs)


def _refuse(op: Any, targets: Sequence[XlaTensor], args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
    storages = {target._alias.storage for target in targets}
    if sum(storage.type.size for storage in storages) > _MOST:
        return
    try:
        _Memories(storages, _zeros).run(op, args, kwargs)
    except RuntimeError as error:
        if "single memory location" in str(error):
            raise error.with_traceback(None) from None


def _lie_across(targets: Sequence[XlaTensor], leaves: Sequence[XlaTensor], may_be_alike: bool) -> bool:
    """Whether one dense part of a memory lies across a target, which may be it in another order, or as it is."""
    written = set(map(id, targets))
    dense = [each for each in leaves if each._alias.type.order is not None]
    parts = []
    for k, each in enumerate(dense):
        start = int(each.storage_offset()) * each.itemsize
        parts.append((id(each._alias.storage), start, start + each.numel() * each.itemsize, k))
    for k, other in with_common_bytes(parts):
        a, b = dense[k], dense[other]
        if not (id(a) in written or id(b) in written):
            continue
        if not may_be_alike:
            return True
        if parts[k][1:3] != parts[other][1:3] or a._alias.type.strides != b._alias.type.strides:
            return True
    return False


def by_order(op: Any, targets: Sequence[XlaTensor], args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Runs an operator as the CPU's kernel does: in its order, on the elements where they are."""
    memories = _Memories({target._alias.storage for target in targets}, _on_host)
    found = memories.run(op, args, kwargs)
    for storage, flat in memories.flat.items():
        order = storage.type.order
        assert order is not None
        value = flat.reshape([storage.type.dims[k] for k in order]).permute(inverse(order))
        storage.write(device_client.to_device(value.contiguous()))

    def back(leaf: Any) -> Any:
        if not isinstance(leaf, torch.Tensor):
            return leaf
        own = memories.device_of(leaf)
        if own is None:
            return leaf.to("xla")
        if own.shape != leaf.shape:  # an out= that had another shape
            resize_and_write(own, device_client.to_device(leaf.contiguous()), geometry(leaf))
        return own

    return tree_map(back, found)


def _on_host(storage: Storage) -> torch.Tensor:
    order = storage.type.order
    assert order is not None
    return device_client.to_host(buffer_of(storage.read())).permute(order).reshape(-1)


def _zeros(storage: Storage) -> torch.Tensor:
    return torch.zeros(storage.type.size, dtype=storage.type.dtype, device="cpu")


class _Memories:
    """Memories on the host, and tensors of the device as views of them."""

    def __init__(self, storages: set[Storage], make: Any):
        self.flat = {storage: make(storage) for storage in storages}
        self.pairs: list[tuple[torch.Tensor, XlaTensor]] = []
        self.makes = make

    def run(self, op: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """Calls an operator with the tensors' views."""
        args, kwargs = tree_map(self._of, (tuple(args), dict(kwargs)))
        with outside_dispatch():
            return op(*args, **kwargs)

    def device_of(self, host: torch.Tensor) -> XlaTensor | None:
        """The tensor of the device that one of the host is for."""
        return next((own for each, own in self.pairs if each is host), None)

    def _of(self, leaf: Any) -> Any:
        if isinstance(leaf, torch.device):
            return torch.device("cpu")
        if leaf.__class__ is not XlaTensor:
            return leaf
        known = next((each for each, own in self.pairs if own is leaf), None)
        if known is None:
            known = self._view(leaf)
            self.pairs.append((known, leaf))
        return known

    def _view(self, tensor: XlaTensor) -> torch.Tensor:
        alias = tensor._alias
        place = Geometry(alias.type, int(tensor.storage_offset()))
        flat, through = self.flat.get(alias.storage), changes(alias.through, place)
        if flat is None or through is None:
            if self.makes is _on_host:
                return host_copy(tensor)
            return torch.zeros(alias.type.dims, dtype=alias.type.dtype, device="cpu")
        with outside_dispatch():
            flat = flat if flat.dtype is alias.type.dtype else flat.view(alias.type.dtype)
            assert extent(place) <= flat.numel()
            view = flat.as_strided(alias.type.dims, alias.type.strides, place.offset)
            for change in through:
                view = change(view)
            return view
