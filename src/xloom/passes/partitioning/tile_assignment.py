"""How a value is cut over devices: for each dimension the factors of the device numbers that choose the part."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from xloom.hlo.device_mesh import Axis, Iota, Mesh, _prime_factors
from xloom.hlo.sharding import MeshSharding, Sharding


class Factor(NamedTuple):
    """A digit of a device's place among the devices: `place // stride % size`; the size is prime."""

    order: tuple[int, ...]
    """The devices by place; empty for 0, 1, 2, ..."""
    stride: int
    size: int


Factors = tuple[Factor, ...]


@dataclass(frozen=True)
class Tiles:
    """The factors by dimension, major to minor. Factors that no dimension has hold copies."""

    dims: tuple[Factors, ...]
    unreduced: Factors = ()
    """Devices that differ here hold terms of a sum."""

    @staticmethod
    def whole(rank: int) -> Tiles:
        """Every device has all of it."""
        return Tiles(((),) * rank)

    def count(self, dim: int) -> int:
        """The number of parts of a dimension."""
        return extent(self.dims[dim])

    @property
    def used(self) -> frozenset[Factor]:
        """The factors that cut."""
        return frozenset(f for factors in self.dims for f in factors)

    @property
    def settled(self) -> Tiles:
        """The same without terms of sums."""
        return Tiles(self.dims)

    @property
    def is_whole(self) -> bool:
        """True when nothing is cut."""
        return not any(self.dims) and not self.unreduced

    def local(self, dims: Sequence[int]) -> tuple[int, ...]:
        """The dimensions of a part of an array of `dims`."""
        return tuple(d // extent(f) for d, f in zip(dims, self.dims, strict=True))

    def padded(self, dims: Sequence[int]) -> tuple[int, ...]:
        """The dimensions of the least array around one of `dims` whose parts are equally large."""
        return tuple(-(-d // extent(f)) * extent(f) for d, f in zip(dims, self.dims, strict=True))

    def fitting(self, dims: Sequence[int]) -> Tiles:
        """The same, as far as all parts are equally large and no factor is used twice."""
        seen: set[Factor] = set()
        kept = []
        for size, factors in zip(dims, self.dims, strict=True):
            own: list[Factor] = []
            for factor in factors:
                if factor in seen or size % (extent(own) * factor.size):
                    break
                own.append(factor)
                seen.add(factor)
            kept.append(tuple(own))
        return Tiles(tuple(kept), self.unreduced)

    def without(self, factors: Iterable[Factor]) -> Tiles:
        """With the given factors taken out."""
        gone = frozenset(factors)
        return Tiles(
            tuple(tuple(f for f in own if f not in gone) for own in self.dims),
            tuple(f for f in self.unreduced if f not in gone),
        )

    def with_dim(self, dim: int, factors: Factors) -> Tiles:
        """With other factors for one dimension."""
        return Tiles((*self.dims[:dim], factors, *self.dims[dim + 1 :]), self.unreduced)


def extent(factors: Iterable[Factor]) -> int:
    """How many parts the factors tell apart."""
    return math.prod(f.size for f in factors)


def digits(factors: Factors, devices: int) -> np.ndarray:
    """Which part each device has."""
    part = np.zeros(devices, np.int64)
    for factor in factors:
        part = part * factor.size + _place(factor.order, devices) // factor.stride % factor.size
    return part


def groups(factors: Factors, devices: int) -> list[list[int]]:
    """The devices that differ in the factors alone, each group in the order of the parts."""
    (order,) = {f.order for f in factors}
    rest = _place(order, devices)
    for factor in factors:
        rest = rest - rest // factor.stride % factor.size * factor.stride
    part = digits(factors, devices)
    found: dict[int, list[int]] = {}
    for device in np.argsort(part, kind="stable").tolist():
        found.setdefault(int(rest[device]), []).append(device)
    return [found[key] for key in sorted(found)]


def _place(order: tuple[int, ...], devices: int) -> np.ndarray:
    return np.argsort(order) if order else np.arange(devices)


def factors_of(order: tuple[int, ...], stride: int, size: int) -> Factors:
    """The factors of a digit of any size."""
    found = []
    for prime in _prime_factors(size):
        size //= prime
        found.append(Factor(order, stride * size, prime))
    return tuple(found)


# -- shardings as HLO writes them
def tiles_of(sharding: Sharding | None, rank: int, devices: int) -> Tiles:
    """The tiles of a value of that rank; what is not tiled is whole."""
    if sharding is not None and sharding.kind == "unreduced":
        return Tiles(((),) * rank, factors_of((), 1, devices))
    if sharding is None or sharding.kind not in ("tiled", "named"):
        return Tiles.whole(rank)
    if sharding.kind == "tiled":
        return _of_tiled(sharding, rank)
    mesh_sharding = sharding.mesh_sharding
    assert mesh_sharding is not None
    if mesh_sharding.mesh.maximal:
        return Tiles.whole(rank)
    return _of_named(mesh_sharding, rank, devices)


def _of_tiled(sharding: Sharding, rank: int) -> Tiles:
    devices = sharding.devices
    order = tuple((devices.array().reshape(-1).tolist()) if isinstance(devices, Iota) else devices or ())
    sizes = sharding.tile_dims
    strides = [math.prod(sizes[k + 1 :]) for k in range(len(sizes))]
    dims = _natural([factors_of(order, stride, size) for stride, size in zip(strides, sizes, strict=True)])
    terms = [f for f, kind in zip(dims[rank:], sharding.last_tile_dims, strict=False) if kind == "unreduced"]
    return Tiles(tuple(dims[:rank]), terms[0] if terms else ())


def _natural(rows: list[Factors]) -> list[Factors]:
    """The same by factors of the devices 0, 1, 2, ..., if there are such for all of them.

    Only factors of one order are independent of each other, so that it is all or none.
    """
    found = {f: _natural_factor(f) for factors in rows for f in factors}
    if None in found.values():
        return rows
    return [tuple(found[f] or f for f in factors) for factors in rows]


def _natural_factor(factor: Factor) -> Factor | None:
    order = factor.order
    if not order:
        return factor
    places = np.arange(len(order))
    wanted = np.empty(len(order), np.int64)
    wanted[list(order)] = places // factor.stride % factor.size
    for stride in range(1, len(order)):
        if len(order) % (stride * factor.size) == 0 and (places // stride % factor.size == wanted).all():
            return Factor((), stride, factor.size)
    return None


def are_independent(*sets: Iterable[Factor]) -> bool:
    """Whether devices can differ in each of the factors and not in the others: those of one order are."""
    return len({f.order for factors in sets for f in factors}) <= 1


def _of_named(sharding: MeshSharding, rank: int, devices: int) -> Tiles:
    mesh = sharding.mesh

    def factors(axes: Iterable[Axis]) -> Factors:
        return tuple(f for axis in axes for f in axis_factors(mesh, axis))

    dims = tuple(factors(d.axes) for d in sharding.dims)
    return Tiles(dims if len(dims) == rank else ((),) * rank, factors(sharding.unreduced))


def axis_factors(mesh: Mesh, axis: Axis) -> Factors:
    """The factors of an axis of a mesh, or of a part of it."""
    order = () if mesh.devices is None else tuple(mesh.array().reshape(-1).tolist())
    stride, whole = math.prod(mesh.sizes[axis.index + 1 :]), mesh.sizes[axis.index]
    if axis.size:
        stride *= whole // (axis.pre_size * axis.size)
        whole = axis.size
    return factors_of(order, stride, whole)


def sharding_of(tiles: Tiles, devices: int) -> Sharding:
    """The sharding that HLO writes for it."""
    if tiles.is_whole:
        return Sharding("replicated")
    counts = [extent(f) for f in (*tiles.dims, tiles.unreduced)]
    parts = np.stack([digits(f, devices) for f in (*tiles.dims, tiles.unreduced)] + [np.arange(devices)])
    order = np.lexsort(parts[::-1])
    copies = devices // math.prod(counts)
    return Sharding.tiled((*counts, copies), tuple(order.tolist()), ("unreduced", "replicated"))
