"""Products: dot, scaled-dot and ragged-dot."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy as np

from xloom.hlo.dtype import DType, s64, u64
from xloom.hlo.product_type import product_type
from xloom.interpreter.conversion import convert_array
from xloom.interpreter.registry import Value, evaluates

if TYPE_CHECKING:
    from xloom.hlo.instruction import Instruction
    from xloom.interpreter.evaluator import Evaluator


def accumulator(result: DType) -> np.dtype:
    """The type that sums of products of this result are formed in: wide enough for one rounding."""
    if result.is_complex:
        return np.dtype(np.complex128)
    if result.is_float:
        return np.dtype(np.float64)
    return np.dtype(np.uint64 if result.name == "u64" else np.int64)


def finish(x: np.ndarray, result: DType) -> np.ndarray:
    """The accumulated value in the result type; integers wrap."""
    if result.name == "pred":
        return x != 0
    if result.is_integer:
        return convert_array(x, u64 if x.dtype.kind == "u" else s64, result)
    if result.is_float and result.bits < 32:
        return x.astype(np.float32).astype(result.numpy)
    return x.astype(result.numpy)


def _operand(x: np.ndarray, wide: np.dtype, algorithm: str) -> np.ndarray:
    if algorithm in ("dot_bf16_bf16_f32", "dot_bf16_bf16_bf16") and x.dtype == np.float32:
        x = x.astype(ml_dtypes.bfloat16)
    if algorithm in ("dot_f16_f16_f32", "dot_f16_f16_f16") and x.dtype == np.float32:
        x = x.astype(np.float16)
    return x.astype(wide)


def contract(lhs: np.ndarray, rhs: np.ndarray, attrs: Mapping[str, Any], result: DType) -> np.ndarray:
    """Batch dimensions, then the rest of `lhs`, then the rest of `rhs`, in the accumulator's type."""
    lb, rb = attrs.get("lhs_batch_dims", ()), attrs.get("rhs_batch_dims", ())
    lc, rc = attrs.get("lhs_contracting_dims", ()), attrs.get("rhs_contracting_dims", ())
    algorithm = attrs.get("algorithm", "unset")
    wide = accumulator(result)
    left = [k for k in range(lhs.ndim) if k not in (*lb, *lc)]
    right = [k for k in range(rhs.ndim) if k not in (*rb, *rc)]
    batch = tuple(lhs.shape[k] for k in lb)
    summed = int(np.prod([lhs.shape[k] for k in lc], dtype=np.int64))
    rows, columns = [lhs.shape[k] for k in left], [rhs.shape[k] for k in right]
    a = _operand(lhs, wide, algorithm).transpose([*lb, *left, *lc])
    b = _operand(rhs, wide, algorithm).transpose([*rb, *rc, *right])
    a = a.reshape(*batch, int(np.prod(rows, dtype=np.int64)), summed)
    b = b.reshape(*batch, summed, int(np.prod(columns, dtype=np.int64)))
    return np.matmul(a, b).reshape((*batch, *rows, *columns))


@evaluates("dot")
def dot(instruction: Instruction, operands: Sequence[Value], evaluator: Evaluator) -> Value:
    """Sums in f64 (integers in 64 bits), rounded once to their type, and converted if the result has another."""
    dtype, result = product_type(instruction), instruction.shape.dtype
    sums = finish(contract(operands[0], operands[1], instruction.attrs, dtype), dtype)
    return convert_array(sums, dtype, result)


@evaluates("scaled-dot")
def scaled_dot(instruction: Instruction, operands: Sequence[Value], evaluator: Evaluator) -> Value:
    """dot of the operands, each block of which is multiplied by its scale."""
    result = instruction.shape.dtype
    lhs, rhs = (
        _scaled(x, scale, instruction._operands[k].shape.dims)
        for k, (x, scale) in enumerate(((operands[0], operands[2]), (operands[1], operands[3])))
    )
    return finish(contract(lhs, rhs, instruction.attrs, result), result)


def _scaled(x: np.ndarray, scale: np.ndarray, dims: tuple[int, ...]) -> np.ndarray:
    wide = scale.astype(np.float64)
    if wide.ndim == 0:
        return x.astype(np.float64) * wide
    for k, size in enumerate(dims):
        wide = np.repeat(wide, size // wide.shape[k], axis=k)
    return x.astype(np.float64) * wide


@evaluates("ragged-dot")
def ragged_dot(instruction: Instruction, operands: Sequence[Value], evaluator: Evaluator) -> Value:
    """One dot a group; groups are consecutive ranges of the ragged dimension, of run-time sizes."""
    lhs, rhs, sizes = operands
    result = instruction.shape.dtype
    (ragged,) = instruction["lhs_ragged_dims"]
    lb, lc = instruction["lhs_batch_dims"], instruction["lhs_contracting_dims"]
    rb, rc = instruction["rhs_batch_dims"], instruction["rhs_contracting_dims"]
    groups = instruction["rhs_group_dims"]
    kept = [k for k in range(rhs.ndim) if k not in groups]
    attrs = dict(instruction.attrs)
    attrs["rhs_batch_dims"] = tuple(kept.index(k) for k in rb)
    attrs["rhs_contracting_dims"] = tuple(kept.index(k) for k in rc)
    same_dimension = dict(zip((*lb, *lc), (*rb, *rc), strict=True))
    left = [*lb, *(k for k in range(lhs.ndim) if k not in (*lb, *lc))]
    out = np.zeros(instruction.shape.dims, accumulator(result))
    counts = np.asarray(sizes, np.int64)
    places = _outer_dimensions(lhs.ndim, ragged, lb, lc, counts.ndim - 1)
    for *outer, g in np.ndindex(counts.shape):
        ends = np.cumsum(counts[tuple(outer)])
        part: dict[int, Any] = {k: slice(n, n + 1) for k, n in zip(places, outer, strict=True)}
        part[ragged] = slice(ends[g] - counts[(*outer, g)], ends[g])
        of_rhs = {same_dimension[k]: s for k, s in part.items() if k in same_dimension} | dict.fromkeys(groups, g)
        product = contract(_part(lhs, range(lhs.ndim), part), _part(rhs, range(rhs.ndim), of_rhs), attrs, result)
        if ragged in lc:  # the contraction is ragged: groups are stacked in front
            _part(out[g], left, part)[...] = product
        else:
            _part(out, left, part)[...] = product
    return finish(out, result)


def _part(x: np.ndarray, dimensions: Sequence[int], part: Mapping[int, Any]) -> np.ndarray:
    """A view of what `part` picks along some dimensions; the first of `x` are those of the numbers given."""
    return x[tuple(part.get(k, slice(None)) for k in dimensions)]


def _outer_dimensions(
    rank: int, ragged: int, batch: Sequence[int], contracting: Sequence[int], count: int
) -> Sequence[int]:
    """The dimensions of the left operand along which the sizes of groups differ."""
    if ragged in batch or ragged in contracting:
        return [k for k in batch if k != ragged][:count]
    return [k for k in range(rank) if k != ragged and k not in contracting][:count]
