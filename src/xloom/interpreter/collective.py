"""Collectives: members of a group meet at the evaluator's rendezvous and exchange their operands."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from xloom.errors import UnsupportedError
from xloom.interpreter.registry import Value, evaluates

if TYPE_CHECKING:
    from xloom.hlo.instruction import Instruction
    from xloom.interpreter.evaluator import Evaluator


@evaluates("replica-id")
def replica_id(instruction: Instruction, operands: Sequence[Value], evaluator: Evaluator) -> Value:
    """This device's replica."""
    return np.asarray(evaluator.replica, np.uint32)


@evaluates("partition-id")
def partition_id(instruction: Instruction, operands: Sequence[Value], evaluator: Evaluator) -> Value:
    """This device's partition."""
    return np.asarray(evaluator.partition, np.uint32)


def mode_of(instruction: Instruction) -> str:
    """What the numbers in the groups mean; from channel_id and use_global_device_ids unless written."""
    attrs = instruction.attrs
    if attrs.get("mode"):
        return attrs["mode"]
    channel = attrs.get("channel_id") is not None
    if instruction.opcode.startswith(("all-gather", "all-reduce", "reduce-scatter")):
        if attrs.get("use_global_device_ids"):
            return "flattened_id"
        return "cross_replica_and_partition" if channel else "cross_replica"
    return "cross_partition" if channel else "cross_replica"


Device = tuple[int, int]  # replica, partition


def group_of(instruction: Instruction, evaluator: Evaluator) -> list[Device]:
    """The devices of this device's group, in order."""
    me = (evaluator.replica, evaluator.partition)
    return members_of(instruction, me, evaluator.replica_count, evaluator.partition_count)


def members_of(instruction: Instruction, me: Device, replicas: int, partitions: int) -> list[Device]:
    """The devices of a device's group, in order; a device in no group is alone."""
    mode = mode_of(instruction)
    groups = instruction.attrs.get("replica_groups")
    counts = {"cross_partition": partitions, "flattened_id": replicas * partitions}
    count = counts.get(mode, replicas)
    listed = groups.groups(count) if groups is not None else [list(range(count))]
    for numbers in listed:
        if mode == "cross_replica":
            devices = [(n, me[1]) for n in numbers]
        elif mode == "cross_partition":
            devices = [(me[0], n) for n in numbers]
        elif mode == "flattened_id":
            devices = [divmod(n, partitions) for n in numbers]
        else:
            devices = [(n, p) for n in numbers for p in range(partitions)]
        if me in devices:
            return devices
    return [me]


def exchange(instruction: Instruction, evaluator: Evaluator, devices: list[Device], value: Any) -> list[Any]:
    """Every member's `value`, in the group's order."""
    if len(devices) == 1:
        return [value]
    if evaluator.rendezvous is None:
        raise UnsupportedError(
            f"{instruction.opcode} over {len(devices)} devices, evaluated on one",
            where=instruction.name,
            hint="use xloom.interpreter.devices.evaluate_devices",
        )
    me = (evaluator.replica, evaluator.partition)
    return evaluator.rendezvous.meet(instruction.name, tuple(devices), me, value)


def _each(instruction: Instruction, results: list[np.ndarray]) -> Value:
    return tuple(results) if instruction.shape.is_tuple or len(results) > 1 else results[0]


@evaluates("all-reduce", "all-reduce-start")
def all_reduce(instruction: Instruction, operands: Sequence[Value], evaluator: Evaluator) -> Value:
    """Folded over the members in the group's order."""
    return _each(instruction, _reduced(instruction, operands, evaluator))


def _reduced(instruction: Instruction, operands: Sequence[Value], evaluator: Evaluator) -> list[np.ndarray]:
    everyone = exchange(instruction, evaluator, group_of(instruction, evaluator), tuple(operands))
    combine = evaluator.elementwise(instruction["to_apply"])
    out = list(everyone[0])
    for theirs in everyone[1:]:
        out = [np.broadcast_to(combine(a, b), a.shape) for a, b in zip(out, theirs, strict=True)]
    return out


@evaluates("reduce-scatter")
def reduce_scatter(instruction: Instruction, operands: Sequence[Value], evaluator: Evaluator) -> Value:
    """all-reduce, of which each member keeps its part."""
    devices = group_of(instruction, evaluator)
    rank = devices.index((evaluator.replica, evaluator.partition))
    (dim,) = instruction["dimensions"]
    full = _reduced(instruction, operands, evaluator)
    return _each(instruction, [np.split(x, len(devices), axis=dim)[rank] for x in full])


@evaluates("all-gather", "all-gather-start")
def all_gather(instruction: Instruction, operands: Sequence[Value], evaluator: Evaluator) -> Value:
    """Joined in the group's order."""
    everyone = exchange(instruction, evaluator, group_of(instruction, evaluator), tuple(operands))
    (dim,) = instruction["dimensions"]
    out = [np.concatenate(parts, axis=dim) for parts in zip(*everyone, strict=True)]
    if instruction.opcode == "all-gather":
        return _each(instruction, out)
    pair = (tuple(operands), tuple(out)) if len(out) > 1 else (operands[0], out[0])
    return pair


@evaluates("all-gather-done", "collective-permute-done")
def second(instruction: Instruction, operands: Sequence[Value], evaluator: Evaluator) -> Value:
    """The result."""
    return operands[0][1]


@evaluates("all-reduce-done")
def all_reduce_done(instruction: Instruction, operands: Sequence[Value], evaluator: Evaluator) -> Value:
    """The result."""
    return operands[0]


@evaluates("all-to-all")
def all_to_all(instruction: Instruction, operands: Sequence[Value], evaluator: Evaluator) -> Value:
    """Part k goes to member k; what arrives is joined, or a tuple in the tuple form."""
    devices = group_of(instruction, evaluator)
    rank = devices.index((evaluator.replica, evaluator.partition))
    dims = instruction["dimensions"]
    if dims:
        parts = [tuple(np.split(x, len(devices), axis=dims[0])) for x in operands]
        everyone = exchange(instruction, evaluator, devices, parts)
        out = [np.concatenate([theirs[k][rank] for theirs in everyone], axis=dims[0]) for k in range(len(operands))]
        return _each(instruction, out)
    everyone = exchange(instruction, evaluator, devices, tuple(operands))
    return tuple(theirs[rank] for theirs in everyone)


@evaluates("collective-broadcast")
def collective_broadcast(instruction: Instruction, operands: Sequence[Value], evaluator: Evaluator) -> Value:
    """The first member's operands; zeros on devices outside every group."""
    if instruction.attrs.get("has_dynamic_root"):
        raise _no_semantics(instruction, "a root that is an operand")
    devices = group_of(instruction, evaluator)
    me = (evaluator.replica, evaluator.partition)
    groups = instruction.attrs.get("replica_groups")
    if devices == [me] and groups is not None and groups.groups(1) and not _listed(instruction, evaluator, me):
        return _each(instruction, [np.zeros_like(x) for x in operands])
    return _each(instruction, list(exchange(instruction, evaluator, devices, tuple(operands))[0]))


def _no_semantics(instruction: Instruction, form: str) -> UnsupportedError:
    """XLA has this form for some backends only, and does not say what it means."""
    return UnsupportedError(f"{instruction.opcode} with {form}", where=instruction.name)


def _listed(instruction: Instruction, evaluator: Evaluator, me: Device) -> bool:
    numbers = [n for g in instruction["replica_groups"].groups(evaluator.replica_count) for n in g]
    return (me[0] if mode_of(instruction) == "cross_replica" else me[1]) in numbers


@evaluates("collective-permute", "collective-permute-start")
def collective_permute(instruction: Instruction, operands: Sequence[Value], evaluator: Evaluator) -> Value:
    """What the source sends; zeros where no pair ends."""
    if instruction.attrs.get("slice_sizes"):
        raise _no_semantics(instruction, "slices sent into an operand")
    pairs = instruction["source_target_pairs"]
    by_partition = instruction.attrs.get("channel_id") is not None
    count = evaluator.partition_count if by_partition else evaluator.replica_count
    me = evaluator.partition if by_partition else evaluator.replica
    numbers = [(evaluator.replica, n) if by_partition else (n, evaluator.partition) for n in range(count)]
    everyone = exchange(instruction, evaluator, numbers, tuple(operands))
    sources = [s for s, t in pairs if t == me and s < count]
    if sources:
        out = list(everyone[sources[0]])
    else:
        out = [np.zeros_like(x) for x in operands]
    if instruction.opcode == "collective-permute":
        return _each(instruction, out)
    plain = (operands[0], out[0]) if len(out) == 1 else (tuple(operands), tuple(out))
    rest = tuple(np.zeros((), np.uint32) for _ in instruction.shape.elements[2:])
    return (*plain, *rest)


@evaluates("ragged-all-to-all")
def ragged_all_to_all(instruction: Instruction, operands: Sequence[Value], evaluator: Evaluator) -> Value:
    """Rows input_offsets[k] ... of `send_sizes[k]` go to member k, at that member's output_offsets."""
    data, output, input_offsets, send_sizes, output_offsets, _ = operands
    devices = group_of(instruction, evaluator)
    rank = devices.index((evaluator.replica, evaluator.partition))
    message = (data, input_offsets, send_sizes, output_offsets)
    everyone = exchange(instruction, evaluator, devices, message)
    out = output.copy()
    each = input_offsets.shape[0] // len(devices)
    for rows, starts, sizes, targets in everyone:
        for k in range(rank * each, (rank + 1) * each):
            start, size, target = int(starts[k]), int(sizes[k]), int(targets[k])
            out[target : target + size] = rows[start : start + size]
    return out
