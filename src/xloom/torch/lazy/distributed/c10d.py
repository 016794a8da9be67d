"""Collectives that overwrite tensors, `torch.ops.c10d`: what a process group's methods dispatch on the device."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any

import torch
from torch import ScriptObject, Tensor
from torch.distributed import AllreduceOptions, ReduceOp, Work

from xloom.torch.lazy.distributed.arguments import check_list, check_parts, check_root, rows_of
from xloom.torch.lazy.distributed.collectives import Group, joined, rows, shaped, split, stacked, zeros_like
from xloom.torch.lazy.distributed.process_group import DIRECT, group_of
from xloom.torch.lazy.recording.table import handles
from xloom.torch.lazy.recording.trace import Value
from xloom.torch.lazy.tensor.argument_tensors import argument_tensors
from xloom.torch.lazy.tensor.tensor import XlaTensor

_done: Callable[[Any], Work] = torch._C._distributed_c10d._create_work_from_future  # type: ignore[attr-defined]


def _read(tensor: Tensor) -> Value:
    assert isinstance(tensor, XlaTensor), f"a tensor on {tensor.device} among others on xla"
    return tensor._alias.read()


def write(tensor: Tensor, value: Value) -> None:
    """Overwrites a tensor of the device, of whatever dimensions, with a value of as many elements."""
    assert isinstance(tensor, XlaTensor), f"a tensor on {tensor.device} among others on xla"
    tensor._alias.write(shaped(value, tensor.shape))


def _write_rows(targets: Sequence[Tensor], value: Value) -> None:
    for target, row in zip(targets, rows(value), strict=True):
        write(target, row)


def _reduction(boxed: Any) -> str:
    return _name_of(boxed.op())


@lru_cache
def _name_of(number: int) -> str:
    return ReduceOp.RedOpType(number).name.lower()  # which takes as long as some collectives


def _done_with(tensors: list[Tensor]) -> Work:
    future = torch.futures.Future()
    future.set_result(tensors)
    return _done(future)


def _in_parts(group: Group, tensor: Tensor) -> Value:
    return shaped(_read(tensor), (group.size, tensor.numel() // group.size))


def _collective(name: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Registers what overwrites the operator's first argument. The work it gives is done: later programs come later."""

    def register(method: Callable[..., None]) -> Callable[..., None]:
        returns_tensors = len(getattr(torch.ops.c10d, name).default._schema.returns) > 1

        @handles(f"c10d.{name}.default")
        def run(args: Sequence[Any], kwargs: Mapping[str, Any] | None) -> Any:
            method(*args, **(kwargs or {}))
            work = _done_with(list(argument_tensors(args[:1]))).boxed()
            return (args[0], work) if returns_tensors else work

        return method

    return register


# -- one result


@_collective("allreduce_")
def all_reduce(tensors: Sequence[Tensor], group: ScriptObject, op: ScriptObject, *_: Any) -> None:
    """Each tensor becomes what those of all members are when folded."""
    _fold(tensors, group_of(group), _reduction(op))


_collective("allreduce_coalesced_")(all_reduce)


def _fold(tensors: Sequence[Tensor], members: Group, reduction: str) -> None:
    for tensor in tensors:
        write(tensor, members.all_reduce(_read(tensor), reduction))


def _all_reduce_directly(members: Group, tensors: list[Tensor], options: AllreduceOptions) -> Work:
    _fold(tensors, members, _name_of(int(options.reduceOp.op)))  # type: ignore[attr-defined]
    return _done_with(tensors)


DIRECT["allreduce"] = _all_reduce_directly


@_collective("reduce_")
def reduce(tensors: Sequence[Tensor], group: ScriptObject, op: ScriptObject, root: int, *_: Any) -> None:
    """The same, for one member; the others' tensors stay."""
    members = group_of(group)
    check_root(root, members.size)
    for tensor in tensors:
        value = members.all_reduce(_read(tensor), _reduction(op))
        if root == members.rank:
            write(tensor, value)


@_collective("broadcast_")
def broadcast(tensors: Sequence[Tensor], group: ScriptObject, root: int, *_: Any) -> None:
    """Each tensor becomes that of one member."""
    members = group_of(group)
    check_root(root, members.size)
    for tensor in tensors:
        write(tensor, members.broadcast(_read(tensor), root))


# -- a result from each


@_collective("allgather_")
def all_gather(outputs: Sequence[Sequence[Tensor]], inputs: Sequence[Tensor], group: ScriptObject, *_: Any) -> None:
    """All members' tensors, which may differ in length if the outputs say so."""
    members = group_of(group)
    for targets, tensor in zip(outputs, inputs, strict=True):
        check_list(targets, members.size)
        check_parts(targets[members.rank], tensor)
        lengths = [target.numel() for target in targets]
        if len(set(lengths)) == 1:
            _write_rows(targets, members.all_gather(_read(tensor)))
            continue
        flat = [shaped(_read(tensor), (tensor.numel(),))] * members.size
        found = members.uneven_all_to_all(joined(flat), [tensor.numel()] * members.size, lengths)
        for target, value in zip(targets, split(found, lengths), strict=True):
            write(target, value)


@_collective("allgather_coalesced_")
def all_gather_of_several(
    outputs: Sequence[Sequence[Tensor]], inputs: Sequence[Tensor], group: ScriptObject, *_: Any
) -> None:
    """The same, with a list for each member."""
    all_gather(list(zip(*outputs, strict=True)), inputs, group)


@_collective("_allgather_base_")
def all_gather_into(output: Tensor, input: Tensor, group: ScriptObject, *_: Any) -> None:
    """One behind the other."""
    members = group_of(group)
    check_parts(output, input, members.size)
    write(output, members.all_gather(_read(input)))


@_collective("allgather_into_tensor_coalesced_")
def all_gather_into_several(outputs: Sequence[Tensor], inputs: Sequence[Tensor], group: ScriptObject, *_: Any) -> None:
    """The same for several."""
    for output, tensor in zip(outputs, inputs, strict=True):
        all_gather_into(output, tensor, group)


@_collective("gather_")
def gather(
    outputs: Sequence[Sequence[Tensor]], inputs: Sequence[Tensor], group: ScriptObject, root: int, *_: Any
) -> None:
    """All members' tensors, for one of them."""
    members = group_of(group)
    check_root(root, members.size)
    value = members.all_gather(_read(inputs[0]))
    if root == members.rank:  # the others have their part in it, whatever this one has to say of its list
        check_list(outputs[0], members.size)
        for output in outputs[0]:
            check_parts(output, inputs[0])
        _write_rows(outputs[0], value)


# -- a part for each


@_collective("reduce_scatter_")
def reduce_scatter(
    outputs: Sequence[Tensor], inputs: Sequence[Sequence[Tensor]], group: ScriptObject, op: ScriptObject, *_: Any
) -> None:
    """The part of this member, folded."""
    members = group_of(group)
    for output, parts in zip(outputs, inputs, strict=True):
        check_list(parts, members.size)
        for part in parts:
            check_parts(part, output)
        value = stacked([_read(part) for part in parts])
        write(output, members.reduce_scatter(value, _reduction(op)))


@_collective("_reduce_scatter_base_")
def reduce_scatter_from(output: Tensor, input: Tensor, group: ScriptObject, op: ScriptObject, *_: Any) -> None:
    """The same, of one tensor with all parts."""
    members = group_of(group)
    check_parts(input, output, members.size)
    write(output, members.reduce_scatter(_in_parts(members, input), _reduction(op)))


@_collective("reduce_scatter_tensor_coalesced_")
def reduce_scatter_from_several(
    outputs: Sequence[Tensor], inputs: Sequence[Tensor], group: ScriptObject, op: ScriptObject, *_: Any
) -> None:
    """The same for several."""
    for output, tensor in zip(outputs, inputs, strict=True):
        reduce_scatter_from(output, tensor, group, op)


@_collective("scatter_")
def scatter(
    outputs: Sequence[Tensor], inputs: Sequence[Sequence[Tensor]], group: ScriptObject, root: int, *_: Any
) -> None:
    """The part of this member, of what one of them has."""
    members = group_of(group)
    (output,) = outputs
    check_root(root, members.size)
    if root == members.rank:
        check_list(inputs[0], members.size)
        for part in inputs[0]:
            check_parts(part, output)
    own = zeros_like(_read(output))
    parts = [_read(part) for part in inputs[0]] if root == members.rank else [own] * members.size
    write(output, rows(members.all_to_all(stacked(parts)))[root])


@_collective("alltoall_")
def all_to_all(outputs: Sequence[Tensor], inputs: Sequence[Tensor], group: ScriptObject, *_: Any) -> None:
    """A tensor to each member, one from each; they may differ in length."""
    members = group_of(group)
    for tensors in (inputs, outputs):
        check_list(tensors, members.size)
    flat = [shaped(_read(each), (each.numel(),)) for each in inputs]
    sent, received = [each.numel() for each in inputs], [each.numel() for each in outputs]
    found = members.uneven_all_to_all(joined(flat), sent, received)
    for output, value in zip(outputs, split(found, received), strict=True):
        write(output, value)


@_collective("alltoall_base_")
def all_to_all_of_rows(
    output: Tensor, input: Tensor, group: ScriptObject, received: Sequence[int], sent: Sequence[int], *_: Any
) -> None:
    """The same of rows of one tensor; without sizes, as many for each."""
    members = group_of(group)
    parts = [rows_of(input, sent, members.size), rows_of(output, received, members.size)]
    if not sent and not received:
        check_parts(output, input)
        parts = [[], []]
    write(output, members.exchange(_read(input), *parts))
