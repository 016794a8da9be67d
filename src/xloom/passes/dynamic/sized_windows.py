"""Windows of dynamic size, which are read and written where the program says."""

from __future__ import annotations

from collections.abc import Sequence

from xloom.hlo.attributes import PaddingDimension, SliceDimension
from xloom.hlo.instruction import Instruction
from xloom.hlo.shape import array_shape
from xloom.passes.dynamic.movement import clamped, of_one_type
from xloom.passes.dynamic.resizing import Dims, Operand, Resizing, alike, resizes
from xloom.passes.dynamic.sizes import Affine
from xloom.passes.dynamic.values import Padded, unsupported


@resizes("dynamic-slice")
def _slice(
    r: Resizing, old: Instruction, others: Sequence[Instruction], operands: Sequence[Operand], dims: Dims
) -> Padded:
    alike(r, old, others, "dynamic_slice_sizes")
    array = r.filled(operands[0])
    samples = (old, *others)
    window = [r.number(old, row) for row in zip(*(i["dynamic_slice_sizes"] for i in samples), strict=True)]
    at, behind = _places(r, samples, 1, operands, window)
    return r.sized(r.emit.clone(old, [_with_room(r, array.value, behind), *at]), dims)


@resizes("dynamic-update-slice")
def _update(
    r: Resizing, old: Instruction, others: Sequence[Instruction], operands: Sequence[Operand], dims: Dims
) -> Padded:
    """An update of dynamic size leaves what is behind it."""
    r.same(old, others)
    array, update = (r.filled(o) for o in operands[:2])
    if not update.sizes:
        return r.by_rule(old, [array, update, *operands[2:]], dims)
    sizes = update.value.shape.dims
    window = [operands[1].dims.get((0, d), Affine(0, n)) for d, n in enumerate(sizes)]
    at, behind = _places(r, (old, *others), 2, operands, window)
    wide = _with_room(r, array.value, behind)
    before = r.emit("dynamic-slice", update.value.shape, (wide, *at), {"dynamic_slice_sizes": sizes})
    new = update.value
    for (_, d), size in update.sizes.items():
        new = r.emit("select", new.shape, (r.emit.inside(new.shape, d, size), new, before))
    written = r.emit.clone(old, [wide, new, *at], wide.shape)
    if wide is not array.value:
        limits = tuple(SliceDimension(0, n) for n in old.shape.dims)
        written = r.emit("slice", old.shape, (written,), {"slice": limits})
    return r.sized(written, dims)


def _places(
    r: Resizing, samples: Sequence[Instruction], first: int, operands: Sequence[Operand], window: Sequence[Affine]
) -> tuple[list[Instruction], list[int]]:
    """Where a window of an array begins, clamped by the sizes at run time, and how far it reaches behind the array when
    it is as large as at the bounds. The places are the operands from `first` on."""
    starts = [o.value for o in operands[first:]]
    if any(start.shape.rank for start in starts):
        raise unsupported(samples[0])
    bound, least = r.sizes[0], min(r.sizes)
    at, behind = [], []
    for d, (start, own) in enumerate(zip(starts, window, strict=True)):
        size = operands[0].dims.get((0, d), Affine(0, operands[0].value.shape.dims[d]))
        most = Affine(size.scale - own.scale, size.offset - own.offset)
        known = _known([i.operands[first + d] for i in samples])
        if known is not None and 0 <= known <= min(most.at(bound), most.at(least)):
            at.append(start)
            behind.append(0)
            continue
        at.append(clamped(r.emit, start, r.scalar(most) if most.scale else r.emit.number(most.offset)))
        behind.append(max(0, -most.scale) * (bound - least))
    return of_one_type(r.emit, at), behind


def _known(starts: Sequence[Instruction]) -> int | None:
    """The place that is the same constant in all samples."""
    numbers = {int(s.literal.value) if s.opcode == "constant" else None for s in starts}
    return numbers.pop() if len(numbers) == 1 else None


def _with_room(r: Resizing, array: Instruction, behind: Sequence[int]) -> Instruction:
    """The array with so many zeros behind it."""
    if not any(behind):
        return array
    shape = array_shape(array.shape.dtype, [n + more for n, more in zip(array.shape.dims, behind, strict=True)])
    padding = tuple(PaddingDimension(0, more) for more in behind)
    return r.emit("pad", shape, (array, r.emit.zero(shape)), {"padding": padding})
