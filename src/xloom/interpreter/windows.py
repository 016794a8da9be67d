"""Sliding windows: reduce-window and select-and-scatter."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from xloom.hlo.attributes import WindowDimension
from xloom.interpreter.layout import pad_array
from xloom.interpreter.reduce import as_tuple
from xloom.interpreter.registry import Value, evaluates

if TYPE_CHECKING:
    from xloom.hlo.instruction import Instruction
    from xloom.interpreter.evaluator import Evaluator


def padded(x: np.ndarray, value: np.ndarray, window: Sequence[WindowDimension]) -> np.ndarray:
    """`x` dilated and padded as the window asks."""
    return pad_array(x, value, [(d.padding_low, d.padding_high, d.base_dilation - 1) for d in window])


def positions(window: Sequence[WindowDimension]) -> Iterator[tuple[int, ...]]:
    """Every place in a window, row-major."""
    return itertools.product(*(range(d.size) for d in window))


def view_at(x: np.ndarray, place: Sequence[int], window: Sequence[WindowDimension], dims: Sequence[int]) -> np.ndarray:
    """For every window, its element at `place`: a strided slice of the padded operand."""
    index = []
    for p, d, count in zip(place, window, dims, strict=True):
        at = (d.size - 1 - p if d.window_reversal else p) * d.window_dilation
        index.append(slice(at, at + max(0, count - 1) * d.stride + 1, d.stride) if count else slice(0, 0))
    return x[tuple(index)]


@evaluates("reduce-window")
def reduce_window(instruction: Instruction, operands: Sequence[Value], evaluator: Evaluator) -> Value:
    """Reduces the elements of the window one after the other, for all windows at once."""
    count = len(operands) // 2
    window = instruction["window"]
    inputs = [padded(x, init, window) for x, init in zip(operands[:count], operands[count:], strict=True)]
    dims = [d.output_size(s) for d, s in zip(window, operands[0].shape, strict=True)]
    reducer = evaluator.elementwise(instruction["to_apply"])
    state: list[np.ndarray] = [np.broadcast_to(init, dims) for init in operands[count:]]
    inside = padded(np.ones(operands[0].shape, np.bool_), np.zeros((), np.bool_), window)
    for place in positions(window):
        real = view_at(inside, place, window, dims)
        if not real.any():
            continue
        new = as_tuple(reducer(*state, *(view_at(x, place, window, dims) for x in inputs)))
        # padding is not reduced: the initial value need not be an identity value
        state = [np.where(real, n, s) for n, s in zip(new, state, strict=True)]
    shapes = instruction.shape.elements if instruction.shape.is_tuple else (instruction.shape,)
    out = tuple(np.broadcast_to(v, dims).astype(s.dtype.numpy) for v, s in zip(state, shapes, strict=True))
    return out if instruction.shape.is_tuple else out[0]


@evaluates("select-and-scatter")
def select_and_scatter(instruction: Instruction, operands: Sequence[Value], evaluator: Evaluator) -> Value:
    """The first place of each window that no later one is selected over takes the window's source element."""
    x, source, init = operands
    window = instruction["window"]
    select = evaluator.elementwise(instruction["select"])
    combine = evaluator.elementwise(instruction["scatter"])
    dims = source.shape
    wide = padded(x, init, window)
    inside = padded(np.ones(x.shape, np.bool_), np.zeros((), np.bool_), window)
    numbers = padded(np.arange(x.size).reshape(x.shape), np.asarray(-1), window)
    chosen = np.full(dims, -1)
    best = np.zeros(dims, x.dtype)
    for place in positions(window):
        real = view_at(inside, place, window, dims)
        value = view_at(wide, place, window, dims)
        keep = np.broadcast_to(np.asarray(select(best, value)), dims)
        take = real & ((chosen < 0) | ~keep)
        chosen = np.where(take, view_at(numbers, place, window, dims), chosen)
        best = np.where(take, value, best)
    out = np.full(x.shape, init, x.dtype).reshape(-1)
    where, values = chosen.reshape(-1), source.reshape(-1)
    where, values = where[where >= 0], values[where >= 0]
    # elements that several windows chose are combined in order: one round a repetition
    while where.size:
        _, first = np.unique(where, return_index=True)
        out[where[first]] = combine(out[where[first]], values[first])
        rest = np.ones(where.size, np.bool_)
        rest[first] = False
        where, values = where[rest], values[rest]
    return out.reshape(x.shape)
