"""Values nested in tuples, and the parts of their leaves."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from xloom.hlo.instruction import Instruction
from xloom.hlo.shape import Shape, array_shape, tuple_shape
from xloom.passes.partitioning.resharding import Emitter, PartitionedValue
from xloom.passes.partitioning.tile_assignment import Tiles


def leaves(shape: Shape) -> list[Shape]:
    """Arrays and tokens, in order."""
    return [leaf for e in shape.elements for leaf in leaves(e)] if shape.is_tuple else [shape]


def whole(shape: Shape) -> Tiles:
    """Of a leaf that every device has all of."""
    return Tiles.whole(shape.rank if shape.is_array else 0)


def local(shape: Shape, tiles: Tiles) -> Shape:
    """Of a part of a leaf."""
    return array_shape(shape.dtype, tiles.local(shape.dims)) if shape.is_array else shape


def packed_shape(shape: Shape, parts: Iterable[Shape]) -> Shape:
    """`shape` with other leaves."""
    left = iter(parts)
    return tuple_shape([packed_shape(e, left) for e in shape.elements]) if shape.is_tuple else next(left)


def packed(e: Emitter, shape: Shape, parts: Iterable[PartitionedValue]) -> Instruction:
    """Leaves as a value nested as `shape` is."""
    left = iter(parts)
    if not shape.is_tuple:
        return next(left).value
    values = [packed(e, element, left) for element in shape.elements]
    return e.make("tuple", tuple_shape([v.shape for v in values]), values)


def parts_of(e: Emitter, value: Instruction, tiles: Sequence[Tiles]) -> list[PartitionedValue]:
    """The leaves of a value."""
    left = iter(tiles)

    def walk(v: Instruction) -> list[PartitionedValue]:
        if not v.shape.is_tuple:
            return [PartitionedValue(v, next(left))]
        return [
            part for k, s in enumerate(v.shape.elements) for part in walk(e.make("get-tuple-element", s, [v], index=k))
        ]

    return walk(value)
