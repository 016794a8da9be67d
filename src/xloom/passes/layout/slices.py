"""slice, dynamic-slice, pad and concatenate."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, pairwise

from xloom.hlo.attributes import SliceDimension
from xloom.hlo.instruction import Instruction
from xloom.hlo.shape import array_shape
from xloom.passes.match import is_elementwise, splat
from xloom.passes.rewrite import Rewriter, RuleTable

rule = RuleTable()

_MOST_PARTS = 16
"""Arrays put together that are computed with apart."""
_LOOKED_AT = 24
"""Operators that may be between a slice and what it is a slice of in the end."""


# slice(x) == x; when all of x is taken
@rule("slice", "dynamic-slice")
def _everything(i: Instruction, rw: Rewriter) -> Instruction | None:
    x = i.operands[0]
    return x if x.shape.dims == i.shape.dims else None


# slice(slice(x, a), b) == slice(x, a[b])
@rule("slice")
def _slice_twice(i: Instruction, rw: Rewriter) -> Instruction | None:
    inner = i.operands[0]
    if inner.opcode != "slice":
        return None
    dims = tuple(
        SliceDimension(a.start + b.start * a.stride, min(a.limit, a.start + b.limit * a.stride), a.stride * b.stride)
        for a, b in zip(inner["slice"], i["slice"], strict=True)
    )
    return rw.make("slice", i.shape, inner.operands, slice=dims)


# slice(concatenate(..., x, ...)) == slice(x); when it takes elements of x only
@rule("slice")
def _slice_of_concatenate(i: Instruction, rw: Rewriter) -> Instruction | None:
    joined = i.operands[0]
    if joined.opcode != "concatenate" or not i.shape.size:
        return None
    (along,) = joined["dimensions"]
    dims = list(i["slice"])
    start, limit, stride = dims[along]
    for x in joined.operands:
        size = x.shape.dims[along]
        if start < size:
            break
        start, limit = start - size, limit - size
    last = start + (i.shape.dims[along] - 1) * stride
    if last >= size:
        return None
    dims[along] = SliceDimension(start, min(limit, size), stride)
    return rw.make("slice", i.shape, [x], slice=tuple(dims))


# slice(f(x, y)) == f(slice(x), slice(y)); f elementwise, of parts put together, and read in slices that share nothing
@rule("slice")
def _slice_of_computed_parts(i: Instruction, rw: Rewriter) -> Instruction | None:
    whole = i.operands[0]
    if not is_elementwise(whole) or whole.is_root or not i.shape.size:
        return None
    if any(user.opcode != "slice" for user in whole.users) or (joined := _parts_inside(whole)) is None:
        return None
    (along,) = joined["dimensions"]
    ends = 0
    for start, limit in sorted((u["slice"][along].start, u["slice"][along].limit) for u in whole.users):
        if start < ends:
            return None
        ends = limit
    bounds = list(accumulate((x.shape.dims[along] for x in joined.operands), initial=0))
    start, limit, _ = i["slice"][along]
    if not any(low <= start and limit <= high for low, high in pairwise(bounds)):
        return None
    parts = [
        rw.once("slice", array_shape(o.shape.dtype, i.shape.dims), o, slice=i["slice"]) if o.shape.rank else o
        for o in whole.operands
    ]
    return rw.make(whole.opcode, i.shape, parts, **whole.attrs)


def _parts_inside(x: Instruction) -> Instruction | None:
    """The concatenation that an expression begins with."""
    todo = [x]
    for i in todo:
        for o in i.operands:
            if o.opcode == "concatenate" and len(o.operands) <= _MOST_PARTS:
                return o
            if is_elementwise(o) and len(todo) < _LOOKED_AT and o not in todo:
                todo.append(o)
    return None


# dynamic-slice(x, c) == slice(x, clamp(c)); constant starts
@rule("dynamic-slice")
def _known_start(i: Instruction, rw: Rewriter) -> Instruction | None:
    x = i.operands[0]
    starts = _constant_starts(i.operands[1:], x.shape.dims, i.shape.dims)
    if starts is None:
        return None
    dims = tuple(SliceDimension(s, s + size) for s, size in zip(starts, i.shape.dims, strict=True))
    return rw.make("slice", i.shape, [x], slice=dims)


# pad(x, 0_0) == x
@rule("pad")
def _no_padding(i: Instruction, rw: Rewriter) -> Instruction | None:
    # interior padding of a dimension of size 1 adds nothing either, so look at what the sizes say
    x = i.operands[0]
    unmoved = all(p.low == 0 and p.high == 0 for p in i["padding"])
    return x if unmoved and x.shape.dims == i.shape.dims else None


# pad(x, p) == slice(x); when p only cuts
@rule("pad")
def _only_cuts(i: Instruction, rw: Rewriter) -> Instruction | None:
    x, padding = i.operands[0], i["padding"]
    if not any(p.low or p.high for p in padding) or any(p.low > 0 or p.high > 0 or p.interior for p in padding):
        return None
    dims = tuple(SliceDimension(-p.low, n + p.high) for p, n in zip(padding, x.shape.dims, strict=True))
    if any(d.limit < d.start for d in dims):
        return None
    return rw.make("slice", i.shape, [x], slice=dims)


# concatenate(x) == x;  concatenate(x, {}, y) == concatenate(x, y)
@rule("concatenate")
def _concatenate_nothing(i: Instruction, rw: Rewriter) -> Instruction | None:
    parts = [x for x in i.operands if x.shape.size]
    if len(i.operands) == 1 or len(parts) == 1:
        return (parts or i.operands)[0]
    if not parts or len(parts) == len(i.operands):
        return None
    return rw.make("concatenate", i.shape, parts, dimensions=i["dimensions"])


# concatenate(concatenate(x, y), z) == concatenate(x, y, z); along one dimension
@rule("concatenate")
def _concatenate_twice(i: Instruction, rw: Rewriter) -> Instruction | None:
    def nested(x: Instruction) -> bool:
        return x.opcode == "concatenate" and x["dimensions"] == i["dimensions"] and len(x.users) == 1

    if not any(nested(x) for x in i.operands):
        return None
    parts = [part for x in i.operands for part in (x.operands if nested(x) else (x,))]
    return rw.make("concatenate", i.shape, parts, dimensions=i["dimensions"])


# concatenate(slice(x, a:b), slice(x, b:c)) == slice(x, a:c)
@rule("concatenate")
def _concatenate_neighbours(i: Instruction, rw: Rewriter) -> Instruction | None:
    (along,) = i["dimensions"]
    parts: list[Instruction] = []
    for part in i.operands:
        joined = _join(parts[-1], part, along, rw) if parts else None
        if joined is None:
            parts.append(part)
        else:
            parts[-1] = joined
    if len(parts) == len(i.operands):
        return None
    return rw.make("concatenate", i.shape, parts, dimensions=i["dimensions"])


def _join(a: Instruction, b: Instruction, along: int, rw: Rewriter) -> Instruction | None:
    if a.opcode != "slice" or b.opcode != "slice" or a.operands[0] is not b.operands[0]:
        return None
    left, right = list(a["slice"]), list(b["slice"])
    first, second = left[along], right[along]
    left[along] = right[along] = SliceDimension(first.start, second.limit)
    if left != right or first.stride != 1 or second.stride != 1 or first.limit != second.start:
        return None
    dims = list(a.shape.dims)
    dims[along] += b.shape.dims[along]
    return rw.make("slice", array_shape(a.shape.dtype, dims), a.operands, slice=tuple(left))


def _constant_starts(starts: Sequence[Instruction], dims: tuple[int, ...], sizes: tuple[int, ...]) -> list[int] | None:
    """Start indices, clamped so that the slice fits, if all are known."""
    if len(starts) != len(dims):
        return None  # the old form: one array of starts
    values = [splat(s) for s in starts]
    if any(v is None for v in values):
        return None
    return [max(0, min(int(v), n - k)) for v, n, k in zip(values, dims, sizes, strict=True)]  # type: ignore[arg-type]
