"""Shardings and replica groups: which devices hold what, and which take part together; their HLO text."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from xloom.errors import ShapeError
from xloom.hlo.attributes import Metadata
from xloom.hlo.lexer import ATTRIBUTE, Cursor
from xloom.hlo.shape import Shape


@dataclass(frozen=True, slots=True)
class Iota:
    """Device numbers 0, 1, ... reshaped, transposed, and reshaped again to `dims`: `[2,4]<=[4,2]T(1,0)`."""

    dims: tuple[int, ...]
    reshape: tuple[int, ...]
    permutation: tuple[int, ...]

    def array(self) -> np.ndarray:
        """The device numbers, of shape `dims`."""
        count = math.prod(self.reshape)
        return np.arange(count).reshape(self.reshape).transpose(self.permutation).reshape(self.dims)

    def canonical(self) -> Iota:
        """Without dimensions of size 1, and with dimensions merged that stay neighbours."""
        kept = [d for d in self.permutation if self.reshape[d] != 1]
        groups: list[list[int]] = []
        for d in kept:
            between = range(groups[-1][-1] + 1, d) if groups else ()
            follows = groups and groups[-1][-1] < d and all(self.reshape[b] == 1 for b in between)
            if follows:
                groups[-1].append(d)
            else:
                groups.append([d])
        if len(groups) <= 1:
            return Iota(self.dims, (math.prod(self.reshape),), (0,))
        order = sorted(range(len(groups)), key=lambda g: groups[g][0])
        rank = {g: k for k, g in enumerate(order)}
        reshape = tuple(math.prod(self.reshape[d] for d in groups[g]) for g in order)
        return Iota(self.dims, reshape, tuple(rank[g] for g in range(len(groups))))

    def source(self) -> str:
        """`[4,2]T(1,0)`."""
        text = f"[{','.join(map(str, self.reshape))}]"
        return text + (f"T({','.join(map(str, self.permutation))})" if len(self.reshape) > 1 else "")

    def __str__(self) -> str:
        return f"[{','.join(map(str, self.dims))}]<={self.source()}"


@dataclass(frozen=True, slots=True)
class Mesh:
    """Named axes over devices: `mesh["x"=2,"y"=4]`, of which `axes` are meant; kept as text."""

    text: str
    axes: tuple[tuple[str, int], ...]
    devices: tuple[int, ...] | Iota | None = None

    def array(self) -> np.ndarray:
        """The device numbers, one dimension an axis."""
        sizes = tuple(size for _, size in self.axes)
        if isinstance(self.devices, Iota):
            return self.devices.array().reshape(sizes)
        if self.devices is not None:
            return np.array(self.devices).reshape(sizes)
        return np.arange(math.prod(sizes)).reshape(sizes)


@dataclass(frozen=True, slots=True)
class ReplicaGroups:
    """Groups of devices of a collective: a list of lists, an iota, or axes of a mesh."""

    lists: tuple[tuple[int, ...], ...] = ()
    iota: Iota | None = None
    mesh: Mesh | None = None
    mesh_axes: tuple[str, ...] = ()
    mesh_text: str = ""

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
        # a sub-axis "x":(2)4 is the dimension of size 4 after a major part of size 2
        names, sizes = [n for n, _ in mesh.axes], [s for _, s in mesh.axes]
        parts: list[list[tuple[int, bool]]] = [[(s, False)] for s in sizes]
        for axis in self.mesh_axes:
            name, _, sub = axis.partition(":")
            k = names.index(name)
            if not sub:
                parts[k] = [(sizes[k], True)]
            else:
                pre, size = map(int, sub.strip("(").split(")"))
                parts[k] = [(pre, False), (size, True), (sizes[k] // (pre * size), False)]
        flat = [p for part in parts for p in part]
        array = mesh.array().reshape([s for s, _ in flat])
        inside = [k for k, (_, chosen) in enumerate(flat) if chosen]
        outside = [k for k, (_, chosen) in enumerate(flat) if not chosen]
        count = math.prod(flat[k][0] for k in inside)
        return array.transpose([*outside, *inside]).reshape(-1, count).tolist()

    @staticmethod
    def parse(text: str, pos: int) -> tuple[ReplicaGroups, int]:
        """The replica groups at `pos`, and where they end. Raises ParseError."""
        cursor = Cursor(text, offset=pos)
        if cursor.peek("{"):
            lists = tuple(cursor.items("{", "}", cursor.ints, "replica groups"))
            return ReplicaGroups(lists), cursor.pos
        if cursor.peek("mesh") or cursor.peek("maximal_mesh"):
            mesh = _mesh(cursor)
            axes = _axes(cursor, mesh)
            return ReplicaGroups(mesh=mesh, mesh_axes=axes, mesh_text=f"{mesh.text} {_axes_text(axes)}"), cursor.pos
        start = cursor.pos
        dims = _bracketed(cursor, "the dimensions of replica groups")
        cursor.expect("<=", "in iota replica groups")
        iota = _iota(cursor, dims)
        if len(dims) != 2:
            cursor.error(f"iota replica groups have 2 dimensions, found {len(dims)}", start)
        return ReplicaGroups(iota=iota.canonical()), cursor.pos

    def __str__(self) -> str:
        if self.iota is not None:
            return str(self.iota)
        if self.mesh is not None:
            return self.mesh_text
        return f"{{{','.join(f'{{{chr(44).join(map(str, g))}}}' for g in self.lists)}}}"


@dataclass(frozen=True, slots=True)
class Sharding:
    """How a value is split over devices.

    `kind` is replicated, manual, maximal, unknown, unreduced, tiled, named (a mesh form, kept as `text`) or tuple.
    A tiled one splits dimension i into `tile_dims[i]`; `last_tile_dims` are the kinds of the trailing subgroups.
    """

    kind: str
    devices: Iota | tuple[int, ...] | None = None
    tile_dims: tuple[int, ...] = ()
    last_tile_dims: tuple[str, ...] = ()
    replicate_last: bool = False
    shard_group: tuple[str, int] | None = None
    metadata: tuple[Metadata, ...] = ()
    elements: tuple[Sharding, ...] = ()
    text: str = ""

    @staticmethod
    def parse(text: str, pos: int) -> tuple[Sharding, int]:
        """The sharding at `pos` (at its brace), and where it ends. Raises ParseError."""
        cursor = Cursor(text, offset=pos)
        cursor.expect("{", "at the start of a sharding")
        if cursor.peek("{") or cursor.peek("}"):
            elements: list[Sharding] = []
            if not cursor.eat("}"):
                while True:
                    cursor.expect("{", "at the start of an element's sharding")
                    elements.append(_single(cursor))
                    if not cursor.eat(","):
                        break
                cursor.expect("}", "at the end of a tuple sharding")
            return Sharding("tuple", elements=tuple(elements)), cursor.pos
        return _single(cursor), cursor.pos

    def normalized(self, shape: Shape) -> Sharding:
        """Fits a sharding of a tuple to the tuple's leaves: one for all is repeated, one leaf's is unwrapped."""
        if not shape.is_tuple or self.kind == "tuple":
            if self.kind == "tuple" and not shape.is_tuple and len(self.elements) == 1:
                return self.elements[0]
            return self
        count = max(1, sum(1 for _ in shape.leaves()))
        return Sharding("tuple", elements=(self,) * count)

    def to_text(self, metadata: bool = True) -> str:
        """HLO text, with or without the metadata."""
        if self.kind == "tuple":
            out = []
            for k, element in enumerate(self.elements):
                out.append(f"{', ' if k else ''}{f'/*index={k}*/' if k and k % 5 == 0 else ''}")
                out.append(element.to_text(metadata))
            return f"{{{''.join(out)}}}"
        tail = ""
        if self.shard_group is not None:
            tail += f" {self.shard_group[0]} {self.shard_group[1]}"
        if metadata:
            tail += self._metadata_text()
        if self.kind == "named":
            return f"{{{self.text}{tail}}}"
        if self.kind == "maximal":
            assert isinstance(self.devices, tuple)
            return f"{{maximal device={self.devices[0]}{tail}}}"
        if self.kind != "tiled":
            return f"{{{self.kind}{tail}}}"
        if isinstance(self.devices, Iota):
            body = str(self.devices)
        else:
            assert self.devices is not None
            body = f"[{','.join(map(str, self.tile_dims))}]{','.join(map(str, self.devices))}"
        if self.replicate_last:
            body += " last_tile_dim_replicate"
        if self.last_tile_dims:
            body += f" last_tile_dims={{{', '.join(self.last_tile_dims)}}}"
        return f"{{devices={body}{tail}}}"

    def _metadata_text(self) -> str:
        from xloom.hlo.metadata_text import print_metadata

        entries = self.metadata
        if not entries:
            return ""
        if len(entries) == 1:
            return f" metadata={{{print_metadata(entries[0])}}}"
        return f" metadata={{{', '.join(f'{{{print_metadata(m)}}}' for m in entries)}}}"

    def __str__(self) -> str:
        return self.to_text()


# -- parsing -------------------------------------------------------------------------------------------------------

_KINDS = ("replicated", "manual", "unknown", "unreduced", "maximal")


def _axes_text(axes: tuple[str, ...]) -> str:
    """`{'x','y':(1)2}`."""
    parts = (axis.partition(":") for axis in axes)
    return f"{{{', '.join(f'{chr(39)}{name}{chr(39)}{colon}{sub}' for name, colon, sub in parts)}}}"


def _bracketed(cursor: Cursor, what: str) -> tuple[int, ...]:
    values = tuple(cursor.items("[", "]", cursor.integer, what))
    if not values:
        cursor.error(f"{what} cannot be empty")
    return values


def _iota(cursor: Cursor, dims: tuple[int, ...]) -> Iota:
    start = cursor.pos
    reshape = _bracketed(cursor, "the reshape dimensions")
    permutation: tuple[int, ...] = (0,)
    if len(reshape) > 1:
        cursor.expect("T", "before a transposition")
        permutation = tuple(cursor.items("(", ")", cursor.integer, "a transposition"))
    if sorted(permutation) != list(range(len(reshape))):
        cursor.error(f"{permutation} is not a permutation of {len(reshape)} dimensions", start)
    if min(*reshape, *dims, 1) < 0 or (dims and math.prod(dims) != math.prod(reshape)):
        cursor.error(f"{dims} and {reshape} hold different numbers of devices", start)
    return Iota(dims, reshape, permutation)


def _mesh(cursor: Cursor) -> Mesh:
    cursor.skip()
    start = cursor.pos
    kind = cursor.ident("mesh or maximal_mesh")
    cursor.expect("[", f"after {kind}")
    if kind == "maximal_mesh":
        if cursor.require(ATTRIBUTE, "device_id=")[1] != "device_id":
            cursor.error("expected device_id=", start)
        device = cursor.integer()
        cursor.expect("]", "at the end of a mesh")
        return Mesh(f"maximal_mesh[device_id={device}]", (), (device,))
    if kind != "mesh":
        cursor.error(f"expected mesh or maximal_mesh, found {kind!r}", start)
    axes: list[tuple[str, int]] = []
    while not cursor.eat("]"):
        name = cursor.string("an axis name in quotes")
        cursor.expect("=", "after an axis name")
        axes.append((name, cursor.integer("an axis size")))
        if not cursor.eat(",") and not cursor.peek("]"):
            cursor.error(f"expected ',' or ']' in a mesh, found {cursor.found()}")
    text = f"mesh[{','.join(f'{chr(39)}{n}{chr(39)}={s}' for n, s in axes)}]"
    sizes = tuple(s for _, s in axes)
    devices: Iota | tuple[int, ...] | None = None
    before = cursor.pos
    if cursor.eat(",") and cursor.eat_word("device_ids") and cursor.eat("="):
        cursor.expect("(", "before device numbers")
        if cursor.peek("["):
            devices = _iota(cursor, sizes).canonical()
            text += f", device_ids=({devices.source()})"
            cursor.expect(")", "after device numbers")
        else:
            cursor.pos -= 1
            devices = tuple(cursor.items("(", ")", cursor.integer, "device numbers"))
            if len(devices) != math.prod(sizes):
                cursor.error(f"{len(devices)} device numbers for a mesh of {math.prod(sizes)}", start)
            text += f", device_ids=({','.join(map(str, devices))})"
    else:
        cursor.pos = before
    return Mesh(text, tuple(axes), devices)


def _axis(cursor: Cursor, mesh: Mesh) -> str:
    start = cursor.pos
    name = cursor.string("an axis name in quotes")
    known = dict(mesh.axes)
    if name not in known:
        cursor.error(f"the mesh has no axis {name!r}", start)
    if cursor.eat(":"):
        cursor.expect("(", "before a sub-axis")
        pre = cursor.integer()
        cursor.expect(")", "in a sub-axis")
        size = cursor.integer()
        if pre < 1 or size < 1 or known[name] % (pre * size):
            cursor.error(f"({pre}){size} does not divide axis {name!r} of size {known[name]}", start)
        return f"{name}:({pre}){size}"
    return name


def _axes(cursor: Cursor, mesh: Mesh) -> tuple[str, ...]:
    """`{'x','y'}`."""
    return tuple(cursor.items("{", "}", lambda: _axis(cursor, mesh), "mesh axes"))


def _metadata(cursor: Cursor) -> tuple[Metadata, ...]:
    from xloom.hlo.metadata_text import parse_metadata

    start = cursor.pos
    cursor.expect("{", "at the start of metadata")
    if cursor.peek("{"):
        cursor.pos = start
        return tuple(cursor.items("{", "}", lambda: parse_metadata(cursor), "a list of metadata"))
    if cursor.eat("}"):
        return ()
    cursor.pos = start
    return (parse_metadata(cursor),)


def _named(cursor: Cursor) -> Sharding:
    mesh = _mesh(cursor)
    cursor.skip()
    parts: list[str] = []
    metadata: tuple[Metadata, ...] = ()

    def axis_set() -> str:
        return _axes_text(_axes(cursor, mesh))

    def dimension() -> str:
        axes = axis_set()
        return axes + ("?" if cursor.eat("?") else "")

    while not cursor.eat("}"):
        cursor.eat(",")
        if cursor.peek("["):
            parts.append(f"[{', '.join(cursor.items('[', ']', dimension, 'dimension shardings'))}]")
            continue
        word = cursor.ident("a part of a sharding")
        if not cursor.eat("="):
            parts.append(word)
        elif word == "metadata":
            metadata = _metadata(cursor)
        elif cursor.peek("{"):
            parts.append(f"{word}={axis_set()}")
        else:
            op = cursor.ident("sum, max or min")
            parts.append(f"{word}={op}{axis_set() if cursor.peek('{') else ''}")
    return Sharding("named", text=", ".join([mesh.text, *parts]), metadata=metadata)


def _single(cursor: Cursor) -> Sharding:
    """After the opening brace: up to and including the closing one."""
    cursor.skip()
    if cursor.peek("mesh") or cursor.peek("maximal_mesh"):
        return _named(cursor)
    start = cursor.pos
    kind = ""
    dims: tuple[int, ...] = ()
    devices: Iota | tuple[int, ...] | None = None
    types: list[str] = []
    group: tuple[str, int] | None = None
    metadata: tuple[Metadata, ...] = ()
    while not cursor.eat("}"):
        cursor.skip()
        at = cursor.pos
        found = cursor.match(ATTRIBUTE)
        if found is None:
            word = cursor.ident("a sharding such as replicated, maximal or devices=")
            if word in _KINDS:
                kind = word
            elif word in ("shard_as", "shard_like"):
                group = (word, cursor.integer("a group number"))
            elif word == "last_tile_dim_replicate":
                types.append("replicated")
            else:
                cursor.error(f"{word!r} is not a kind of sharding", at)
        elif found[1] == "device":
            devices = (cursor.integer("a device number"),)
        elif found[1] == "devices":
            dims = _bracketed(cursor, "the tile dimensions")
            if cursor.eat("<="):
                devices = _iota(cursor, dims).canonical()
            else:
                listed = [cursor.integer("a device number")]
                while cursor.eat(","):
                    listed.append(cursor.integer("a device number"))
                devices = tuple(listed)
        elif found[1] == "metadata":
            metadata = _metadata(cursor)
        elif found[1] == "last_tile_dims":
            types = cursor.items("{", "}", lambda: cursor.ident("manual or replicated"), "last tile dimensions")
        else:
            cursor.error(f"a sharding has no {found[1]!r}", at)
    if kind in ("replicated", "manual", "unknown", "unreduced"):
        if devices:
            cursor.error(f"a {kind} sharding has no devices", start)
        return Sharding(kind, shard_group=group, metadata=metadata)
    if kind == "maximal":
        if not isinstance(devices, tuple) or len(devices) != 1:
            cursor.error("a maximal sharding has exactly one device", start)
        return Sharding(kind, devices, shard_group=group, metadata=metadata)
    if not dims or devices is None:
        cursor.error("a tiled sharding needs devices=[tile dimensions] and their numbers", start)
    if isinstance(devices, tuple) and (len(devices) != math.prod(dims) or len(devices) <= 1):
        cursor.error(f"{len(devices)} devices for {math.prod(dims)} tiles", start)
    tiled = Sharding("tiled", devices, dims, tuple(types), shard_group=group, metadata=metadata)
    return _canonical(tiled)


def _canonical(sharding: Sharding) -> Sharding:
    """Subgroups as XLA keeps them: kinds merged and ordered, size-1 ones dropped, all-replicated told apart."""
    types = sharding.last_tile_dims
    if not types:
        return sharding
    dims, count = sharding.tile_dims, len(types)
    if count > len(dims):
        raise ShapeError(f"{count} last tile dimensions in a sharding of {len(dims)}")
    data, sub = dims[: len(dims) - count], dims[len(dims) - count :]
    sizes: dict[str, int] = {}
    for kind, size in zip(types, sub, strict=True):
        sizes[kind] = sizes.get(kind, 1) * size
    kept = {k: s for k, s in sizes.items() if s != 1}
    if not kept:
        return _redim(replace(sharding, last_tile_dims=()), data)
    if math.prod(data) == 1 and len(kept) == 1:
        kind = next(iter(kept))
        return Sharding(kind, shard_group=sharding.shard_group, metadata=sharding.metadata)
    order = sorted(kept, key=("maximal", "tuple", "other", "manual", "unknown", "unreduced", "replicated").index)
    if len(kept) == len(types) and list(types) != order:
        return _permuted(sharding, data, sub, types, order)
    if len(order) != len(types) and len(types) == len(set(types)):
        sharding = _redim(sharding, (*data, *(kept[k] for k in kept)))
        return _canonical(replace(sharding, last_tile_dims=tuple(kept)))
    if order == ["replicated"]:
        sharding = _sorted_groups(_redim(sharding, (*data, kept["replicated"])))
        return replace(sharding, last_tile_dims=(), replicate_last=True)
    return replace(_redim(sharding, (*data, *(kept[k] for k in order))), last_tile_dims=tuple(order))


def _permuted(
    sharding: Sharding, data: tuple[int, ...], sub: tuple[int, ...], types: tuple[str, ...], order: list[str]
) -> Sharding:
    permutation = [*range(len(data)), *(len(data) + types.index(k) for k in order)]
    array = _device_array(sharding).transpose(permutation)
    return replace(_with_devices(sharding, array), last_tile_dims=tuple(order))


def _sorted_groups(sharding: Sharding) -> Sharding:
    """Replicas in ascending order: their order means nothing."""
    array = _device_array(sharding)
    ordered = np.sort(array, axis=-1)
    return sharding if np.array_equal(array, ordered) else _with_devices(sharding, ordered)


def _device_array(sharding: Sharding) -> np.ndarray:
    if isinstance(sharding.devices, Iota):
        return sharding.devices.array()
    return np.array(sharding.devices).reshape(sharding.tile_dims)


def _with_devices(sharding: Sharding, array: np.ndarray) -> Sharding:
    """The sharding with other device numbers; an iota stays one if it can."""
    devices: Iota | tuple[int, ...] | None = None
    if isinstance(sharding.devices, Iota):
        devices = _as_iota(array)
    if devices is None:
        devices = tuple(array.reshape(-1).tolist())
    return replace(sharding, devices=devices, tile_dims=array.shape)


def _as_iota(array: np.ndarray) -> Iota | None:
    """The reshape and transposition of 0, 1, ... that gives `array`, if there is one."""
    rest = array.reshape(-1)
    parts: list[tuple[int, int]] = []  # (stride, size), innermost first
    while rest.size > 1:
        stride = int(rest[1] - rest[0])
        steps = np.diff(rest)
        breaks = np.flatnonzero(steps != stride)
        size = int(breaks[0]) + 1 if breaks.size else rest.size
        if rest.size % size:
            return None
        parts.append((stride, size))
        rest = rest[::size]
    parts.reverse()
    order = sorted(range(len(parts)), key=lambda k: -parts[k][0])
    rank = {k: n for n, k in enumerate(order)}
    reshape = tuple(parts[k][1] for k in order) or (1,)
    found = Iota(array.shape, reshape, tuple(rank[k] for k in range(len(parts))) or (0,))
    return found if np.array_equal(found.array(), array) else None


def _redim(sharding: Sharding, dims: tuple[int, ...]) -> Sharding:
    devices = sharding.devices
    if isinstance(devices, Iota):
        devices = replace(devices, dims=dims)
    return replace(sharding, devices=devices, tile_dims=dims)
