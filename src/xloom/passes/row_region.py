"""What lies between two products, divided into blocks of rows: what each block computes, reads, and gives.

It begins with a dot and the large operand of it that was made of another dot, and takes in, up to that other one, what
this is made of, and what else reads anything large on the way: sums of rows, and other dots, as gradients have them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import chain

from xloom.hlo.dtype import bf16, f16
from xloom.hlo.instruction import Instruction
from xloom.hlo.shape import Shape

_CHEAP = frozenset(
    ["and", "broadcast", "compare", "constant", "convert", "iota", "not", "or", "reshape", "select", "transpose", "xor"]
)
"""What may be computed anew for each block."""
_SUM_BYTES = 4
"""Of an element, at least, of what a narrower one was made of."""

LEAST_BYTES, BLOCK_BYTES, LEAST_ROWS = 1 << 22, 1 << 21, 16
"""Of an array between two products that is worth dividing; of a block of it, at most; and rows of a block."""

Places = Mapping[int, int]
"""The dimensions of an array that blocks divide, by dimension: the numbers of the blocks' axes."""


@dataclass(frozen=True)
class Axis:
    """A dimension of the rows that is divided: `length` into `count` blocks of `size`.

    The last block ends where the dimension does, and so has some rows of the one before again where they are too many.
    """

    dimension: int
    length: int
    count: int
    size: int

    @property
    def is_even(self) -> bool:
        """True when no row is in two blocks."""
        return self.count * self.size == self.length


@dataclass(frozen=True)
class Result:
    """What the blocks give: where each one's part lies, and whether it is only a summand of that part."""

    places: Places
    is_added: bool = False


def is_worth_dividing(rows: Instruction, least: int) -> bool:
    """True of an array of so many bytes at least, which is no product of which nothing was made."""
    return rows.opcode != "dot" and rows.shape.size * rows.shape.dtype.bytes >= least


class RowRegion:
    """The region of a dot; `side` says which operand has the rows.

    A block of them has so many bytes at `most`, and so many rows at `least`; `even` blocks have no row in common.
    """

    def __init__(self, dot: Instruction, side: int, most: int, least: int, *, even: bool = False):
        self.rows = dot.operands[side]
        self.axes = _axes(dot, side, most, least, even)
        self.outside: dict[Instruction, None] = {}
        """What the blocks read."""
        self.results: dict[Instruction, Result] = {}
        self._inside: dict[Instruction, list[Places]] = {}
        """What they compute, and where the blocks of it that are different for each lie; nowhere where none are."""
        self._seen: set[tuple[Instruction, tuple]] = set()
        self._dots: dict[Instruction, int] = {}
        """The dots that read what is inside, and by which operand."""
        rows = {axis.dimension: k for k, axis in enumerate(self.axes)}
        self.is_worth_it = bool(self.axes) and self._take_in(dot, side, rows) and self._is_closed()

    @property
    def dots(self) -> list[Instruction]:
        """All products: those that read rows, and those that blocks of rows are made of."""
        return [*self._dots, *(i for i in self._inside if i.opcode == "dot")]

    def is_inside(self, i: Instruction) -> bool:
        """True when the blocks compute it."""
        return i in self._inside and i not in self.outside

    def operand_places(self, i: Instruction, places: Places) -> list[Places]:
        """Where the blocks of an instruction that they compute lie in its operands."""
        if i in self._dots:
            return self._dot_places(i, self._dots[i])
        return _operand_places(i, places)

    # -- what is inside
    def _take_in(self, dot: Instruction, side: int, rows: Places) -> bool:
        """Everything; False where something large is read by what cannot be divided."""
        self._dots[dot] = side
        pending = self._follow(self.rows, rows)
        if not self._add_dot(dot, side):
            return False
        while pending:
            i = pending.pop()
            # of what is not made of products, as splats that several of them share, each reader has its own
            if not self._is_large(i) or not self._is_computed(i):
                continue
            for user in i.users:
                if user in self._inside or user in self._dots:
                    continue
                places = self._places_of(i)
                if places is None or user.has_control_dependencies:
                    return False
                if user.opcode == "dot":
                    sides = [k for k, o in enumerate(user.operands) if o in self._inside]
                    if len(sides) != 1 or not self._add_dot(user, sides[0]):
                        return False
                    continue
                places = _result_places(user, i, places)
                if places is None or not self._is_divided(user, places):
                    return False
                pending += self._follow(user, places)
        return True

    def _follow(self, i: Instruction, places: Places) -> list[Instruction]:
        """Takes in an instruction and what it is made of; what of that is different for each block."""
        stack, found = [(i, places)], []
        while stack:
            i, places = stack.pop()
            if key(i, places) in self._seen:
                continue
            self._seen.add(key(i, places))
            if not self._is_divided(i, places):
                if i.opcode != "constant" or not i.shape.is_scalar:
                    self.outside[i] = None
                continue
            where = self._inside.setdefault(i, [])
            if len(places) == len(self.axes):
                where.append(places)
                found.append(i)
            if i.opcode == "dot":
                self.outside.update(dict.fromkeys(i.operands))
            else:
                stack += zip(i.operands, _operand_places(i, places), strict=True)
        return found

    def _is_divided(self, i: Instruction, places: Places) -> bool:
        """True when each block of an instruction needs the same blocks of its operands."""
        if not places or i.has_control_dependencies or not i.shape.is_array:
            return False
        if i.opcode == "dot":
            return len(places) == len(self.axes)
        known = i.op.elementwise or i.opcode in ("broadcast", "iota", "transpose")
        if i.opcode == "reshape":
            known = places.keys() <= set(_renamed(i).values())
        elif i.opcode in ("pad", "slice"):
            known = all(i.shape.dims[d] == i.operands[0].shape.dims[d] for d in places)
        elif i.opcode == "reduce":
            known = len(i.operands) == 2
        return known and (len(places) == len(self.axes) or i.opcode in _CHEAP)

    def _add_dot(self, dot: Instruction, side: int) -> bool:
        """Takes in a dot that reads rows, or adds them up."""
        self._dots[dot] = side
        places = self._dot_places(dot, side)[side]
        if not places:
            return False
        batch, free = operand_dims(dot, side)
        kept = {d: k for d, k in places.items() if d in (*batch, *free)}
        added = [self.axes[k] for d, k in places.items() if d not in kept]
        if added and (dot.shape.dtype in (bf16, f16) or not all(axis.is_even for axis in added)):
            return False
        order = _order(dot, side)
        self.results[dot] = Result({order[d]: k for d, k in kept.items()}, bool(added))
        self.outside[dot.operands[1 - side]] = None
        return True

    def _dot_places(self, dot: Instruction, side: int) -> list[Places]:
        """Where the blocks lie in the operands of a dot that reads rows, which lie there as they were made."""
        rows = self._places_of(dot.operands[side]) or {}
        batch, summed = (
            dict(zip(dot[f"{_SIDES[side]}_{name}"], dot[f"{_SIDES[1 - side]}_{name}"], strict=True))
            for name in ("batch_dims", "contracting_dims")
        )
        other = {at: rows[d] for d, at in chain(batch.items(), summed.items()) if d in rows}
        return [rows, other] if side == 0 else [other, rows]

    def _places_of(self, i: Instruction) -> Places | None:
        """Where the blocks of what is inside lie, if there is one answer."""
        places = self._inside.get(i, [])
        return places[0] if len(places) == 1 else None

    def _is_large(self, i: Instruction) -> bool:
        return 2 * i.shape.size >= self.rows.shape.size

    # -- whether it may be computed block by block
    def _is_closed(self) -> bool:
        """True when a dot is inside, and what is computed of it is small where it is needed elsewhere."""
        own = self._computed()
        if not any(i.opcode == "dot" and self._is_large(i) for i in own) or any(i in self.outside for i in own):
            return False
        for i in own:
            if any(user not in self._inside and user not in self._dots for user in i.users) or i.is_root:
                places = self._places_of(i)
                if places is None or self._is_large(i):
                    return False
                self.results[i] = Result(places)
        return not _is_made_of(self.outside, {*own, *self._dots})

    def _is_computed(self, i: Instruction) -> bool:
        """True for what is made of a dot or a reduction inside."""
        stack, seen = [i], {i}
        while stack:
            i = stack.pop()
            if i.opcode in ("dot", "reduce"):
                return True
            new = [o for o in i.operands if self._inside.get(o) and o not in seen]
            seen.update(new)
            stack += new
        return False

    def _computed(self) -> list[Instruction]:
        """What is computed of dots and reductions: the rest may be computed elsewhere as well."""
        stack = [i for i, places in self._inside.items() if places and i.opcode in ("dot", "reduce")]
        found: dict[Instruction, None] = {}
        while stack:
            i = stack.pop()
            if i not in found:
                found[i] = None
                stack += [user for user in i.users if self._inside.get(user)]
        return list(found)


_SIDES = ("lhs", "rhs")


def key(i: Instruction, places: Places) -> tuple[Instruction, tuple]:
    """What tells blocks of values apart."""
    return i, tuple(sorted(places.items()))


def operand_dims(dot: Instruction, side: int) -> tuple[list[int], list[int]]:
    """The batch dimensions of an operand, and those that are rows or columns of the result."""
    name = _SIDES[side]
    batch, summed = list(dot[f"{name}_batch_dims"]), dot[f"{name}_contracting_dims"]
    return batch, [d for d in range(dot.operands[side].shape.rank) if d not in batch and d not in summed]


def _axes(dot: Instruction, side: int, most: int, least: int, even: bool) -> list[Axis]:
    """The dimensions to divide, until a block has at most so many bytes: batches first, then rows."""
    rows = dot.operands[side].shape
    batch, free = operand_dims(dot, side)
    size = rows.size * max(rows.dtype.bytes, _SUM_BYTES)
    axes: list[Axis] = []
    for d in [*batch, *sorted(free, key=lambda d: -rows.dims[d])[:1]]:
        n = rows.dims[d]
        if size > most and n > 1:
            each = _block_size(n, max(1, most // (size // n)), even or d in batch)
            if d in free and each < min(n, least):
                return []
            axes.append(Axis(d, n, -(-n // each), each))
            size = size // n * each
    return axes


def _block_size(n: int, most: int, even: bool) -> int:
    """How many of `n` a block has: a divisor where one is not much less than what it may have."""
    divisor = max(k for k in range(1, min(n, most) + 1) if n % k == 0)
    return divisor if even or 2 * divisor > most else -(-n // -(-n // most))


def _is_made_of(values: Iterable[Instruction], of: set[Instruction]) -> bool:
    """True when any of the values depends on one of those."""
    stack = list(values)
    seen = set(stack)
    while stack:
        i = stack.pop()
        if i in of:
            return True
        new = [o for o in (*i.operands, *i.control_predecessors) if o not in seen]
        seen.update(new)
        stack += new
    return False


def _long(shape: Shape) -> list[int]:
    return [n for n in shape.dims if n != 1]


def _order(dot: Instruction, side: int) -> dict[int, int]:
    """The dimensions of the result, by those of an operand."""
    lists = [operand_dims(dot, k) for k in (0, 1)]
    batch, free = lists[side]
    before = len(batch) + (len(lists[0][1]) if side else 0)
    return {d: k for k, d in enumerate(batch)} | {d: before + k for k, d in enumerate(free)}


def _operand_places(i: Instruction, places: Places) -> list[Places]:
    """Where the blocks of a value lie in its operands."""
    if i.opcode == "dot":
        return [{d: places[k] for d, k in _order(i, side).items() if k in places} for side in (0, 1)]
    if i.opcode == "reduce":
        return [{d: places[k] for d, k in _renamed(i).items() if k in places}, {}]
    if i.opcode in ("broadcast", "reshape", "transpose"):
        return [{d: places[k] for d, k in _renamed(i).items() if k in places}]
    return [places if o.shape.rank == i.shape.rank else {} for o in i.operands]


def _result_places(i: Instruction, operand: Instruction, places: Places) -> Places | None:
    """Where the blocks of an operand lie in the result; None where they have no place there."""
    if i.opcode in ("broadcast", "reduce", "reshape", "transpose"):
        names = _renamed(i)
        return {names[d]: k for d, k in places.items()} if all(d in names for d in places) else None
    return places if operand.shape.rank == i.shape.rank else None


def _renamed(i: Instruction) -> dict[int, int]:
    """The dimensions of the result, by those of the first operand."""
    if i.opcode == "broadcast":
        return dict(enumerate(i["dimensions"]))
    if i.opcode == "transpose":
        return {d: k for k, d in enumerate(i["dimensions"])}
    if i.opcode == "reduce":
        kept = [d for d in range(i.operands[0].shape.rank) if d not in i["dimensions"]]
        return {d: k for k, d in enumerate(kept)}
    before, after = i.operands[0].shape, i.shape
    if _long(before) != _long(after):
        return {d: d for d in range(_common_dims(before, after))}
    long = [[d for d, n in enumerate(s.dims) if n != 1] for s in (before, after)]
    return dict(zip(*long, strict=False))


def _common_dims(before: Shape, after: Shape) -> int:
    """How many dimensions two shapes begin with in common."""
    pairs = zip(before.dims, after.dims, strict=False)
    return next((d for d, (n, m) in enumerate(pairs) if n != m), min(before.rank, after.rank))


def block_count(axes: Iterable[Axis]) -> int:
    """How many blocks there are."""
    return math.prod(axis.count for axis in axes)
