"""Shardings and replica groups out of and into protos."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace
from functools import lru_cache
from typing import Any

from xloom.errors import ShapeError
from xloom.hlo.device_mesh import Axis, Iota, Mesh
from xloom.hlo.proto.annotations import metadata_from_message, raw, text, write_metadata
from xloom.hlo.proto.schema import messages
from xloom.hlo.sharding import DimensionAxes, MeshSharding, ReplicaGroups, Sharding

_TYPES = {0: "replicated", 1: "maximal", 2: "tuple", 3: "tiled", 4: "manual", 5: "unknown", 6: "unreduced"}
_NUMBERS = {kind: number for number, kind in _TYPES.items()}
_GROUPS = {0: "shard_as", 1: "shard_like"}


@lru_cache(maxsize=4096)
def sharding_from_bytes(data: bytes) -> Sharding:
    """The sharding that a serialised OpSharding says, in canonical form. Raises ShapeError."""
    return _sharding(messages().OpSharding.FromString(data))


@lru_cache(maxsize=4096)
def sharding_to_bytes(sharding: Sharding) -> bytes:
    """A serialised OpSharding."""
    message = messages().OpSharding()
    _write_sharding(sharding, message)
    return message.SerializeToString()


def _sharding(message: Any) -> Sharding:
    metadata = tuple(metadata_from_message(m) for m in message.metadata)
    if message.HasField("named_sharding"):
        return _named(message.named_sharding)
    kind = _TYPES.get(message.type)
    if kind is None:
        raise ShapeError(
            f"there is no sharding type number {message.type}",
            hint="it may be of a newer XLA: write it by the jaxlib that is installed, or as HLO text",
        )
    if kind == "tuple":
        elements = [_sharding(m) for m in message.tuple_shardings]
        if any(e.kind == "tuple" for e in elements):
            raise ShapeError("the elements of a tuple sharding are not tuples")
        return Sharding.tuple_of(elements)
    group = None
    if message.is_shard_group:
        group = (_GROUPS.get(message.shard_group_type, "shard_like"), message.shard_group_id)
    if kind == "maximal":
        if len(message.tile_assignment_devices) != 1:
            raise ShapeError(f"a maximal sharding has one device, found {len(message.tile_assignment_devices)}")
        sharding = Sharding(kind, tuple(message.tile_assignment_devices))
    elif kind == "tiled":
        sharding = _tiled(message)
    else:
        sharding = Sharding(kind)
    return replace(sharding, shard_group=group, metadata=metadata)


def _tiled(message: Any) -> Sharding:
    dims = tuple(message.tile_assignment_dimensions)
    last_tile_dims = []
    for number in message.last_tile_dims:
        kind = _TYPES.get(number, "")
        if kind not in ("replicated", "maximal", "manual", "unreduced"):
            raise ShapeError(
                f"a last tile dimension cannot be of type number {number}",
                hint="it may be of a newer XLA: write it by the jaxlib that is installed, or as HLO text",
            )
        last_tile_dims.append(kind)
    if message.replicate_on_last_tile_dim:
        last_tile_dims.append("replicated")
    devices: Iota | tuple[int, ...] = tuple(message.tile_assignment_devices)
    reshape = tuple(message.iota_reshape_dims)
    if not reshape and not devices:
        raise ShapeError("a tiled sharding has devices")
    if math.prod(reshape) == 1 and len(devices) <= 1:
        return Sharding("replicated")
    if not dims or min(dims) < 1:
        raise ShapeError(f"tile dimensions {list(dims)} are not positive")
    if reshape:
        devices = Iota.of(dims, reshape, tuple(message.iota_transpose_perm))
    return Sharding.tiled(dims, devices, tuple(last_tile_dims))


def _named(message: Any) -> Sharding:
    dims = tuple(DimensionAxes(_axes(d.axes), d.is_closed) for d in message.dim_shardings)
    named = MeshSharding(
        _mesh(message.mesh),
        dims,
        _axes(message.replicated_axes),
        _axes(message.unreduced_axes),
        _axes(message.manual_axes),
    )
    metadata = tuple(metadata_from_message(m) for m in message.metadata)
    return Sharding("named", mesh_sharding=named, metadata=metadata)


def _axes(fields: Iterable[Any]) -> tuple[Axis, ...]:
    out = []
    for message in fields:
        if message.HasField("sub_axis_info"):
            sub = message.sub_axis_info
            if sub.pre_size < 1 or sub.size < 2:
                raise ShapeError(f"({sub.pre_size}){sub.size} is not a part of an axis")
            out.append(Axis(message.mesh_axis_index, sub.pre_size, sub.size))
        else:
            out.append(Axis(message.mesh_axis_index))
    return tuple(out)


def _mesh(message: Any) -> Mesh:
    sizes = tuple(a.size for a in message.axes)
    devices: Iota | tuple[int, ...] | None = tuple(message.device_ids) or None
    if devices is not None and not sizes and len(devices) != 1:
        raise ShapeError(f"a mesh without axes has one device, found {len(devices)}")
    if message.HasField("iota_transform"):
        transform = message.iota_transform
        iota = Iota.of(sizes, tuple(transform.reshape_dims), tuple(transform.transpose_perm))
        devices = iota if len(iota.reshape) > 1 else None
    return Mesh(tuple(text(a.name) for a in message.axes), sizes, devices)


def _write_sharding(sharding: Sharding, message: Any) -> None:
    if sharding.mesh_sharding is not None:
        _write_named(sharding, sharding.mesh_sharding, message.named_sharding)
        return
    message.type = _NUMBERS[sharding.kind]
    for element in sharding.elements:
        _write_sharding(element, message.tuple_shardings.add())
    for metadata in sharding.metadata:
        write_metadata(metadata, message.metadata.add())
    if isinstance(sharding.devices, Iota):
        message.iota_reshape_dims.extend(sharding.devices.reshape)
        message.iota_transpose_perm.extend(sharding.devices.permutation)
    elif sharding.devices is not None:
        message.tile_assignment_devices.extend(sharding.devices)
    elif sharding.kind != "tuple":
        message.tile_assignment_devices.append(0)
    message.tile_assignment_dimensions.extend(sharding.tile_dims)
    message.last_tile_dims.extend(_NUMBERS[kind] for kind in sharding.last_tile_dims)
    if sharding.replicate_last:
        message.replicate_on_last_tile_dim = True
    if sharding.shard_group is not None:
        message.is_shard_group = True
        message.shard_group_type = 0 if sharding.shard_group[0] == _GROUPS[0] else 1
        message.shard_group_id = sharding.shard_group[1]


def _write_named(sharding: Sharding, named: MeshSharding, message: Any) -> None:
    _write_mesh(named.mesh, message.mesh)
    for dimension in named.dims:
        added = message.dim_shardings.add(is_closed=dimension.closed)
        _write_axes(dimension.axes, added.axes)
    _write_axes(named.replicated, message.replicated_axes)
    _write_axes(named.unreduced, message.unreduced_axes)
    _write_axes(named.manual, message.manual_axes)
    for metadata in sharding.metadata:
        write_metadata(metadata, message.metadata.add())


def _write_axes(axes: tuple[Axis, ...], field: Any) -> None:
    for axis in axes:
        added = field.add(mesh_axis_index=axis.index)
        if axis.size:
            added.sub_axis_info.pre_size = axis.pre_size
            added.sub_axis_info.size = axis.size


def _write_mesh(mesh: Mesh, message: Any) -> None:
    message.SetInParent()
    for name, size in zip(mesh.names, mesh.sizes, strict=True):
        message.axes.add(name=raw(name), size=size)
    if isinstance(mesh.devices, Iota):
        message.iota_transform.reshape_dims.extend(mesh.devices.reshape)
        message.iota_transform.transpose_perm.extend(mesh.devices.permutation)
    elif mesh.devices is not None:
        message.device_ids.extend(mesh.devices)


def replica_groups_from_instruction(message: Any) -> ReplicaGroups:
    """The replica groups of a collective, in whichever of the fields they are. Raises ShapeError."""
    if message.HasField("iota_collective_device_list"):
        listed = message.iota_collective_device_list
        dims = (listed.num_replica_groups, listed.num_devices_per_group)
        return ReplicaGroups(iota=Iota.of(dims, tuple(listed.iota_reshape_dims), tuple(listed.iota_transpose_perm)))
    if message.HasField("mesh_axes_replica_group_list"):
        listed = message.mesh_axes_replica_group_list
        return ReplicaGroups(mesh=_mesh(listed.mesh), axes=_axes(listed.axes))
    groups = message.replica_groups or message.collective_device_list.replica_groups
    return ReplicaGroups(tuple(tuple(g.replica_ids) for g in groups))


def write_replica_groups(groups: ReplicaGroups | None, message: Any) -> None:
    """Fills the field of an instruction that is for this form of replica groups."""
    if groups is not None and groups.iota is not None:
        listed = message.iota_collective_device_list
        listed.num_replica_groups, listed.num_devices_per_group = groups.iota.dims
        listed.iota_reshape_dims.extend(groups.iota.reshape)
        listed.iota_transpose_perm.extend(groups.iota.permutation)
    elif groups is not None and groups.mesh is not None:
        listed = message.mesh_axes_replica_group_list
        _write_mesh(groups.mesh, listed.mesh)
        _write_axes(groups.axes, listed.axes)
    else:
        message.collective_device_list.SetInParent()
        for group in groups.lists if groups is not None else ():
            message.collective_device_list.replica_groups.add(replica_ids=group)
