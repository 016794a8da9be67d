"""What a program may rightly return: the interpreter's value, and how far rounding can move it.

The program is run several times: with every rounded result moved by a few units in its last place, up or down at
random; with denormals flushed to zero, which compilers for CPUs may do; with the signs of those zeros changed that
HLO leaves open; and with numbers whose sums or products may overflow once infinite, once moderate. Where the runs
agree nothing else is right; where they differ, a value may lie between them, or beyond by a few times their distance.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import ml_dtypes
import numpy as np

from xloom.hlo.dtype import DType, from_numpy
from xloom.hlo.module import Instruction, Module
from xloom.interpreter import Evaluator
from xloom.interpreter.registry import Value

RUNS = 10
_REACH = 6  # times the runs' distance

_ULPS = {  # how many units in the last place an operator may be off
    **dict.fromkeys(("add", "subtract", "multiply", "divide", "sqrt", "convert"), 1),
    **dict.fromkeys(("dot", "convolution", "reduce", "reduce-window", "select-and-scatter", "scatter", "map"), 1),
    **dict.fromkeys(("fft", "cholesky", "triangular-solve"), 2),
    **dict.fromkeys(("batch-norm-training", "batch-norm-inference", "batch-norm-grad"), 2),
    **dict.fromkeys(("logistic", "rsqrt", "cbrt", "exponential", "log", "abs", "sine", "cosine"), 2),
    **dict.fromkeys(("exponential-minus-one", "log-plus-one", "tan", "tanh", "sinh", "cosh", "erf"), 4),
    **dict.fromkeys(("acos", "acosh", "asin", "asinh", "atanh", "power", "atan2"), 4),
}
_SUMS = frozenset(
    ("dot", "convolution", "reduce", "fft", "cholesky", "triangular-solve", "scatter")
    + ("batch-norm-training", "batch-norm-inference", "batch-norm-grad")
)  # their operands are moved too, so that cancellation inside them shows
_OVERFLOWS = _SUMS | {"reduce-window", "select-and-scatter"}
_MIXES = _SUMS - {"dot", "convolution", "reduce", "scatter"}  # where an infinity is spread over others
_ZERO_SIGN_IS_OPEN = frozenset(
    ("maximum", "minimum", "clamp", "reduce", "reduce-window", "dot", "convolution", "fft", "scatter", "map")
    + ("batch-norm-training", "batch-norm-inference", "batch-norm-grad", "cholesky", "triangular-solve")
    + ("select-and-scatter", "reduce-precision", "remainder", "sort", "topk")
)
_KEEPS_DENORMALS = frozenset(
    ("parameter", "constant", "tuple", "get-tuple-element", "broadcast", "reshape", "transpose", "slice", "pad")
    + ("concatenate", "reverse", "gather", "dynamic-slice", "dynamic-update-slice", "while", "conditional", "call")
    + ("bitcast-convert", "iota", "copy", "sort", "rng-bit-generator", "select", "complex", "real", "imag")
)


class _Perturbed(Evaluator):
    """Rounds another way, within bounds."""

    def __init__(
        self,
        module: Module,
        *,
        moves: bool,
        flushes: bool,
        huge: Callable[[np.ndarray, bool], np.ndarray] | None,
        seed: int,
    ):
        super().__init__(module)
        self.moves, self.flushes, self.huge = moves, flushes, huge
        self.negative = bool(seed & 1)
        self.numbers = np.random.default_rng(seed)

    def apply(self, instruction: Instruction, operands: Sequence[Value]) -> Value:
        opcode = instruction.opcode
        rounds = self.moves and _rounds(instruction)
        if self.huge is not None and opcode in _OVERFLOWS and _rounds(instruction):
            spreads, huge = opcode in _MIXES, self.huge
            operands = [_each_float(o, lambda x: x if x.itemsize == 1 else huge(x, spreads)) for o in operands]
        if rounds and opcode in _SUMS:
            operands = [self._moved(o, 1) for o in operands]
        if self.flushes and _flushes(instruction):
            operands = [self._flushed(o) for o in operands]
        value = super().apply(instruction, operands)
        if rounds:
            value = self._moved(value, _ULPS[opcode])
        if self.flushes and _flushes(instruction):
            value = self._flushed(value)
        if self.moves and (opcode in _ZERO_SIGN_IS_OPEN or (rounds and instruction.shape.dtype.is_complex)):
            value = self._signed_zeros(value)
        return value

    def _moved(self, value: Value, ulps: int) -> Value:
        def move(x: np.ndarray) -> np.ndarray:
            return moved(x, self.numbers.choice((-ulps, ulps), x.shape))

        return _each_float(value, move, lambda z: _moved_complex(z, ulps, self.numbers))

    def _flushed(self, value: Value) -> Value:
        return _each_float(value, flushed)

    def _signed_zeros(self, value: Value) -> Value:
        zero = -0.0 if self.negative else 0.0
        return _each_float(value, lambda x: np.where(x == 0, np.asarray(zero).astype(x.dtype), x))


def _flushes(instruction: Instruction) -> bool:
    if instruction.opcode in _KEEPS_DENORMALS:
        return False
    return "to_apply" not in instruction.attrs or _rounds(instruction)


def _rounds(instruction: Instruction) -> bool:
    if instruction.opcode not in _ULPS:
        return False
    if instruction.opcode == "convert":
        source, target = instruction.operands[0].shape.dtype, instruction.shape.dtype
        return target.bits < 2 * source.bits and target.bits < 64 and source.name != "pred"
    combines = instruction.attrs.get("to_apply") or instruction.attrs.get("scatter")
    return combines is None or any(i.opcode in _ULPS for i in combines)


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


@dataclass
class Bounds:
    """The runs' values of one output; the first run's are the interpreter's own."""

    runs: list[np.ndarray]

    @property
    def dtype(self) -> DType:
        """The element type."""
        return from_numpy(self.runs[0].dtype)

    def wrong(self, got: np.ndarray, instead: np.ndarray | None = None) -> np.ndarray:
        """Where `got` is not right, `instead` being the value to be near rather than the interpreter's."""
        runs = self.runs if instead is None else [instead, *(r for r in self.runs[1:])]
        if runs[0].dtype.kind == "c":
            # whether an infinite complex number has a NaN part, and which, is left open
            unbounded = ~np.isfinite(got) & np.any([~np.isfinite(r) for r in runs], axis=0)
            real, imag = (([f(r) for r in runs], f(got)) for f in (np.real, np.imag))
            wrong = _wrong(*real) | _wrong(*imag)
            return wrong & ~unbounded
        return _wrong(runs, got)

    def loose(self) -> np.ndarray:
        """Where the runs differ so much that next to nothing is wrong: by more than a hundredth."""
        wide = _wide(self.runs)
        low, high = wide.min(axis=0), wide.max(axis=0)
        with np.errstate(all="ignore"):
            near = high - low <= 0.01 * np.maximum(np.abs(high), np.abs(low))
        return ~(near | (low == high) | np.isnan(wide).all(axis=0))


def _wide(runs: list[np.ndarray]) -> np.ndarray:
    if runs[0].dtype.kind == "c":
        return np.abs(np.stack(runs))
    with np.errstate(all="ignore"):
        return np.stack([r.astype(np.float64) for r in runs])


def _wrong(runs: list[np.ndarray], got: np.ndarray) -> np.ndarray:
    if not is_float(runs[0]):
        return np.all([r != got for r in runs], axis=0)
    wide = _wide(runs)
    with np.errstate(all="ignore"):
        value = got.astype(np.float64)
        nan = np.isnan(wide)
        same = np.any((wide == value) & (np.signbit(wide) == np.signbit(value)), axis=0)
        low, high = np.min(np.where(nan, np.inf, wide), axis=0), np.max(np.where(nan, -np.inf, wide), axis=0)
        slack = _REACH * (high - low)
        # runs that are infinite or NaN now and then, and else not, leave everything open
        between = (value >= low - slack) & (value <= high + slack) & ~((low == 0) & (high == 0))
        kind = np.where(np.isfinite(wide), 0, wide)
        unbounded = np.any(~((kind == kind[0]) | np.isnan(kind) & np.isnan(kind[0])), axis=0)
        fine = same | between | unbounded | (np.isnan(value) & nan.any(axis=0))
    return ~np.asarray(fine)


def bounds(module: Module, arguments: Sequence[np.ndarray]) -> list[Bounds]:
    """The runs of a program: those of each output together."""
    outputs: list[list[np.ndarray]] = []
    for k in range(RUNS):
        evaluator = _Perturbed(
            module, moves=k > 1, flushes=k % 2 == 1, huge={1: _with_infinities, 3: _without_overflow}.get(k), seed=k
        )
        with np.errstate(all="ignore"):
            outputs.append(leaves(evaluator.call(module.entry, arguments)))
    return [Bounds(list(runs)) for runs in zip(*outputs, strict=True)]


def leaves(value: Value) -> list[np.ndarray]:
    """The arrays of a nested tuple, in order."""
    if isinstance(value, tuple):
        return [leaf for v in value for leaf in leaves(v)]
    return [np.asarray(value)]
