"""Which rows of arrays a kernel's items read and write: what steps of a loop need of one another, row by row.

A row is what lies behind one index of an array's first dimension; of a one-dimensional array, an element. The item
that makes row r of an array may read rows r + low to r + high of others.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from xloom.codegen.buffer_values import BufferValue, leaf_shapes
from xloom.codegen.buffers.allocation import BufferAllocation
from xloom.codegen.loop_ir.affine import Affine, Var, range_of
from xloom.codegen.loop_ir.nest import LoopNest, arranged, merged
from xloom.cpu.kernel_modules.kernel import Phase


class Rows(NamedTuple):
    """Rows from `low` before the present one to `high` after it, both included."""

    low: int
    high: int

    def joined(self, other: Rows | None) -> Rows:
        """The fewest rows that are both."""
        return self if other is None else Rows(min(self.low, other.low), max(self.high, other.high))


@dataclass
class RowFootprint:
    """The rows [first, first + count) for which a phase has `items`, and what those of a row read and write."""

    first: int
    count: int
    items: int
    reads: dict[BufferAllocation, Rows] = field(default_factory=dict)
    writes: dict[BufferAllocation, Rows] = field(default_factory=dict)

    @property
    def unit(self) -> int:
        """So many rows are a whole number of items."""
        return self.count // math.gcd(self.count, self.items)

    def lag(self, before: RowFootprint) -> int | None:
        """How many rows this phase has to stay behind one `before` it; None where it shares no array with it."""
        lags = [
            mine[array].high - theirs[array].low
            for mine, theirs in ((self.reads, before.writes), (self.writes, before.reads), (self.writes, before.writes))
            for array in mine.keys() & theirs.keys()
        ]
        return max(lags) + before.unit - 1 if lags else None


class Access(NamedTuple):
    """An element that a nest loads from an array in memory, or stores to one."""

    value: BufferValue
    address: Affine
    is_written: bool


def accesses(nest: LoopNest) -> Iterator[Access]:
    """What a nest loads and stores, without arrays of one iteration."""
    for stage in nest.stages:
        found = [Access(n.source, n.address, False) for n in stage.loads]
        found += [Access(s.target, s.address, True) for s in stage.stores]
        yield from (access for access in found if access.value not in nest.private)


def footprint_of(
    nest: LoopNest,
    phase: Phase,
    allocation_of: Callable[[BufferValue], BufferAllocation],
    changing: Mapping[BufferAllocation, int],
) -> RowFootprint | None:
    """The footprint of a nest's only phase on arrays that change, whose rows have so many bytes.

    None where it does not go row by row.
    """
    loops = _loops_of(nest, phase)
    if loops is None:
        return None
    found = [access for access in accesses(nest) if allocation_of(access.value) in changing]
    if any(any(v.node for v, _ in a.address.terms) for a in found):
        return None
    if any(row_of(a.value)[1] != changing[allocation_of(a.value)] for a in found):
        return None
    items, gone = loops
    known = {var: (0, var.size - 1) for var in items}
    factors = {access.address.factor(items[0]) for access in found} if items else {0}
    if factors <= {0}:
        count, per_row, row = 1, 1, None  # the same few rows, whatever the item is
    else:
        row = items[0]
        steps = {size // factor if factor > 0 and size % factor == 0 else 0
                 for access in found
                 for size, factor in [(row_of(access.value)[0], access.address.factor(row))]}  # fmt: skip
        if len(steps) > 1 or 0 in steps:
            return None
        (per_row,) = steps
        if per_row > 1 and (len(items) > 1 or row.size % per_row):
            return None
        count = row.size // per_row
    result = None if found else RowFootprint(0, count, phase.count)
    for access in sorted(found, key=lambda access: not access.is_written):
        inner = Affine(access.address.const, tuple(t for t in access.address.terms if t[0] != row and t[0] not in gone))
        low, high = range_of(inner, known)
        high += (per_row - 1) * access.address.factor(row) if row is not None else 0
        size, _ = row_of(access.value)
        if result is None:
            result = RowFootprint(low // size, count, phase.count)
        rows = Rows(low // size - result.first, high // size - result.first)
        places, allocation = result.writes if access.is_written else result.reads, allocation_of(access.value)
        places[allocation] = rows.joined(places.get(allocation))
    return result


def _loops_of(nest: LoopNest, phase: Phase) -> tuple[list[Var], Mapping[Var, None]] | None:
    """The loops whose iterations the phase's items are, outermost first, and those that are joined with them."""
    if nest.outer:
        loops, gone = merged(nest.stages, list(nest.outer))
    else:
        loops, gone = arranged(nest.stages[0], nest.stages[0].vars)
    by_name = {var.name: var for var in loops}
    if any(name not in by_name for name in phase.loops):
        return None
    items = [by_name[name] for name in phase.loops]
    return (items, gone) if math.prod(v.size for v in items) == phase.count * phase.block else None


def row_of(value: BufferValue) -> tuple[int, int]:
    """The elements and the bytes of an array's row."""
    shape = leaf_shapes(value[0].shape)[value[1]]
    size = math.prod(shape.dims[1:])
    return size, size * shape.dtype.bytes
