"""Which dimensions of a program's value play the role of which dimensions of a pattern's value.

A correspondence is a tuple of entries (pattern dimensions, program dimensions). One pattern dimension may stand for
several of the program's (a batch), or for none (one of size 1); an entry without pattern dimensions holds those that
the pattern says are broadcast; one with several is not taken apart yet.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import combinations_with_replacement, groupby

from xloom.hlo.instruction import Instruction
from xloom.hlo.shape import Shape
from xloom.passes.pattern.views import Block, blocks, wide

Entry = tuple[tuple[int, ...], tuple[int, ...]]
Dims = tuple[Entry, ...]


def normal(entries: Iterable[Entry]) -> Dims:
    """The entries in order, without those that say nothing."""
    return tuple(sorted(e for e in entries if e[0] or e[1]))


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


def identity(pattern: Shape, program: Shape) -> Dims | None:
    """Each dimension for itself; None when the shapes are not alike."""
    if not pattern.is_array or not program.is_array:
        return () if pattern.is_array == program.is_array else None
    if pattern.rank != program.rank or wide(pattern) != wide(program):
        return None
    return normal(((k,), (k,)) for k in wide(pattern))


def through_pattern(dims: Dims, view: Instruction) -> Dims | None:
    """The same correspondence for the pattern view's operand; None if it cannot be said."""
    parts = blocks(view)
    entries = [e for e in dims if e[0]]
    for outer, _ in parts:
        touched = [e for e in entries if set(e[0]) & set(outer)]
        if len(touched) > 1:
            touched.sort(key=lambda e: outer.index(next(k for k in e[0] if k in outer)))
            joint = tuple(k for e in touched for k in e[0]), tuple(k for e in touched for k in e[1])
            entries = [*(e for e in entries if e not in touched), joint]
    made = {k for outer, inner in parts if not inner for k in outer}
    free = [k for e in dims if not e[0] for k in e[1]]
    out: list[Entry] = []
    for pattern, program in entries:
        if made.issuperset(pattern):
            free.extend(program)
            continue
        moved = _replaced(pattern, parts)
        if moved is None:
            return None
        out.append((moved, program))
    return normal([*out, ((), tuple(sorted(free)))])


def through_program(dims: Dims, view: Instruction) -> Dims | None:
    """The same correspondence for the program view's operand; None if it cannot be said."""
    parts = blocks(view)
    out: list[Entry] = []
    for pattern, program in _joint(dims, parts):
        moved = _replaced(program, parts) if pattern else _replaced_free(program, parts)
        if moved is None:
            return None
        out.append((pattern, moved))
    return normal(out)


def _joint(dims: Dims, parts: Sequence[Block]) -> list[Entry]:
    """The entries, those as one whose program dimensions a view makes of one run."""
    entries = list(dims)
    for outer, inner in parts:
        touched = [e for e in entries if e[0] and set(e[1]) & set(outer)]
        if inner and len(touched) > 1:
            touched.sort(key=lambda e: outer.index(next(k for k in e[1] if k in outer)))
            joint = tuple(k for e in touched for k in e[0]), tuple(k for e in touched for k in e[1])
            entries = [*(e for e in entries if e not in touched), joint]
    return entries


def without_broadcast(dims: Dims, view: Instruction) -> Dims:
    """The correspondence, less the program's dimensions that a broadcast makes."""
    made = {k for outer, inner in blocks(view) if not inner for k in outer}
    return normal((p, d if made.isdisjoint(d) else tuple(k for k in d if k not in made)) for p, d in dims)


def apart_where_made(dims: Dims, pattern_view: Instruction, program_view: Instruction) -> Dims:
    """The correspondence with entries taken apart into what two broadcasts make and what they do not."""
    mine, other = ({k for outer, inner in blocks(v) if not inner for k in outer} for v in (pattern_view, program_view))
    entries: list[Entry] = []
    for pattern, program in dims:
        runs, program_runs = _runs(pattern, mine), _runs(program, other)
        same = [made for made, _ in runs] == [made for made, _ in program_runs]
        if len(pattern) > 1 and same:
            entries.extend((a, b) for (_, a), (_, b) in zip(runs, program_runs, strict=True))
        else:
            entries.append((pattern, program))
    return normal(entries)


def _runs(items: Sequence[int], made: Collection[int]) -> list[tuple[bool, tuple[int, ...]]]:
    return [(key, tuple(run)) for key, run in groupby(items, made.__contains__)]


# iota(d) of an array == broadcast(iota) of a row
def along(dims: Dims, dimension: int) -> Dims:
    """The correspondence for an array that is the same along all of the program's dimensions but one."""
    return normal((p, d if p else tuple(k for k in d if k == dimension)) for p, d in dims)


def in_pairs(dims: Dims) -> Dims:
    """The correspondence with entries of as many dimensions on both sides taken apart, one dimension for one."""
    entries: list[Entry] = []
    for pattern, program in dims:
        if len(pattern) == len(program):
            entries.extend(((p,), (d,)) for p, d in zip(pattern, program, strict=True))
        else:
            entries.append((pattern, program))
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


def taken_apart(dims: Dims) -> Iterator[Dims]:
    """The correspondences in which no entry has several pattern dimensions; none if something is still broadcast."""
    if any(program and not pattern for pattern, program in dims):
        return
    joint = next((e for e in dims if len(e[0]) > 1), None)
    if joint is None:
        yield dims
        return
    rest = [e for e in dims if e is not joint]
    for runs in splits(joint[1], len(joint[0])):
        yield from taken_apart(normal([*rest, *(((p,), run) for p, run in zip(joint[0], runs, strict=True))]))


def lookup(dims: Dims, pattern_dimension: int) -> tuple[int, ...]:
    """The program dimensions of one pattern dimension."""
    return next((program for pattern, program in dims if pattern == (pattern_dimension,)), ())


def in_order(dims: Dims) -> bool:
    """True when the program's dimensions come in the pattern's order."""
    flat = [d for pattern, program in dims if pattern for d in program]
    return flat == sorted(flat)
