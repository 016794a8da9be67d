"""Shardings and replica groups: which devices hold which part of a value, and which take part together."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from xloom.errors import ShapeError
from xloom.hlo.attributes import Metadata
from xloom.hlo.device_mesh import Axis, Iota, Mesh
from xloom.hlo.shape import Shape
from xloom.hlo.text.metadata import print_metadata

LAST_TILE_DIMS = ("maximal", "manual", "unreduced", "replicated")
"""What a trailing tile dimension can mean, in the order in which XLA keeps them."""


@dataclass(frozen=True, slots=True)
class ReplicaGroups:
    """Groups of devices of a collective: a list of lists, an iota of two dimensions, or axes of a mesh."""

    lists: tuple[tuple[int, ...], ...] = ()
    iota: Iota | None = None
    mesh: Mesh | None = None
    axes: tuple[Axis, ...] = ()

    def __post_init__(self) -> None:
        if self.iota is not None and len(self.iota.dims) != 2:
            raise ShapeError(
                f"iota replica groups have 2 dimensions, found {len(self.iota.dims)}",
                hint="write groups x members, as in [2,4]<=[8]",
            )
        if self.mesh is not None:
            self.mesh.check_axes([self.axes])

    def groups(self, device_count: int) -> list[list[int]]:
        """The groups; without any written, one group of all devices."""
        if self.iota is not None:
            return self.iota.array().tolist()
        if self.mesh is not None:
            return self._mesh_groups(self.mesh)
        if not self.lists or self.lists == ((),):
            return [list(range(device_count))]
        return [list(g) for g in self.lists]

    def _mesh_groups(self, mesh: Mesh) -> list[list[int]]:
        # cut each axis at the ends of the parts that are used: 'x':(2)4 of an axis of 16 is the middle of 2, 4, 2
        dims: list[int] = []
        place: dict[Axis, int] = {}
        for index, size in enumerate(mesh.sizes):
            major = 1
            for axis in sorted((a for a in self.axes if a.index == index), key=lambda a: a.order):
                start, extent = axis.pre_size or 1, mesh.size(axis)
                if start != major:
                    dims.append(start // major)
                place[axis] = len(dims)
                dims.append(extent)
                major = start * extent
            if major != size or not dims:
                dims.append(size // major)
        inside = [place[a] for a in self.axes]
        outside = [k for k in range(len(dims)) if k not in inside]
        count = math.prod(dims[k] for k in inside)
        return mesh.array().reshape(dims).transpose([*outside, *inside]).reshape(-1, count).tolist()

    def __str__(self) -> str:
        if self.iota is not None:
            return str(self.iota)
        if self.mesh is not None:
            return f"{self.mesh} {{{','.join(map(self.mesh.axis_text, self.axes))}}}"
        return f"{{{','.join(f'{{{_join(g)}}}' for g in self.lists)}}}"


def _join(values: Sequence[int]) -> str:
    return ",".join(map(str, values))


class DimensionAxes(NamedTuple):
    """How one dimension of a value is split on a mesh; an open one may be split further by propagation."""

    axes: tuple[Axis, ...] = ()
    closed: bool = True


@dataclass(frozen=True, slots=True)
class MeshSharding:
    """A sharding by named axes. Axes that are nowhere mentioned hold copies."""

    mesh: Mesh
    dims: tuple[DimensionAxes, ...] = ()
    replicated: tuple[Axis, ...] = ()
    unreduced: tuple[Axis, ...] = ()
    manual: tuple[Axis, ...] = ()

    def __post_init__(self) -> None:
        self.mesh.check_axes([*(d.axes for d in self.dims), self.replicated, self.unreduced, self.manual])
        for axes in (self.replicated, self.unreduced, self.manual):
            if list(axes) != sorted(axes, key=lambda a: a.order):
                raise ShapeError(
                    "replicated, unreduced and manual axes stand in the mesh's order",
                    hint="sort them as the mesh has them",
                )

    def _covers(self, axes: tuple[Axis, ...]) -> bool:
        """True when `axes` are all the axes of the mesh that are longer than 1."""
        mentioned = [a.index for a in axes]
        short = (k in mentioned or s == 1 for k, s in enumerate(self.mesh.sizes))
        return bool(axes) and not any(a.size for a in axes) and all(short)

    def __str__(self) -> str:
        text = str(self.mesh)
        if self.mesh.maximal:
            return text
        if not self.dims:
            if not (self.replicated or self.unreduced or self.manual):
                return f"{text}, replicated"
            if self._covers(self.unreduced):
                return f"{text}, unreduced"
            if self._covers(self.manual):
                return f"{text}, manual"
        axis_text = self.mesh.axis_text
        dims = (f"{{{', '.join([*map(axis_text, d.axes), *(() if d.closed else '?')])}}}" for d in self.dims)
        text += f", [{', '.join(dims)}]"
        for name, axes in (("replicated", self.replicated), ("unreduced", self.unreduced), ("manual", self.manual)):
            if axes:
                text += f", {name}={{{', '.join(map(axis_text, axes))}}}"
        return text


@dataclass(frozen=True, slots=True)
class Sharding:
    """How a value is split over devices.

    `kind` is replicated, manual, maximal (all on one device), unknown, unreduced, tiled, named (`mesh_sharding`), or
    tuple (`elements`: one for each leaf). A tiled one splits dimension i into `tile_dims[i]`; its trailing tile
    dimensions are subgroups of the kinds `last_tile_dims`, or copies when `replicate_last`.
    """

    kind: str
    devices: Iota | tuple[int, ...] | None = None
    tile_dims: tuple[int, ...] = ()
    last_tile_dims: tuple[str, ...] = ()
    replicate_last: bool = False
    shard_group: tuple[str, int] | None = None
    metadata: tuple[Metadata, ...] = ()
    elements: tuple[Sharding, ...] = ()
    mesh_sharding: MeshSharding | None = None

    # -- making
    @staticmethod
    def tiled(dims: tuple[int, ...], devices: Iota | tuple[int, ...], last_tile_dims: tuple[str, ...] = ()) -> Sharding:
        """A tiled sharding in XLA's canonical form: subgroups merged and ordered, those of size 1 dropped.

        Raises ShapeError when devices and tiles do not match.
        """
        if not isinstance(devices, Iota) and len(devices) != math.prod(dims):
            raise ShapeError(
                f"{len(devices)} devices for {math.prod(dims)} tiles", hint="there are as many devices as tiles"
            )
        if not last_tile_dims:
            return Sharding("tiled", devices, dims)
        count = len(dims) - len(last_tile_dims)
        if count < 0:
            raise ShapeError(
                f"{len(last_tile_dims)} last tile dimensions in {len(dims)} tile dimensions",
                hint="they are the last of the tile dimensions",
            )
        first = last_tile_dims[0]
        if set(last_tile_dims) == {first} and math.prod(dims[:count]) == 1 and first != "maximal":
            return Sharding(first)
        places = {kind: [count + k for k, t in enumerate(last_tile_dims) if t == kind] for kind in LAST_TILE_DIMS}
        places = {kind: kept for kind, at in places.items() if (kept := [d for d in at if dims[d] != 1])}
        merged = dims[:count] + tuple(math.prod(dims[d] for d in at) for at in places.values())
        if len(places) != 1 or len(merged) != len(dims):
            order = [*range(count), *(d for at in places.values() for d in at)]
            order += [d for d in range(len(dims)) if d not in order]
            devices = _transposed(devices, dims, tuple(order), merged)
        return _with_subgroups(merged, devices, tuple(places))

    @staticmethod
    def tuple_of(elements: Sequence[Sharding]) -> Sharding:
        """The sharding of a tuple: one for each leaf of its shape."""
        return Sharding("tuple", elements=tuple(elements))

    def normalized(self, shape: Shape) -> Sharding:
        """The sharding of a value of `shape`: a single one is repeated for each leaf of a tuple."""
        if not shape.is_tuple or self.kind == "tuple":
            return self
        return Sharding.tuple_of([self] * max(1, sum(1 for _ in shape.leaves())))

    # -- text
    def to_text(self, metadata: bool = True) -> str:
        """HLO text, with or without the metadata."""
        if self.kind == "tuple":
            out = []
            for k, element in enumerate(self.elements):
                out.append(f"{', ' if k else ''}{f'/*index={k}*/' if k and k % 5 == 0 else ''}")
                out.append(element.to_text(metadata))
            return f"{{{''.join(out)}}}"
        group = f" {self.shard_group[0]} {self.shard_group[1]}" if self.shard_group else ""
        described = _metadata_text(self.metadata, always_listed=self.kind == "named") if metadata else ""
        if self.kind == "named":
            return f"{{{self.mesh_sharding}{',' * bool(described)}{described}}}"
        return f"{{{self._kind_text()}{group}{described}}}"

    def _kind_text(self) -> str:
        devices = self.devices
        if self.kind == "maximal" and isinstance(devices, tuple):
            return f"maximal device={devices[0]}"
        if self.kind != "tiled":
            return self.kind
        text = str(devices) if not isinstance(devices, tuple) else f"[{_join(self.tile_dims)}]{_join(devices)}"
        if self.replicate_last:
            text += " last_tile_dim_replicate"
        if self.last_tile_dims:
            text += f" last_tile_dims={{{', '.join(self.last_tile_dims)}}}"
        return f"devices={text}"

    def __str__(self) -> str:
        return self.to_text()


def _metadata_text(entries: tuple[Metadata, ...], always_listed: bool) -> str:
    texts = list(map(print_metadata, entries))
    if not texts:
        return ""
    if len(texts) == 1 and not always_listed:
        return f" metadata={{{texts[0]}}}"
    return f" metadata={{{', '.join(f'{{{t}}}' for t in texts)}}}"


def _transposed(
    devices: Iota | tuple[int, ...], dims: tuple[int, ...], order: tuple[int, ...], merged: tuple[int, ...]
) -> Iota | tuple[int, ...]:
    """The devices of tiles `dims` with the dimensions in another order, then merged."""
    if isinstance(devices, Iota):
        iota = devices.transposed(order)
        if iota is not None:
            return iota.reshaped(merged)
        array = devices.array()
    else:
        array = np.array(devices).reshape(dims)
    return tuple(array.transpose(order).reshape(-1).tolist())


def _with_subgroups(dims: tuple[int, ...], devices: Iota | tuple[int, ...], kinds: tuple[str, ...]) -> Sharding:
    """A tiled sharding whose `kinds` are ordered, distinct and larger than 1."""
    if kinds in (("manual",), ("replicated",)) and math.prod(dims) == dims[-1]:
        return Sharding(kinds[0])
    if not kinds or kinds[-1] != "replicated":
        return Sharding("tiled", devices, dims, kinds)
    # who holds a copy has no order, so that each group of copies is kept sorted
    tiled = Sharding("tiled", _sorted_groups(devices, dims[-1]), dims)
    return replace(tiled, replicate_last=True) if len(kinds) == 1 else replace(tiled, last_tile_dims=kinds)


def _sorted_groups(devices: Iota | tuple[int, ...], size: int) -> Iota | tuple[int, ...]:
    if isinstance(devices, Iota):
        if devices.reshape[devices.permutation[-1]] == size:
            return devices
        iota = devices.minor_sorted(size)
        if iota is not None:
            return iota
        devices = tuple(devices.array().reshape(-1).tolist())
    return tuple(np.sort(np.array(devices).reshape(-1, size), axis=1).reshape(-1).tolist())
