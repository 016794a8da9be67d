"""A program evaluated with other roundings than the interpreter's own, such as a compiler may rightly have."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import ml_dtypes
import numpy as np

from xloom.hlo.instruction import Instruction
from xloom.hlo.module import Module
from xloom.hlo.shape import Shape
from xloom.interpreter.evaluator import Evaluator
from xloom.interpreter.registry import RULES, Rule, Value

ULPS = {
    **dict.fromkeys(("add", "subtract", "multiply", "divide", "sqrt", "convert"), 1),
    **dict.fromkeys(("dot", "ragged-dot", "scaled-dot", "convolution", "map"), 1),
    **dict.fromkeys(("reduce", "reduce-window", "select-and-scatter", "scatter"), 1),
    **dict.fromkeys(("fft", "cholesky", "triangular-solve"), 2),
    **dict.fromkeys(("batch-norm-training", "batch-norm-inference", "batch-norm-grad"), 2),
    **dict.fromkeys(("logistic", "rsqrt", "cbrt", "exponential", "log", "abs", "sine", "cosine"), 2),
    **dict.fromkeys(("exponential-minus-one", "log-plus-one", "tan", "tanh", "sinh", "cosh", "erf"), 4),
    **dict.fromkeys(("acos", "acosh", "asin", "asinh", "atanh", "power", "atan2"), 4),
}
"""How many units in the last place an operator may be off; those that are not here are exact."""
_SUMS = frozenset(
    ("dot", "ragged-dot", "scaled-dot", "convolution", "reduce", "fft", "cholesky", "triangular-solve", "scatter")
    + ("batch-norm-training", "batch-norm-inference", "batch-norm-grad")
)  # their operands are moved too, so that cancellation inside them shows
LONG_SUMS = _SUMS | {"reduce-window", "select-and-scatter"}
"""Opcodes whose results are sums of many terms, which may overflow, or cancel."""
_SPREADS = _SUMS - {
    "dot",
    "ragged-dot",
    "scaled-dot",
    "convolution",
    "reduce",
    "scatter",
}  # where an infinity is spread over others
_ZERO_SIGN_IS_OPEN = frozenset(
    ("maximum", "minimum", "clamp", "reduce", "reduce-window", "dot", "convolution", "fft", "scatter", "map")
    + ("ragged-dot", "scaled-dot", "all-reduce", "reduce-scatter")
    + ("batch-norm-training", "batch-norm-inference", "batch-norm-grad", "cholesky", "triangular-solve")
    + ("select-and-scatter", "reduce-precision", "remainder", "sort", "topk")
)
_KEEPS_DENORMALS = frozenset(
    ("parameter", "constant", "tuple", "get-tuple-element", "broadcast", "reshape", "transpose", "slice", "pad")
    + ("concatenate", "reverse", "gather", "dynamic-slice", "dynamic-update-slice", "while", "conditional", "call")
    + ("bitcast-convert", "iota", "copy", "sort", "rng-bit-generator", "select", "complex", "real", "imag")
)


class Perturbed(Evaluator):
    """Run number 0 is the interpreter's own; the others round another way, within bounds.

    Odd runs flush denormals, from 5 on in some instructions only; from 2 on rounded results move; in run 1 numbers are
    infinite whose sums or products may overflow, in run 3 they are moderate.
    """

    def __init__(self, module: Module, run: int, rules: Mapping[str, Rule] = RULES):
        super().__init__(module, rules=rules)
        self.run = run
        self.moves, self.flushes = run > 1, run % 2 == 1
        self.numbers = np.random.default_rng(run)

    def apply(self, instruction: Instruction, operands: Sequence[Value]) -> Value:
        """The value of one instruction, as this run has it."""
        opcode = instruction.opcode
        rounds, flushes = _rounds(instruction), self.flushes and _flushes(instruction)
        if flushes and self.run > 3:
            flushes = self.numbers.random() < 0.5
        given = operands
        if self.run in (1, 3) and opcode in LONG_SUMS and rounds:
            operands = [_each_float(o, lambda x: self._huge(x, opcode in _SPREADS)) for o in operands]
        if self.moves and rounds and opcode in _SUMS:
            operands = [self._moved(o, 1) for o in operands]
        if flushes:
            operands = [_each_float(o, flushed) for o in operands]
        value = super().apply(instruction, operands)
        if self.run == 1 and opcode == "fft" and not all(np.isfinite(o).all() for o in operands):
            value = _each_float(value, lambda x: np.full_like(x, np.nan))  # infinities meet in an order that is open
        if self.moves and rounds:
            value = self._moved(value, ULPS[opcode] + self.run % 3 // 2 * _drift(instruction))
            if opcode == "fft":
                value = _each_float(value, self._moved_by_the_greatest)
            elif opcode == "batch-norm-training":
                value = self._moved_variance(value, operands, instruction)
            elif opcode == "batch-norm-grad":
                value = self._moved_gradient(value, operands, instruction)
        if self.run == 3 and opcode == "multiply":
            value = _each_float(value, lambda x: _fused(x, *given), lambda z: z)
        if flushes:
            value = _each_float(value, flushed)
        if self.moves and (opcode in _ZERO_SIGN_IS_OPEN or (rounds and instruction.shape.dtype.is_complex)):
            value = self._signed_zeros(value)
        return value

    def _huge(self, x: np.ndarray, spreads: bool) -> np.ndarray:
        if x.itemsize == 1:
            return x
        return _with_infinities(x, spreads) if self.run == 1 else _without_overflow(x, spreads)

    def _moved(self, value: Value, ulps: int) -> Value:
        def move(x: np.ndarray) -> np.ndarray:
            # not always as far, so that two moves seldom cancel
            size = ulps + self.run % 3 if x.itemsize >= 4 else ulps
            new = moved(x, size * self.numbers.choice((-1, 1), x.shape))
            # the moderate run does not overflow because of a rounding
            return np.where(np.isfinite(x) & ~np.isfinite(new), x, new) if self.run == 3 else new

        return _each_float(value, move, lambda z: _moved_complex(z, ulps, self.numbers))

    def _moved_by_the_greatest(self, x: np.ndarray) -> np.ndarray:
        """Of a transform, each result is off by units of the greatest one."""
        finite = x[np.isfinite(x)]
        unit = np.spacing(np.abs(finite).max(initial=0))
        # any part of that: as far as an element was moved before, it would be moved back half of the time
        return np.where(np.isfinite(x), x + unit * self.numbers.uniform(-1, 1, x.shape), x).astype(x.dtype)

    def _moved_variance(self, value: Value, operands: Sequence[Value], instruction: Instruction) -> Value:
        """The variance may be a difference of two squares, and the normalised values are what it makes them."""
        out, mean, variance = value
        x, offset = operands[0].astype(np.float64), operands[2].astype(np.float64)
        feature = instruction["feature_index"]
        others = tuple(k for k in range(x.ndim) if k != feature)
        unit = float(ml_dtypes.finfo(variance.dtype).eps) * np.max(x * x, axis=others, initial=0)
        other = np.maximum(variance + unit * self.numbers.choice((-1, 1), variance.shape), 0)
        view = [1] * x.ndim
        view[feature] = -1
        epsilon = instruction["epsilon"]
        scale = np.sqrt((variance.astype(np.float64) + epsilon) / (other + epsilon)).reshape(view)
        centre = offset.reshape(view)
        return ((out - centre) * scale + centre).astype(out.dtype), mean, other.astype(variance.dtype)

    def _moved_gradient(self, value: Value, operands: Sequence[Value], instruction: Instruction) -> Value:
        """The gradient less its mean, which is a long sum."""
        _, scale, _, variance, gradient = (o.astype(np.float64) for o in operands)
        out, feature = value[0], instruction["feature_index"]
        unit = float(ml_dtypes.finfo(out.dtype).eps) * np.max(np.abs(gradient), initial=0) * (1 + _drift(instruction))
        with np.errstate(all="ignore"):
            unit = unit * np.abs(scale) / np.sqrt(variance + instruction["epsilon"])
        view = [1] * out.ndim
        view[feature] = -1
        off = (unit * self.numbers.choice((-1, 1), unit.shape)).reshape(view)
        return (out + np.where(np.isfinite(off), off, 0)).astype(out.dtype), *value[1:]

    def _signed_zeros(self, value: Value) -> Value:
        zero = -0.0 if self.run % 2 else 0.0
        return _each_float(value, lambda x: np.where(x == 0, np.asarray(zero).astype(x.dtype), x))


def _drift(instruction: Instruction) -> int:
    """How far, in units, one sum of many numbers can be off; of equal ones each addition rounds to the same side."""
    if instruction.opcode not in _SUMS:
        return 0
    shapes = [i.shape for i in instruction.operands if i.shape.is_array]
    if any(s.dtype.real.bits < 32 for s in shapes):  # which are added in wider ones
        return 0
    return min(max(s.size for s in shapes) // max(1, _least_result(instruction.shape)), 4096) // 32


def _least_result(shape: Shape) -> int:
    return min(map(_least_result, shape.elements), default=1) if shape.is_tuple else shape.size


def _flushes(instruction: Instruction) -> bool:
    if instruction.opcode in _KEEPS_DENORMALS:
        return False
    combines = "to_apply" in instruction.attrs and instruction.opcode not in ("all-reduce", "reduce-scatter")
    return not combines or _rounds(instruction)


def _rounds(instruction: Instruction) -> bool:
    if instruction.opcode not in ULPS:
        return False
    if instruction.opcode == "abs":
        return instruction.operands[0].shape.dtype.is_complex
    if instruction.opcode == "convert":
        source, target = instruction.operands[0].shape.dtype, instruction.shape.dtype
        return target.bits < 2 * source.bits and target.bits < 64 and source.name != "pred"
    combines = instruction.attrs.get("to_apply") or instruction.attrs.get("scatter")
    return combines is None or any(i.opcode in ULPS for i in combines)


Function = Callable[[np.ndarray], np.ndarray]


def _each_float(value: Value, function: Function, of_complex: Function | None = None) -> Value:
    if isinstance(value, tuple):
        return tuple(_each_float(v, function, of_complex) for v in value)
    if not isinstance(value, (np.ndarray, np.generic)):
        return value
    array = np.asarray(value)
    if array.dtype.kind == "c":
        if of_complex is not None:
            return of_complex(array)
        out = np.empty(array.shape, array.dtype)
        out.real, out.imag = (function(np.array(part)) for part in (np.real(array), np.imag(array)))
        return out
    return function(array) if is_float(array) else value


def is_float(array: np.ndarray) -> bool:
    """True for real floating point types, narrow ones too."""
    return array.dtype.kind == "f" or array.dtype.name.startswith(("float", "bfloat"))


def moved(x: np.ndarray, ulps: np.ndarray) -> np.ndarray:
    """`x` that many units in the last place further from zero (or nearer); zeros, infinities and NaN stay."""
    x = np.asarray(x, order="C")
    with np.errstate(all="ignore"):
        wide = x.astype(np.float64)
    bits = x.view(f"u{x.dtype.itemsize}").reshape(x.shape)
    sign = bits & ~(np.iinfo(bits.dtype).max >> np.array(1, bits.dtype))
    size = (bits ^ sign).astype(np.int64)
    fixed = (wide == 0) | ~np.isfinite(wide)
    new = np.where(fixed, size, np.maximum(size + ulps, 0)).astype(bits.dtype) | sign
    return np.asarray(new, order="C").view(x.dtype).reshape(x.shape)


def _replaced(x: np.ndarray, which: np.ndarray, size: float) -> np.ndarray:
    with np.errstate(all="ignore"):
        return np.where(which, np.copysign(size, x.astype(np.float64)), x.astype(np.float64)).astype(x.dtype)


def _most(x: np.ndarray) -> float:
    """A size of which products and sums of a few do not overflow."""
    return float(np.sqrt(np.float64(ml_dtypes.finfo(x.dtype).max))) / 64


def _with_infinities(x: np.ndarray, spreads: bool) -> np.ndarray:
    """`x` with infinities for numbers that may overflow; all NaN, if one infinity or NaN may spread."""
    wide = x.astype(np.float64)
    if spreads:
        return x if np.all(np.abs(wide) <= _most(x)) else np.full_like(x, np.asarray(np.nan).astype(x.dtype))
    return _replaced(x, np.abs(wide) > _most(x), np.inf)


def _without_overflow(x: np.ndarray, spreads: bool) -> np.ndarray:
    """`x` with moderate numbers for those that may overflow, and, if they may spread, for infinities and NaN."""
    wide = x.astype(np.float64)
    return _replaced(x, ~(np.abs(wide) <= _most(x)) & (spreads | np.isfinite(wide)), _most(x))


def _fused(product: np.ndarray, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """A product that a sum may bring back below the greatest number, when the two are one instruction."""
    if product.itemsize == 1:
        return product
    near = np.isinf(product) & np.isfinite(x) & np.isfinite(y) & np.isfinite(x * np.asarray(0.5).astype(x.dtype) * y)
    most = ml_dtypes.finfo(product.dtype).max
    return np.where(near, np.copysign(most, product.astype(np.float64)), product).astype(product.dtype)


def _moved_complex(z: np.ndarray, ulps: int, numbers: np.random.Generator) -> np.ndarray:
    # both parts are off by units of the greater one: products and quotients cancel in either
    out = np.empty(z.shape, z.dtype)
    with np.errstate(all="ignore"):
        unit = ulps * np.spacing(np.maximum(np.abs(np.real(z)), np.abs(np.imag(z))))
        parts = []
        for x in (np.real(z), np.imag(z)):
            off = np.isfinite(unit) & np.isfinite(x) & (z != 0)
            parts.append(np.where(off, x + unit * numbers.choice((-1, 1), z.shape), x))
    out.real, out.imag = parts
    return out


def flushed(x: np.ndarray) -> np.ndarray:
    """`x` with zeros for the denormals of types whose denormals hardware flushes."""
    if x.dtype.itemsize == 1 or x.dtype == np.float16:
        return x
    tiny = ml_dtypes.finfo(x.dtype).tiny
    with np.errstate(all="ignore"):
        return np.where(np.abs(x) < tiny, np.copysign(np.zeros((), x.dtype), x).astype(x.dtype), x)
