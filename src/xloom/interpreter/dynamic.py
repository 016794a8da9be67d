"""Slices, gathers and scatters at indices that depend on data."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from xloom.interpreter.registry import Value, evaluates

if TYPE_CHECKING:
    from xloom.hlo.instruction import Instruction
    from xloom.interpreter.evaluator import Evaluator


def _starts(indices: Sequence[Value]) -> list[int]:
    """Run-time starts; the older form is one vector."""
    if len(indices) == 1 and np.ndim(indices[0]) == 1:
        return [int(i) for i in indices[0]]
    return [int(i) for i in indices]


@evaluates("dynamic-slice")
def dynamic_slice(instruction: Instruction, operands: Sequence[Value], evaluator: Evaluator) -> Value:
    """Starts are clamped so that the slice fits."""
    x, sizes = operands[0], instruction["dynamic_slice_sizes"]
    starts = [min(max(s, 0), d - n) for s, d, n in zip(_starts(operands[1:]), x.shape, sizes, strict=True)]
    return x[tuple(slice(s, s + n) for s, n in zip(starts, sizes, strict=True))]


@evaluates("dynamic-update-slice")
def dynamic_update_slice(instruction: Instruction, operands: Sequence[Value], evaluator: Evaluator) -> Value:
    """Starts are clamped so that the update fits."""
    x, update = operands[0], operands[1]
    starts = [min(max(s, 0), d - n) for s, d, n in zip(_starts(operands[2:]), x.shape, update.shape, strict=True)]
    out = np.array(x, order="C")
    out[tuple(slice(s, s + n) for s, n in zip(starts, update.shape, strict=True))] = update
    return out


def _index_vectors(indices: np.ndarray, at: int) -> tuple[np.ndarray, tuple[int, ...]]:
    """One index vector a row, as s64, and the batch dimensions they came from."""
    wide = indices.astype(np.int64) if indices.dtype != np.uint64 else np.minimum(indices, 2**62).astype(np.int64)
    if at == indices.ndim:
        wide = wide[..., None]
    moved = np.moveaxis(wide, at, -1)
    return moved.reshape(math.prod(moved.shape[:-1]), moved.shape[-1]), moved.shape[:-1]


def _batch_coordinates(batch: tuple[int, ...], at: int, index_rank: int, dims: Sequence[int]) -> np.ndarray:
    """For each index vector, its coordinates along the batching dimensions `dims` of the indices."""
    grid = np.indices(batch).reshape(len(batch), math.prod(batch))
    places = [k for k in range(index_rank) if k != at]
    return grid[[places.index(d) for d in dims]] if dims else np.zeros((0, grid.shape[1]), np.int64)


@evaluates("gather")
def gather(instruction: Instruction, operands: Sequence[Value], evaluator: Evaluator) -> Value:
    """One slice an index vector, clamped so that it fits."""
    x, indices = operands
    at, sizes, offset = instruction["index_vector_dim"], instruction["slice_sizes"], instruction["offset_dims"]
    vectors, batch = _index_vectors(indices, at)
    starts = np.zeros((vectors.shape[0], x.ndim), np.int64)
    for column, d in enumerate(instruction["start_index_map"]):
        starts[:, d] = np.clip(vectors[:, column], 0, max(0, x.shape[d] - sizes[d]))
    batching = instruction["operand_batching_dims"]
    coordinates = _batch_coordinates(batch, at, indices.ndim, instruction["start_indices_batching_dims"])
    for row, d in zip(coordinates, batching, strict=True):
        starts[:, d] = row
    left_out = {*instruction["collapsed_slice_dims"], *batching}
    kept = [d for d in range(x.ndim) if d not in left_out]
    # element index a dimension: start of the slice plus the place in it
    index = []
    for d in range(x.ndim):
        column = starts[:, d].reshape(starts.shape[0], *[1] * len(kept))
        if d in left_out:
            index.append(column)
        else:
            step = [1] * len(kept)
            step[kept.index(d)] = -1
            index.append(column + np.arange(min(sizes[d], x.shape[d])).reshape(1, *step))
    window = tuple(min(sizes[d], x.shape[d]) for d in kept)
    slices = np.broadcast_to(x[tuple(index)], (vectors.shape[0], *window)).reshape((*batch, *window))
    rank = len(batch) + len(window)
    order = iter(range(len(batch)))
    windows = iter(range(len(batch), rank))
    return slices.transpose([next(windows) if k in offset else next(order) for k in range(rank)])


@evaluates("scatter")
def scatter(instruction: Instruction, operands: Sequence[Value], evaluator: Evaluator) -> Value:
    """Windows in row-major order of the indices; those that do not fit are skipped whole."""
    count = len(operands) // 2
    targets = [np.array(operand, order="C") for operand in operands[:count]]
    indices, updates = operands[count], operands[count + 1 :]
    at, window_dims = instruction["index_vector_dim"], instruction["update_window_dims"]
    vectors, batch = _index_vectors(indices, at)
    batching = instruction["input_batching_dims"]
    left_out = {*instruction["inserted_window_dims"], *batching}
    x = targets[0]
    kept = [d for d in range(x.ndim) if d not in left_out]
    starts = np.zeros((vectors.shape[0], x.ndim), np.int64)
    for column, d in enumerate(instruction["scatter_dims_to_operand_dims"]):
        starts[:, d] = vectors[:, column]
    coordinates = _batch_coordinates(batch, at, indices.ndim, instruction["scatter_indices_batching_dims"])
    for row, d in zip(coordinates, batching, strict=True):
        starts[:, d] = row
    scatter_dims = [k for k in range(updates[0].ndim) if k not in window_dims]
    moved = [u.transpose([*scatter_dims, *window_dims]) for u in updates]
    window = moved[0].shape[len(scatter_dims) :]
    extent = np.ones(x.ndim, np.int64)
    extent[kept] = window
    fits = np.all((starts >= 0) & (starts <= np.array(x.shape, np.int64) - extent), axis=1)
    rows = [m.reshape(vectors.shape[0], *window) for m in moved]
    combine = evaluator.elementwise(instruction["to_apply"])
    places = [
        tuple(slice(int(s[d]), int(s[d]) + int(extent[d])) if d in kept else int(s[d]) for d in range(x.ndim))
        for s in starts
    ]
    direct = _plain_root(instruction)
    if direct is not None and count == 1 and evaluator.follows_standard(instruction["to_apply"].root.opcode):
        _scatter_fast(direct, targets[0], starts, rows[0], fits, kept, window)
        return targets[0]
    for k in np.flatnonzero(fits):
        place = places[k]
        # index dimensions are in operand order, as the window dimensions are
        new = combine(*(t[place] for t in targets), *(r[k] for r in rows))
        for target, value in zip(targets, new if count > 1 else (new,), strict=True):
            target[place] = value
    return tuple(targets) if count > 1 else targets[0]


def _plain_root(instruction: Instruction) -> np.ufunc | str | None:
    """The NumPy function that to_apply is, when order does not matter or is the order of the updates."""
    body = instruction["to_apply"]
    root = body.root
    parameters = body.parameters
    if root is parameters[-1] and len(parameters) == 2:
        return "set"
    dtype = instruction._operands[0].shape.dtype
    plain = root.opcode in ("add", "multiply") and set(root._operands) == set(parameters) and len(body) == 3
    if plain and ((dtype.is_integer and dtype.bits >= 8) or dtype.name in ("f32", "f64", "c64", "c128")):
        return np.add if root.opcode == "add" else np.multiply
    return None


def _scatter_fast(
    function: np.ufunc | str,
    target: np.ndarray,
    starts: np.ndarray,
    rows: np.ndarray,
    fits: np.ndarray,
    kept: list[int],
    window: tuple[int, ...],
) -> None:
    starts, rows = starts[fits], rows[fits]
    index = []
    for d in range(target.ndim):
        column = starts[:, d].reshape(starts.shape[0], *[1] * len(kept))
        if d in kept:
            step = [1] * len(kept)
            step[kept.index(d)] = -1
            column = column + np.arange(window[kept.index(d)]).reshape(1, *step)
        index.append(column)
    if function == "set":
        # NumPy leaves the order of repeated indices open: keep the last write of each place
        flat = np.zeros(rows.shape, np.int64)
        if target.ndim:
            flat = flat + np.ravel_multi_index(np.broadcast_arrays(*index), target.shape)
        flat = flat.reshape(-1)
        _, last = np.unique(flat[::-1], return_index=True)
        chosen = flat.size - 1 - last
        target.reshape(-1)[flat[chosen]] = rows.reshape(-1)[chosen]
        return
    assert isinstance(function, np.ufunc)
    if target.ndim == 0:
        for row in rows:
            target[...] = function(target, row)
        return
    function.at(target, tuple(np.broadcast_arrays(*index)), rows)
