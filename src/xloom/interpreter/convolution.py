"""Convolution: one matrix product per element of the filter, summed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from xloom.hlo.attributes import ConvolutionDimensions
from xloom.interpreter.linalg import accumulator, finish
from xloom.interpreter.registry import Value, evaluates
from xloom.interpreter.windows import positions

if TYPE_CHECKING:
    from xloom.hlo.instruction import Instruction
    from xloom.interpreter.evaluator import Evaluator


@evaluates("convolution")
def convolution(instruction: Instruction, operands: Sequence[Value], evaluator: Evaluator) -> Value:
    """Sums in f64 (integers in 64 bits), rounded once."""
    lhs, rhs = operands
    d: ConvolutionDimensions = instruction["dim_labels"]
    window = instruction["window"]
    result = instruction.shape.dtype
    wide = accumulator(result)
    x = lhs.astype(wide).transpose([d.input_batch, d.input_feature, *d.input_spatial])
    k = rhs.astype(wide).transpose([d.kernel_output_feature, d.kernel_input_feature, *d.kernel_spatial])
    groups, batch_groups = instruction["feature_group_count"], instruction["batch_group_count"]
    from xloom.interpreter.layout import pad_array

    x = pad_array(
        x,
        np.zeros((), wide),
        [(0, 0, 0), (0, 0, 0), *((w.padding_low, w.padding_high, w.base_dilation - 1) for w in window)],
    )
    spatial = [w.output_size(lhs.shape[s]) for w, s in zip(window, d.input_spatial, strict=True)]
    batch, outputs = x.shape[0] // batch_groups, k.shape[0]
    # each output group sees one group of input features and one group of the batch
    total = groups * batch_groups
    features = x.shape[1] // groups
    out = np.zeros((batch, outputs, *spatial), wide)
    each = outputs // total
    for g in range(total):
        xs = x[:, (g % groups) * features : (g % groups + 1) * features] if batch_groups == 1 else x
        if batch_groups > 1:
            xs = x[g * batch : (g + 1) * batch]
        ks = k[g * each : (g + 1) * each]
        out[:, g * each : (g + 1) * each] = _one_group(xs, ks, window, spatial)
    dims = [d.output_batch, d.output_feature, *d.output_spatial]
    return finish(out, result).transpose(np.argsort(dims))


def _one_group(x: np.ndarray, k: np.ndarray, window: Sequence, spatial: Sequence[int]) -> np.ndarray:
    batch, features = x.shape[:2]
    out = np.zeros((batch, k.shape[0], int(np.prod(spatial, dtype=np.int64))), x.dtype)
    if out.size == 0:
        return out.reshape(batch, k.shape[0], *spatial)
    for place in positions(window):
        index = []
        for p, w, count in zip(place, window, spatial, strict=True):
            at = p * w.window_dilation
            index.append(slice(at, at + (count - 1) * w.stride + 1, w.stride))
        tap = tuple(w.size - 1 - p if w.window_reversal else p for p, w in zip(place, window, strict=True))
        patch = x[(slice(None), slice(None), *index)].reshape(batch, features, out.shape[2])
        out += np.matmul(k[(slice(None), slice(None), *tap)], patch)
    return out.reshape(batch, k.shape[0], *spatial)
