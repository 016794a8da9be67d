"""Operators that move elements: where each comes from."""

from __future__ import annotations

from xloom.codegen.elemental.lowering import IndexTuple, Tracer, element_of
from xloom.codegen.loop_ir.affine import Affine, constant, linear
from xloom.codegen.loop_ir.nodes import Constant, If, Index, Node
from xloom.codegen.loop_ir.scalar_ops import index_cast
from xloom.errors import LoweringError
from xloom.hlo.dtype import s32, s64
from xloom.hlo.instruction import Instruction
from xloom.hlo.shape import Shape
from xloom.trampoline import Nested


@element_of("broadcast")
def broadcast(t: Tracer, instruction: Instruction, index: IndexTuple) -> Nested[Node]:
    """The operand's dimension i is the result's `dimensions[i]`."""
    return (yield t.element(instruction._operands[0], tuple(index[d] for d in instruction["dimensions"])))


@element_of("reshape", "dynamic-reshape")
def reshape(t: Tracer, instruction: Instruction, index: IndexTuple) -> Nested[Node]:
    """The operand's element with the same row-major position."""
    operand, dims = instruction._operands[0], instruction.shape.dims
    if t.is_loaded(operand):  # whose index would only be joined again
        return t.loaded(operand, linear(index, dims))
    return (yield t.element(operand, reshaped(t, index, dims, operand.shape.dims)))


def reshaped(t: Tracer, index: IndexTuple, dims: tuple[int, ...], to: tuple[int, ...]) -> IndexTuple:
    """The index into dimensions `to` of what lies at `index` of `dims`; groups of dimensions apart where they can."""
    out: list[Affine] = []
    i = j = 0
    while i < len(dims) or j < len(to):
        # the least groups of dimensions with as many elements
        i0, j0, a, b = i, j, 1, 1
        while True:
            if a <= b and i < len(dims) and (a < b or i == i0):
                a, i = a * dims[i], i + 1
            elif (b < a and j < len(to)) or (a == b and j == j0 and j < len(to)):
                b, j = b * to[j], j + 1
            else:
                break
            if a == b and i > i0 and j > j0:
                break
        if i - i0 == 1 and j - j0 == 1:
            out.append(index[i0])
        elif j > j0:
            out.extend(t.delinearised(linear(index[i0:i], dims[i0:i]), to[j0:j]))
    return tuple(out)


@element_of("transpose")
def transpose(t: Tracer, instruction: Instruction, index: IndexTuple) -> Nested[Node]:
    """Result dimension i is operand dimension `dimensions[i]`."""
    source = dict(zip(instruction["dimensions"], index, strict=True))
    return (yield t.element(instruction._operands[0], tuple(source[d] for d in range(len(index)))))


@element_of("slice")
def slice_(t: Tracer, instruction: Instruction, index: IndexTuple) -> Nested[Node]:
    """start + stride * i."""
    ranges = instruction["slice"]
    operand_index = tuple(i * step + start for i, (start, _, step) in zip(index, ranges, strict=True))
    return (yield t.element(instruction._operands[0], operand_index))


@element_of("reverse")
def reverse(t: Tracer, instruction: Instruction, index: IndexTuple) -> Nested[Node]:
    """size - 1 - i along `dimensions`."""
    dims = instruction.shape.dims
    flipped = instruction["dimensions"]
    operand_index = tuple(constant(dims[d] - 1) - i if d in flipped else i for d, i in enumerate(index))
    return (yield t.element(instruction._operands[0], operand_index))


@element_of("iota")
def iota(t: Tracer, instruction: Instruction, index: IndexTuple) -> Nested[Node]:
    """The index along one dimension."""
    dtype = instruction.shape.dtype
    size = instruction.shape.dims[instruction["iota_dimension"]]
    kind = s32 if size <= 1 << 31 else s64
    value = Index(kind, index[instruction["iota_dimension"]])
    return index_cast(value, dtype)
    yield  # a generator, as every rule


@element_of("concatenate")
def concatenate(t: Tracer, instruction: Instruction, index: IndexTuple) -> Nested[Node]:
    """The operand in whose range the index is."""
    (dim,) = instruction["dimensions"]
    at, begin = index[dim], 0
    choices: list[tuple[int, int, Instruction]] = []
    for operand in instruction._operands:
        end = begin + operand.shape.dims[dim]
        if begin < end and begin <= at.high and at.low < end:
            choices.append((begin, end, operand))
        begin = end

    if not choices:  # no loop comes to an element that is in none of them
        return Constant(instruction.shape.dtype, 0)

    def among(first: int, last: int) -> Nested[Node]:  # by halves: there may be many, and none is to be far away
        if last - first == 1:
            begin, end, operand = choices[first]
            # a single element is there whatever the index is: both sides of a choice may be loaded
            within = at - begin if end - begin > 1 else constant(0)
            return (yield t.element(operand, (*index[:dim], within, *index[dim + 1 :])))
        middle = (first + last) // 2
        lower, upper = (yield among(first, middle)), (yield among(middle, last))
        return If(upper.dtype, ((at, -(2**62), choices[middle][0]),), lower, upper)

    return (yield among(0, len(choices)))


@element_of("pad")
def pad(t: Tracer, instruction: Instruction, index: IndexTuple) -> Nested[Node]:
    """The operand where the index is in its range and on its grid, else the padding value."""
    operand, value = instruction._operands
    inner: list[Affine] = []
    conditions: list[tuple[Affine, int, int]] = []
    for i, (low, _, interior), size in zip(index, instruction["padding"], operand.shape.dims, strict=True):
        position = i - low
        if interior:
            position, rest = t.divide(position, interior + 1)
            if rest.low < 0 or rest.high > 0:
                conditions.append((rest, 0, 1))
        if position.low < 0 or position.high >= size:
            conditions.append((position, 0, size))
        inner.append(position)
    padding = yield t.element(value, ())
    if not operand.shape.size:
        return padding
    element = yield t.element(operand, tuple(inner))
    return If(element.dtype, tuple(conditions), element, padding) if conditions else element


def memory_index(shape: Shape, index: IndexTuple) -> tuple[IndexTuple, tuple[int, ...]]:
    """Index and sizes in the order of the layout, major dimension first."""
    order = shape.major_to_minor
    return tuple(index[d] for d in order), tuple(shape.dims[d] for d in order)


@element_of("bitcast")
def bitcast(t: Tracer, instruction: Instruction, index: IndexTuple) -> Nested[Node]:
    """The element with the same index in memory, by the layouts."""
    operand = instruction._operands[0]
    if operand.shape.dtype is not instruction.shape.dtype:
        raise LoweringError("a bitcast to another element type", where=instruction.name)
    placed, dims = memory_index(instruction.shape, index)
    source = operand.shape
    order = source.major_to_minor
    found = reshaped(t, placed, dims, tuple(source.dims[d] for d in order))
    back = dict(zip(order, found, strict=True))
    return (yield t.element(operand, tuple(back[d] for d in range(source.rank))))
