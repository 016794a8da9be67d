"""Batch normalisation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from xloom.interpreter.registry import Value, evaluates

if TYPE_CHECKING:
    from xloom.hlo.instruction import Instruction
    from xloom.interpreter.evaluator import Evaluator


def _over(vector: np.ndarray, rank: int, feature: int) -> np.ndarray:
    view = [1] * rank
    view[feature] = -1
    return vector.astype(np.float64).reshape(view)


@evaluates("batch-norm-inference")
def inference(instruction: Instruction, operands: Sequence[Value], evaluator: Evaluator) -> Value:
    """(x - mean) / sqrt(variance + epsilon) * scale + offset."""
    x = operands[0]
    scale, offset, mean, variance = (_over(v, x.ndim, instruction["feature_index"]) for v in operands[1:])
    out = (x.astype(np.float64) - mean) / np.sqrt(variance + np.float32(instruction["epsilon"])) * scale + offset
    return out.astype(x.dtype)


@evaluates("batch-norm-training")
def training(instruction: Instruction, operands: Sequence[Value], evaluator: Evaluator) -> Value:
    """Normalised by the batch's own mean and (biased) variance, which are returned too."""
    x, feature = operands[0], instruction["feature_index"]
    axes = tuple(k for k in range(x.ndim) if k != feature)
    wide = x.astype(np.float64)
    mean, variance = wide.mean(axis=axes), wide.var(axis=axes)
    scale, offset = (_over(v, x.ndim, feature) for v in operands[1:])
    centred = wide - _over(mean, x.ndim, feature)
    out = centred / np.sqrt(_over(variance, x.ndim, feature) + np.float32(instruction["epsilon"])) * scale + offset
    return (out.astype(x.dtype), mean.astype(operands[1].dtype), variance.astype(operands[1].dtype))


@evaluates("batch-norm-grad")
def gradient(instruction: Instruction, operands: Sequence[Value], evaluator: Evaluator) -> Value:
    """Gradients of operand, scale and offset, from mean and variance of the forward pass."""
    x, feature = operands[0], instruction["feature_index"]
    axes = tuple(k for k in range(x.ndim) if k != feature)
    wide, upstream = x.astype(np.float64), operands[4].astype(np.float64)
    scale, mean, variance = (_over(v, x.ndim, feature) for v in operands[1:4])
    inverse = 1 / np.sqrt(variance + np.float32(instruction["epsilon"]))
    centred = wide - mean
    count = x.size / max(1, x.shape[feature])
    d_offset = upstream.sum(axis=axes)
    d_scale = (upstream * centred * inverse).sum(axis=axes)
    projected = _over(d_scale, x.ndim, feature) * inverse * centred
    d_x = scale * inverse / count * (count * upstream - _over(d_offset, x.ndim, feature) - projected)
    kind = operands[1].dtype
    return (d_x.astype(x.dtype), d_scale.astype(kind), d_offset.astype(kind))
