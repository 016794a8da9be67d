"""Orders of devices: iota arrangements, named meshes and their axes, and the HLO text of each."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from xloom.errors import ShapeError
from xloom.hlo.text.lexer import ATTRIBUTE, Cursor

MAX_DEVICES = 1 << 24


@dataclass(frozen=True, slots=True)
class Iota:
    """Device numbers 0, 1, ... reshaped, transposed, and reshaped again to `dims`: `[2,4]<=[4,2]T(1,0)`."""

    dims: tuple[int, ...]
    reshape: tuple[int, ...]
    permutation: tuple[int, ...]

    @staticmethod
    def of(dims: tuple[int, ...], reshape: tuple[int, ...] = (), permutation: tuple[int, ...] = ()) -> Iota:
        """The canonical form: no sizes of 1, neighbours merged. Raises ShapeError when the parts do not fit."""
        reshape = reshape or (math.prod(dims),)
        permutation = permutation or tuple(range(len(reshape)))
        if sorted(permutation) != list(range(len(reshape))):
            raise ShapeError(
                f"{permutation} is not a permutation of {len(reshape)} dimensions", hint="name each dimension once"
            )
        if min(*dims, *reshape, 0) < 0 or math.prod(dims) != math.prod(reshape):
            raise ShapeError(
                f"[{_join(dims)}] and [{_join(reshape)}] hold different numbers of devices",
                hint="the dimensions on both sides have one product",
            )
        if len(reshape) > 1:
            reshape, permutation = _merged(reshape, permutation)
        return Iota(dims, reshape, permutation)

    def array(self) -> np.ndarray:
        """The device numbers, of shape `dims`. Raises ShapeError when there are too many to list."""
        count = math.prod(self.reshape)
        if count > MAX_DEVICES:
            raise ShapeError(f"{count} devices are too many to list", hint="write them as iota: <=[n]")
        return np.arange(count).reshape(self.reshape).transpose(self.permutation).reshape(self.dims)

    def reshaped(self, dims: tuple[int, ...]) -> Iota:
        """The same devices in the same order, in an array of shape `dims`."""
        return Iota(dims, self.reshape, self.permutation)

    def transposed(self, permutation: tuple[int, ...]) -> Iota | None:
        """The array transposed, or None when that is not an iota (or XLA does not find it)."""
        dims = tuple(self.dims[p] for p in permutation)
        moved = [p for p in permutation if self.dims[p] != 1]
        if moved == sorted(moved):
            return self.reshaped(dims)
        if len(self.reshape) == 1:
            return Iota.of(dims, self.dims, permutation)
        # cut the source dimensions into primes, and see whether groups of them make up the tile dimensions
        tiles = [k for k, d in enumerate(self.dims) if d != 1]
        primes, order, source = self._primes()
        groups: dict[int, list[int]] = {}
        place = 0
        for tile in tiles:
            left, group = self.dims[tile], groups.setdefault(tile, [])
            while place < len(order):
                k = order[place]
                if left % primes[k]:
                    later = (m for m in order[place + 1 :] if source[m] == source[k] and left % primes[m] == 0)
                    other = next(later, None)
                    if other is None:
                        break
                    primes[k], primes[other] = primes[other], primes[k]
                left //= primes[k]
                group.append(k)
                place += 1
            if left != 1:
                return None
        flat = tuple(k for p in permutation for k in groups.get(p, ()))
        return Iota.of(dims, tuple(primes), flat)

    def _primes(self) -> tuple[list[int], list[int], list[int]]:
        """Prime factors of the source dimensions, their order in the result, and which dimension each is of."""
        primes: list[int] = []
        source: list[int] = []
        of: list[list[int]] = []
        for d, size in enumerate(self.reshape):
            factors = _prime_factors(size)
            of.append(list(range(len(primes), len(primes) + len(factors))))
            primes += factors
            source += [d] * len(factors)
        return primes, [k for d in self.permutation for k in of[d]], source

    def minor_sorted(self, size: int) -> Iota | None:
        """The same groups of `size` minor elements, each group in ascending order; None when that is no iota."""
        dims, order, left, count = list(self.reshape), list(self.permutation), size, 0
        for d in reversed(self.permutation):
            if left == 1:
                break
            count += 1
            if dims[d] <= left:
                if left % dims[d]:
                    return None
                left //= dims[d]
                continue
            if dims[d] % left:
                return None
            dims[d : d + 1] = [dims[d] // left, left]
            order = [p + (p > d) for p in order]
            order.insert(order.index(d) + 1, d + 1)
            left = 1
        cut = len(order) - count
        return Iota.of(self.dims, tuple(dims), (*order[:cut], *sorted(order[cut:])))

    def source(self) -> str:
        """`[4,2]T(1,0)`."""
        text = f"[{_join(self.reshape)}]"
        return text + (f"T({_join(self.permutation)})" if len(self.reshape) > 1 else "")

    def __str__(self) -> str:
        return f"[{_join(self.dims)}]<={self.source()}"


def _join(values: tuple[int, ...]) -> str:
    return ",".join(map(str, values))


def _prime_factors(size: int) -> list[int]:
    out, factor = [], 2
    while factor * factor <= size:
        while size % factor == 0:
            out.append(factor)
            size //= factor
        factor += 1 if factor == 2 else 2
    return out + [size] * (size > 1)


def _merged(reshape: tuple[int, ...], permutation: tuple[int, ...]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    rank = {d: k for k, d in enumerate(d for d, size in enumerate(reshape) if size != 1)}
    runs: list[list[int]] = []
    for d in permutation:
        if d not in rank:
            continue
        if runs and rank[runs[-1][-1]] + 1 == rank[d]:
            runs[-1].append(d)
        else:
            runs.append([d])
    if len(runs) <= 1:
        return (math.prod(reshape),), (0,)
    runs_in_order = sorted(runs)
    return (
        tuple(math.prod(reshape[d] for d in run) for run in runs_in_order),
        tuple(runs_in_order.index(run) for run in runs),
    )


class Axis(NamedTuple):
    """An axis of a mesh, by number, or the part of it of `size` below a major part of `pre_size` (0: all of it)."""

    index: int
    pre_size: int = 0
    size: int = 0

    @property
    def order(self) -> tuple[int, int, int]:
        """Sorts as XLA sorts axes: by number, then by where the part begins."""
        return self.index, self.pre_size or 1, self.size

    @property
    def end(self) -> int:
        """Where the part ends: the major size of what follows it."""
        return self.pre_size * self.size

    def joins(self, after: Axis) -> bool:
        """True when `after` continues this part, so that both could be written as one."""
        return bool(self.index == after.index and self.size and after.size and self.end == after.pre_size)

    def excludes(self, other: Axis) -> bool:
        """True when the two overlap, or cut the axis in ways that do not nest."""
        if self.index != other.index:
            return False
        if not self.size or not other.size:
            return True
        first, second = sorted((self, other), key=lambda a: a.pre_size)
        return second.pre_size < first.end or second.pre_size % first.end != 0


@dataclass(frozen=True, slots=True)
class Mesh:
    """Named axes over devices: `mesh['x'=2,'y'=4]`; `maximal_mesh[device_id=3]` has no axes and one device."""

    names: tuple[str, ...] = ()
    sizes: tuple[int, ...] = ()
    devices: Iota | tuple[int, ...] | None = None
    """None when they are 0, 1, 2, ..."""

    def __post_init__(self) -> None:
        if len(set(self.names)) != len(self.names):
            raise ShapeError(
                f"two axes of a mesh have the same name: {', '.join(self.names)}",
                hint="give each axis a name of its own",
            )
        if any(s < 1 for s in self.sizes):
            raise ShapeError("the axes of a mesh have positive sizes", hint="leave out axes of no devices")
        if isinstance(self.devices, tuple) and not self.maximal:
            count = math.prod(self.sizes) if self.sizes else 0
            if len(self.devices) != count:
                raise ShapeError(
                    f"{len(self.devices)} device numbers for a mesh of {count}",
                    hint="there are as many devices as the product of the axes",
                )
            if sorted(self.devices) != list(range(count)) or self.devices == tuple(range(count)):
                raise ShapeError(
                    "the device numbers of a mesh are 0, 1, ... in another order", hint="name each device once"
                )

    @property
    def maximal(self) -> bool:
        """True for the mesh that is one device."""
        return not self.names and isinstance(self.devices, tuple) and len(self.devices) == 1

    def array(self) -> np.ndarray:
        """The device numbers, one dimension an axis."""
        if isinstance(self.devices, tuple):
            return np.array(self.devices).reshape(self.sizes)
        return (self.devices or Iota.of(self.sizes)).array().reshape(self.sizes)

    def size(self, axis: Axis) -> int:
        """How many devices lie along an axis, or the part of it."""
        return axis.size or self.sizes[axis.index]

    def check_axes(self, groups: list[tuple[Axis, ...]]) -> None:
        """Raises ShapeError for an axis that the mesh lacks, or that is used twice, or could be written shorter."""
        seen: dict[int, list[Axis]] = {}
        for axes in groups:
            for axis in axes:
                if not 0 <= axis.index < len(self.sizes):
                    raise ShapeError(
                        f"axis {axis.index} of a mesh of {len(self.sizes)} axes", hint="axes are numbered from 0"
                    )
                whole = self.sizes[axis.index]
                if axis.size and (axis.size < 2 or axis.pre_size < 1 or whole % axis.end or axis.size >= whole):
                    raise ShapeError(
                        f"{self.axis_text(axis)} is not a part of an axis of size {whole}",
                        hint="parts multiply to the axis' size",
                    )
                if any(axis.excludes(other) for other in seen.setdefault(axis.index, [])):
                    raise ShapeError(
                        f"axis {self.axis_text(axis)} is used twice",
                        hint="shard one dimension of the array along an axis",
                    )
                seen[axis.index].append(axis)
            for first, second in pairwise(axes):
                if first.joins(second):
                    raise ShapeError(
                        f"{self.axis_text(first)} and {self.axis_text(second)} are one part",
                        hint="write it as one: parts of an axis that follow each other are joined",
                    )

    def axis_text(self, axis: Axis) -> str:
        """`'x'`, or `'x':(2)4`."""
        return f"'{self.names[axis.index]}'" + (f":({axis.pre_size}){axis.size}" if axis.size else "")

    def __str__(self) -> str:
        if isinstance(self.devices, tuple) and self.maximal:
            return f"maximal_mesh[device_id={self.devices[0]}]"
        axes = (f"'{name}'={size}" for name, size in zip(self.names, self.sizes, strict=True))
        text = f"mesh[{','.join(axes)}]"
        if self.devices is None:
            return text
        source = self.devices.source() if isinstance(self.devices, Iota) else _join(self.devices)
        return f"{text}, device_ids=({source})"


# -- parsing -------------------------------------------------------------------------------------------------------


def bracketed(cursor: Cursor, what: str) -> tuple[int, ...]:
    """`[2,4]`; at least one integer."""
    start = cursor.pos
    values = tuple(cursor.items("[", "]", cursor.integer, what))
    if not values:
        cursor.error(f"{what} cannot be empty", start)
    return values


def parse_iota(cursor: Cursor, dims: tuple[int, ...]) -> Iota:
    """What follows `<=`: `[4,2]T(1,0)`."""
    start = cursor.pos
    reshape = bracketed(cursor, "the dimensions before a transposition")
    permutation: tuple[int, ...] = (0,)
    if len(reshape) > 1:
        cursor.expect("T", "and a transposition")
        permutation = tuple(cursor.items("(", ")", cursor.integer, "a transposition"))
    try:
        return Iota.of(dims, reshape, permutation)
    except ShapeError as error:
        cursor.error(error.message, start)


def starts_mesh(cursor: Cursor) -> bool:
    """True when a mesh comes next."""
    return cursor.peek("mesh") or cursor.peek("maximal_mesh")


def parse_mesh(cursor: Cursor) -> Mesh:
    """`mesh['x'=2], device_ids=(1,0)` or `maximal_mesh[device_id=3]`."""
    cursor.skip()
    start = cursor.pos
    kind = cursor.ident("mesh or maximal_mesh")
    cursor.expect("[", f"after {kind}")
    if kind == "maximal_mesh":
        if cursor.require(ATTRIBUTE, "device_id=")[1] != "device_id":
            cursor.error("expected device_id=", start)
        mesh = Mesh(devices=(cursor.integer("a device number"),))
        cursor.expect("]", "at the end of a mesh")
        return mesh
    if kind != "mesh":
        cursor.error(f"expected mesh or maximal_mesh, found {kind!r}", start)
    names: list[str] = []
    sizes: list[int] = []
    while not cursor.eat("]"):
        names.append(cursor.string("an axis name in quotes"))
        cursor.expect("=", "after an axis name")
        sizes.append(cursor.integer("an axis size"))
        if not cursor.eat(",") and not cursor.peek("]"):
            cursor.error(f"expected ',' or ']' in a mesh, found {cursor.found()}")
    try:
        return Mesh(tuple(names), tuple(sizes), _device_ids(cursor, tuple(sizes)))
    except ShapeError as error:
        cursor.error(error.message, start)


def _device_ids(cursor: Cursor, sizes: tuple[int, ...]) -> Iota | tuple[int, ...] | None:
    before = cursor.pos
    found = cursor.match(ATTRIBUTE) if cursor.eat(",") else None
    if found is None or found[1] != "device_ids":
        cursor.pos = before
        return None
    cursor.skip()
    if cursor.text.startswith("([", cursor.pos):
        cursor.expect("(", "before device numbers")
        iota = parse_iota(cursor, sizes)
        cursor.expect(")", "after device numbers")
        return iota if len(iota.reshape) > 1 else None
    return tuple(cursor.items("(", ")", cursor.integer, "device numbers"))


def parse_axis(cursor: Cursor, mesh: Mesh) -> Axis:
    """`'x'`, `'0'` (by number) or `'x':(2)4`."""
    cursor.skip()
    start = cursor.pos
    name = cursor.string("an axis name in quotes")
    if name in mesh.names:
        index = mesh.names.index(name)
    elif name.isascii() and name.isdigit() and int(name) < len(mesh.names):
        index = int(name)
    else:
        cursor.error(f"the mesh has no axis {name!r}", start, hint=f"it has: {', '.join(mesh.names)}")
    if not cursor.eat(":"):
        return Axis(index)
    cursor.expect("(", "before the major size of a part of an axis")
    pre_size = cursor.integer()
    cursor.expect(")", "after the major size of a part of an axis")
    size = cursor.integer("the size of a part of an axis")
    if size < 2 or pre_size < 1:
        cursor.error(f"({pre_size}){size} is not a part of an axis", start)
    return Axis(index, pre_size, size)


def parse_axes(cursor: Cursor, mesh: Mesh) -> tuple[Axis, ...]:
    """`{'x','y':(1)2}`."""
    return tuple(cursor.items("{", "}", lambda: parse_axis(cursor, mesh), "mesh axes"))
