"""From one cut to another: slices where parts get smaller, exchanges between devices where they get larger."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from xloom.hlo.attributes import PaddingDimension, SliceDimension
from xloom.hlo.computation import Computation
from xloom.hlo.dtype import pred, s32, u32
from xloom.hlo.instruction import Instruction
from xloom.hlo.literal import Literal
from xloom.hlo.module import Module
from xloom.hlo.shape import Shape, array_shape
from xloom.hlo.sharding import ReplicaGroups
from xloom.passes.partitioning.tile_assignment import Factors, Tiles, are_independent, digits, extent, groups


class PartitionedValue(NamedTuple):
    """What a device has of a value."""

    value: Instruction
    tiles: Tiles

    @property
    def shape(self) -> Shape:
        """Of the part."""
        return self.value.shape


@dataclass
class Channels:
    """Numbers for collectives that no other has."""

    next: int

    def take(self) -> int:
        """The next number."""
        self.next += 1
        return self.next - 1


@dataclass
class Emitter:
    """Makes the instructions of one computation of the partitioned program."""

    module: Module
    computation: Computation
    devices: int
    channels: Channels
    source: Instruction | None = None
    """Whose metadata new instructions take over."""
    _device: Instruction | None = None
    _tables: dict[tuple[Factors, int], Instruction] = field(default_factory=dict)

    def inside(self, computation: Computation) -> Emitter:
        """For another computation of the program."""
        return Emitter(self.module, computation, self.devices, self.channels, self.source)

    def make(self, opcode: str, shape: Shape, operands: Sequence[Instruction] = (), **attrs: Any) -> Instruction:
        """A new instruction, named after its opcode."""
        new = self.computation.add(Instruction(opcode, opcode, shape, operands, attrs))
        if self.source is not None:
            new.metadata = self.source.metadata
        return new

    def constant(self, shape: Shape, value: Any) -> Instruction:
        """A constant array, or a scalar for each element of it."""
        array = np.broadcast_to(np.asarray(value).astype(shape.dtype.numpy), shape.dims)
        return self.make("constant", shape, literal=Literal(shape, array.copy()))

    def splat(self, shape: Shape, value: Any) -> Instruction:
        """An array of equal elements."""
        scalar = self.constant(array_shape(shape.dtype, ()), value)
        return scalar if shape.is_scalar else self.make("broadcast", shape, [scalar], dimensions=())

    # -- where this device is
    @property
    def device(self) -> Instruction:
        """The number of this device."""
        if self._device is None:
            self._device = self.make("partition-id", array_shape(u32, ()))
        return self._device

    def offset(self, factors: Factors, scale: int) -> Instruction:
        """`scale` times the number of this device's part."""
        key = factors, scale
        if key not in self._tables:
            table = self.constant(array_shape(s32, (self.devices,)), digits(factors, self.devices) * scale)
            one = self.make("dynamic-slice", array_shape(s32, (1,)), [table, self.device], dynamic_slice_sizes=(1,))
            self._tables[key] = self.make("reshape", array_shape(s32, ()), [one])
        return self._tables[key]

    # -- between devices
    def slice(self, part: PartitionedValue, dim: int, factors: Factors) -> PartitionedValue:
        """Cuts a dimension further."""
        if not factors:
            return part
        dims = list(part.shape.dims)
        dims[dim] //= extent(factors)
        zero = self.constant(array_shape(s32, ()), 0)
        starts = [zero] * len(dims)
        starts[dim] = self.offset(factors, dims[dim])
        shape = array_shape(part.shape.dtype, dims)
        value = self.make("dynamic-slice", shape, [part.value, *starts], dynamic_slice_sizes=tuple(dims))
        return PartitionedValue(value, part.tiles.with_dim(dim, part.tiles.dims[dim] + factors))

    def gather(self, part: PartitionedValue, dim: int, count: int) -> PartitionedValue:
        """Takes the cuts of a dimension by its last `count` factors back."""
        own = part.tiles.dims[dim]
        kept, factors = own[: len(own) - count], own[len(own) - count :]
        if not factors:
            return part
        if len({f.order for f in factors}) > 1:
            return self.gather(self.gather(part, dim, 1), dim, count - 1)
        dims = list(part.shape.dims)
        dims[dim] *= extent(factors)
        shape = array_shape(part.shape.dtype, dims)
        value = self.make("all-gather", shape, [part.value], dimensions=(dim,), **self.flattened(factors))
        return PartitionedValue(value, part.tiles.with_dim(dim, kept))

    def move(self, part: PartitionedValue, source: int, target: int, count: int) -> PartitionedValue:
        """Moves the last `count` factors of a dimension to the end of another's."""
        own = part.tiles.dims[source]
        kept, factors = own[: len(own) - count], own[len(own) - count :]
        n, dims = extent(factors), list(part.shape.dims)
        dtype = part.shape.dtype
        # [.., n, t/n, ..]: part k of the target dimension goes to member k, and what comes of it is joined
        split = [*dims[:target], n, dims[target] // n, *dims[target + 1 :]]
        cut = self.make("reshape", array_shape(dtype, split), [part.value])
        order = (target, *(d for d in range(len(split)) if d != target))
        shape = array_shape(dtype, [split[d] for d in order])
        outside = self.make("transpose", shape, [cut], dimensions=order)
        numbers = self.flattened(factors)
        numbers.pop("use_global_device_ids")
        sent = self.make("all-to-all", shape, [outside], dimensions=(0,), **numbers)
        dims[target] //= n
        back = [d + 1 for d in range(len(dims))]
        back.insert(source, 0)
        joined = self.make(
            "transpose", array_shape(dtype, [shape.dims[d] for d in back]), [sent], dimensions=tuple(back)
        )
        dims[source] *= n
        value = self.make("reshape", array_shape(dtype, dims), [joined])
        tiles = part.tiles.with_dim(source, kept)
        return PartitionedValue(value, tiles.with_dim(target, tiles.dims[target] + factors))

    def reduce(self, part: PartitionedValue, factors: Factors, region: Computation) -> PartitionedValue:
        """Combines what the devices that differ in the factors have."""
        if not factors:
            return part
        if len({f.order for f in factors}) > 1:
            return self.reduce(self.reduce(part, factors[:1], region), factors[1:], region)
        value = self.make("all-reduce", part.shape, [part.value], to_apply=region, **self.flattened(factors))
        return PartitionedValue(value, part.tiles)

    def flattened(self, factors: Factors) -> dict[str, Any]:
        """The attributes that say who takes part."""
        lists = tuple(map(tuple, groups(factors, self.devices)))
        return {
            "replica_groups": ReplicaGroups(lists),
            "channel_id": self.channels.take(),
            "use_global_device_ids": True,
        }

    def reshard(self, part: PartitionedValue, wanted: Tiles) -> PartitionedValue:
        """The part that another cut gives."""
        if part.tiles == wanted:
            return part
        part = self._settled(part, tuple(f for f in part.tiles.unreduced if f not in wanted.unreduced))
        for dim in range(len(part.tiles.dims)):
            part = self._spread(part, dim, wanted.unreduced)
        missing = tuple(f for f in wanted.unreduced if f not in part.tiles.unreduced)
        part = self._cut(part, wanted)
        part = self._unreduced(part, missing) if missing else part
        # in whichever order they came, what each device has is the same
        return PartitionedValue(part.value, Tiles(part.tiles.dims, wanted.unreduced))

    def _settled(self, part: PartitionedValue, factors: Factors) -> PartitionedValue:
        """Adds the terms that the devices have which differ in the factors."""
        tiles = Tiles(part.tiles.dims, tuple(f for f in part.tiles.unreduced if f not in factors))
        return (
            PartitionedValue(self.reduce(part, factors, addition(self.module, part.shape)).value, tiles)
            if factors
            else part
        )

    def _spread(self, part: PartitionedValue, dim: int, terms: Factors) -> PartitionedValue:
        """Where the last cuts of a dimension become terms of a sum: each part stays where it is, among zeros."""
        own = part.tiles.dims[dim]
        kept = len(own)
        while kept and own[kept - 1] in terms:
            kept -= 1
        factors = own[kept:]
        if not factors:
            return part
        dims = list(part.shape.dims)
        zero = self.constant(array_shape(s32, ()), 0)
        starts = [zero] * len(dims)
        starts[dim] = self.offset(factors, dims[dim])
        dims[dim] *= extent(factors)
        shape = array_shape(part.shape.dtype, dims)
        value = self.make("dynamic-update-slice", shape, [self.splat(shape, 0), part.value, *starts])
        tiles = part.tiles.with_dim(dim, own[:kept])
        return PartitionedValue(value, Tiles(tiles.dims, tiles.unreduced + factors))

    def _unreduced(self, part: PartitionedValue, factors: Factors) -> PartitionedValue:
        """Makes a value the sum of terms, of which all but one are zero."""
        number = self.offset(factors, 1)
        is_first = self.make("compare", array_shape(pred, ()), [number, self.constant(number.shape, 0)], direction="EQ")
        shape = part.shape
        everywhere = self.make("broadcast", array_shape(pred, shape.dims), [is_first], dimensions=())
        value = self.make("select", shape, [everywhere, part.value, self.splat(shape, 0)])
        return PartitionedValue(value, Tiles(part.tiles.dims, part.tiles.unreduced + factors))

    def _cut(self, part: PartitionedValue, wanted: Tiles) -> PartitionedValue:
        rank = len(wanted.dims)
        common = [_common(part.tiles.dims[d], wanted.dims[d]) for d in range(rank)]
        for source in range(rank):
            for target in range(rank):
                part = self._try_move(part, wanted, common, source, target)
        for dim in range(rank):  # first smaller, then larger
            rest = wanted.dims[dim][common[dim] :]
            is_free = not part.tiles.used & set(rest) and are_independent(part.tiles.used, rest)
            if len(part.tiles.dims[dim]) == common[dim] and is_free:
                part = self.slice(part, dim, rest)
        for dim in range(rank):
            if part.tiles.dims[dim] != wanted.dims[dim]:
                part = self.gather(part, dim, len(part.tiles.dims[dim]) - common[dim])
        for dim in range(rank):
            if part.tiles.dims[dim] != wanted.dims[dim]:
                part = self.slice(part, dim, wanted.dims[dim][common[dim] :])
        return part

    def _try_move(
        self, part: PartitionedValue, wanted: Tiles, common: list[int], source: int, target: int
    ) -> PartitionedValue:
        extra = part.tiles.dims[source][common[source] :]
        fits = (
            extra
            and source != target
            and part.tiles.dims[target] == wanted.dims[target][: common[target]]
            and extra == wanted.dims[target][common[target] :]
            and len({f.order for f in extra}) == 1
        )
        return self.move(part, source, target, len(extra)) if fits else part

    def whole(self, part: PartitionedValue) -> PartitionedValue:
        """All of the value."""
        return self.reshard(part, Tiles.whole(len(part.tiles.dims)))

    def padded(self, part: PartitionedValue, dims: Sequence[int]) -> PartitionedValue:
        """All of a value, with zeros at its ends."""
        value = self.whole(part).value
        zero = self.constant(array_shape(value.shape.dtype, ()), 0)
        edges = tuple(PaddingDimension(0, new - old) for old, new in zip(value.shape.dims, dims, strict=True))
        padded = self.make("pad", array_shape(value.shape.dtype, dims), [value, zero], padding=edges)
        return PartitionedValue(padded, Tiles.whole(len(edges)))

    def without_padding(self, part: PartitionedValue, dims: Sequence[int]) -> PartitionedValue:
        """All of a value, of which parts of one with more at its ends are given."""
        value = self.whole(part).value
        limits = tuple(SliceDimension(0, d) for d in dims)
        return PartitionedValue(
            self.make("slice", array_shape(value.shape.dtype, dims), [value], slice=limits), Tiles.whole(len(limits))
        )


def addition(module: Module, shape: Shape) -> Computation:
    """A computation that adds two elements; of pred it is the logical or."""
    scalar = array_shape(shape.dtype, ())
    region = Computation("add")
    operands = [
        region.add(Instruction(n, "parameter", scalar, (), {"parameter_number": k})) for k, n in enumerate("xy")
    ]
    region.root = region.add(Instruction("sum", "add", scalar, operands))
    return module.add(region)


def _common(first: Factors, second: Factors) -> int:
    count = 0
    for a, b in zip(first, second, strict=False):
        if a != b:
            break
        count += 1
    return count
