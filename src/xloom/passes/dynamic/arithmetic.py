"""Operators that work element by element, on tuples, and on sizes themselves."""

from __future__ import annotations

from collections.abc import Sequence

from xloom.hlo.instruction import Instruction
from xloom.passes.dynamic.values import Emitter, Padded, leaves, pads, static


@pads("elementwise", "map")
def elementwise(e: Emitter, old: Instruction, operands: Sequence[Padded]) -> Padded:
    """Of everything, inside and beyond the sizes, which are those of the operands."""
    sizes = {place: size for o in operands if o.value.shape.rank == old.shape.rank for place, size in o.sizes.items()}
    return Padded(e.clone(old, [o.value for o in operands]), sizes)


@pads("opt-barrier", "domain", "add-dependency")
def identity(e: Emitter, old: Instruction, operands: Sequence[Padded]) -> Padded:
    """The first operand's sizes."""
    return Padded(e.clone(old, [o.value for o in operands]), operands[0].sizes)


@pads("tuple")
def tuple_(e: Emitter, old: Instruction, operands: Sequence[Padded]) -> Padded:
    """Leaves are counted on."""
    sizes, first = {}, 0
    for operand, before in zip(operands, old._operands, strict=True):
        sizes.update({(first + leaf, dim): size for (leaf, dim), size in operand.sizes.items()})
        first += len(leaves(before.shape))
    return Padded(e.clone(old, [o.value for o in operands]), sizes)


@pads("get-tuple-element")
def get_tuple_element(e: Emitter, old: Instruction, operands: Sequence[Padded]) -> Padded:
    """The leaves of one element."""
    elements = old._operands[0].shape.elements
    first = sum(len(leaves(s)) for s in elements[: old["index"]])
    last = first + len(leaves(elements[old["index"]]))
    sizes = {(leaf - first, dim): s for (leaf, dim), s in operands[0].sizes.items() if first <= leaf < last}
    return Padded(e.clone(old, [operands[0].value]), sizes)


@pads("set-dimension-size")
def set_dimension_size(e: Emitter, old: Instruction, operands: Sequence[Padded]) -> Padded:
    """The size that it says, from 0 to the bound; what was not there before is zero."""
    array, size = operands
    (dim,) = old["dimensions"]
    value, sizes = array.value, dict(array.sizes)
    if (0, dim) in sizes:
        value = e.masked(array, e.zero(value.shape), (dim,))
    count = e.scalar("maximum", e.scalar("minimum", size.value, static(old.shape).dims[dim]), 0)
    sizes[0, dim] = count
    return Padded(value, sizes)


@pads("get-dimension-size")
def get_dimension_size(e: Emitter, old: Instruction, operands: Sequence[Padded]) -> Padded:
    """The size."""
    return Padded(e.size_of(operands[0], old["dimensions"][0]), {})
