"""Fourier transforms."""

from __future__ import annotations

import math
from collections.abc import Sequence

from xloom.hlo.instruction import Instruction
from xloom.hlo.shape import array_shape
from xloom.torch.lowering.graph import Graph, normalized
from xloom.torch.lowering.promotion import complex_of
from xloom.torch.lowering.registry import lowers


def _last(g: Graph, x: Instruction, dim: int) -> Instruction:
    rank = x.shape.rank
    return g.permute(x, [*[k for k in range(rank) if k != dim], dim])


def _back(g: Graph, x: Instruction, dim: int) -> Instruction:
    order = list(range(x.shape.rank - 1))
    order.insert(dim, x.shape.rank - 1)
    return g.permute(x, order)


def _scaled(g: Graph, x: Instruction, sizes: Sequence[int], normalization: int, inverse: bool) -> Instruction:
    """0 leaves the sum as it is, 1 divides by the root of the sizes, 2 by the sizes; HLO's inverses divide already."""
    count = math.prod(sizes)
    factor = {0: 1.0, 1: 1 / math.sqrt(count), 2: 1 / count}[normalization] * (count if inverse else 1)
    return x if factor == 1 else g.multiply(x, g.full_like(x, factor))


def _complex(g: Graph, x: Instruction, dims: Sequence[int], forward: bool) -> Instruction:
    for dim in dims:
        size = x.shape.dims[dim]
        moved = _last(g, x, dim)
        x = _back(g, g.fft(moved, fft_type="FFT" if forward else "IFFT", fft_length=(size,)), dim)
    return x


@lowers("aten._fft_c2c.default")
def fft_c2c(g: Graph, x, dim, normalization: int, forward: bool):
    """The transform of complex numbers."""
    dims = [normalized(d, x.shape.rank) for d in dim]
    sizes = [x.shape.dims[d] for d in dims]
    return _scaled(g, _complex(g, x, dims, forward), sizes, normalization, not forward)


@lowers("aten._fft_r2c.default")
def fft_r2c(g: Graph, x, dim, normalization: int, onesided: bool):
    """The transform of reals; one side of it where the other is its conjugate."""
    dims = [normalized(d, x.shape.rank) for d in dim]
    sizes = [x.shape.dims[d] for d in dims]
    if onesided:
        moved = _last(g, x, dims[-1])
        result = _back(g, g.fft(moved, fft_type="RFFT", fft_length=(sizes[-1],)), dims[-1])
        result = _complex(g, result, dims[:-1], True)
    else:
        result = _complex(g, g.cast(x, complex_of(x.shape.dtype)), dims, True)
    return _scaled(g, result, sizes, normalization, False)


@lowers("aten._fft_c2r.default")
def fft_c2r(g: Graph, x, dim, normalization: int, last_dim_size: int):
    """The inverse transform of one side, to reals."""
    dims = [normalized(d, x.shape.rank) for d in dim]
    sizes = [*[x.shape.dims[d] for d in dims[:-1]], last_dim_size]
    x = _complex(g, x, dims[:-1], False)
    moved = _last(g, x, dims[-1])
    half, have = last_dim_size // 2 + 1, moved.shape.dims[-1]
    if have > half:
        moved = g.slice_along(moved, moved.shape.rank - 1, 0, half)
    shape = array_shape(moved.shape.dtype.real, (*moved.shape.dims[:-1], last_dim_size))
    real = _back(g, g.fft(moved, shape=shape, fft_type="IRFFT", fft_length=(last_dim_size,)), dims[-1])
    return _scaled(g, real, sizes, normalization, True)
