"""dynamic-update-slice: parts of parts, as views that are written to record them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from xloom.hlo.attributes import SliceDimension
from xloom.hlo.dtype import s64, u64
from xloom.hlo.instruction import Instruction
from xloom.hlo.shape import array_shape
from xloom.passes.match import splat
from xloom.passes.rewrite import Rewriter, RuleTable

rule = RuleTable()

Start = int | Instruction
"""Where a window begins: clamped already, or by whoever reads it."""


class _Window(NamedTuple):
    starts: list[Start]
    sizes: tuple[int, ...]


# dynamic-update-slice(x, y) == y; y of x's size.  == x; y without elements
@rule("dynamic-update-slice")
def _everything_or_nothing(i: Instruction, rw: Rewriter) -> Instruction | None:
    x, y = i.operands[:2]
    if y.shape.dims == x.shape.dims:
        return y
    return x if not y.shape.size else None


# dynamic-update-slice(x, slice(x, s), s) == x
@rule("dynamic-update-slice")
def _the_same_again(i: Instruction, rw: Rewriter) -> Instruction | None:
    x, y = i.operands[:2]
    return x if _is_part(y, x, _written(i)) else None


# dynamic-update-slice(dynamic-update-slice(x, y, s), z, s) == dynamic-update-slice(x, z, s)
@rule("dynamic-update-slice")
def _overwritten(i: Instruction, rw: Rewriter) -> Instruction | None:
    before, z, *starts = i.operands
    if before.opcode != "dynamic-update-slice" or len(before.users) != 1 or _written(before) != _written(i):
        return None
    return rw.make("dynamic-update-slice", i.shape, [before.operands[0], z, *starts])


# dynamic-update-slice(x, dynamic-update-slice(slice(x, s), y, t), s) == dynamic-update-slice(x, y, s + t)
@rule("dynamic-update-slice")
def _part_of_a_part(i: Instruction, rw: Rewriter) -> Instruction | None:
    x, part = i.operands[:2]
    inner = part.operands[0] if part.opcode == "reshape" else part
    if inner.opcode != "dynamic-update-slice" or len(inner.users) != 1 or len(part.users) != 1:
        return None
    outer = _written(i)
    dims = part.shape.dims
    found = _written(inner)
    places = _places(dims, inner.shape.dims)
    kinds = {s.shape.dtype for update in (i, inner) for s in update.operands[2:]}
    if u64 in kinds and len(kinds) > 1:
        return None  # no type has all of their values
    if outer is None or found is None or places is None or not _is_part(inner.operands[0], x, outer):
        return None
    sizes = [1 if p is None else found.sizes[p] for p in places]
    starts: list[Start] = []
    for d, p in enumerate(places):
        first, second = outer.starts[d], 0 if p is None else found.starts[p]
        if isinstance(first, int) and isinstance(second, int):
            starts.append(first + second)
        elif sizes[d] == dims[d]:
            starts.append(first)
        elif dims[d] == x.shape.dims[d]:
            starts.append(second)
        else:
            return None
    y = inner.operands[1]
    new = rw.make("reshape", array_shape(y.shape.dtype, sizes), [y])
    return rw.make("dynamic-update-slice", i.shape, [x, new, *_of_one_type(starts, rw)])


# slice(dynamic-update-slice(x, y, s), t) == slice(y, t - s); when nothing else of it is read
@rule("slice")
def _slice_of_update(i: Instruction, rw: Rewriter) -> Instruction | None:
    update = i.operands[0]
    if update.opcode != "dynamic-update-slice" or not all(_inside(user, update) for user in update.users):
        return None
    window = _written(update)
    assert window is not None
    dims = tuple(
        SliceDimension(d.start - s, d.limit - s, d.stride)
        for d, s in zip(i["slice"], window.starts, strict=True)
        if isinstance(s, int)
    )
    return rw.make("slice", i.shape, [update.operands[1]], slice=dims)


def _inside(user: Instruction, update: Instruction) -> bool:
    """Whether all that is read of an update is what was written."""
    window = _written(update)
    if user.opcode != "slice" or window is None or not user.shape.size:
        return False
    return all(
        isinstance(s, int) and s <= d.start and d.limit <= s + n
        for d, s, n in zip(user["slice"], window.starts, window.sizes, strict=True)
    )


def _written(update: Instruction) -> _Window | None:
    """What an update writes; None of the old form, whose starts are one array."""
    x, y, *starts = update.operands
    return _window(starts, x.shape.dims, y.shape.dims)


def _is_part(part: Instruction, x: Instruction, window: _Window | None) -> bool:
    """Whether an array is what `x` has in a window, but for dimensions of size 1."""
    if window is None:
        return False
    if part.opcode == "reshape" and _places(window.sizes, part.shape.dims) is not None:
        part = part.operands[0]
    if _places(window.sizes, part.shape.dims) is None:
        return False
    value = splat(x)
    if value is not None:
        other = splat(part)
        return other is not None and value.tobytes() == other.tobytes()
    if part.opcode == "dynamic-slice" and part.operands[0] is x:
        return _window(part.operands[1:], x.shape.dims, part.shape.dims) == window
    found = _place(part, x)
    return found is not None and (found[0], window.sizes) == (window.starts, _sizes(part, found[1], x))


def _place(part: Instruction, x: Instruction) -> tuple[list[int], list[int | None]] | None:
    """Where in `x` a part begins that slices take of it, and the dimension of `x` that each of its own is."""
    steps: list[Instruction] = []
    while part is not x:
        if part.opcode not in ("slice", "reshape"):
            return None
        steps.append(part)
        part = part.operands[0]
    starts, dims = [0] * x.shape.rank, list[int | None](range(x.shape.rank))
    for step in reversed(steps):
        if step.opcode == "reshape":
            places = _places(step.shape.dims, step.operands[0].shape.dims)
            if places is None:
                return None
            dims = [None if p is None else dims[p] for p in places]
            continue
        for d, (start, _, stride) in zip(dims, step["slice"], strict=True):
            if stride != 1:
                return None
            if d is not None:
                starts[d] += start
    return starts, dims


def _sizes(part: Instruction, dims: list[int | None], x: Instruction) -> tuple[int, ...]:
    sizes = [1] * x.shape.rank
    for d, n in zip(dims, part.shape.dims, strict=True):
        if d is not None:
            sizes[d] = n
    return tuple(sizes)


def _window(starts: Sequence[Instruction], dims: tuple[int, ...], sizes: tuple[int, ...]) -> _Window | None:
    if len(starts) != len(dims):
        return None
    found: list[Start] = []
    for start, n, k in zip(starts, dims, sizes, strict=True):
        value = 0 if n == k else splat(start)
        found.append(start if value is None else max(0, min(int(value), n - k)))
    return _Window(found, sizes)


def _places(dims: tuple[int, ...], others: tuple[int, ...]) -> list[int | None] | None:
    """The dimension of `others` that each of `dims` is, none of those of size 1; None where that is not all."""
    wide = [d for d, n in enumerate(others) if n != 1]
    if [others[d] for d in wide] != [n for n in dims if n != 1]:
        return None
    following = iter(wide)
    return [None if n == 1 else next(following) for n in dims]


def _of_one_type(starts: Sequence[Start], rw: Rewriter) -> list[Instruction]:
    dtypes = {s.shape.dtype for s in starts if not isinstance(s, int)}
    dtype = dtypes.pop() if len(dtypes) == 1 else s64
    scalar = array_shape(dtype if dtype.bits >= 32 else s64, ())
    return [rw.constant(scalar, s) if isinstance(s, int) else rw.converted(s, scalar.dtype) for s in starts]
