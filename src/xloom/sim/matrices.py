"""HLO's dot, which contracts any dimensions, as the products of matrices that hardware has."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from xloom.hlo.instruction import Instruction


def as_matrices(dot: Instruction, lhs: np.ndarray, rhs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The operands of a `dot` as [batch, m, k] and [batch, k, n]: reshaped to its shape, their product is its value."""
    batch = tuple(dot["lhs_batch_dims"]), tuple(dot["rhs_batch_dims"])
    contracted = tuple(dot["lhs_contracting_dims"]), tuple(dot["rhs_contracting_dims"])
    left, right = (
        [d for d in range(v.ndim) if d not in b and d not in c]
        for v, b, c in zip((lhs, rhs), batch, contracted, strict=True)
    )
    count = _size(lhs, batch[0])
    a = lhs.transpose(*batch[0], *left, *contracted[0]).reshape(count, _size(lhs, left), _size(lhs, contracted[0]))
    b = rhs.transpose(*batch[1], *contracted[1], *right).reshape(count, _size(rhs, contracted[1]), _size(rhs, right))
    return a, b


def _size(array: np.ndarray, dims: Sequence[int]) -> int:
    return int(np.prod([array.shape[d] for d in dims], dtype=np.int64))
