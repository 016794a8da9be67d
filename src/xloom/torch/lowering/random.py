"""Random numbers, from the bits of Threefry and a state that the program is given."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch

from xloom.hlo import dtype as dt
from xloom.hlo.instruction import Instruction
from xloom.torch.lowering.creation import dtype_or
from xloom.torch.lowering.graph import Graph, Number, broadcast_dims
from xloom.torch.lowering.promotion import default_float
from xloom.torch.lowering.registry import lowers

Dtype = torch.dtype | None


def uniform_floats(g: Graph, dims: Sequence[int], dtype: dt.DType) -> Instruction:
    """Uniform in [0, 1): the bits of the significand, below 1 and with 1 taken away."""
    wide = dt.f64 if dtype is dt.f64 else dt.f32
    word, keep = (dt.u64, 53) if wide is dt.f64 else (dt.u32, 24)
    if wide is dtype or dtype.is_float:
        keep = {dt.f64: 53, dt.f32: 24, dt.f16: 11, dt.bf16: 8}.get(dtype, keep)
    bits = g.random_bits(dims, word)
    bits = g.shift_right_logical(bits, g.full_like(bits, word.bits - keep))
    value = g.multiply(g.convert(bits, shape=bits.shape.with_dtype(wide)), g.full(dims, 2.0**-keep, wide))
    return g.cast(value, dtype)


def normal_floats(g: Graph, dims: Sequence[int], dtype: dt.DType) -> Instruction:
    """Standard normal, by Box and Muller."""
    if dtype.is_complex:
        half = math.sqrt(0.5)
        parts = [normal_floats(g, dims, dtype.real) for _ in range(2)]
        return g.complex(*[g.multiply(p, g.full_like(p, half)) for p in parts])
    wide = dt.f64 if dtype is dt.f64 else dt.f32
    u, v = uniform_floats(g, dims, wide), uniform_floats(g, dims, wide)
    radius = g.sqrt(g.multiply(g.log_plus_one(g.negate(u)), g.full_like(u, -2)))
    return g.cast(g.multiply(radius, g.cosine(g.multiply(v, g.full_like(v, 2 * math.pi)))), dtype)


def _integers(g: Graph, dims: Sequence[int], low: int, high: int, dtype: dt.DType) -> Instruction:
    bits = g.random_bits(dims, dt.u64)
    rest = g.remainder(bits, g.full_like(bits, max(1, high - low)))
    value = g.convert(rest, shape=rest.shape.with_dtype(dt.s64))
    return g.cast(g.add(value, g.full_like(value, low)), dtype)


@lowers("aten.rand.default", "aten.rand.generator")
def rand(g: Graph, size, dtype: Dtype):
    """Uniform in [0, 1)."""
    return _uniform(g, size, dtype_or(dtype, default_float()))


def _uniform(g: Graph, dims: Sequence[int], dtype: dt.DType) -> Instruction:
    if dtype.is_complex:
        return g.complex(*[uniform_floats(g, dims, dtype.real) for _ in range(2)])
    return uniform_floats(g, dims, dtype)


@lowers("aten.rand_like.default")
def rand_like(g: Graph, x, dtype: Dtype):
    """Uniform in [0, 1), in the shape of x."""
    return _uniform(g, x.shape.dims, dtype_or(dtype, x.shape.dtype))


@lowers("aten.randn.default", "aten.randn.generator")
def randn(g: Graph, size, dtype: Dtype):
    """Standard normal."""
    return normal_floats(g, size, dtype_or(dtype, default_float()))


@lowers("aten.randn_like.default")
def randn_like(g: Graph, x, dtype: Dtype):
    """Standard normal, in the shape of x."""
    return normal_floats(g, x.shape.dims, dtype_or(dtype, x.shape.dtype))


@lowers("aten.randint.default", "aten.randint.low", "aten.randint.generator", "aten.randint.low_generator")
def randint(g: Graph, high: int, size, dtype: Dtype, low: int = 0):
    """Integers from low to below high."""
    return _integers(g, size, low, high, dtype_or(dtype, dt.s64))


@lowers("aten.randint_like.default", "aten.randint_like.low_dtype")
def randint_like(g: Graph, x, high: int, dtype: Dtype, low: int = 0):
    """Integers from low to below high, in the shape of x."""
    return _integers(g, x.shape.dims, low, high, dtype_or(dtype, x.shape.dtype))


@lowers("aten.random.from", "aten.random.to", "aten.random.default")
def random_(g: Graph, x, from_: int = 0, to: int | None = None):
    """Integers from one to below another, or as far as the dtype holds all integers."""
    return _integers(g, x.shape.dims, from_, _beyond(x.shape.dtype) if to is None else to, x.shape.dtype)


def _beyond(dtype: dt.DType) -> int:
    """The least number that torch does not draw when no limit is given."""
    if dtype is dt.pred:
        return 2
    digits = {dt.f64: 53, dt.f32: 24, dt.f16: 11, dt.bf16: 8}.get(dtype)
    return (1 << digits) + 1 if digits else 1 << (dtype.bits - (dtype.kind is dt.Kind.SIGNED))


@lowers("aten.uniform.default")
def uniform(g: Graph, x, from_: float, to: float):
    """Uniform between two bounds, in the shape of x."""
    draw = _uniform(g, x.shape.dims, x.shape.dtype)
    return g.add(g.multiply(draw, g.full_like(draw, to - from_)), g.full_like(draw, from_))


@lowers("aten.normal_functional.default", "aten.normal_.default")
def normal(g: Graph, x, mean: float, std: float):
    """Normal, in the shape of x."""
    draw = normal_floats(g, x.shape.dims, x.shape.dtype)
    return g.add(g.multiply(draw, g.full_like(draw, std)), g.full_like(draw, mean))


@lowers("aten.normal.Tensor_Tensor", "aten.normal.Tensor_float", "aten.normal.float_Tensor")
def normal_tensor(g: Graph, mean, std):
    """Normal, with a mean and a deviation an element."""
    like = mean if isinstance(mean, Instruction) else std
    dims = broadcast_dims(*[v.shape.dims for v in (mean, std) if isinstance(v, Instruction)])
    mean, std = (g.expand(g.cast(v, like.shape.dtype), dims) for v in (mean, std))
    return g.add(g.multiply(normal_floats(g, dims, like.shape.dtype), std), mean)


@lowers("aten.normal.float_float")
def normal_float(g: Graph, mean: float, std: float, size, dtype: Dtype):
    """Normal, of a given shape."""
    return normal(g, g.full(size, 0, dtype_or(dtype, default_float())), mean, std)


@lowers("aten.bernoulli.default")
def bernoulli(g: Graph, x):
    """1 with the probability that x gives."""
    draw = uniform_floats(g, x.shape.dims, dt.f32)
    return g.cast(g.compare(draw, g.cast(x, dt.f32), direction="LT"), x.shape.dtype)


@lowers("aten.bernoulli.p")
def bernoulli_p(g: Graph, x, p: Number):
    """1 with probability p, in the shape of x."""
    draw = uniform_floats(g, x.shape.dims, dt.f32)
    return g.cast(g.compare(draw, g.full_like(draw, p), direction="LT"), x.shape.dtype)


@lowers("aten.bernoulli.Tensor")
def bernoulli_tensor(g: Graph, x, p):
    """1 with the probability that p gives, in the shape of x."""
    draw = uniform_floats(g, x.shape.dims, dt.f32)
    return g.cast(g.compare(draw, g.expand(g.cast(p, dt.f32), x.shape.dims), direction="LT"), x.shape.dtype)


def exponential_floats(g: Graph, dims: Sequence[int], dtype: dt.DType) -> Instruction:
    """Exponentially distributed with rate 1, in f32 where `dtype` is not f64; above 0, in f16 too, for divisions."""
    wide, least = (dt.f64, 2.0**-53) if dtype is dt.f64 else (dt.f32, 2.0**-24)
    draw = uniform_floats(g, dims, wide)
    draw = g.maximum(draw, g.full_like(draw, least))
    return g.negate(g.log_plus_one(g.negate(draw)))


@lowers("aten.exponential.default")
def exponential(g: Graph, x, lambd: float):
    """Exponentially distributed, in the shape of x."""
    draw = exponential_floats(g, x.shape.dims, x.shape.dtype)
    return g.cast(g.divide(draw, g.full_like(draw, lambd)), x.shape.dtype)


@lowers("aten.geometric.default")
def geometric(g: Graph, x, p: float):
    """How many trials until one of probability p succeeds, in the shape of x."""
    draw = exponential_floats(g, x.shape.dims, x.shape.dtype)
    return g.cast(g.ceil(g.divide(draw, g.full_like(draw, -math.log1p(-p)))), x.shape.dtype)


@lowers("aten.cauchy.default")
def cauchy(g: Graph, x, median: float, sigma: float):
    """Cauchy's distribution, in the shape of x."""
    draw = uniform_floats(g, x.shape.dims, dt.f64 if x.shape.dtype is dt.f64 else dt.f32)
    angle = g.multiply(g.subtract(draw, g.full_like(draw, 0.5)), g.full_like(draw, math.pi))
    return g.cast(g.add(g.multiply(g.tan(angle), g.full_like(draw, sigma)), g.full_like(draw, median)), x.shape.dtype)


@lowers("aten.log_normal.default")
def log_normal(g: Graph, x, mean: float, std: float):
    """e to a normal number, in the shape of x."""
    return g.exponential(normal(g, x, mean, std))


@lowers("aten.randperm.default", "aten.randperm.generator")
def randperm(g: Graph, n: int, dtype: Dtype):
    """The numbers below n in random order."""
    from xloom.torch.lowering.sort import sorted_with_places

    _, places = sorted_with_places(g, g.random_bits((n,), dt.u64), 0)
    return g.cast(places, dtype_or(dtype, dt.s64))


@lowers("aten.multinomial.default")
def multinomial(g: Graph, x, num_samples: int, replacement: bool):
    """Places drawn by weight: those where weight / exponential is greatest (Gumbel's way)."""
    from xloom.torch.lowering.reduce import extreme_with_index
    from xloom.torch.lowering.sort import sorted_with_places

    weights = g.cast(x, dt.f32)
    last = x.shape.rank - 1
    if not replacement:
        draw = g.divide(weights, exponential_floats(g, weights.shape.dims, dt.f32))
        return g.slice_along(sorted_with_places(g, draw, last, True)[1], last, 0, num_samples)
    dims = [*x.shape.dims[:-1], num_samples, x.shape.dims[-1]]
    wide = g.reshape_to(weights, [*x.shape.dims[:-1], 1, x.shape.dims[-1]])
    draw = g.divide(g.expand(wide, dims), exponential_floats(g, dims, dt.f32))
    return extreme_with_index(g, draw, len(dims) - 1, True)[1]
