"""Which dimensions of a program's value play the role of which dimensions of a pattern's value.

A correspondence is a tuple of entries. One pattern dimension may stand for several of the program's (a batch), or for
none (one of size 1); an entry without pattern dimensions holds those that the pattern says are broadcast; one with
several is not taken apart yet.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import combinations_with_replacement, groupby, permutations
from math import prod
from typing import NamedTuple

from xloom.hlo.instruction import Instruction
from xloom.hlo.shape import Shape
from xloom.passes.pattern.views import Block, blocks, wide


class Entry(NamedTuple):
    """Dimensions of the pattern, and those of the program that they stand for."""

    pattern: tuple[int, ...]
    program: tuple[int, ...]
    sizes: Sizes = ()
    """Of several pattern dimensions, where that is known: how many come next, and how many elements these have."""


Dims = tuple[Entry, ...]
Sizes = tuple[tuple[int, int], ...]


def normal(entries: Iterable[Entry | tuple[tuple[int, ...], tuple[int, ...]]]) -> Dims:
    """The entries in order, without those that say nothing."""
    return tuple(sorted(e if isinstance(e, Entry) else Entry(*e) for e in entries if e[0] or e[1]))


def splits(items: Sequence[int], count: int) -> Iterator[tuple[tuple[int, ...], ...]]:
    """The ways to cut `items` into `count` runs, those with few empty runs and short last runs first."""
    if count == 0:
        if not items:
            yield ()
        return
    found = []
    for cuts in combinations_with_replacement(range(len(items) + 1), count - 1):
        ends = (*cuts, len(items))
        found.append(tuple(tuple(items[a:b]) for a, b in zip((0, *ends), ends, strict=False)))
    yield from sorted(found, key=lambda runs: (sum(not r for r in runs), [len(r) for r in reversed(runs)]))


def of_result(pattern: Shape, program: Shape) -> Iterator[Dims]:
    """The correspondences of two whole values that keep the order of dimensions."""
    mine = wide(pattern)
    for runs in splits(wide(program), len(mine)):
        yield normal(((m,), run) for m, run in zip(mine, runs, strict=True))


def of_turned_result(pattern: Shape, program: Shape) -> Iterator[Dims]:
    """The correspondences of two whole values, each dimension for one at most, that do not keep their order."""
    mine, other = wide(pattern), wide(program)
    for places in permutations(mine, len(other)):
        if list(places) != sorted(places):
            yield normal(((m,), tuple(d for p, d in zip(places, other, strict=True) if p == m)) for m in mine)


def identity(pattern: Shape, program: Shape) -> Dims | None:
    """Each dimension for itself; None when the shapes are not alike."""
    if not pattern.is_array or not program.is_array:
        return () if pattern.is_array == program.is_array else None
    if pattern.rank != program.rank or wide(pattern) != wide(program):
        return None
    return normal(((k,), (k,)) for k in wide(pattern))


def is_identity(dims: Dims | None) -> bool:
    """True when each dimension stands for itself, or for none of the program's."""
    return all(e.program in ((), e.pattern) for e in dims or ())


def through_pattern(dims: Dims, view: Instruction, program: Shape) -> Dims | None:
    """The same correspondence for the pattern view's operand; None if it cannot be said."""
    parts = blocks(view)
    entries = [e for e in dims if e.pattern]
    for outer, _ in parts:
        touched = [e for e in entries if set(e.pattern) & set(outer)]
        if len(touched) > 1:
            touched.sort(key=lambda e: outer.index(next(k for k in e.pattern if k in outer)))
            entries = [*(e for e in entries if e not in touched), _as_one(touched, program)]
    made = {k for outer, inner in parts if not inner for k in outer}
    free = [k for e in dims if not e.pattern for k in e.program]
    out: list[Entry] = []
    for entry in entries:
        if made.issuperset(entry.pattern):
            free.extend(entry.program)
            continue
        moved = _replaced(entry.pattern, parts)
        if moved is None:
            return None
        known = _sizes(entry, program)
        out.append(Entry(moved, entry.program, _moved_sizes(entry.pattern, known, parts) if len(moved) > 1 else ()))
    return normal([*out, Entry((), tuple(sorted(free)))])


def _moved_sizes(pattern: tuple[int, ...], sizes: Sizes, parts: Sequence[Block]) -> Sizes:
    """What is known of the sizes of a view's operand: where blocks of the view end with what is known of its result."""
    counts = {outer[0]: (len(outer), len(inner)) for outer, inner in parts}
    ends = {0: 0}
    k = inner = 0
    while k < len(pattern):
        more, more_inner = counts[pattern[k]]
        k, inner = k + more, inner + more_inner
        ends[k] = inner
    out: list[tuple[int, int]] = []
    start, end, size = 0, 0, 1
    for count, elements in sizes:
        end, size = end + count, size * elements
        if end in ends:
            out.append((ends[end] - ends[start], size))
            start, size = end, 1
    return tuple(out)


def through_program(dims: Dims, view: Instruction) -> Dims | None:
    """The same correspondence for the program view's operand; None if it cannot be said."""
    parts = blocks(view)
    out: list[Entry] = []
    for entry in _joint(dims, parts, view.shape):
        moved = (_replaced if entry.pattern else _replaced_free)(entry.program, parts)
        if moved is None:
            return None
        out.append(entry._replace(program=moved))
    return normal(out)


def _joint(dims: Dims, parts: Sequence[Block], shape: Shape) -> list[Entry]:
    """The entries, those as one whose program dimensions a view of that shape makes of one run."""
    entries = list(dims)
    for outer, inner in parts:
        touched = [e for e in entries if e[0] and set(e[1]) & set(outer)]
        if inner and len(touched) > 1:
            touched.sort(key=lambda e: outer.index(next(k for k in e[1] if k in outer)))
            entries = [*(e for e in entries if e not in touched), _as_one(touched, shape)]
    return entries


def _as_one(entries: Sequence[Entry], program: Shape) -> Entry:
    """One entry for several, whose dimensions follow each other."""
    known = [_sizes(e, program) for e in entries]
    sizes = tuple(pair for each in known for pair in each) if all(known) else ()
    return Entry(tuple(k for e in entries for k in e.pattern), tuple(k for e in entries for k in e.program), sizes)


def _sizes(entry: Entry, program: Shape) -> Sizes:
    return ((1, _size(entry.program, program)),) if len(entry.pattern) == 1 else entry.sizes


def _size(dimensions: Sequence[int], shape: Shape) -> int:
    return prod(shape.dims[k] for k in dimensions)


def _have_sizes(runs: Sequence[Sequence[int]], sizes: Sizes, program: Shape) -> bool:
    """True when runs of the program's dimensions have the sizes that are known."""
    k = 0
    for count, size in sizes:
        if prod(_size(run, program) for run in runs[k : k + count]) != size:
            return False
        k += count
    return True


def without_broadcast(dims: Dims, view: Instruction) -> Dims:
    """The correspondence, less the program's dimensions that a broadcast makes."""
    made = {k for outer, inner in blocks(view) if not inner for k in outer}
    return normal(e if made.isdisjoint(e[1]) else (e[0], tuple(k for k in e[1] if k not in made)) for e in dims)


def apart_where_made(dims: Dims, pattern_view: Instruction, program_view: Instruction) -> Dims:
    """The correspondence with entries taken apart into what two broadcasts make and what they do not."""
    mine, other = ({k for outer, inner in blocks(v) if not inner for k in outer} for v in (pattern_view, program_view))
    entries: list[Entry] = []
    for entry in dims:
        pattern, program, _ = entry
        runs, program_runs = _runs(pattern, mine), _runs(program, other)
        same = [made for made, _ in runs] == [made for made, _ in program_runs]
        if len(pattern) > 1 and same:
            entries.extend(Entry(a, b) for (_, a), (_, b) in zip(runs, program_runs, strict=True))
        else:
            entries.append(entry)
    return normal(entries)


def _runs(items: Sequence[int], made: Collection[int]) -> list[tuple[bool, tuple[int, ...]]]:
    return [(key, tuple(run)) for key, run in groupby(items, made.__contains__)]


# iota(d) of an array == broadcast(iota) of a row
def along(dims: Dims, dimension: int) -> Dims:
    """The correspondence for an array that is the same along all of the program's dimensions but one."""
    return normal(e if e[0] else (e[0], tuple(k for k in e[1] if k == dimension)) for e in dims)


def in_pairs(dims: Dims, shape: Shape) -> Dims:
    """The correspondence with entries of as many dimensions on both sides taken apart, one dimension for one.

    `shape` is the program's.
    """
    entries: list[Entry] = []
    for entry in dims:
        pattern, program, sizes = entry
        if len(pattern) == len(program) and _have_sizes([(d,) for d in program], sizes, shape):
            entries.extend(Entry((p,), (d,)) for p, d in zip(pattern, program, strict=True))
        else:
            entries.append(entry)
    return normal(entries)


def _replaced(run: tuple[int, ...], parts: Sequence[Block]) -> tuple[int, ...] | None:
    """The operand dimensions for a run of result dimensions, in the same order; None where a block is cut."""
    first = {outer[0]: (outer, inner) for outer, inner in parts}
    out: list[int] = []
    k = 0
    while k < len(run):
        found = first.get(run[k])
        if found is None or run[k : k + len(found[0])] != found[0] or not found[1]:
            return None
        out.extend(found[1])
        k += len(found[0])
    return tuple(out)


def _replaced_free(program: tuple[int, ...], parts: Sequence[Block]) -> tuple[int, ...] | None:
    """As `_replaced`, for dimensions whose order does not matter; those that the view made are gone."""
    left = set(program)
    out: list[int] = []
    for outer, inner in parts:
        if set(outer) & left:
            if not set(outer) <= left:
                return None
            left -= set(outer)
            out.extend(inner)
    return None if left else tuple(sorted(out))


def taken_apart(dims: Dims, shape: Shape) -> Iterator[Dims]:
    """The correspondences in which no entry has several pattern dimensions; none if something is still broadcast.

    `shape` is the program's. What has been said of the sizes holds: heads and features that a reshape joins come apart
    only where it is undone.
    """
    if any(program and not pattern for pattern, program, _ in dims):
        return
    joint = next((e for e in dims if len(e.pattern) > 1), None)
    if joint is None:
        yield dims
        return
    rest = [e for e in dims if e is not joint]
    for runs in splits(joint.program, len(joint.pattern)):
        if _have_sizes(runs, joint.sizes, shape):
            apart = [Entry((p,), run) for p, run in zip(joint.pattern, runs, strict=True)]
            yield from taken_apart(normal([*rest, *apart]), shape)


def sizes(dims: Dims, shape: Shape) -> dict[tuple[int, ...], int]:
    """How many elements of the program's shape stand for each pattern dimension that is by itself.

    What is tried may have fewer dimensions than the program has there: those are left out.
    """
    alone = [e for e in dims if len(e.pattern) == 1 and all(k < len(shape.dims) for k in e.program)]
    return {e.pattern: _size(e.program, shape) for e in alone}


def lookup(dims: Dims, pattern_dimension: int) -> tuple[int, ...]:
    """The program dimensions of one pattern dimension."""
    return next((e.program for e in dims if e.pattern == (pattern_dimension,)), ())


def in_order(dims: Dims) -> bool:
    """True when the program's dimensions come in the pattern's order."""
    flat = [d for e in dims if e.pattern for d in e.program]
    return flat == sorted(flat)
