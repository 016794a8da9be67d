"""Operators that write: in place, or into out= tensors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch.utils._pytree import tree_leaves

from xloom.hlo.instruction import Instruction
from xloom.torch.decompositions import decompositions
from xloom.torch.dtypes import torch_dtype
from xloom.torch.lazy.operators.checking import check, check_once
from xloom.torch.lazy.recording.operation import apply
from xloom.torch.lazy.recording.record import Recorder, mixed
from xloom.torch.lazy.recording.table import Handler
from xloom.torch.lazy.recording.trace import Value
from xloom.torch.lazy.runtime.transfer import convert
from xloom.torch.lazy.tensor.storage import Storage
from xloom.torch.lazy.tensor.tensor import XlaTensor
from xloom.torch.lazy.views import overlap
from xloom.torch.lazy.views.stores import store, uncastable
from xloom.torch.lowering import Graph, has_lowering, lower
from xloom.torch.lowering.registry import functional_form, overload


def handler(op: Any) -> Handler | None:
    """The functional operator's result, written where the operator writes."""
    schema = op._schema
    if not schema.is_mutable:
        return None
    if not has_lowering(op):
        return _by_functional(op)
    written = [(k, a) for k, a in enumerate(schema.arguments) if a.alias_info is not None and a.alias_info.is_write]
    if all(argument.is_out for _, argument in written):
        return _out(op, [argument.name for _, argument in written])
    if len(written) == 1 and written[0][0] == 0 and str(written[0][1].type) == "Tensor":
        return _in_place(op)
    return None


def _in_place(op: Any) -> Handler:
    record = Recorder(op, lambda g, args, kwargs: _as_self(g, lower(g, op, args, kwargs), args[0])).record
    beside = not overlap.may_be_operand(op)
    draws = torch.Tag.nondeterministic_seeded in op.tags  # the device draws its own numbers

    def run(args: Sequence[Any], kwargs: Mapping[str, Any] | None) -> Any:
        target = args[0]
        if target.__class__ is not XlaTensor:
            raise mixed(op, next(each for each in args if isinstance(each, XlaTensor)) if not target.dim() else target)
        alias = target._alias
        if alias.type.overlaps and not draws:
            return overlap.by_order(op, [target], args, kwargs or {})
        owner = alias if alias.__class__ is Storage else alias.storage
        for each in args[1:]:
            if each.__class__ is XlaTensor:
                other = each._alias
                if (other is owner or other.storage is owner) and (beside or each is not target):
                    overlap.check(op, [target], args, kwargs or {})
                    break
        alias.write(record(args, kwargs))
        return target

    run.guards = True  # type: ignore[attr-defined]
    return run


def _as_self(g: Graph, result: Any, target: Instruction) -> Instruction:
    """What is stored: the result in the dtype of the tensor that is written to, which also has to have its shape."""
    assert isinstance(result, Instruction)
    if result.shape.dims != target.shape.dims:
        raise RuntimeError(
            f"output with shape {list(target.shape.dims)} doesn't match the broadcast shape {list(result.shape.dims)}"
        )
    own, wanted = torch_dtype(result.shape.dtype), torch_dtype(target.shape.dtype)
    if not torch.can_cast(own, wanted):
        raise uncastable(own, wanted)
    return g.cast(result, target.shape.dtype)


def _out(op: Any, names: Sequence[str]) -> Handler:
    form = functional_form(op)
    functional = op if form is None else overload(form)
    asks_dtype = "dtype" in _names(functional) and "dtype" not in _names(op)
    recorder = Recorder(op, lambda g, args, kwargs: lower(g, functional, args, kwargs), checks=False)
    known: set[tuple] = set()
    ranges, sums, outcomes = (op._schema.name in names for names in (_RANGES, _SUMS, _OUTCOMES))

    def run(args: Sequence[Any], kwargs: Mapping[str, Any] | None) -> Any:
        given = dict(kwargs or {})
        written = [given.pop(name) for name in names]
        alone = len(written) == 1 and isinstance(written[0], torch.Tensor)
        targets = written[0] if isinstance(written[0], (list, tuple)) else written
        for target in targets:
            if not isinstance(target, XlaTensor):
                raise mixed(op, target)
        check_once(known, op, args, kwargs or {})
        if asks_dtype or (sums and given.get("dtype") is None):
            given["dtype"] = targets[0].dtype
        found = recorder.record(args, given)
        if found.__class__ is Value and found.type.row_major is targets[0]._alias.type.row_major:
            targets[0]._alias.write(found)  # the usual case: nothing to convert, nowhere to move
            return targets[0] if alone else None if targets is written[0] else tuple(targets)
        values = found if isinstance(found, list) else [found]
        if ranges and values[0].type.size == targets[0].numel():
            values = [apply(_reshaped, values[0], tuple(targets[0].shape))]
        if outcomes:
            values = [convert(values[0], targets[0].dtype)]
        if any(map(_may_lie_otherwise, targets, values)):
            made = tree_leaves(check(op, args, kwargs or {}))  # resized, to strides that kernels choose
            strides = [each.stride() if isinstance(each, torch.Tensor) else None for each in made]
        else:
            strides = [None] * len(values)
        for k, (target, value) in enumerate(zip(targets, values, strict=True)):
            store(target, value, strides[k])
        return targets[0] if alone else None if targets is written[0] else tuple(targets)

    return run


def _may_lie_otherwise(target: XlaTensor, value: Value) -> bool:
    """True where a target is resized, to strides that are not known, or with a warning."""
    dims = value.type.dims
    return dims != target._alias.type.dims and (len(dims) > 1 or target.numel() > 0)


_RANGES = ("aten::arange", "aten::range", "aten::linspace", "aten::logspace")
"""Operators that fill a tensor of the right number of elements, of whatever shape."""


_SUMS = ("aten::sum", "aten::mean", "aten::prod", "aten::cumsum", "aten::cumprod")
"""Operators that compute in the dtype of the tensor that they fill."""

_OUTCOMES = ("aten::bernoulli",)
"""Operators whose results any dtype holds."""


def _reshaped(g: Graph, value: Instruction, dims: tuple[int, ...]) -> Instruction:
    return g.reshape_to(value, dims)


def _by_functional(op: Any) -> Handler | None:
    """For operators such as rrelu_with_noise, of which torch has a form that returns what is written beside results."""
    packet = getattr(torch.ops.aten, op._schema.name.removeprefix("aten::") + "_functional", None)
    if packet is None or not (has_lowering(packet.default) or packet.default in decompositions()):
        return None  # torch's kernel of that form calls this operator
    written = [k for k, a in enumerate(op._schema.arguments) if a.alias_info is not None and a.alias_info.is_write]

    def run(args: Sequence[Any], kwargs: Mapping[str, Any] | None) -> Any:
        found = packet(*args, **(kwargs or {}))
        results, new = found[: -len(written)], found[-len(written) :]
        for k, value in zip(written, new, strict=True):
            store(args[k], value._alias.read())
        return results[0] if len(results) == 1 else results

    return run


def _names(op: Any) -> list[str]:
    return [argument.name for argument in op._schema.arguments]
