"""Shardings and replica groups out of HLO text."""

from __future__ import annotations

import math
from dataclasses import replace

from xloom.errors import ShapeError, near
from xloom.hlo.attributes import Metadata
from xloom.hlo.device_mesh import (
    Axis,
    Iota,
    Mesh,
    bracketed,
    parse_axes,
    parse_axis,
    parse_iota,
    parse_mesh,
    starts_mesh,
)
from xloom.hlo.sharding import LAST_TILE_DIMS, DimensionAxes, MeshSharding, ReplicaGroups, Sharding
from xloom.hlo.text.lexer import ATTRIBUTE, Cursor
from xloom.hlo.text.metadata import parse_metadata

# which wins when several are written
_KINDS = ("replicated", "maximal", "manual", "unknown", "unreduced")


def parse_replica_groups(cursor: Cursor) -> ReplicaGroups:
    """`{{0,1},{2,3}}`, `[2,2]<=[4]`, or `mesh['x'=2] {'x'}`."""
    if cursor.peek("{"):
        return ReplicaGroups(tuple(cursor.items("{", "}", cursor.ints, "replica groups")))
    start = cursor.pos
    try:
        if starts_mesh(cursor):
            mesh = parse_mesh(cursor)
            cursor.eat(",")
            axes = parse_axes(cursor, mesh)
            if math.prod(map(mesh.size, axes)) == 1:
                cursor.error("a group on a mesh has more than one device", start)
            return ReplicaGroups(mesh=mesh, axes=axes)
        dims = bracketed(cursor, "the dimensions of replica groups")
        cursor.expect("<=", "in iota replica groups")
        return ReplicaGroups(iota=parse_iota(cursor, dims))
    except ShapeError as error:
        cursor.error(error.message, start, hint=error.hint)


def parse_sharding(cursor: Cursor) -> Sharding:
    """`{replicated}`, `{devices=[2]0,1}`, `{mesh['x'=2], [{'x'}]}`, or a tuple of those in braces."""
    cursor.expect("{", "at the start of a sharding")
    if not cursor.peek("{") and not cursor.peek("}"):
        return _single(cursor)
    elements: list[Sharding] = []
    if not cursor.eat("}"):
        while True:
            cursor.expect("{", "at the start of an element's sharding")
            elements.append(_single(cursor))
            if not cursor.eat(","):
                break
        cursor.expect("}", "at the end of a tuple sharding")
    return Sharding.tuple_of(elements)


def _single(cursor: Cursor) -> Sharding:
    """After the opening brace: up to and including the closing one."""
    cursor.skip()
    start = cursor.pos
    try:
        return _named(cursor) if starts_mesh(cursor) else _plain(cursor, start)
    except ShapeError as error:
        cursor.error(error.message, start, hint=error.hint)


def _plain(cursor: Cursor, start: int) -> Sharding:
    kinds: set[str] = set()
    dims: tuple[int, ...] = ()
    devices: Iota | tuple[int, ...] = ()
    last_tile_dims: list[str] = []
    group: tuple[str, int] | None = None
    metadata: tuple[Metadata, ...] = ()
    while not cursor.eat("}"):
        cursor.skip()
        at = cursor.pos
        found = cursor.match(ATTRIBUTE)
        word = found[1] if found else cursor.ident("a sharding such as replicated or devices=")
        if found is None and word in _KINDS:
            kinds.add(word)
        elif found is None and word in ("shard_as", "shard_like"):
            group = (word, cursor.integer("a group number"))
        elif found is None and word == "last_tile_dim_replicate":
            last_tile_dims.append("replicated")
        elif found and word == "device":
            devices = (cursor.integer("a device number"),)
        elif found and word == "devices":
            dims = bracketed(cursor, "the tile dimensions")
            devices = parse_iota(cursor, dims) if cursor.eat("<=") else _device_list(cursor)
        elif found and word == "metadata":
            metadata = _metadata(cursor)
        elif found and word == "last_tile_dims":
            last_tile_dims += cursor.items("{", "}", lambda: _last_tile_dim(cursor), "last tile dimensions")
        else:
            known = (*_KINDS, "devices=", "device=", "metadata=", "last_tile_dims=", "last_tile_dim_replicate")
            cursor.error(f"a sharding has no {word!r}", at, hint=near(word, known))
    kind = next((k for k in _KINDS if k in kinds), "tiled")
    if kind == "tiled":
        if not dims:
            cursor.error("a tiled sharding needs devices=[tile dimensions] and their numbers", start)
        if isinstance(devices, tuple) and len(devices) == 1:
            cursor.error("a tiled sharding has more than one device", start)
        sharding = Sharding.tiled(dims, devices, tuple(last_tile_dims))
    elif kind == "maximal":
        if not isinstance(devices, tuple) or len(devices) != 1:
            cursor.error("a maximal sharding has exactly one device", start)
        sharding = Sharding(kind, devices)
    elif isinstance(devices, tuple) and devices:
        cursor.error(f"a {kind} sharding has no devices", start)
    else:
        sharding = Sharding(kind)
    return replace(sharding, shard_group=group, metadata=metadata)


def _device_list(cursor: Cursor) -> tuple[int, ...]:
    devices = [cursor.integer("a device number")]
    while cursor.eat(","):
        devices.append(cursor.integer("a device number"))
    return tuple(devices)


def _last_tile_dim(cursor: Cursor) -> str:
    cursor.skip()
    at = cursor.pos
    word = cursor.ident("manual, replicated, unreduced or maximal")
    if word not in LAST_TILE_DIMS:
        cursor.error(f"a last tile dimension cannot be {word!r}", at, hint=near(word, LAST_TILE_DIMS))
    return word


def _metadata(cursor: Cursor) -> tuple[Metadata, ...]:
    cursor.skip()
    start = cursor.pos
    cursor.expect("{", "at the start of metadata")
    listed = cursor.peek("{")
    cursor.pos = start
    if listed:
        return tuple(cursor.items("{", "}", lambda: parse_metadata(cursor), "a list of metadata"))
    return (parse_metadata(cursor),)


def _named(cursor: Cursor) -> Sharding:
    mesh = parse_mesh(cursor)
    axes: dict[str, tuple[Axis, ...]] = {"replicated": (), "unreduced": (), "manual": ()}
    dims: tuple[DimensionAxes, ...] = ()
    if not mesh.maximal:
        cursor.eat(",")
        cursor.skip()
        at = cursor.pos
        if cursor.eat_word("manual") or cursor.eat_word("unreduced"):
            if not mesh.names:
                cursor.error("a mesh without axes has nothing manual or unreduced", at)
            axes[cursor.text[at : cursor.pos]] = tuple(Axis(k) for k in range(len(mesh.names)))
        elif not cursor.eat_word("replicated"):
            dims = tuple(cursor.items("[", "]", lambda: _dimension(cursor, mesh), "the dimensions of a sharding"))
    metadata: tuple[Metadata, ...] = ()
    while not cursor.eat("}"):
        cursor.expect(",", "or '}' in a sharding")
        cursor.skip()
        at = cursor.pos
        word = cursor.require(ATTRIBUTE, "replicated=, unreduced=, manual= or metadata=")[1]
        if word == "metadata":
            metadata = _metadata(cursor)
        elif word in axes:
            axes[word] = parse_axes(cursor, mesh)
        else:
            cursor.error(f"a sharding on a mesh has no {word!r}", at, hint=near(word, (*axes, "metadata")))
    return Sharding("named", mesh_sharding=MeshSharding(mesh, dims, **axes), metadata=metadata)


def _dimension(cursor: Cursor, mesh: Mesh) -> DimensionAxes:
    axes: list[Axis] = []
    closed = True

    def item() -> None:
        nonlocal closed
        if not closed:
            cursor.error("'?' stands last")
        if cursor.eat("?"):
            closed = False
        else:
            axes.append(parse_axis(cursor, mesh))

    cursor.items("{", "}", item, "the axes of a dimension")
    return DimensionAxes(tuple(axes), closed)
