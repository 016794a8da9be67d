"""Causes of disagreement that are known to lie in XLA:CPU (of jaxlib 0.10.2).

Each is a row of the table at the end: what it is called, and when it explains a reduced program. A program is
explained only when a single instruction is left of it (several, for some causes) and one row accounts for every element
that differs; all other programs are disagreements.

It also dies, which is counted as crashed: of a division by zero among constants (SIGFPE), of a reduce-window of size
1 with negative padding (a failed check), and of cosh of complex numbers (SIGSEGV).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import ml_dtypes
import numpy as np

from xloom.hlo.instruction import Instruction


@dataclass
class Difference:
    """An instruction whose results differ: its operands' values, and one output where it is wrong."""

    instruction: Instruction
    operands: list[np.ndarray]
    producers: list[Instruction]  # instructions that the operands are left to be computed by
    folded: bool  # no operand depends on a parameter: XLA computes it while it compiles
    got: np.ndarray
    want: np.ndarray
    wrong: np.ndarray

    @property
    def opcode(self) -> str:
        """The instruction's opcode."""
        return self.instruction.opcode


def _negative_leading_zeros(d: Difference) -> bool:
    return d.opcode == "count-leading-zeros" and d.folded and bool(np.all(d.got[d.wrong].astype(np.int64) < 0))


def _sign_of_negative_zero(d: Difference) -> bool:
    if d.opcode not in ("sign", "ceil", "round-nearest-afz", "round-nearest-even") or not d.folded:
        return False
    return bool(np.all(d.want[d.wrong] == 0) and np.all(d.got[d.wrong] == 0))


def _total_order_of_nan(d: Difference) -> bool:
    if d.opcode != "compare" or not d.folded or d.instruction.attrs.get("type") != "TOTALORDER":
        return False
    x, y = (np.isnan(o[d.wrong].astype(np.float64)) for o in d.operands)
    return bool(np.all(x | y))


def _saturated_convolution(d: Difference) -> bool:
    if d.opcode != "convolution" or not d.folded or d.got.dtype.kind not in "iu":
        return False
    limits = np.iinfo(d.got.dtype)
    return bool(np.all(np.isin(d.got[d.wrong], (limits.min, limits.max, 0))))


def _constant_divisor(d: Difference) -> bool:
    if (
        d.opcode != "divide"
        or not d.instruction.shape.dtype.is_float
        or d.instruction.operands[1].opcode == "parameter"
    ):
        return False
    info = ml_dtypes.finfo(d.got.dtype)
    divisor = np.abs(np.broadcast_to(d.operands[1], d.got.shape)[d.wrong].astype(np.float64))
    return bool(np.all((divisor >= 1 / float(info.tiny)) | (divisor <= 1 / float(info.max))))


def _complex_logarithm(d: Difference) -> bool:
    if d.opcode not in ("log", "log-plus-one") or d.got.dtype.kind != "c":
        return False
    z, got, want = d.operands[0][d.wrong], d.got[d.wrong], d.want[d.wrong]
    opposite = (np.abs(np.imag(z)) < np.finfo(got.dtype).tiny) & np.isclose(got, np.conj(want))
    near = np.abs(got - want) <= 200 * np.finfo(got.dtype).eps * np.maximum(1, np.abs(want))
    return bool(np.all(opposite | near))


def _negative_padding(d: Difference) -> bool:
    if d.opcode != "convolution" or not d.instruction.shape.dtype.is_float:
        return False
    return any(w.padding_low < 0 for w in d.instruction["window"])


def _complex_quotient(d: Difference) -> bool:
    if d.opcode != "divide" or d.got.dtype.kind != "c":
        return False
    divisor = d.operands[1][d.wrong]
    size = np.maximum(np.abs(np.real(divisor)), np.abs(np.imag(divisor))).astype(np.float64)
    info = np.finfo(divisor.dtype)
    return bool(np.all((size > np.sqrt(float(info.max)) / 4) | (size < 4 * np.sqrt(float(info.tiny)))))


def _minus_one_to_a_negative(d: Difference) -> bool:
    if d.opcode != "power" or not d.folded or not d.instruction.shape.dtype.is_integer:
        return False
    base, exponent = (o.astype(np.int64)[d.wrong] for o in d.operands)
    return bool(np.all((base == -1) & (exponent < 0)))


def _zero_to_minus_one(d: Difference) -> bool:
    if d.opcode != "power" or not d.instruction.shape.dtype.is_integer:
        return False
    base, exponent = (o.astype(np.int64)[d.wrong] for o in d.operands)
    return d.instruction.operands[1].opcode == "constant" and bool(np.all((base == 0) & (exponent == -1)))


def _zero_plus_iota(d: Difference) -> bool:
    if d.opcode != "add" or all(o.opcode != "iota" for o in d.instruction.operands):
        return False
    return bool(np.all(d.want[d.wrong] == 0) and np.all(d.got[d.wrong] == 0))


def _complex_root(d: Difference) -> bool:
    if d.opcode != "sqrt" or d.got.dtype.kind != "c":
        return False
    z, got, want = d.operands[0][d.wrong], d.got[d.wrong], d.want[d.wrong]
    return bool(np.all((np.abs(np.imag(z)) < np.finfo(got.dtype).tiny) & np.isclose(got, np.conj(want))))


def _power_beyond_six_bits(d: Difference) -> bool:
    if d.opcode != "power" or not d.instruction.shape.dtype.is_integer:
        return False
    return bool(np.all(d.operands[1][d.wrong].astype(np.float64) >= 64))


def _atan2_of_zeros(d: Difference) -> bool:
    if d.opcode != "atan2" or not d.got.dtype.itemsize > 1:
        return False
    got, want = (v[d.wrong].astype(np.float64) for v in (d.got, d.want))
    tiny = float(ml_dtypes.finfo(np.float32 if d.got.dtype.itemsize < 4 else d.got.dtype).tiny)
    y, x = (np.abs(o.astype(np.float64))[d.wrong] <= tiny for o in d.operands)
    return bool(np.all((x & y & np.isnan(got)) | (y & (got == -want))))


def _unsigned_start(d: Difference) -> bool:
    first = {"dynamic-slice": 1, "dynamic-update-slice": 2, "gather": 1}.get(d.opcode)
    if first is None:
        return False
    starts = d.operands[first:]
    return any(s.dtype.kind == "u" and bool(np.any(s >> (8 * s.dtype.itemsize - 1))) for s in starts)


def _infinity_in_another_group(d: Difference) -> bool:
    if d.opcode != "convolution" or d.instruction["feature_group_count"] * d.instruction["batch_group_count"] == 1:
        return False
    finite = all(np.isfinite(o.astype(np.complex128)).all() for o in d.operands)
    return not finite and bool(np.all(np.isnan(d.got[d.wrong].astype(np.complex128))))


def _infinite_modulus(d: Difference) -> bool:
    if d.opcode != "abs" or d.operands[0].dtype.kind != "c":
        return False
    z = d.operands[0][d.wrong]
    return bool(np.all((np.isinf(np.real(z)) | np.isinf(np.imag(z))) & np.isnan(d.got[d.wrong])))


def _opcodes(d: Difference) -> set[str]:
    return {d.opcode, *(p.opcode for p in d.producers)}


def _slice_of_slice(d: Difference) -> bool:
    return {"dynamic-slice"} <= _opcodes(d) <= {"dynamic-slice", "gather"}


def _sums_of_complex(d: Difference) -> bool:
    return d.got.dtype.kind == "c" and _opcodes(d) <= {"add", "subtract", "negate"}


def _quotients_of_complex(d: Difference) -> bool:
    if d.got.dtype.kind != "c" or not {"divide"} <= _opcodes(d) <= {"divide", "reshape"}:
        return False
    return bool(np.all(np.isnan(d.got[d.wrong])))


def _complex_sine(d: Difference) -> bool:
    if d.opcode != "sine" or d.got.dtype.kind != "c":
        return False
    z, got, want = d.operands[0][d.wrong], d.got[d.wrong], d.want[d.wrong]
    info = np.finfo(got.dtype)
    near = np.abs(np.imag(got) - np.imag(want)) <= 400 * info.eps * np.abs(np.imag(want)) + 2 * float(info.tiny)
    return bool(np.all(near & (np.abs(np.imag(z)) < 0.1)))


def _moved_denormal(d: Difference) -> bool:
    if d.opcode not in ("broadcast", "reshape", "transpose", "copy") or d.got.dtype != ml_dtypes.bfloat16:
        return False
    tiny = float(ml_dtypes.finfo(d.got.dtype).tiny)
    return bool(np.all((d.got[d.wrong] == 0) & (np.abs(d.want[d.wrong].astype(np.float64)) < tiny)))


def _product_added_at_once(d: Difference) -> bool:
    moves = {"dynamic-slice", "dynamic-update-slice", "slice", "reshape", "broadcast", "transpose"}
    opcodes = _opcodes(d) - moves
    if opcodes not in ({"multiply", "add"}, {"multiply", "subtract"}) or not d.instruction.shape.dtype.is_float:
        return False
    return bool(np.all(np.isinf(d.got[d.wrong].astype(np.float64)) & np.isnan(d.want[d.wrong].astype(np.float64))))


CAUSES: dict[str, Callable[[Difference], bool]] = {
    "the sign of a constant -0 is +0": _sign_of_negative_zero,
    "constants that are NaN are not ordered by total order": _total_order_of_nan,
    "the convolution of integer constants saturates": _saturated_convolution,
    "a division by a constant is a product with its reciprocal, which under- or overflows": _constant_divisor,
    "a complex logarithm is off by tens of units, or takes a denormal imaginary part for its opposite": _complex_logarithm,
    "the leading zeros of a negative constant are counted in 64 bits": _negative_leading_zeros,
    "-1 to the power of a negative constant is 0": _minus_one_to_a_negative,
    "0 to the power of the constant -1 is 1 / 0, which is -1": _zero_to_minus_one,
    "a sum with an iota of a single 0 is the other operand, also -0": _zero_plus_iota,
    "a complex square root takes a denormal imaginary part for its opposite": _complex_root,
    "an integer power takes the low six bits of the exponent": _power_beyond_six_bits,
    "vectorised atan2 of two zeros is NaN, and of a denormal has the wrong sign": _atan2_of_zeros,
    "an unsigned start index is taken for a signed one": _unsigned_start,
    "the modulus of an infinity with a NaN part is NaN": _infinite_modulus,
    "a convolution with negative padding reads other elements": _negative_padding,
    "the square of a complex divisor under- or overflows": _complex_quotient,
    "groups of a convolution are computed as one with zeros, times which an infinity is NaN": _infinity_in_another_group,
    "the imaginary part of the sine of a number near the real axis is off by tens of units": _complex_sine,
    "denormal bf16 numbers that are moved are 0": _moved_denormal,
}

CAUSES_OF_SEVERAL: dict[str, Callable[[Difference], bool]] = {
    "a product that is added to at once does not overflow before": _product_added_at_once,
    "the starts of a dynamic-slice or gather of a dynamic-slice are added before they are clamped": _slice_of_slice,
    "x + y - y of complex numbers is x, whatever overflows": _sums_of_complex,
    "the square of a complex divisor under- or overflows, before the next division": _quotients_of_complex,
}


def explanation(difference: Difference) -> str:
    """The name of the cause, or an empty string."""
    causes = CAUSES_OF_SEVERAL if difference.producers else CAUSES
    return next((name for name, holds in causes.items() if holds(difference)), "")
