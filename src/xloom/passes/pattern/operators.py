"""One step of matching: a pattern's operator against a program's, and which operands must then match, and how."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from math import prod

from xloom.hlo.attributes import SliceDimension
from xloom.hlo.instruction import Instruction
from xloom.passes.pattern.constraint import attributes_differ, functions_differ
from xloom.passes.pattern.dims import (
    Dims,
    Entry,
    apart_where_made,
    identity,
    in_pairs,
    is_identity,
    lookup,
    normal,
    splits,
    through_pattern,
    through_program,
)
from xloom.passes.pattern.gathers import pick_of
from xloom.passes.pattern.views import core, is_view, wide


@dataclass(frozen=True)
class Goal:
    """A value of the pattern that must be matched with one of the program, with what is known about dimensions."""

    pattern: Instruction
    program: Instruction
    dims: Dims | None
    """None for tuples."""
    negated: bool = False
    """The pattern's truth values are the negation of the program's."""
    reciprocal: bool = False
    """The pattern's constant is one over the program's."""


class Mismatch(Exception):
    """Why two instructions do not match; `about_dims` when another correspondence of dimensions might do."""

    def __init__(self, reason: str, about_dims: bool = False):
        super().__init__(reason)
        self.reason = reason
        self.about_dims = about_dims


Goals = list[Goal]
Rule = Callable[[Instruction, Instruction, Dims], Iterator[Goals]]


def operand_goals(
    pattern: Instruction, program: Instruction, dims: Dims | None, negated: bool = False
) -> Iterator[Goals]:
    """The candidates to go on with from two instructions of the same opcode: each a list of goals that must all be met.

    Entries of `dims` have one pattern dimension each, except for elementwise operators, dots and reductions. Where the
    pattern has the negation of the program's truth values, opcodes are those that `negated_opcode` says. Raises
    Mismatch when attributes or called computations differ, or when dimensions do not correspond.
    """
    if len(pattern.operands) != len(program.operands):
        raise Mismatch(f"{program.name} has {len(program.operands)} operands, not {len(pattern.operands)}")
    if pattern.opcode == "get-tuple-element":
        _same_attributes(pattern, program)
        # the results of a variadic reduction have their dimensions in common
        if program.operands[0].opcode == "reduce":
            yield [Goal(pattern.operands[0], program.operands[0], dims)]
        elif not is_identity(dims):
            raise Mismatch(f"{program.name} is {program.shape}, not like {pattern.shape}", about_dims=True)
        else:
            yield [Goal(pattern.operands[0], program.operands[0], None)]
        return
    if dims is None:
        yield _alike(pattern, program, dims)
    elif pattern.op.elementwise:
        yield from _negated(pattern, program, dims) if negated else _elementwise(pattern, program, dims)
    elif any(e.program and not e.pattern for e in dims):
        raise Mismatch(f"{program.name} is not broadcast where the pattern's is", about_dims=True)
    elif pattern.opcode in _RULES:
        yield from _RULES[pattern.opcode](pattern, program, dims)
    else:
        yield _alike(pattern, program, dims)


def below_views(
    pattern: Instruction, program: Instruction, dims: Dims, views: list[Instruction]
) -> tuple[Instruction, Instruction, Dims]:
    """The pattern's value without the views around it, and the correspondence for that.

    Where the pattern takes dimensions apart (a broadcast that it reshapes, of repeated heads), the program's own views
    must say which is which: they are gone through as well, and noted in `views`.
    """
    while is_view(pattern):
        moved = through_pattern(dims, pattern, program.shape)
        if moved is not None:
            pattern, dims = pattern.operands[0], moved
            continue
        below = through_program(dims, program) if is_view(program) else None
        if below is None:
            apart = apart_where_made(dims, pattern, program) if is_view(program) else dims
            if apart == dims:
                raise Mismatch(f"dimensions mix in {pattern.name}", about_dims=True)
            dims = apart
            continue
        views.append(program)
        program, dims = program.operands[0], in_pairs(below, program.operands[0].shape)
    return pattern, program, dims


def _elementwise(pattern: Instruction, program: Instruction, dims: Dims) -> Iterator[Goals]:
    orders = [program.operands]
    if pattern.op.commutes:
        orders.append(program.operands[::-1])
    if pattern.opcode == "compare":
        orders = _compared(pattern, program)
    else:
        _same_attributes(pattern, program)
    for operands in orders:
        yield _edges(pattern, program, operands, dims)
    # select(c, a, b) == select(not c, b, a)
    if pattern.opcode == "select":
        yield _edges(pattern, program, _branches_swapped(program), dims, (True, False, False))


def _negated(pattern: Instruction, program: Instruction, dims: Dims) -> Iterator[Goals]:
    """As `_elementwise`, where the pattern has the negation of the program's truth values."""
    if pattern.opcode == "compare":
        for operands in _compared(pattern, program, negated=True):
            yield _edges(pattern, program, operands, dims)
    # not select(c, a, b) == select(c, not a, not b)
    elif pattern.opcode == "select":
        yield _edges(pattern, program, program.operands, dims, (False, True, True))
        yield _edges(pattern, program, _branches_swapped(program), dims, (True, True, True))
    # not or(a, b) == and(not a, not b)
    elif pattern.opcode in _DUAL:
        for operands in (program.operands, program.operands[::-1]):
            yield _edges(pattern, program, operands, dims, (True, True))
    elif pattern.opcode == "not":
        yield _edges(pattern, program, program.operands, dims, (True,))
    else:
        raise Mismatch(f"{program.name} is the negation of what {pattern.name} stands for")


# x / c == x (1 / c)
def reciprocal_goals(pattern: Instruction, program: Instruction, dims: Dims) -> Iterator[Goals]:
    """The candidates where one of two operators divides by a constant, and the other multiplies by one."""
    if {pattern.opcode, program.opcode} != {"divide", "multiply"} or not program.shape.dtype.is_float:
        return
    for mine, my_constant in _constant_last(pattern):
        for other, constant in _constant_last(program):
            edge = _edge(pattern, my_constant, program, constant, dims, False)
            yield [_edge(pattern, mine, program, other, dims, False), replace(edge, reciprocal=True)]


def _constant_last(instruction: Instruction) -> list[Sequence[Instruction]]:
    orders = [instruction.operands, instruction.operands[::-1]]
    return [o for o in orders[: 1 + instruction.op.commutes] if _may_be_constant(core(o[1]))]


def _may_be_constant(instruction: Instruction) -> bool:
    return instruction.opcode == "constant" or (instruction.shape.is_scalar and instruction.op.elementwise)


def negated_opcode(pattern: Instruction) -> str:
    """The opcode that a program has for the negation of the pattern's truth values."""
    return _DUAL.get(pattern.opcode, pattern.opcode)


def _branches_swapped(select: Instruction) -> Sequence[Instruction]:
    condition, one, other = select.operands
    return condition, other, one


def _edges(
    pattern: Instruction,
    program: Instruction,
    operands: Sequence[Instruction],
    dims: Dims,
    negated: Sequence[bool] = (),
) -> Goals:
    """Goals for the operands of elementwise operators, those of the program in that order."""
    flags = negated or (False,) * len(operands)
    return [
        _edge(pattern, a, program, b, dims, flag) for a, b, flag in zip(pattern.operands, operands, flags, strict=True)
    ]


# compare(a, b, GE) == compare(b, a, LE); not compare(a, b, GE) == compare(a, b, LT), unless there are NaNs
def _compared(pattern: Instruction, program: Instruction, negated: bool = False) -> list[Sequence[Instruction]]:
    """The orders of the operands in which the program's comparison, or its negation, is the pattern's."""
    _same_attributes(pattern, program, "direction")
    allowed: str = pattern.frontend_attributes.get("direction") or pattern["direction"]
    found = program["direction"]
    if negated:
        if program.operands[0].shape.dtype.is_float and found not in ("EQ", "NE"):
            raise Mismatch(f"{program.name} is not the negation of a comparison, for there may be NaNs")
        found = _INVERTED[found]
    if allowed == "any":
        return [program.operands]
    directions = allowed.split("|")
    orders: list[Sequence[Instruction]] = [program.operands] if found in directions else []
    if _TURNED[found] in directions:
        orders.append(program.operands[::-1])
    if not orders:
        raise Mismatch(f"{program.name} has direction={found}, not {allowed}")
    return orders


def _edge(
    pattern: Instruction, mine: Instruction, program: Instruction, other: Instruction, dims: Dims, negated: bool
) -> Goal:
    """A goal for operands of elementwise operators; a scalar beside arrays (a bound of clamp) is broadcast."""
    if mine.shape.is_scalar and not pattern.shape.is_scalar:
        dims = normal(((), e.program) for e in dims)
    if other.shape.is_scalar and not program.shape.is_scalar:
        mine, _, dims = below_views(mine, other, dims, [])
        if any(e.pattern and e.program for e in dims):
            raise Mismatch(f"{other.name} is a scalar, {mine.name} is not", about_dims=True)
        dims = normal((e.pattern, ()) for e in dims)
    return Goal(mine, other, dims, negated)


def _alike(pattern: Instruction, program: Instruction, dims: Dims | None) -> Goals:
    """Operators without a rule: equal attributes, and each dimension for itself."""
    _same_attributes(pattern, program)
    _same_functions(pattern, program, shapes=True)
    if dims is not None and dims != identity(pattern.shape, program.shape):
        raise Mismatch(f"{program.name} is {program.shape}, not like {pattern.shape}", about_dims=True)
    goals = []
    for mine, other in zip(pattern.operands, program.operands, strict=True):
        same = identity(mine.shape, other.shape)
        if same is None:
            raise Mismatch(f"{other.name} is {other.shape}, not like {mine.shape}")
        goals.append(Goal(mine, other, same if mine.shape.is_array else None))
    return goals


def _reduce(pattern: Instruction, program: Instruction, dims: Dims) -> Iterator[Goals]:
    _same_attributes(pattern, program, "dimensions")
    _same_functions(pattern, program, shapes=False)
    count = len(pattern.operands) // 2
    mine, other = pattern.operands[0].shape, program.operands[0].shape
    my_kept = [k for k in range(mine.rank) if k not in pattern["dimensions"]]
    other_kept = [k for k in range(other.rank) if k not in program["dimensions"]]
    kept = [Entry(tuple(my_kept[k] for k in p), tuple(other_kept[k] for k in d), sizes) for p, d, sizes in dims]
    my_reduced = [k for k in wide(mine) if k in pattern["dimensions"]]
    other_reduced = [k for k in wide(other) if k in program["dimensions"]]
    if other_reduced and not my_reduced:
        raise Mismatch(f"{program.name} reduces dimensions {other_reduced}", about_dims=True)
    for runs in splits(other_reduced, len(my_reduced)):
        inner = normal([*kept, *(((m,), run) for m, run in zip(my_reduced, runs, strict=True))])
        yield [
            Goal(a, b, inner if k < count else ())
            for k, (a, b) in enumerate(zip(pattern.operands, program.operands, strict=True))
        ]


class _Dot:
    """The dimensions of a dot's operands by role; `swapped` with the operands exchanged."""

    def __init__(self, dot: Instruction, swapped: bool = False):
        sides = ("rhs", "lhs") if swapped else ("lhs", "rhs")
        self.operands = dot.operands[::-1] if swapped else dot.operands
        batch = list(zip(*(dot[f"{side}_batch_dims"] for side in sides), strict=True))
        contracted = list(zip(*(dot[f"{side}_contracting_dims"] for side in sides), strict=True))
        self.contracted = [pair for pair in contracted if self.operands[0].shape.dims[pair[0]] != 1]
        free: list[list[_Place]] = []
        for side in (0, 1):
            taken = {pair[side] for pair in (*batch, *contracted)}
            own = [k for k in range(self.operands[side].shape.rank) if k not in taken]
            free.append([(k, None) if side == 0 else (None, k) for k in own])
        self.of_result: list[_Place] = [*batch, *free[swapped], *free[not swapped]]


_Place = tuple[int | None, int | None]
"""The dimension of each operand that a dimension of the result is; None where the operand does not have it."""

_DOT_DIMS = ("lhs_batch_dims", "rhs_batch_dims", "lhs_contracting_dims", "rhs_contracting_dims")


# dot(a, b) == transpose(dot(b, a))
def _dot(pattern: Instruction, program: Instruction, dims: Dims) -> Iterator[Goals]:
    _same_attributes(pattern, program, *_DOT_DIMS)
    mine = _Dot(pattern)
    fits = False
    for other in (_Dot(program), _Dot(program, swapped=True)):
        known = [_side(mine, other, side, dims) for side in (0, 1)]
        if known[0] is None or known[1] is None:
            continue
        for runs in splits(range(len(other.contracted)), len(mine.contracted)):
            fits = True
            pairs = list(zip(mine.contracted, runs, strict=True))
            goals = []
            for side, entries in enumerate(known):
                summed = [((m[side],), tuple(other.contracted[k][side] for k in run)) for m, run in pairs]
                goals.append(Goal(mine.operands[side], other.operands[side], normal([*(entries or ()), *summed])))
            yield goals
    if not fits:
        raise Mismatch(f"{program.name} batches or contracts other dimensions", about_dims=True)


def _side(mine: _Dot, other: _Dot, side: int, dims: Dims) -> list[Entry] | None:
    """The correspondence for one operand, as far as the result's says it; None where roles differ."""
    entries: list[Entry] = []
    for pattern, program, sizes in dims:
        places = [*(mine.of_result[p] for p in pattern), *(other.of_result[d] for d in program)]
        if len({(one is None, two is None) for one, two in places}) > 1:
            return None
        own = [place[side] for place in places]
        if own[0] is not None:
            found = [k for k in own if k is not None]
            entries.append(Entry(tuple(found[: len(pattern)]), tuple(found[len(pattern) :]), sizes))
    return entries


def _gather(pattern: Instruction, program: Instruction, dims: Dims) -> Iterator[Goals]:
    mine, other = pick_of(pattern), pick_of(program)
    if mine is None or other is None:
        yield _alike(pattern, program, dims)
        return
    shape = program.operands[0].shape
    along = (((mine.axis,), (other.axis,) if other.axis in wide(shape) else ()),)
    places = normal((mine.indices_dims(e.pattern), other.indices_dims(e.program)) for e in dims)
    batch = ((mine.operand_dims(e.pattern), other.operand_dims(e.program)) for e in dims)
    yield [
        Goal(pattern.operands[0], program.operands[0], normal((*batch, *along))),
        Goal(pattern.operands[1], program.operands[1], places),
    ]


def _iota(pattern: Instruction, program: Instruction, dims: Dims) -> Iterator[Goals]:
    if not _same_dimension(dims, pattern["iota_dimension"], program, program["iota_dimension"]):
        raise Mismatch(f"{program.name} counts along another dimension", about_dims=True)
    yield []


def _concatenate(pattern: Instruction, program: Instruction, dims: Dims) -> Iterator[Goals]:
    if not _same_dimension(dims, pattern["dimensions"][0], program, program["dimensions"][0]):
        raise Mismatch(f"{program.name} joins along another dimension", about_dims=True)
    goals = []
    for mine, other in zip(pattern.operands, program.operands, strict=True):
        # a part of size 1 has no such dimension
        inner = (
            (tuple(k for k in p if k in wide(mine.shape)), tuple(k for k in d if k in wide(other.shape)))
            for p, d, _ in dims
        )
        goals.append(Goal(mine, other, normal(inner)))
    yield goals


def _same_dimension(dims: Dims, mine: int, program: Instruction, other: int) -> bool:
    """True when `other` stands for the pattern's dimension `mine` alone, or when both have size 1."""
    return lookup(dims, mine) == tuple(k for k in wide(program.shape) if k == other)


def _slice(pattern: Instruction, program: Instruction, dims: Dims) -> Iterator[Goals]:
    mine, other = pattern.operands[0].shape, program.operands[0].shape
    # where one element is left, the result does not have the dimension
    lost = [k for k in wide(mine) if not lookup(dims, k) and not _is_whole(pattern, k)]
    other_lost = [k for k in wide(other) if not any(k in e.program for e in dims)]
    strided = _strided(pattern, program, dims, lost)
    if strided is not None:
        lost = [k for k in lost if k not in strided.pattern]
    if len(lost) != len(other_lost):
        raise Mismatch(f"{program.name} takes one of dimensions {other_lost}", about_dims=True)
    inner = [e for e in dims if e.pattern[0] not in (*lost, *(strided.pattern if strided else ()))]
    inner += [Entry((a,), (b,)) for a, b in zip(lost, other_lost, strict=True)]
    for (p,), d, _ in inner:
        if _is_whole(pattern, p) and all(_is_whole(program, k) for k in d):
            continue
        if len(d) != 1 or not _same_slice(pattern["slice"][p], mine.dims[p], program["slice"][d[0]], other.dims[d[0]]):
            raise Mismatch(f"{program.name} takes another slice of dimensions {d}", about_dims=True)
    yield [Goal(pattern.operands[0], program.operands[0], normal([*inner, *([strided] if strided else [])]))]


# x[k::n] == x in rows of n, and of each row element k
def _strided(pattern: Instruction, program: Instruction, dims: Dims, lost: Sequence[int]) -> Entry | None:
    """The entry of the operands for a dimension of which the program takes every n-th element, the pattern one of n."""
    by_stride = [k for k, part in enumerate(program["slice"]) if part.stride > 1]
    if len(by_stride) != 1:
        return None
    entry = next((e for e in dims if e.program[-1:] == (by_stride[0],)), None)
    if entry is None or entry.pattern[0] + 1 not in lost or not _is_whole(pattern, entry.pattern[0]):
        return None
    shape = program.operands[0].shape
    start, limit, stride = program["slice"][by_stride[0]]
    one, rows = pattern["slice"][entry.pattern[0] + 1], shape.dims[by_stride[0]] // stride
    in_row = pattern.operands[0].shape.dims[entry.pattern[0] + 1]
    whole_rows = rows * stride == shape.dims[by_stride[0]] and limit > start + (rows - 1) * stride
    if not whole_rows or (one.start, one.limit, in_row) != (start, start + 1, stride):
        return None
    others = prod(shape.dims[k] for k in entry.program[:-1])
    return Entry((*entry.pattern, entry.pattern[0] + 1), entry.program, ((1, others * rows), (1, stride)))


def _is_whole(slice_: Instruction, dimension: int) -> bool:
    return slice_["slice"][dimension] == (0, slice_.operands[0].shape.dims[dimension], 1)


def _same_slice(mine: SliceDimension, my_size: int, other: SliceDimension, size: int) -> bool:
    """True for the same part (a half, a third), and for the same distances from both ends."""
    if mine.stride != other.stride:
        return False
    if (mine.start, my_size - mine.limit) == (other.start, size - other.limit):
        return True
    return mine.start * size == other.start * my_size and mine.limit * size == other.limit * my_size


def _reverse(pattern: Instruction, program: Instruction, dims: Dims) -> Iterator[Goals]:
    wanted = {d for p in pattern["dimensions"] for d in lookup(dims, p)}
    if wanted != {d for d in program["dimensions"] if d in wide(program.shape)}:
        raise Mismatch(f"{program.name} reverses dimensions {program['dimensions']}", about_dims=True)
    yield [Goal(pattern.operands[0], program.operands[0], dims)]


TAKE_JOINT = frozenset({"dot", "reduce"})
"""Operators whose rules take entries of several pattern dimensions."""

_DUAL = {"and": "or", "or": "and"}
_INVERTED = {"EQ": "NE", "NE": "EQ", "GE": "LT", "LT": "GE", "GT": "LE", "LE": "GT"}
_TURNED = {"EQ": "EQ", "NE": "NE", "GE": "LE", "LE": "GE", "GT": "LT", "LT": "GT"}

_RULES: dict[str, Rule] = {
    "concatenate": _concatenate,
    "dot": _dot,
    "gather": _gather,
    "iota": _iota,
    "reduce": _reduce,
    "reverse": _reverse,
    "slice": _slice,
}


def _same_attributes(pattern: Instruction, program: Instruction, *skip: str) -> None:
    found = attributes_differ(pattern, program, frozenset(skip))
    if found:
        raise Mismatch(found)


def _same_functions(pattern: Instruction, program: Instruction, shapes: bool) -> None:
    found = functions_differ(pattern, program, shapes)
    if found:
        raise Mismatch(found)
