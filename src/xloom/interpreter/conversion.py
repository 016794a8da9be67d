"""Changes of element type: convert, bitcast-convert, reduce-precision, stochastic-convert."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from xloom.hlo.dtype import DType
from xloom.interpreter.registry import Value, evaluates

if TYPE_CHECKING:
    from xloom.hlo.instruction import Instruction
    from xloom.interpreter.evaluator import Evaluator


def convert_array(x: np.ndarray, source: DType, target: DType) -> np.ndarray:
    """`x` in another element type: float to integer truncates and saturates, NaN gives 0; integers wrap."""
    if source is target:
        return x
    if source.is_complex and not target.is_complex:
        x, source = np.real(x), source.real
    if target.name == "pred":
        return np.asarray(x != 0) if x.dtype.kind in "biufc" else np.asarray(x.astype(np.float32) != 0)
    if target.is_complex:
        return (
            convert_array(x, source, target.real).astype(target.numpy)
            if not source.is_complex
            else x.astype(target.numpy)
        )
    if target.is_integer:
        if source.is_float:
            return _saturate(x, target)
        return _wrap_integer(x, target)
    if source.is_integer and target.bits < 32:
        # through f32 it would round twice
        return x.astype(np.int64 if source.name != "u64" else np.uint64).astype(np.float64).astype(target.numpy)
    if source.name == "f64" and target.bits < 32:
        return _round_once(x, target)
    return x.astype(target.numpy)


def _round_once(x: np.ndarray, target: DType) -> np.ndarray:
    # ml_dtypes rounds f64 through f32; rounding to odd first makes the second rounding the only one
    if target.name == "f16":
        return x.astype(np.float16)
    narrow = x.astype(np.float32)
    back = narrow.astype(np.float64)
    bits = np.asarray(narrow, order="C").view(np.uint32).reshape(narrow.shape)
    inexact = (back != x) & np.isfinite(x) & np.isfinite(back)
    toward_zero = np.where(np.abs(back) > np.abs(x), bits - np.uint32(1), bits)
    odd = np.where(inexact, toward_zero | np.uint32(1), bits).astype(np.uint32)
    return odd.view(np.float32).astype(target.numpy)


def _range(target: DType) -> tuple[int, int]:
    if target.name.startswith("u"):
        return 0, (1 << target.bits) - 1
    return -(1 << (target.bits - 1)), (1 << (target.bits - 1)) - 1


def _saturate(x: np.ndarray, target: DType) -> np.ndarray:
    low, high = _range(target)
    wide = x.astype(np.float64)
    whole = np.trunc(np.where(np.isnan(wide), 0, wide))
    above, below = whole >= float(high), whole <= float(low)
    safe = np.where(above | below, 0, whole)
    carrier = np.uint64 if target.name == "u64" else np.int64
    out = np.where(above, np.asarray(high, carrier), np.where(below, np.asarray(low, carrier), safe.astype(carrier)))
    return out.astype(target.numpy)


def _wrap_integer(x: np.ndarray, target: DType) -> np.ndarray:
    if target.bits >= 8:
        wide = x if x.dtype.kind in "biu" else x.astype(np.int32)
        return wide.astype(target.numpy)
    low = (x if x.dtype.kind in "biu" else x.astype(np.int32)).astype(np.int64) & ((1 << target.bits) - 1)
    if target.name.startswith("s"):
        low = np.where(low >> (target.bits - 1) & 1, low - (1 << target.bits), low)
    return low.astype(np.int8).astype(target.numpy)


@evaluates("convert")
def convert(instruction: Instruction, operands: Sequence[Value], evaluator: Evaluator) -> Value:
    """See `convert_array`."""
    return convert_array(operands[0], instruction._operands[0].shape.dtype, instruction.shape.dtype)


@evaluates("reduce-precision")
def reduce_precision(instruction: Instruction, operands: Sequence[Value], evaluator: Evaluator) -> Value:
    """Rounds the mantissa to even, flushes small exponents to 0 and large ones to infinity; NaN stays NaN."""
    dtype = instruction.shape.dtype
    x = np.asarray(operands[0], order="C")
    if dtype.is_complex:
        raise NotImplementedError("reduce-precision of complex numbers")
    total = {"f64": 52, "f32": 23, "f16": 10, "bf16": 7}.get(dtype.name)
    wide, mantissa = (x, total) if total is not None else (x.astype(np.float32), 23)
    bits = wide.dtype.itemsize * 8
    exponent_width = bits - 1 - mantissa
    unsigned = np.dtype(f"u{wide.dtype.itemsize}")
    raw = wide.view(unsigned).reshape(np.shape(x))
    keep_mantissa, keep_exponent = instruction["mantissa_bits"], instruction["exponent_bits"]
    sign = raw & unsigned.type(1 << (bits - 1))
    out = raw & unsigned.type((1 << (bits - 1)) - 1)
    if keep_mantissa < mantissa:
        drop = mantissa - keep_mantissa
        last = (out >> unsigned.type(drop)) & unsigned.type(1)
        out = (out + last + unsigned.type((1 << (drop - 1)) - 1)) & unsigned.type(
            ((1 << (bits - 1)) - 1) & ~((1 << drop) - 1)
        )
    infinity = unsigned.type(((1 << exponent_width) - 1) << mantissa)
    if keep_exponent < exponent_width:
        bias, reduced = (1 << (exponent_width - 1)) - 1, (1 << (keep_exponent - 1)) - 1
        exponent = out & infinity
        out = np.where(exponent > unsigned.type((bias + reduced) << mantissa), infinity, out)
        out = np.where(exponent <= unsigned.type(max(bias - reduced, 0) << mantissa), unsigned.type(0), out)
    result = (out | sign).astype(unsigned).view(wide.dtype).reshape(np.shape(x))
    nan = np.isnan(wide.astype(np.float64))
    if keep_mantissa == 0 and nan.any():
        result = np.where(nan, (infinity | sign).astype(unsigned).view(wide.dtype), result)
    else:
        result = np.where(nan, wide, result)
    return result.astype(x.dtype)


@evaluates("stochastic-convert")
def stochastic_convert(instruction: Instruction, operands: Sequence[Value], evaluator: Evaluator) -> Value:
    """To an integer: |x| is rounded up when the random bits are below its fraction (as a share of 2**bits)."""
    x, random = operands
    target = instruction.shape.dtype
    bits = random.dtype.itemsize * 8
    wide = x.astype(np.float64)
    size = np.abs(wide)
    whole = np.floor(size)
    fraction = np.floor((size - whole) * 2.0**bits)
    rounded = whole + (random.astype(np.float64) < fraction)
    out = np.where(np.isnan(wide), 0, np.copysign(rounded, wide))
    return _saturate(out, target) if target.is_integer else out.astype(target.numpy)


@evaluates("bitcast-convert")
def bitcast_convert(instruction: Instruction, operands: Sequence[Value], evaluator: Evaluator) -> Value:
    """The same bits; a narrower type gets a minor dimension of the parts, a wider one takes it away."""
    source, target = instruction._operands[0].shape.dtype, instruction.shape.dtype
    x = np.asarray(operands[0], order="C")
    if source is target:
        return x
    from_bits, to_bits = _width(source), _width(target)
    raw = to_bit_planes(x, source)
    if to_bits < from_bits:
        raw = raw.reshape(*np.shape(x), from_bits // to_bits, to_bits)
    elif to_bits > from_bits:
        raw = raw.reshape(*np.shape(x)[:-1], to_bits)
    return from_bit_planes(raw, target)


def _width(dtype: DType) -> int:
    return 1 if dtype.name == "pred" else dtype.bits


def to_bit_planes(x: np.ndarray, dtype: DType) -> np.ndarray:
    """The bits of each element, least significant first, as a new minor dimension."""
    x = np.asarray(x, order="C")
    octets = x.reshape(*x.shape, 1).view(np.uint8).reshape(*x.shape, x.dtype.itemsize)
    return np.unpackbits(octets, axis=-1, bitorder="little")[..., : _width(dtype)]


def from_bit_planes(bits: np.ndarray, dtype: DType) -> np.ndarray:
    """The inverse of `to_bit_planes`."""
    size = dtype.numpy.itemsize
    missing = size * 8 - bits.shape[-1]
    if missing:
        bits = np.concatenate([bits, np.zeros((*bits.shape[:-1], missing), np.uint8)], axis=-1)
    octets = np.ascontiguousarray(np.packbits(bits, axis=-1, bitorder="little"))
    if dtype.is_integer and dtype.bits < 8 and dtype.name.startswith("s"):
        value = octets[..., 0].astype(np.int8)
        return (
            np.where(value >> (dtype.bits - 1) & 1, value - (1 << dtype.bits), value)
            .astype(np.int8)
            .astype(dtype.numpy)
        )
    return octets.view(dtype.numpy).reshape(octets.shape[:-1])
