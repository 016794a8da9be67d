"""Resampling of images: along each dimension a product with a matrix of weights, and backward with its transpose.

Where few elements of a column are not 0, the sum of these; by whole factors, the nearest element several times.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, reduce
from typing import Any

import numpy as np
import torch

from xloom.hlo.instruction import Instruction
from xloom.torch.lowering.graph import Graph
from xloom.torch.lowering.index import take_along
from xloom.torch.lowering.registry import lowers

_FEW, _MANY = 8, 16
"""Elements of which a sum takes no longer than a product; of longer columns, one of so many."""
_aten = torch.ops.aten
# by mode, the operator that resamples one dimension (the other of two has one element), and how many it takes
_MODES: dict[str, tuple[Any, int]] = {
    "upsample_nearest": (_aten.upsample_nearest1d.default, 1),
    "_upsample_nearest_exact": (_aten._upsample_nearest_exact1d.default, 1),
    "upsample_linear": (_aten.upsample_linear1d.default, 1),
    "upsample_bicubic": (_aten.upsample_bicubic2d.default, 2),
    "_upsample_bilinear_aa": (_aten._upsample_bilinear2d_aa.default, 2),
    "_upsample_bicubic_aa": (_aten._upsample_bicubic2d_aa.default, 2),
}


@cache
def weights(mode: str, size: int, wanted: int, align_corners: bool | None, scale: float | None) -> np.ndarray:
    """The matrix [size, wanted] of one dimension: what torch makes of the unit vectors."""
    op, rank = _MODES[mode]
    unit = torch.eye(size, dtype=torch.float64)
    corners = [] if align_corners is None else [align_corners]
    if rank == 1:
        return op(unit[None], [wanted], *corners, scale)[0].numpy()
    return op(unit[None, :, None, :], [1, wanted], *corners, None, scale)[0, :, 0].numpy()


def _resampled(g: Graph, x: Instruction, matrices: Sequence[np.ndarray]) -> Instruction:
    """x [batch, channels, ...] with each of its last dimensions multiplied by a matrix [before, after]."""
    own = x.shape.dtype
    x = g.widened(x)
    # from the last one on, whose lines are shortest to read
    for dimension, matrix in reversed(list(enumerate(matrices, 2))):
        first, count = _bands(matrix)
        if _repeats(matrix):
            x = _repeated(g, x, dimension, matrix.shape[1])
        elif _repeats(matrix.T):
            x = _grouped(g, x, dimension, matrix.shape[1])
        elif count <= _FEW or count * _MANY <= len(matrix):
            x = _summed(g, x, dimension, matrix, first, count)
        else:
            x = _multiplied(g, x, dimension, matrix)
    return g.cast(x, own)


def _repeats(matrix: np.ndarray) -> bool:
    """Whether a product with it has each element several times, side by side."""
    before, after = matrix.shape
    times, rest = divmod(after, before)
    return times > 1 and not rest and np.array_equal(matrix, np.repeat(np.eye(before), times, 1))


def _repeated(g: Graph, x: Instruction, dimension: int, wanted: int) -> Instruction:
    *outer, size = x.shape.dims[: dimension + 1]
    inner = x.shape.dims[dimension + 1 :]
    wide = g.expand(g.reshape_to(x, (*outer, size, 1, *inner)), (*outer, size, wanted // size, *inner))
    return g.reshape_to(wide, (*outer, wanted, *inner))


def _grouped(g: Graph, x: Instruction, dimension: int, wanted: int) -> Instruction:
    """The sums of so many groups of neighbours."""
    *outer, size = x.shape.dims[: dimension + 1]
    inner = x.shape.dims[dimension + 1 :]
    groups = g.reshape_to(x, (*outer, wanted, size // wanted, *inner))
    return g.reduce_with(groups, "add", 0, [dimension + 1])


def _bands(matrix: np.ndarray) -> tuple[np.ndarray, int]:
    """The first element of each column that is not 0, and how many rows the longest such band has."""
    is_there = matrix != 0
    first = np.argmax(is_there, 0)
    end = len(matrix) - np.argmax(is_there[::-1], 0)
    return first, int((end - first).max())


def _summed(g: Graph, x: Instruction, dimension: int, matrix: np.ndarray, first: np.ndarray, count: int) -> Instruction:
    """The product with a matrix of bands: each element of the result is the sum of a few.

    Of a shorter band the first one is read again, times 0.
    """
    before, after = matrix.shape
    parts = []
    for k in range(count):
        places = np.minimum(first + k, before - 1)
        scales = np.where(first + k < before, matrix[places, np.arange(after)], 0)
        places = np.where(scales != 0, places, first)
        part = take_along(g, x, dimension, g.literal(places.astype(np.int32)))
        if (scales != 1).any():
            scale = g.literal(scales.astype(x.shape.dtype.numpy))
            part = g.multiply(part, g.broadcast(scale, shape=part.shape, dimensions=(dimension,)))
        parts.append(part)
    return reduce(g.add, parts)


def _multiplied(g: Graph, x: Instruction, dimension: int, matrix: np.ndarray) -> Instruction:
    taken = g.literal(matrix.astype(x.shape.dtype.numpy))
    found = g.dot(x, taken, lhs_contracting_dims=(dimension,), rhs_contracting_dims=(0,))
    last = found.shape.rank - 1
    order = [*range(dimension), last, *range(dimension, last)]
    return g.transpose(found, dimensions=order)


def _register(name: str, mode: str, rank: int, has_corners: bool, names: Sequence[str]) -> None:
    def matrices(
        sizes: Sequence[int], wanted: Sequence[int], align_corners: bool | None, scales: Sequence[float | None]
    ) -> list[np.ndarray]:
        return [weights(mode, *each) for each in zip(sizes, wanted, [align_corners] * rank, scales, strict=True)]

    def up(g: Graph, x: Instruction, output_size: Sequence[int], corners: bool | None, scales: Sequence[Any]) -> Any:
        return _resampled(g, x, matrices(x.shape.dims[2:], output_size, corners, scales))

    def down(g: Graph, grad: Instruction, out: Sequence[int], size: Sequence[int], corners: Any, scales: Any) -> Any:
        return _resampled(g, grad, [m.T for m in matrices(size[2:], out, corners, scales)])

    for rule, inputs, spelled in (
        (up, ("x", "output_size"), name),
        (down, ("grad_output", "output_size", "input_size"), f"{name}_backward"),
    ):
        lowers(f"aten.{spelled}.default")(_with_names(rule, inputs, has_corners, names))


def _with_names(rule: Callable[..., Any], inputs: Sequence[str], has_corners: bool, names: Sequence[str]) -> Any:
    """`rule` with the parameters that the schema has."""
    from inspect import Parameter, Signature

    given = [*inputs, *(["align_corners"] if has_corners else []), *names]

    def lowering(g: Graph, **values: Any) -> Any:
        corners = values["align_corners"] if has_corners else None
        return rule(g, *[values[name] for name in inputs], corners, [values[name] for name in names])

    parameters = [Parameter("g", Parameter.POSITIONAL_ONLY), *[Parameter(n, Parameter.KEYWORD_ONLY) for n in given]]
    lowering.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
    return lowering


_SCALES = {1: ("scales",), 2: ("scales_h", "scales_w"), 3: ("scales_d", "scales_h", "scales_w")}
for _rank in (1, 2, 3):
    _register(f"upsample_nearest{_rank}d", "upsample_nearest", _rank, False, _SCALES[_rank])
    _register(f"_upsample_nearest_exact{_rank}d", "_upsample_nearest_exact", _rank, False, _SCALES[_rank])
_register("upsample_linear1d", "upsample_linear", 1, True, _SCALES[1])
_register("upsample_bilinear2d", "upsample_linear", 2, True, _SCALES[2])
_register("upsample_trilinear3d", "upsample_linear", 3, True, _SCALES[3])
_register("upsample_bicubic2d", "upsample_bicubic", 2, True, _SCALES[2])
_register("_upsample_bilinear2d_aa", "_upsample_bilinear_aa", 2, True, _SCALES[2])
_register("_upsample_bicubic2d_aa", "_upsample_bicubic_aa", 2, True, _SCALES[2])
