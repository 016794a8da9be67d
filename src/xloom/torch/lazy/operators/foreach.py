"""Operators over lists of tensors, as one recorded operator each: what optimisers are made of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from xloom.hlo.instruction import Instruction
from xloom.torch.decompositions.foreach import arguments_of_each, for_one
from xloom.torch.lazy.recording.record import Recorder
from xloom.torch.lazy.recording.table import Handler
from xloom.torch.lazy.tensor.common_bytes import with_common_bytes
from xloom.torch.lazy.tensor.geometry import Geometry, extent
from xloom.torch.lazy.tensor.tensor import XlaTensor, tensor_of
from xloom.torch.lowering import Graph, has_lowering, lower


def handler(op: Any) -> Handler | None:
    """For `_foreach_*` operators of which the operator for one tensor has a lowering."""
    name = op._schema.name
    if not name.startswith("aten::_foreach_"):
        return None
    bare = name.removeprefix("aten::_foreach_")
    in_place = bare.endswith("_")
    each = for_one(bare.removesuffix("_"), op._overloadname)
    if each is None or not has_lowering(each) or any(a.is_out for a in op._schema.arguments):
        return None
    lists = [str(a.type).startswith("List[") for a in op._schema.arguments]

    def emit(g: Graph, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[Any]:
        out = []
        for one, named in arguments_of_each(op, each, args, kwargs):
            found = lower(g, each, one, named)
            out.append(_stored(g, found, one[0]) if in_place else found)
        return out

    recorder = Recorder(op, emit)

    def run(args: Sequence[Any], kwargs: Mapping[str, Any] | None) -> Any:
        if in_place and len(args[0]) > 1 and _depend(args):
            for k in range(len(args[0])):
                run([[a[k]] if is_list else a for a, is_list in zip(args, lists, strict=False)], kwargs)
            return None
        values = recorder.record(args, kwargs)
        if not in_place:
            return [tensor_of(value) for value in values]
        for target, value in zip(args[0], values, strict=True):
            target._alias.write(value)
        return None

    return run


def _depend(args: Sequence[Any]) -> bool:
    """Whether one of the tensors that are written may lie across another tensor of the lists."""
    given = [(k, each) for a in args if a.__class__ is list for k, each in enumerate(a) if each.__class__ is XlaTensor]
    if len({id(each._alias.storage) for _, each in given}) == len(given):
        return False
    parts = [(each.data_ptr(), _end(each), k) for k, each in given]
    of_memory = [
        (id(each._alias.storage), *part[:2], n) for n, ((_, each), part) in enumerate(zip(given, parts, strict=True))
    ]
    targets = len(args[0])  # which are given first
    return any(min(k, n) < targets and parts[k] != parts[n] for k, n in with_common_bytes(of_memory))


def _end(tensor: XlaTensor) -> int:
    place = Geometry(tensor._alias.type, 0)
    return tensor.data_ptr() + extent(place) * tensor.itemsize


def _stored(g: Graph, found: Instruction, target: Instruction) -> Instruction:
    return g.cast(g.expand(found, target.shape.dims), target.shape.dtype)
