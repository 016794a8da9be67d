"""Resampling of images: along each dimension a product with a matrix of weights, and backward with its transpose."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np
import torch

from xloom.hlo.instruction import Instruction
from xloom.torch.lowering.graph import Graph
from xloom.torch.lowering.registry import lowers

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
    for matrix in matrices:  # the dimension goes to the back, and those behind it come to the front
        taken = g.literal(matrix.astype(x.shape.dtype.numpy))
        x = g.dot(x, taken, lhs_contracting_dims=(2,), rhs_contracting_dims=(0,))
    return g.cast(x, own)


def _register(name: str, mode: str, rank: int, has_corners: bool, names: Sequence[str], forward: bool) -> None:
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
        if forward or rule is down:
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
    # forward, each element of the nearest modes is one of the source's: torch's decomposition takes it by index
    _register(f"upsample_nearest{_rank}d", "upsample_nearest", _rank, False, _SCALES[_rank], False)
    _register(f"_upsample_nearest_exact{_rank}d", "_upsample_nearest_exact", _rank, False, _SCALES[_rank], False)
_register("upsample_linear1d", "upsample_linear", 1, True, _SCALES[1], True)
_register("upsample_bilinear2d", "upsample_linear", 2, True, _SCALES[2], True)
_register("upsample_trilinear3d", "upsample_linear", 3, True, _SCALES[3], True)
_register("upsample_bicubic2d", "upsample_bicubic", 2, True, _SCALES[2], True)
_register("_upsample_bilinear2d_aa", "_upsample_bilinear_aa", 2, True, _SCALES[2], True)
_register("_upsample_bicubic2d_aa", "_upsample_bicubic_aa", 2, True, _SCALES[2], True)
