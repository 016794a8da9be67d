"""Operators that move elements."""

from __future__ import annotations

import math

from tests.judges.programs.scene import MOST_ELEMENTS, Bits, Scene, Value, family
from xloom.hlo.attributes import PaddingDimension, SliceDimension
from xloom.hlo.dtype import DTYPES


@family(4)
def broadcast(scene: Scene) -> None:
    """Into new dimensions, at any places in order."""
    x = scene.any()
    if x.shape.rank > 4 or x.shape.size * 2 > MOST_ELEMENTS:
        return
    extra = scene.chance.randint(1, 5 - x.shape.rank)
    added = list(scene.dims(extra, most=MOST_ELEMENTS // max(1, x.shape.size)))
    places = sorted(scene.chance.sample(range(x.shape.rank + extra), x.shape.rank))
    sizes = iter(x.shape.dims)
    dims = [next(sizes) if k in places else added.pop() for k in range(x.shape.rank + extra)]
    scene.emit("broadcast", x, moves=True, shape=x.dtype[tuple(dims)], dimensions=tuple(places))


@family(4)
def reshape(scene: Scene) -> None:
    """To a random factorisation of the size."""
    x = scene.any()
    if not x.shape.size:
        dims = [*x.shape.dims]
        scene.chance.shuffle(dims)
    else:
        dims, rest = [], x.shape.size
        while rest > 1 and len(dims) < 4:
            factor = scene.chance.choice([f for f in range(1, rest + 1) if rest % f == 0])
            dims.append(factor)
            rest //= factor
        dims += [rest] if rest > 1 else [1] * scene.chance.choice((0, 0, 1))
    scene.emit("reshape", x, moves=True, shape=x.dtype[tuple(dims)])


@family(4)
def transpose(scene: Scene) -> None:
    """A random permutation."""
    x = scene.any(least_rank=2)
    order = [*range(x.shape.rank)]
    scene.chance.shuffle(order)
    scene.emit("transpose", x, moves=True, dimensions=tuple(order))


@family(4)
def slice_(scene: Scene) -> None:
    """Starts, limits and strides, empty ones too."""
    x = scene.any(least_rank=1)
    ranges = []
    for size in x.shape.dims:
        start = scene.chance.randint(0, size)
        limit = scene.chance.randint(start, size)
        if limit == start and scene.flip(0.9):
            start, limit = 0, size
        ranges.append(SliceDimension(start, limit, scene.chance.choice((1, 1, 1, 2, 3))))
    dims = tuple(math.ceil((r.limit - r.start) / r.stride) for r in ranges)
    scene.emit("slice", x, moves=True, shape=x.dtype[dims], slice=tuple(ranges))


@family(3)
def pad(scene: Scene) -> None:
    """Positive, negative and interior padding."""
    x = scene.any(least_rank=1)
    padding = []
    for size in x.shape.dims:
        interior = scene.chance.choice((0, 0, 0, 1, 2))
        total = size + max(0, size - 1) * interior
        low = scene.chance.choice((0, 0, 1, 2, -1, -2))
        high = scene.chance.choice((0, 0, 1, 3, -1, -3))
        if total + low + high < 0:
            low, high = 0, 0
        padding.append(PaddingDimension(low, high, interior))
    if math.prod(
        s + max(0, s - 1) * p.interior + p.low + p.high for s, p in zip(x.shape.dims, padding, strict=True)
    ) > (2 * MOST_ELEMENTS):
        return
    scene.emit("pad", x, scene.like(x.dtype[()]), moves=True, padding=tuple(padding))


@family(3)
def concatenate(scene: Scene) -> None:
    """Two to four operands."""
    x = scene.any(least_rank=1)
    dim = scene.chance.randrange(x.shape.rank)

    def fits(value: Value) -> bool:
        a, b = list(value.shape.dims), list(x.shape.dims)
        if value.dtype is not x.dtype or len(a) != len(b):
            return False
        a[dim] = b[dim] = 0
        return a == b

    parts = [x]
    for _ in range(scene.chance.randint(1, 3)):
        dims = list(x.shape.dims)
        dims[dim] = scene.chance.choice((1, 2, 3, dims[dim]))
        parts.append(scene.pick(fits, lambda dims=dims: x.dtype[tuple(dims)]))
        if sum(p.shape.size for p in parts) > MOST_ELEMENTS:
            break
    scene.emit("concatenate", *parts, moves=True, dimensions=(dim,))


@family(1.5)
def reverse(scene: Scene) -> None:
    """Along some dimensions."""
    x = scene.any(least_rank=1)
    count = scene.chance.randint(1, x.shape.rank)
    scene.emit("reverse", x, moves=True, dimensions=tuple(sorted(scene.chance.sample(range(x.shape.rank), count))))


@family(1)
def iota(scene: Scene) -> None:
    """Of any type that can count that far."""
    dims = scene.dims(scene.chance.randint(1, 3))
    dim = scene.chance.randrange(len(dims))
    names = (
        ("s32", "u32", "s64", "f32", "f64", "u8", "c64") if dims[dim] >= 16 else ("s32", "bf16", "f16", "s8", "c128")
    )
    scene.keep(scene.builder.iota(shape=DTYPES[scene.chance.choice(names)][dims], iota_dimension=dim), Bits.GIVEN)
