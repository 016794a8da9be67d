"""Sort by any comparator, and top-k."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from xloom.interpreter.elementwise import total_order_key
from xloom.interpreter.registry import Value, evaluates

if TYPE_CHECKING:
    from xloom.hlo.instruction import Instruction
    from xloom.interpreter.evaluator import Evaluator


@evaluates("sort")
def sort(instruction: Instruction, operands: Sequence[Value], evaluator: Evaluator) -> Value:
    """A stable merge sort along the dimension, all rows at once."""
    (dim,) = instruction["dimensions"]
    if operands[0].ndim == 0 or operands[0].size == 0:
        return operands[0] if len(operands) == 1 else tuple(operands)
    moved = [np.moveaxis(x, dim, -1) for x in operands]
    size = moved[0].shape[-1]
    rows = [np.ascontiguousarray(m).reshape(-1, size) for m in moved]
    order = _fast_order(instruction, rows)
    if order is None:
        order = _merge_order(evaluator, instruction, rows)
    out = [
        np.moveaxis(np.take_along_axis(r, order, axis=1).reshape(m.shape), -1, dim)
        for r, m in zip(rows, moved, strict=True)
    ]
    return out[0] if len(out) == 1 else tuple(out)


def _fast_order(instruction: Instruction, rows: list[np.ndarray]) -> np.ndarray | None:
    """The order when the comparator is one comparison of the first (or another) operand's two elements."""
    root = instruction["to_apply"].root
    if root.opcode != "compare" or root["direction"] not in ("LT", "GT"):
        return None
    left, right = root._operands
    if left.opcode != "parameter" or right.opcode != "parameter":
        return None
    a, b = left["parameter_number"], right["parameter_number"]
    if a // 2 != b // 2 or a == b:
        return None
    key = rows[a // 2]
    descending = (root["direction"] == "GT") != (a > b)
    if key.dtype.kind == "c":
        return None
    if left.shape.dtype.is_float:
        if root.attrs.get("type") == "TOTALORDER":
            key = total_order_key(key)
        else:
            key = key.astype(np.float64)
            if np.isnan(key).any():
                return None
    elif key.dtype.kind not in "iub":
        key = key.astype(np.int32)
    if descending:
        key = key.astype(np.int64) if key.dtype.kind in "b" else key
        key = -key if key.dtype.kind == "f" else ~key
    return np.argsort(key, axis=1, kind="stable")


def _merge_order(evaluator: Evaluator, instruction: Instruction, rows: list[np.ndarray]) -> np.ndarray:
    """Bottom-up merge: each element's rank is its place in its run plus those of the other run before it."""
    body = instruction["to_apply"]
    compare = evaluator.elementwise(body)
    count, size = rows[0].shape

    def before(x: np.ndarray, y: np.ndarray, row: np.ndarray) -> np.ndarray:
        """True where element number x of its row stands strictly before element y."""
        arguments = [v for r in rows for v in (r[row, x], r[row, y])]
        return np.broadcast_to(np.asarray(compare(*arguments)), x.shape)

    order = np.broadcast_to(np.arange(size), (count, size)).copy()
    width = 1
    while width < size:
        place = np.broadcast_to(np.arange(size), (count, size))
        run = place // width
        left = run % 2 == 0
        other = np.where(left, (run + 1) * width, (run - 1) * width)
        end = np.minimum(other + width, size)
        low, high = np.minimum(other, size).copy(), end.copy()
        row = np.broadcast_to(np.arange(count)[:, None], (count, size))
        # binary search in the other run: from the left run, those strictly before; from the right, those not after
        while np.any(low < high):
            active = low < high
            middle = np.minimum((low + high) // 2, size - 1)
            mine, theirs = order, np.take_along_axis(order, middle, axis=1)
            precedes = np.where(left, before(theirs, mine, row), ~before(mine, theirs, row))
            low = np.where(active & precedes, middle + 1, low)
            high = np.where(active & ~precedes, middle, high)
        base = np.where(left, place - run * width, place - run * width)
        start = np.minimum(run // 2 * 2 * width, size)
        target = start + base + (low - np.minimum(other, size))
        merged = np.empty_like(order)
        np.put_along_axis(merged, target, order, axis=1)
        order = merged
        width *= 2
    return order


@evaluates("topk")
def topk(instruction: Instruction, operands: Sequence[Value], evaluator: Evaluator) -> Value:
    """The k first in total order, descending (or ascending), equal ones by index; and their indices."""
    (x,) = operands
    key = total_order_key(x) if instruction._operands[0].shape.dtype.is_float else x
    if key.dtype.kind not in "iu":
        key = key.astype(np.int32)
    if instruction["largest"]:
        key = ~key
    order = np.argsort(key, axis=-1, kind="stable")[..., : instruction["k"]]
    return (np.take_along_axis(x, order, axis=-1), order.astype(np.int32))
