"""Elementwise operators, by NumPy: narrow floats are computed in f32 and rounded once, f32 mostly in f64."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from xloom.hlo.dtype import DType
from xloom.interpreter import complex_math, integer_math, real_math
from xloom.interpreter.registry import Value, evaluates

if TYPE_CHECKING:
    from xloom.hlo.instruction import Instruction
    from xloom.interpreter.evaluator import Evaluator

Array = np.ndarray
_NATIVE = ("f32", "f64", "f16", "c64", "c128")


def dtype_of(instruction: Instruction, index: int = 0) -> DType:
    """The element type of an operand."""
    return instruction._operands[index].shape.dtype


def _widened(dtype: DType) -> np.dtype:
    """The type in which a function of `dtype` is computed, wide enough that one rounding is left."""
    if dtype.is_complex:
        return np.dtype(np.complex128)
    return np.dtype(np.float64)


def _unary(function: Callable[[Array], Array], complex_function: Callable[[Array], Array] | None = None):
    """A rule that computes in a wide type and rounds once."""

    def rule(instruction: Instruction, operands: Sequence[Value], evaluator: Evaluator) -> Value:
        (x,) = operands
        dtype = dtype_of(instruction)
        compute = complex_function if dtype.is_complex and complex_function is not None else function
        return np.asarray(compute(x.astype(_widened(dtype)))).astype(x.dtype)

    return rule


_TRANSCENDENTAL: dict[str, tuple[Callable[[Array], Array], Callable[[Array], Array] | None]] = {
    "acos": (np.arccos, complex_math.acos),
    "acosh": (np.arccosh, complex_math.acosh),
    "asin": (np.arcsin, complex_math.asin),
    "asinh": (np.arcsinh, complex_math.asinh),
    "atanh": (np.arctanh, complex_math.atanh),
    "cbrt": (np.cbrt, complex_math.cbrt),
    "cosine": (np.cos, np.cos),
    "cosh": (np.cosh, np.cosh),
    "erf": (real_math.erf, None),
    "exponential": (np.exp, complex_math.exp),
    "exponential-minus-one": (np.expm1, complex_math.expm1),
    "log": (np.log, complex_math.log),
    "log-plus-one": (np.log1p, complex_math.log1p),
    "logistic": (real_math.logistic, complex_math.logistic),
    "rsqrt": (real_math.rsqrt, complex_math.rsqrt),
    "sine": (np.sin, np.sin),
    "sinh": (np.sinh, np.sinh),
    "sqrt": (np.sqrt, complex_math.sqrt),
    "tan": (np.tan, complex_math.tan),
    "tanh": (np.tanh, complex_math.tanh),
}
for _name, (_real, _complex) in _TRANSCENDENTAL.items():
    evaluates(_name)(_unary(_real, _complex))


@evaluates("ceil", "floor", "round-nearest-even", "round-nearest-afz")
def rounding(instruction: Instruction, operands: Sequence[Value], evaluator: Evaluator) -> Value:
    """To an integral value of the same type."""
    x = operands[0].astype(np.float64)
    if instruction.opcode == "round-nearest-afz":
        # trunc(x + 0.5) would round 0.49999999999999994 up
        whole = np.trunc(x)
        out = np.where(np.abs(x - whole) >= 0.5, whole + np.sign(x), whole)
        out = np.copysign(out, x)
    else:
        out = {"ceil": np.ceil, "floor": np.floor, "round-nearest-even": np.rint}[instruction.opcode](x)
    return np.asarray(out).astype(operands[0].dtype)


def _native(x: Array) -> tuple[Array, np.dtype]:
    """`x` in a type that NumPy computes with, and its own type."""
    if x.dtype.kind in "biufc":
        return x, x.dtype
    name = x.dtype.name
    wide = np.int32 if "int" in name else np.float32
    return x.astype(wide), x.dtype


def _wrap(x: Any, dtype: np.dtype) -> Array:
    """Back to `dtype`; sub-byte integers wrap."""
    x = np.asarray(x)
    name = dtype.name
    if x.dtype == dtype:
        return x
    if "int" in name and dtype.kind not in "iu":
        bits = int(name.lstrip("uint"))
        low = x.astype(np.int64) & ((1 << bits) - 1)
        if not name.startswith("u"):
            low = np.where(low >> (bits - 1) & 1, low - (1 << bits), low)
        return low.astype(np.int8).astype(dtype)
    return x.astype(dtype)


@evaluates("abs")
def absolute(instruction: Instruction, operands: Sequence[Value], evaluator: Evaluator) -> Value:
    """|x|; the modulus of a complex number; INT_MIN stays."""
    x, dtype = _native(operands[0])
    if x.dtype.kind == "c":
        part = np.float32 if x.dtype == np.complex64 else np.float64
        return np.asarray(np.abs(x.astype(np.complex128))).astype(part)
    if dtype.kind == "u" or dtype.name.startswith("uint"):
        return operands[0]
    return _wrap(np.abs(x), dtype)


@evaluates("negate")
def negate(instruction: Instruction, operands: Sequence[Value], evaluator: Evaluator) -> Value:
    """-x; integers wrap; the sign of NaN flips."""
    x, dtype = _native(operands[0])
    return _wrap(np.negative(x), dtype)


@evaluates("sign")
def sign(instruction: Instruction, operands: Sequence[Value], evaluator: Evaluator) -> Value:
    """-1, 0, 1, keeping -0 and NaN; x / |x| of a complex number."""
    x, dtype = _native(operands[0])
    if x.dtype.kind == "c":
        modulus = np.abs(x)
        out = np.where(modulus == 0, 0, x / np.where(modulus == 0, 1, modulus))
        return out.astype(dtype)
    if x.dtype.kind == "f":
        return _wrap(np.where(np.isnan(x) | (x == 0), x, np.sign(x)), dtype)
    return _wrap(np.sign(x), dtype)


@evaluates("is-finite")
def is_finite(instruction: Instruction, operands: Sequence[Value], evaluator: Evaluator) -> Value:
    """Neither infinite nor NaN."""
    return np.isfinite(_native(operands[0])[0])


@evaluates("real", "imag")
def parts(instruction: Instruction, operands: Sequence[Value], evaluator: Evaluator) -> Value:
    """The part; of a real number itself, or 0."""
    x = operands[0]
    if x.dtype.kind == "c":
        return (x.real if instruction.opcode == "real" else x.imag).copy()
    return x if instruction.opcode == "real" else np.zeros_like(x)


@evaluates("not")
def not_(instruction: Instruction, operands: Sequence[Value], evaluator: Evaluator) -> Value:
    """Bitwise complement; logical on pred."""
    x, dtype = _native(operands[0])
    return _wrap(np.invert(x), dtype)


@evaluates("popcnt", "count-leading-zeros")
def count_bits(instruction: Instruction, operands: Sequence[Value], evaluator: Evaluator) -> Value:
    """How many one bits, or zero bits above the highest one."""
    x, dtype = operands[0], dtype_of(instruction)
    bits = np.asarray(integer_math.unsigned_bits(x, dtype))
    if instruction.opcode == "popcnt":
        return _wrap(np.bitwise_count(bits), x.dtype)
    return _wrap(dtype.bits - integer_math.bit_length(bits), x.dtype)


@evaluates("copy")
def copy(instruction: Instruction, operands: Sequence[Value], evaluator: Evaluator) -> Value:
    """The value; layouts are not seen here."""
    return operands[0]


# -- two operands --------------------------------------------------------------------------------------------------


def _binary(function: Callable[[Array, Array], Any]):
    def rule(instruction: Instruction, operands: Sequence[Value], evaluator: Evaluator) -> Value:
        (x, dtype), (y, _) = _native(operands[0]), _native(operands[1])
        return _wrap(function(x, y), dtype)

    return rule


def _maximum(x: Array, y: Array) -> Array:
    if x.dtype.kind == "c":
        return np.where(complex_math.lexical_less(x, y), y, x)
    out = np.maximum(x, y)
    if x.dtype.kind == "f":  # +0 is above -0
        zeros = (x == 0) & (y == 0)
        out = np.where(zeros, np.where(np.signbit(x), y, x), out)
    return out


def _minimum(x: Array, y: Array) -> Array:
    if x.dtype.kind == "c":
        return np.where(complex_math.lexical_less(y, x), y, x)
    out = np.minimum(x, y)
    if x.dtype.kind == "f":
        zeros = (x == 0) & (y == 0)
        out = np.where(zeros, np.where(np.signbit(x), x, y), out)
    return out


def _divide(x: Array, y: Array) -> Any:
    kind = x.dtype.kind
    if kind == "c":
        return complex_math.divide(x, y)
    if kind == "f":
        return np.divide(x, y)
    if kind == "b":
        return x & y
    return integer_math.truncated_division(x, y)[0]


def _remainder(x: Array, y: Array) -> Any:
    if x.dtype.kind == "f":
        return np.fmod(x, y)
    return integer_math.truncated_division(x, y)[1]


def _power(x: Array, y: Array) -> Any:
    kind = x.dtype.kind
    if kind == "c":
        return complex_math.power(x, y)
    if kind == "f":
        return np.power(x.astype(np.float64), y.astype(np.float64))
    return integer_math.power(x, y)


def _atan2(x: Array, y: Array) -> Any:
    if x.dtype.kind == "c":
        return complex_math.atan2(x, y)
    return np.arctan2(x.astype(np.float64), y.astype(np.float64))


def _multiply(x: Array, y: Array) -> Any:
    return complex_math.multiply(x, y) if x.dtype.kind == "c" else np.multiply(x, y)


def _logical(bitwise: Any, logical: Any) -> Callable[[Array, Array], Any]:
    return lambda x, y: logical(x, y) if x.dtype.kind == "b" else bitwise(x, y)


for _name, _function in {
    "add": _logical(np.add, np.logical_or),
    "subtract": _logical(np.subtract, np.logical_xor),
    "multiply": _logical(_multiply, np.logical_and),
    "divide": _divide,
    "remainder": _remainder,
    "maximum": _maximum,
    "minimum": _minimum,
    "power": _power,
    "atan2": _atan2,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
}.items():
    evaluates(_name)(_binary(_function))


@evaluates("mulhi")
def mulhi(instruction: Instruction, operands: Sequence[Value], evaluator: Evaluator) -> Value:
    """The high half of the double-width product."""
    bits = dtype_of(instruction).bits
    x, y = (np.asarray(o).astype(object) for o in operands)
    high = np.asarray((x * y) >> bits)
    return high.astype(np.int64 if operands[0].dtype.kind == "i" else np.uint64).astype(operands[0].dtype)


@evaluates("shift-left", "shift-right-logical", "shift-right-arithmetic")
def shift(instruction: Instruction, operands: Sequence[Value], evaluator: Evaluator) -> Value:
    """Zeros (or copies of the sign) come in; counts of the bit width and more, or below 0, shift everything out."""
    dtype = dtype_of(instruction)
    x, count = operands
    bits = dtype.bits
    amount = count.astype(np.int64) if dtype.name != "u64" else np.minimum(count, np.uint64(bits)).astype(np.int64)
    out = (amount < 0) | (amount >= bits)
    safe = np.where(out, 0, amount)
    raw = integer_math.unsigned_bits(x, dtype)
    if instruction.opcode == "shift-right-arithmetic":
        signed = x.astype(np.int64)
        if not dtype.name.startswith("s"):
            top = raw >> np.uint64(bits - 1)
            signed = (raw | np.where(top, np.uint64(~((1 << bits) - 1) & (2**64 - 1)), np.uint64(0))).view(np.int64)
        shifted = np.where(out, np.where(signed < 0, -1, 0), signed >> safe)
    else:
        moved = raw << safe.astype(np.uint64) if instruction.opcode == "shift-left" else raw >> safe.astype(np.uint64)
        shifted = np.where(out, np.uint64(0), moved)
    return _wrap(integer_math.low_bits(np.asarray(shifted), dtype), x.dtype)


@evaluates("complex")
def complex_(instruction: Instruction, operands: Sequence[Value], evaluator: Evaluator) -> Value:
    """lhs + i rhs, exact about signs and NaN."""
    x, y = np.broadcast_arrays(*operands)
    out = np.empty(x.shape, np.complex64 if x.dtype == np.float32 else np.complex128)
    out.real, out.imag = x, y
    return out


@evaluates("compare")
def compare(instruction: Instruction, operands: Sequence[Value], evaluator: Evaluator) -> Value:
    """By value, or by total order: -NaN < -inf < ... < -0 < +0 < ... < inf < NaN."""
    x, y = operands
    if instruction.attrs.get("type") == "TOTALORDER" and dtype_of(instruction).is_float:
        x, y = total_order_key(x), total_order_key(y)
    else:
        (x, _), (y, _) = _native(x), _native(y)
    direction = instruction["direction"]
    if x.dtype.kind == "c" and direction not in ("EQ", "NE"):
        less, greater = complex_math.lexical_less(x, y), complex_math.lexical_less(y, x)
        return {"LT": less, "GT": greater, "LE": less | (x == y), "GE": greater | (x == y)}[direction]
    function = {
        "EQ": np.equal,
        "NE": np.not_equal,
        "LT": np.less,
        "LE": np.less_equal,
        "GT": np.greater,
        "GE": np.greater_equal,
    }[direction]
    return np.asarray(function(x, y))


def total_order_key(x: Array) -> Array:
    """Signed integers that order as IEEE 754's totalOrder orders the floats."""
    # these have no sign, or not where the others have it; or NaN where the others have -0
    if x.dtype.name.startswith(("float4_", "float6_", "float8_e8m0")) or x.dtype.name.endswith("fnuz"):
        x = x.astype(np.float32)
    bits = np.asarray(x, order="C").view(f"i{x.dtype.itemsize}").reshape(np.shape(x))
    return np.where(bits < 0, np.iinfo(bits.dtype).max ^ bits, bits)


# -- three operands ------------------------------------------------------------------------------------------------


@evaluates("select")
def select(instruction: Instruction, operands: Sequence[Value], evaluator: Evaluator) -> Value:
    """on_true where the predicate holds, else on_false."""
    return np.where(*operands)


@evaluates("clamp")
def clamp(instruction: Instruction, operands: Sequence[Value], evaluator: Evaluator) -> Value:
    """min(max(x, lo), hi), with NaN where any is."""
    (low, dtype), (x, _), (high, _) = (_native(o) for o in operands)
    return _wrap(_minimum(_maximum(*np.broadcast_arrays(x, low)), high), dtype)
