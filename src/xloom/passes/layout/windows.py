"""reduce-window: prefix scans along rows, done faster for many rows side by side; sums that have one addend."""

from __future__ import annotations

from xloom.hlo.attributes import SliceDimension, WindowDimension
from xloom.hlo.instruction import Instruction
from xloom.hlo.shape import Shape, array_shape, tuple_shape
from xloom.passes.match import splat
from xloom.passes.rewrite import Rewriter, RuleTable

rule = RuleTable()

_ROWS = 16
"""As many as a vector has lanes."""
_IN_VECTORS = frozenset({"add", "and", "maximum", "minimum", "multiply", "or", "xor"})
"""What vectors are reduced by within themselves, of numbers that processors compute with as they lie in memory."""


# running(x, rows) == transpose(running(transpose(x), columns))
@rule("reduce-window")
def _across_rows(i: Instruction, rw: Rewriter) -> Instruction | None:
    arrays = i.operands[: len(i.operands) // 2]
    dims, window = arrays[0].shape.dims, list(i["window"])
    if len(dims) < 2 or dims[-2] < _ROWS or not _grows(window, dims) or _is_in_vectors(i):
        return None
    order = (*range(len(dims) - 2), len(dims) - 1, len(dims) - 2)

    def transposed(shape: Shape) -> Shape:
        return array_shape(shape.dtype, [shape.dims[d] for d in order])

    def transpose(x: Instruction) -> Instruction:
        return rw.make("transpose", transposed(x.shape), [x], dimensions=order)

    shapes = [transposed(s) for s in (i.shape.elements if i.shape.is_tuple else (i.shape,))]
    attrs = {**i.attrs, "window": tuple(window[d] for d in order)}
    operands = [*map(transpose, arrays), *i.operands[len(arrays) :]]
    if not i.shape.is_tuple:
        return transpose(rw.make("reduce-window", shapes[0], operands, **attrs))
    whole = rw.make("reduce-window", tuple_shape(shapes), operands, **attrs)
    parts = [transpose(rw.make("get-tuple-element", s, [whole], index=k)) for k, s in enumerate(shapes)]
    return rw.make("tuple", i.shape, parts)


def _grows(window: list[WindowDimension], dims: tuple[int, ...]) -> bool:
    """True when only the last dimension has windows, which begin or end at one end of it."""
    size = dims[-1]
    ends = [WindowDimension(size, padding_low=size - 1), WindowDimension(size, padding_high=size - 1)]
    return size > 1 and window[-1] in ends and all(w == WindowDimension(1) for w in window[:-1])


def _is_in_vectors(i: Instruction) -> bool:
    root, dtype = i["to_apply"].root, i.operands[0].shape.dtype
    plain = root.opcode in _IN_VECTORS and all(o.opcode == "parameter" for o in root.operands)
    return plain and len(i.operands) == 2 and (dtype.is_integer or dtype.name in ("f32", "f64"))


# sum(window of d places over pad(x, 0, d - 1 between elements)) == 0 + repeat(x, d)
@rule("reduce-window")
def _one_addend(i: Instruction, rw: Rewriter) -> Instruction | None:
    if i.shape.is_tuple or i["to_apply"].root.opcode != "add" or not _takes_parameters(i["to_apply"].root):
        return None
    padded, init = i.operands
    if padded.opcode != "pad" or splat(padded.operands[1]) != 0 or splat(init) != 0:
        return None
    x = padded.operands[0]
    outer: list[int] = []
    repeated: list[int] = []
    places: list[int] = []
    slices: list[SliceDimension] = []
    for size, out, pad, window in zip(x.shape.dims, i.shape.dims, padded["padding"], i["window"], strict=True):
        times = pad.interior + 1
        low = pad.low + window.padding_low
        plain = window == WindowDimension(times, padding_low=window.padding_low, padding_high=window.padding_high)
        start = times - 1 - low
        if not plain or min(start, low, pad.low, pad.high) < 0 or start + out > size * times:
            return None
        places.append(len(outer))
        outer += [size] if times == 1 else [size, times]
        repeated.append(size * times)
        slices.append(SliceDimension(start, start + out))
    if len(outer) == len(repeated):
        return None
    wide = rw.make("broadcast", array_shape(x.shape.dtype, outer), [x], dimensions=tuple(places))
    whole = rw.make("reshape", array_shape(x.shape.dtype, repeated), [wide])
    met = rw.make("slice", i.shape, [whole], slice=tuple(slices))
    return rw.make("add", i.shape, [rw.make("broadcast", i.shape, [init], dimensions=()), met])


def _takes_parameters(root: Instruction) -> bool:
    """True for an operator of both parameters of a computation."""
    return {o.opcode for o in root.operands} == {"parameter"} and len(set(root.operands)) == 2
