"""Transforms of a few points in registers."""

from __future__ import annotations

import math

from llvmlite import ir

from xloom.cpu.kernels.linalg.lanes import Lanes, Number


def butterfly(b: ir.IRBuilder, lanes: Lanes, x: list[Number], sign: int) -> list[Number]:
    """The transform of `len(x)` points: sums of x_k exp(sign 2 pi i j k / n)."""
    n = len(x)
    if n == 1:
        return x
    if n == 2:
        return [_add(b, *x), _subtract(b, *x)]
    if n % 2 == 0:
        return _halves(b, lanes, x, sign)
    return _odd(b, lanes, x, sign)


def _add(b: ir.IRBuilder, x: Number, y: Number) -> Number:
    return [b.fadd(p, q) for p, q in zip(x, y, strict=True)]


def _subtract(b: ir.IRBuilder, x: Number, y: Number) -> Number:
    return [b.fsub(p, q) for p, q in zip(x, y, strict=True)]


def _halves(b: ir.IRBuilder, lanes: Lanes, x: list[Number], sign: int) -> list[Number]:
    n = len(x)
    even, odd = (butterfly(b, lanes, x[k::2], sign) for k in range(2))
    twiddled = [_twiddled(b, lanes, odd[k], k, n, sign) for k in range(n // 2)]
    low = [_add(b, e, o) for e, o in zip(even, twiddled, strict=True)]
    return low + [_subtract(b, e, o) for e, o in zip(even, twiddled, strict=True)]


def _twiddled(b: ir.IRBuilder, lanes: Lanes, x: Number, k: int, n: int, sign: int) -> Number:
    """x exp(sign 2 pi i k / n), for n even and k below n / 2."""
    if k == 0:
        return x
    if 4 * k == n:
        return [b.fneg(x[1]), x[0]] if sign > 0 else [x[1], b.fneg(x[0])]
    if 8 * k in (n, 3 * n):
        root = _constant(lanes, math.sqrt(0.5))
        total, difference = b.fmul(b.fadd(*x), root), b.fmul(b.fsub(*x), root)
        if 8 * k == n:
            return [difference, total] if sign > 0 else [total, b.fneg(difference)]
        return [b.fneg(total), difference] if sign > 0 else [b.fneg(difference), b.fneg(total)]
    angle = 2 * math.pi * k / n
    return lanes.product(b, x, [_constant(lanes, math.cos(angle)), _constant(lanes, sign * math.sin(angle))])


def _odd(b: ir.IRBuilder, lanes: Lanes, x: list[Number], sign: int) -> list[Number]:
    """With sums and differences of points k and n - k, whose roots are conjugates."""
    n, half = len(x), len(x) // 2
    sums = [_add(b, x[k], x[n - k]) for k in range(1, half + 1)]
    differences = [_subtract(b, x[k], x[n - k]) for k in range(1, half + 1)]
    first = x[0]
    for s in sums:
        first = _add(b, first, s)
    out = [first] + [first] * (n - 1)
    for j in range(1, half + 1):
        near, far = x[0], None
        for k in range(1, half + 1):
            angle = 2 * math.pi * (j * k % n) / n
            cosine, sine = _constant(lanes, math.cos(angle)), _constant(lanes, sign * math.sin(angle))
            near = [lanes.fma(b, p, cosine, q) for p, q in zip(sums[k - 1], near, strict=True)]
            d = differences[k - 1]
            far = (
                [b.fmul(p, sine) for p in d]
                if far is None
                else [lanes.fma(b, p, sine, q) for p, q in zip(d, far, strict=True)]
            )
        assert far is not None
        out[j] = [b.fsub(near[0], far[1]), b.fadd(near[1], far[0])]
        out[n - j] = [b.fadd(near[0], far[1]), b.fsub(near[1], far[0])]
    return out


def _constant(lanes: Lanes, value: float) -> ir.Constant:
    return ir.Constant(lanes.kind, [value] * lanes.count)
