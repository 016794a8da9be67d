"""A module in small sizes: the same operators on arrays of few elements, to try a pass on."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from xloom.errors import ShapeError, XloomError
from xloom.hlo.attributes import SliceDimension
from xloom.hlo.instruction import Instruction
from xloom.hlo.literal import Literal
from xloom.hlo.module import Module
from xloom.hlo.shape import Shape, array_shape, tuple_shape
from xloom.hlo.verify.module import verify

_SMALL = 8
"""Sizes that stay."""
_NOT_SIZES = "an operator has numbers that are not sizes of arrays"
_LEAVE = "leave the program's sizes as they are"


def shrunk(module: Module) -> Module | None:
    """A copy in which each larger size is another one everywhere; None where the operators do not allow that.

    Sizes that are sums or products of others stay so. The verifier says whether all shapes follow from one another.
    """
    try:
        sizes = _sizes(module)
        small = module.clone("")
        resize(small, sizes)
        verify(small)
    except XloomError:
        return None
    return small


def resize(module: Module, sizes: Mapping[int, int]) -> None:
    """Makes sizes of arrays others, in place; those that are not in `sizes` stay. Raises ShapeError.

    What is left may be invalid.
    """
    for instruction in module.instructions:
        _shrink(instruction, sizes)
    config = module.config
    if config.parameter_layouts is not None:
        config.parameter_layouts = [_shape(s, sizes) for s in config.parameter_layouts]
    if config.result_layout is not None:
        config.result_layout = _shape(config.result_layout, sizes)


def sizes_of(module: Module) -> set[int]:
    """The sizes of dimensions."""
    leaves = (leaf for i in module.instructions for _, leaf in i.shape.leaves() if leaf.is_array)
    return {n for leaf in leaves for n in leaf.dims}


def _sizes(module: Module) -> dict[int, int]:
    """The new size for each old one."""
    made: dict[int, tuple[str, tuple[int, ...]]] = {}
    for i in module.instructions:
        if i.opcode == "concatenate":
            (d,) = i["dimensions"]
            made[i.shape.dims[d]] = ("sum", tuple(o.shape.dims[d] for o in i.operands))
        elif i.opcode == "reshape":
            for whole, parts in _merged(i.shape.dims, i.operands[0].shape.dims):
                made[whole] = ("product", parts)
    sizes: dict[int, int] = {}
    following = _SMALL
    for size in sorted(sizes_of(module)):
        rule, parts = made.get(size, ("", ()))
        if size <= _SMALL:
            sizes[size] = size
        elif rule and all(p < size and p in sizes for p in parts):
            sizes[size] = (sum if rule == "sum" else math.prod)(sizes[p] for p in parts)
        else:
            following += 1
            sizes[size] = following
    return sizes


def _merged(a: tuple[int, ...], b: tuple[int, ...]) -> list[tuple[int, tuple[int, ...]]]:
    """The dimensions of either side of a reshape that are several of the other side."""
    out = []
    left, right = list(a), list(b)
    while left and right:
        mine, other = [left.pop(0)], [right.pop(0)]
        while math.prod(mine) != math.prod(other):
            smaller, rest = (mine, left) if math.prod(mine) < math.prod(other) else (other, right)
            if not rest:
                return out
            smaller.append(rest.pop(0))
        for one, several in ((mine, other), (other, mine)):
            if len(one) == 1 and len(several) > 1:
                out.append((one[0], tuple(several)))
    return out


def _shape(shape: Shape, sizes: Mapping[int, int]) -> Shape:
    if shape.is_tuple:
        return tuple_shape([_shape(e, sizes) for e in shape.elements])
    if not shape.is_array:
        return shape
    if shape.is_dynamic:
        raise ShapeError(_NOT_SIZES, hint=_LEAVE)
    return array_shape(shape.dtype, [sizes.get(n, n) for n in shape.dims]).with_layouts_of(shape)


def _shrink(i: Instruction, sizes: Mapping[int, int]) -> None:
    if i.opcode == "constant":
        if not i.shape.is_array or i.literal.elided:
            raise ShapeError(_NOT_SIZES, hint=_LEAVE)
        cut = tuple(slice(0, sizes.get(n, n)) for n in i.shape.dims)
        shape = _shape(i.shape, sizes)
        i.attrs["literal"] = Literal(shape, np.array(i.literal.value[cut], order="C"))
    elif i.opcode == "slice" and any(sizes.get(n, n) != n for n in (*i.operands[0].shape.dims, *i.shape.dims)):
        i.attrs["slice"] = tuple(_range(s.start, s.limit, s.stride, sizes) for s in i["slice"])
    for name in ("dynamic_slice_sizes", "slice_sizes", "fft_length"):
        if name in i.attrs:
            i.attrs[name] = tuple(sizes.get(n, n) for n in i.attrs[name])
    i.shape = _shape(i.shape, sizes)


def _range(start: int, limit: int, stride: int, sizes: Mapping[int, int]) -> SliceDimension:
    """Of a dimension that is whole, or the first part of it."""
    if start or stride != 1:
        raise ShapeError(_NOT_SIZES, hint=_LEAVE)
    return SliceDimension(0, sizes.get(limit, limit), 1)
