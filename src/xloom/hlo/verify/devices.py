"""Checks of what concerns several devices: collectives, shardings, and transfers on channels."""

from __future__ import annotations

from collections.abc import Iterator

from xloom.errors import ShapeError, VerifyError
from xloom.hlo.computation import Computation
from xloom.hlo.instruction import Instruction
from xloom.hlo.module import Module
from xloom.hlo.sharding import Iota, Sharding
from xloom.hlo.verify.shapes import require


def check_gather_shapes(i: Instruction) -> None:
    """all-gather takes arrays, and returns a tuple of several or of an asynchronous state."""
    for operand in i._operands:
        if not operand.shape.is_array:
            raise ShapeError(
                f"takes arrays, found {operand.shape}", hint="take elements of tuples by get-tuple-element"
            )
    if not i.shape.is_tuple and (len(i._operands) > 1 or i.opcode == "all-gather-start"):
        raise ShapeError(f"returns a tuple, found {i.shape}", hint="write the tuple of results as its shape")


def check_ragged_all_to_all(i: Instruction) -> None:
    """The offsets and sizes are alike, and of rank 1 or 2."""
    rows = [o.shape for o in i._operands[2:]]
    if any(s.dims != rows[0].dims for s in rows):
        raise ShapeError(
            f"its offsets and sizes have different shapes: {', '.join(map(str, rows))}",
            hint="give each an offset and a size",
        )
    if rows[0].rank not in (1, 2):
        raise ShapeError(
            f"its offsets and sizes must be of rank 1 or 2, found {rows[0]}",
            hint="give a vector for each device, or a matrix",
        )


def check_sharding(i: Instruction) -> None:
    """A sharding is of the value's form, and its devices exist."""
    sharding = i.sharding
    leaves = [leaf for _, leaf in i.shape.leaves()]
    parts = sharding.elements if sharding.kind == "tuple" else (sharding,) * len(leaves)
    count = len(leaves) or 1  # an empty tuple has one sharding
    require(sharding.kind != "tuple" or len(parts) == count, f"{len(parts)} shardings for {count} leaves")
    for part, leaf in zip(parts, leaves, strict=False):
        if part.kind == "tiled" and leaf.is_array:
            rank = len(part.tile_dims) - len(part.last_tile_dims) - part.replicate_last
            require(rank == leaf.rank, f"a sharding of {rank} dimensions for {leaf}")
    _check_devices(sharding, _device_count(i))


def _device_count(i: Instruction) -> int:
    module = i.parent.module if i.parent is not None else None
    return module.config.num_partitions if module is not None else 1


def _check_devices(sharding: Sharding, count: int) -> None:
    """The devices of a sharding exist: `count` of them, if that is known."""
    for part in (sharding, *sharding.elements):
        devices = part.devices
        numbers = () if devices is None else devices.array().flat if isinstance(devices, Iota) else devices
        for number in numbers:
            if number < 0 or (count > 1 and number >= count):
                raise ShapeError(
                    f"there is no device {number} for its sharding, of {count}",
                    hint="set num_partitions or replica_count in the module's header",
                )


def sharding_problems(i: Instruction) -> str:
    """How the shardings of a loop's or a choice's values differ; empty if they agree."""
    if i.opcode == "while":
        body, condition = i["body"], i["condition"]
        same = [i, body.root, *body.parameters, *condition.parameters]
    elif i.opcode == "conditional":
        same = [i, *(c.root for c in i.called_computations)]
    else:
        return ""
    given: list[tuple[str, Sharding]] = [(s.name, s.sharding) for s in same if s.sharding is not None]
    for name, sharding in given[1:]:
        if sharding.to_text(metadata=False) != given[0][1].to_text(metadata=False):
            return f"{given[0][0]} and {name} have different shardings"
    return ""


_RENDEZVOUS = "_xla_host_transfer_rendezvous"


def channel_problems(module: Module) -> Iterator[VerifyError]:
    """Errors of host transfers on one channel that are not alike."""
    first: dict[tuple[str, int], Instruction] = {}
    for computation in module.computations:
        for i in _transfers(computation):
            before = first.setdefault((i.opcode, i["channel_id"]), i)
            data = [t.shape.elements[0] for t in (before, i) if t.shape.is_tuple]
            names = [t.frontend_attributes.get(_RENDEZVOUS) for t in (before, i)]
            if len(data) == 2 and not data[0].compatible(data[1]):
                yield VerifyError(f"{before.name} transfers {data[0]} on the same channel, not {data[1]}", where=i.name)
            elif names[0] != names[1]:
                yield VerifyError(f"{before.name} meets {names[0]} on the same channel, not {names[1]}", where=i.name)


def _transfers(computation: Computation) -> Iterator[Instruction]:
    for i in computation:
        is_transfer = i.opcode in ("send", "recv", "send-done", "recv-done")
        if is_transfer and i["is_host_transfer"] and i["channel_id"] is not None:
            yield i
