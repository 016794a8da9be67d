"""Operators that move elements and leave their values."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from xloom.errors import EvaluationError
from xloom.hlo.shape import Shape
from xloom.interpreter.conversion import from_bit_planes, to_bit_planes
from xloom.interpreter.registry import Value, evaluates

if TYPE_CHECKING:
    from xloom.hlo.instruction import Instruction
    from xloom.interpreter.evaluator import Evaluator


@evaluates("constant")
def constant(instruction: Instruction, operands: Sequence[Value], evaluator: Evaluator) -> Value:
    """The literal's arrays."""
    from xloom.interpreter.values import from_literal

    return from_literal(instruction.literal)


@evaluates("iota")
def iota(instruction: Instruction, operands: Sequence[Value], evaluator: Evaluator) -> Value:
    """Counts along one dimension; wraps in narrow types."""
    from xloom.hlo.dtype import s64
    from xloom.interpreter.conversion import convert_array

    shape, dim = instruction.shape, instruction["iota_dimension"]
    counts = convert_array(np.arange(shape.dims[dim]), s64, shape.dtype)
    view = [1] * shape.rank
    view[dim] = -1
    return np.broadcast_to(counts.reshape(view), shape.dims)


@evaluates("broadcast")
def broadcast(instruction: Instruction, operands: Sequence[Value], evaluator: Evaluator) -> Value:
    """The operand's dimension i becomes `dimensions[i]`; the others repeat."""
    (x,) = operands
    shape, dimensions = instruction.shape, instruction["dimensions"]
    dims = list(shape.dims)
    view = [1] * shape.rank
    for k, d in enumerate(dimensions):
        view[d] = x.shape[k]
        if shape.is_dynamic_dimension(d):
            dims[d] = x.shape[k]
    order = sorted(range(len(dimensions)), key=lambda k: dimensions[k])
    return np.broadcast_to(x.transpose(order).reshape(view), dims)


@evaluates("reshape")
def reshape(instruction: Instruction, operands: Sequence[Value], evaluator: Evaluator) -> Value:
    """Row-major order kept; a dynamic dimension takes what the others leave."""
    (x,) = operands
    shape = instruction.shape
    if not shape.dynamic and x.size == shape.size:
        return np.reshape(x, shape.dims)
    if x.size == shape.size:
        return np.reshape(x, shape.dims)
    source = instruction._operands[0].shape
    known = _dynamic_reshape_dims(x.shape, source, shape)
    return np.reshape(x, known)


def _dynamic_reshape_dims(actual: tuple[int, ...], source: Shape, target: Shape) -> tuple[int, ...]:
    # dimensions that map one to one keep their run-time size; one that is left is inferred
    dims = list(target.dims)
    unknown = [k for k in range(target.rank) if target.is_dynamic_dimension(k)]
    free = [a for k, a in enumerate(actual) if source.is_dynamic_dimension(k)]
    if len(unknown) == len(free) and len(unknown) > 1:
        for k, size in zip(unknown, free, strict=True):
            dims[k] = size
        return tuple(dims)
    if len(unknown) != 1:
        hint = "reshape one dynamic dimension at a time"
        raise EvaluationError(f"cannot reshape {actual} to {target}: more than one size is free", hint=hint)
    rest = math.prod(d for k, d in enumerate(dims) if k != unknown[0])
    dims[unknown[0]] = math.prod(actual) // rest if rest else 0
    return tuple(dims)


@evaluates("dynamic-reshape")
def dynamic_reshape(instruction: Instruction, operands: Sequence[Value], evaluator: Evaluator) -> Value:
    """To the sizes given by the scalar operands."""
    return np.reshape(operands[0], [int(size) for size in operands[1:]])


@evaluates("transpose")
def transpose(instruction: Instruction, operands: Sequence[Value], evaluator: Evaluator) -> Value:
    """Result dimension i is operand dimension `dimensions[i]`."""
    return np.transpose(operands[0], instruction["dimensions"])


@evaluates("slice")
def slice_(instruction: Instruction, operands: Sequence[Value], evaluator: Evaluator) -> Value:
    """Static strided slice."""
    return operands[0][tuple(slice(*r) for r in instruction["slice"])]


@evaluates("reverse")
def reverse(instruction: Instruction, operands: Sequence[Value], evaluator: Evaluator) -> Value:
    """Reversed along `dimensions`."""
    return np.flip(operands[0], instruction["dimensions"])


@evaluates("concatenate")
def concatenate(instruction: Instruction, operands: Sequence[Value], evaluator: Evaluator) -> Value:
    """Joined along the dimension."""
    return np.concatenate(operands, axis=instruction["dimensions"][0])


@evaluates("pad")
def pad(instruction: Instruction, operands: Sequence[Value], evaluator: Evaluator) -> Value:
    """Interior padding first, then edges; negative edges cut."""
    x, value = operands
    return pad_array(x, value, instruction["padding"])


def pad_array(x: np.ndarray, value: np.ndarray, padding: Sequence[tuple[int, int, int]]) -> np.ndarray:
    """`x` padded with the scalar `value`; (low, high, interior) a dimension."""
    spread = [s + max(0, s - 1) * p[2] for s, p in zip(x.shape, padding, strict=True)]
    dims = [max(0, s + p[0] + p[1]) for s, p in zip(spread, padding, strict=True)]
    out = np.full(dims, value, x.dtype)
    source, target = [], []
    for size, (low, _, interior), total in zip(x.shape, padding, dims, strict=True):
        step = interior + 1
        first = -(low // step) if low < 0 else 0
        last = min(size, (total - low + step - 1) // step) if total > low else 0
        last = max(first, last)
        source.append(slice(first, last))
        start = low + first * step
        target.append(
            slice(start, start + max(0, (last - first - 1)) * step + 1, step) if last > first else slice(0, 0)
        )
    out[tuple(target)] = x[tuple(source)]
    return out


@evaluates("get-dimension-size")
def get_dimension_size(instruction: Instruction, operands: Sequence[Value], evaluator: Evaluator) -> Value:
    """The run-time size."""
    return np.asarray(operands[0].shape[instruction["dimensions"][0]], np.int32)


@evaluates("set-dimension-size")
def set_dimension_size(instruction: Instruction, operands: Sequence[Value], evaluator: Evaluator) -> Value:
    """Keeps the first elements; a size above the present one pads with zeros up to the bound."""
    x, size = operands
    dim = instruction["dimensions"][0]
    count = min(int(size), instruction.shape.dims[dim])
    if count <= x.shape[dim]:
        return np.take(x, range(count), axis=dim)
    padding = [(0, 0, 0)] * x.ndim
    padding[dim] = (0, count - x.shape[dim], 0)
    return pad_array(x, np.zeros((), x.dtype), padding)


@evaluates("bitcast")
def bitcast(instruction: Instruction, operands: Sequence[Value], evaluator: Evaluator) -> Value:
    """The bytes in memory order of the operand's layout, read in that of the result."""
    (x,) = operands
    source, target = instruction._operands[0].shape, instruction.shape
    flat = np.transpose(x, source.major_to_minor).reshape(-1)
    if source.dtype is not target.dtype:
        bits = to_bit_planes(flat, source.dtype).reshape(-1)
        width = 1 if target.dtype.name == "pred" else target.dtype.bits
        flat = from_bit_planes(bits.reshape(-1, width), target.dtype)
    order = target.major_to_minor
    return flat.reshape([target.dims[d] for d in order]).transpose(np.argsort(order))
