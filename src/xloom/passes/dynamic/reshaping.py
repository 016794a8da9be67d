"""Reshapes of arrays of dynamic size: which of them leave elements where they are."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod

from xloom.hlo.instruction import Instruction
from xloom.passes.dynamic.resizing import Dims, Operand, Resizing, resizes
from xloom.passes.dynamic.sizes import Affine
from xloom.passes.dynamic.values import RULES, Padded, Place, Repeated, Size, only


@resizes("reshape")
def _reshape(
    r: Resizing, old: Instruction, others: Sequence[Instruction], operands: Sequence[Operand], dims: Dims
) -> Padded:
    array = r.filled(operands[0], rows=True)
    sizes = _in_place(r, array, old, dims)
    if sizes is not None:
        return Padded(r.emit.clone(old, [array.value]), sizes)
    for _, d in [*array.sizes]:
        r.close(array, d)
    _part(r, array, old, dims)
    sizes = _in_place(r, array, old, dims)
    if sizes is not None:
        return Padded(r.emit.clone(old, [array.value]), sizes)
    for _, d in [*array.sizes]:
        r.close(array, d)
    numbers = [r.scalar(dims[0, d]) if (0, d) in dims else r.emit.number(n) for d, n in enumerate(old.shape.dims)]
    given = [Padded(number, {}) for number in numbers]
    return r.sized(RULES["dynamic-reshape"](r.emit, old, [array, *given]).value, dims)


def _part(r: Resizing, array: Padded, old: Instruction, dims: Dims) -> None:
    """Gives a dimension that a reshape splits into rows of dynamic size the places of such rows."""
    for source, target in _groups(array.value.shape.dims, old.shape.dims):
        tos = [k for k, (d, _) in enumerate(target) if (0, d) in dims]
        if len(source) != 1 or (0, source[0][0]) not in array.sizes or len(tos) != 1:
            continue
        d, bound = source[0]
        rows = prod(n for _, n in target[: tos[0]])
        number = r.numbers[only(array.sizes[0, d])]
        if rows > 1 and number.scale % rows == 0 and number.offset % rows == 0:
            size = Repeated(r.scalar(Affine(number.scale // rows, number.offset // rows)), bound // rows)
            array.value = r.moved(array.value, d, r.place_of_rows(size, bound))
            array.sizes[0, d] = size


def _in_place(r: Resizing, array: Padded, old: Instruction, dims: Dims) -> dict[Place, Size] | None:
    """The result's sizes, if a reshape at the bounds has the elements where they belong; else None."""
    sizes: dict[Place, Size] = {}
    if not old.shape.size:
        return None
    for source, target in _groups(array.value.shape.dims, old.shape.dims):
        froms = [k for k, (d, _) in enumerate(source) if (0, d) in array.sizes]
        tos = [k for k, (d, _) in enumerate(target) if (0, d) in dims]
        if not froms and not tos:
            continue
        if len(froms) != 1 or len(tos) != 1:
            return None
        size = array.sizes[0, source[froms[0]][0]]
        made = _of_group(r, size, [n for _, n in source], froms[0], [n for _, n in target], tos[0])
        if made is None:
            return None
        place = (0, target[tos[0]][0])
        period, number = made
        repeats = target[tos[0]][1] // period
        if Affine(number.scale * repeats, number.offset * repeats) != dims[place]:
            return None
        sizes[place] = r.scalar(number) if repeats == 1 else Repeated(r.scalar(number), period)
    return sizes


def _of_group(
    r: Resizing, size: Size, source: Sequence[int], i: int, target: Sequence[int], j: int
) -> tuple[int, Affine] | None:
    """The period and size along `target[j]` of what has a size along `source[i]`, where both are the same elements."""
    number = r.numbers[size.size if isinstance(size, Repeated) else size]
    period = size.period if isinstance(size, Repeated) else source[i]
    rows = prod(source[:i]) * (source[i] // period)  # each of period * prod(source[i + 1 :]) elements
    inner, inner_of_target = prod(source[i + 1 :]), prod(target[j + 1 :])
    scaled = [n * inner for n in (period, number.scale, number.offset)]
    if any(n % inner_of_target for n in scaled):
        return None
    period, scale, offset = (n // inner_of_target for n in scaled)
    before = prod(target[:j])
    if rows % before or target[j] % period or rows // before != target[j] // period:
        return None
    return period, Affine(scale, offset)


def _groups(
    source: Sequence[int], target: Sequence[int]
) -> Iterator[tuple[list[tuple[int, int]], list[tuple[int, int]]]]:
    """Dimensions of a reshape that become others, as few as have the same number of elements: (number, size) each."""
    froms, tos = list(enumerate(source)), list(enumerate(target))
    while froms or tos:
        left, right = [froms.pop(0)] if froms else [], [tos.pop(0)] if tos else []
        while prod(n for _, n in left) != prod(n for _, n in right):
            if prod(n for _, n in left) < prod(n for _, n in right):
                left.append(froms.pop(0))
            else:
                right.append(tos.pop(0))
        while froms and froms[0][1] == 1 and not tos:
            left.append(froms.pop(0))
        while tos and tos[0][1] == 1 and not froms:
            right.append(tos.pop(0))
        yield left, right
