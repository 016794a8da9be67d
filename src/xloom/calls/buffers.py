"""Buffers as custom calls see them: arrays in memory order, and nested arrays of pointers for tuples."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from xloom.hlo.instruction import Instruction
from xloom.hlo.shape import Shape

ALIGNMENT = 64
"""Bytes that every buffer is aligned to, as XLA:CPU aligns them."""


def zeroed(nbytes: int) -> np.ndarray:
    """Bytes of the host's memory, aligned."""
    raw = np.zeros(nbytes + ALIGNMENT, np.uint8)
    start = -raw.ctypes.data % ALIGNMENT
    return raw[start : start + nbytes]


def allocate(shape: Shape, take: Callable[[int], np.ndarray] = zeroed) -> Any:
    """Buffers of `shape`, nested as its tuples are, in bytes that `take` gives; each array lies as its layout says.

    The arrays are indexed logically. Tokens are None.
    """
    if shape.is_tuple:
        return tuple(allocate(e, take) for e in shape.elements)
    if not shape.is_array:
        return None
    order = shape.major_to_minor
    dims = [shape.dims[d] for d in order]
    dtype = shape.dtype.numpy
    flat = take(int(np.prod(dims, dtype=np.int64)) * dtype.itemsize).view(dtype).reshape(dims)
    return flat.transpose(np.argsort(order)) if order else flat


def place(value: Any, shape: Shape, take: Callable[[int], np.ndarray] = zeroed) -> Any:
    """`value` in buffers of `shape`: itself where it already lies so, else a copy in bytes that `take` gives."""
    if shape.is_tuple:
        return tuple(place(v, s, take) for v, s in zip(value, shape.elements, strict=True))
    if not shape.is_array:
        return None
    array = np.asarray(value)
    dense = array.transpose(shape.major_to_minor) if array.ndim else array
    if dense.flags.c_contiguous and array.ctypes.data % ALIGNMENT == 0 and array.shape == shape.dims:
        return array
    buffer = allocate(shape if array.shape == shape.dims else _resized(shape, array.shape), take)
    buffer[...] = array
    return buffer


def _resized(shape: Shape, dims: tuple[int, ...]) -> Shape:
    return Shape(shape.dtype, dims, (), shape.layout)


def read_only(value: Any) -> Any:
    """Views of the buffers that cannot be written."""
    if isinstance(value, tuple):
        return tuple(read_only(v) for v in value)
    if value is None:
        return None
    view = value.view()
    view.flags.writeable = False
    return view


def pointer(value: Any, keep: list[Any]) -> int:
    """The address of an array's elements, or of the array of a tuple's pointers; `keep` must outlive the call."""
    if isinstance(value, tuple):
        array = (ctypes.c_void_p * max(1, len(value)))(*(pointer(v, keep) for v in value))
        keep.append(array)
        return ctypes.addressof(array)
    return 0 if value is None else value.ctypes.data


def pointers(values: Sequence[Any], keep: list[Any]) -> Any:
    """The `const void** in` of a call."""
    array = (ctypes.c_void_p * max(1, len(values)))(*(pointer(v, keep) for v in values))
    keep.append(array)
    return array


def flat(value: Any) -> list[Any]:
    """The arrays, and None for each token, in pre-order."""
    return [leaf for v in value for leaf in flat(v)] if isinstance(value, tuple) else [value]


def part(value: Any, index: Sequence[int]) -> Any:
    """The buffer at a tuple index."""
    for k in index:
        value = value[k]
    return value


def with_part(value: Any, index: Sequence[int], buffer: Any) -> Any:
    """`value` with `buffer` at a tuple index."""
    if not index:
        return buffer
    k = index[0]
    return (*value[:k], with_part(value[k], index[1:], buffer), *value[k + 1 :])


def operand_shapes(instruction: Instruction) -> Sequence[Shape]:
    """The shapes of a custom call's operands, with the layouts that it asks for."""
    return instruction["operand_layout_constraints"] or [o.shape for o in instruction.operands]


def share_aliases(instruction: Instruction, out: Any, inputs: list[Any]) -> list[Any]:
    """Makes each output that the call wants to be an operand that operand too; returns those outputs.

    It starts as a copy of the operand, for the caller may still need that.
    """
    shared = []
    for alias in instruction["output_to_operand_aliasing"]:
        shared.append(part(out, alias.output_index))
        fill(shared[-1], part(inputs[alias.operand], alias.operand_index))
        inputs[alias.operand] = with_part(inputs[alias.operand], alias.operand_index, shared[-1])
    return shared


def fill(target: Any, source: Any) -> None:
    """Copies the elements of `source` to `target`, which is nested as it is."""
    if isinstance(target, tuple):
        for t, s in zip(target, source, strict=True):
            fill(t, s)
    elif target is not None:
        target[...] = source
