"""Custom calls that others know how to cut."""

from __future__ import annotations

from collections.abc import Sequence

from xloom.calls.partitioning import Partitioner, batched, partitioners
from xloom.errors import PassError
from xloom.hlo.call_graph import callees_first
from xloom.hlo.computation import Computation
from xloom.hlo.instruction import Instruction, map_called
from xloom.hlo.module import Module
from xloom.hlo.shape import Shape, array_shape
from xloom.hlo.sharding import Sharding
from xloom.passes.partitioning.nesting import leaves, local, packed_shape, parts_of
from xloom.passes.partitioning.resharding import Emitter, PartitionedValue
from xloom.passes.partitioning.rules import like
from xloom.passes.partitioning.tile_assignment import Tiles, sharding_of, tiles_of

_BATCH_DIMS = "num_batch_dims"


def partitioned(
    e: Emitter, call: Instruction, parts: Sequence[PartitionedValue], given: Sequence[Tiles], wanted: Sequence[Tiles]
) -> list[PartitionedValue] | None:
    """The results of a call that its target's partitioner cuts, or that is cut in batches; None of any other.

    What is said of its operands and its results may cut them into unequal parts."""
    target = call["custom_call_target"]
    if target in partitioners:
        return _by_partitioner(e, call, parts, given, wanted, partitioners[target])
    said = call.frontend_attributes.get(_BATCH_DIMS, "")
    if target in batched and said.isdecimal() and int(said):
        fitting = [t.fitting(s.dims) for t, s in zip(wanted, leaves(call.shape), strict=True)]
        return _in_batches(e, call, parts, fitting, int(said))
    return None


def _by_partitioner(
    e: Emitter,
    call: Instruction,
    parts: Sequence[PartitionedValue],
    given: Sequence[Tiles],
    wanted: Sequence[Tiles],
    partitioner: Partitioner,
) -> list[PartitionedValue]:
    operands = [sharding_of(t.settled, e.devices) for t in given]
    results = [sharding_of(t, e.devices) for t in wanted]
    found = partitioner(call, operands, Sharding.tuple_of(results) if call.shape.is_tuple else results[0])
    inputs = []
    for k, (part, sharding, operand) in enumerate(zip(parts, found.operands, call.operands, strict=True)):
        tiles = tiles_of(sharding, operand.shape.rank, e.devices)
        padded = tiles.padded(operand.shape.dims)
        if tiles != tiles.fitting(padded):
            raise PassError(
                f"operand {k}, {operand.shape}, cannot be cut by {sharding}",
                where=call.name,
                hint="its target's partitioner gave that sharding, which cuts two dimensions by the same devices",
            )
        even = part if padded == operand.shape.dims else e.padded(part, padded)
        inputs.append(e.reshard(even, tiles).value)
    callee = _merged(e, found.module, call)
    value = e.make("call", callee.root.shape, inputs, to_apply=callee)
    shardings = found.result.elements if call.shape.is_tuple else [found.result]
    wholes = leaves(call.shape)
    tiles = [tiles_of(s, x.rank, e.devices) for s, x in zip(shardings, wholes, strict=True)]
    evens = [array_shape(x.dtype, t.padded(x.dims)) for x, t in zip(wholes, tiles, strict=True)]
    shapes = packed_shape(call.shape, [local(x, t) for x, t in zip(evens, tiles, strict=True)])
    if not value.shape.compatible(shapes):
        raise PassError(
            f"a part of the result is {shapes}, and its partitioner makes {value.shape}",
            where=call.name,
            hint="the module that its target's partitioner gives must compute a part of the sharding that it gives",
        )
    made = zip(parts_of(e, value, tiles), evens, wholes, strict=True)
    return [part if even.dims == x.dims else e.without_padding(part, x.dims) for part, even, x in made]


def _merged(e: Emitter, module: Module, call: Instruction) -> Computation:
    """The module's entry in the emitter's module, with channels of its own."""
    clones: dict[Computation, Computation] = {}
    channels: dict[int, int] = {}
    for computation in callees_first([module.entry]):
        clone = clones[computation] = computation.clone("", e.module)
        for instruction in clone:
            map_called(instruction, clones.__getitem__)
            instruction.metadata = call.metadata
            channel = instruction.attrs.get("channel_id")
            if channel:
                if channel not in channels:
                    channels[channel] = e.channels.take()
                instruction.attrs["channel_id"] = channels[channel]
    return clones[module.entry]


def _in_batches(
    e: Emitter, call: Instruction, parts: Sequence[PartitionedValue], wanted: Sequence[Tiles], count: int
) -> list[PartitionedValue]:
    """On parts that are cut alike in the leading dimensions, and in no other."""
    cuts = [t.dims[:count] for t in (*(p.tiles for p in parts), *wanted) if len(t.dims) >= count]
    batch = max(cuts, key=lambda dims: sum(map(len, dims)))
    operands = []
    for part, operand in zip(parts, call.operands, strict=True):
        operands.append(e.reshard(part, Tiles((*batch, *[()] * (operand.shape.rank - count)))).value)
    tiles = [Tiles((*batch, *[()] * (x.rank - count))) for x in leaves(call.shape)]
    results = [local(x, t).with_layouts_of(x) for x, t in zip(leaves(call.shape), tiles, strict=True)]
    return parts_of(e, _on_parts(e, call, packed_shape(call.shape, results), operands), tiles)


def called_everywhere(e: Emitter, call: Instruction, parts: Sequence[PartitionedValue]) -> list[PartitionedValue]:
    """The tokens of a call that every device makes with the parts that it has."""
    operands = [e.reshard(p, p.tiles.settled).value if p.shape.is_array else p.value for p in parts]
    return parts_of(e, _on_parts(e, call, call.shape, operands), [Tiles(()) for _ in leaves(call.shape)])


def _on_parts(e: Emitter, call: Instruction, shape: Shape, operands: Sequence[Instruction]) -> Instruction:
    """The same call on parts of its operands, in the layouts that it needs."""
    constraints = call["operand_layout_constraints"]
    if not constraints:
        return like(e, call, shape, operands)
    shapes = tuple(o.shape.with_layouts_of(s) for o, s in zip(operands, constraints, strict=True))
    return like(e, call, shape, operands, operand_layout_constraints=shapes)
