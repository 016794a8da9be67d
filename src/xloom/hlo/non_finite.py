"""Which instructions make NaNs and infinities, and which pass on every one that an operand has.

An instruction makes a NaN where its value has one and no operand element that this depends on has; an infinity where
its value has one, and those elements are finite. Only arithmetic makes them: constants, arguments, what moves or
chooses elements, and numbers told from bits do not.
"""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

from xloom.hlo.index_operands import index_operands
from xloom.hlo.instruction import Instruction
from xloom.hlo.shape import Shape

NAN, INF = "nan", "inf"
KINDS = frozenset((NAN, INF))
_NAN, _INF, _BOTH = frozenset((NAN,)), frozenset((INF,)), KINDS

_MAKES = {
    **dict.fromkeys(("add", "subtract", "multiply", "divide", "power", "convert", "stochastic-convert"), _BOTH),
    **dict.fromkeys(("log", "log-plus-one", "rsqrt", "atanh", "dot", "ragged-dot", "scaled-dot", "convolution"), _BOTH),
    **dict.fromkeys(("fft", "cholesky", "triangular-solve", "custom-call", "rng"), _BOTH),
    **dict.fromkeys(("batch-norm-grad", "batch-norm-inference", "batch-norm-training"), _BOTH),
    **dict.fromkeys(("sqrt", "remainder", "sine", "cosine", "tan", "asin", "acos", "acosh"), _NAN),
    **dict.fromkeys(("exponential", "exponential-minus-one", "sinh", "cosh", "reduce-precision"), _INF),
}
"""Of real operands; complex arithmetic makes both."""
_REGIONS = frozenset(("reduce", "reduce-window", "scan", "select-and-scatter", "scatter", "map"))
"""What makes what the computations do that it calls."""
_MOVES = frozenset(("copy", "reshape", "transpose", "reverse", "broadcast", "concatenate", "bitcast", "complex"))
_SUMS = frozenset(("add", "subtract", "negate"))
_KEEPS_BOTH = frozenset(
    ("multiply", "abs", "floor", "ceil", "round-nearest-afz", "round-nearest-even", "log", "log-plus-one", "sqrt")
    + ("cbrt", "sine", "cosine", "tan")
)
"""Of an infinite real they give an infinity or a NaN."""
_KEEPS_NAN = frozenset(
    ("maximum", "minimum", "exponential", "exponential-minus-one", "tanh", "logistic", "rsqrt", "atan2", "erf", "sign")
)
_HAS_NAN = frozenset(("f16", "bf16", "f32", "f64", "f8e5m2", "f8e4m3", "f8e4m3fn", "f8e3m4", "c64", "c128"))


def is_inexact(shape: Shape) -> bool:
    """True for arrays of floats or complex numbers."""
    return shape.is_array and (shape.dtype.is_float or shape.dtype.is_complex)


def made_by(instruction: Instruction) -> frozenset[str]:
    """Which of `KINDS` an instruction can make."""
    if not any(is_inexact(leaf) for _, leaf in instruction.shape.leaves()):
        return frozenset()
    opcode = instruction.opcode
    if opcode in _REGIONS:
        return frozenset().union(*(made_by(i) for c in instruction.called_computations for i in c))
    if opcode == "convert" and not _narrows(instruction):
        return frozenset()
    made = _MAKES.get(opcode, frozenset())
    if instruction.op.elementwise and opcode not in _MOVES | {"negate", "select", "real", "imag"}:
        is_complex = any(o.shape.dtype.is_complex for o in instruction.operands)
        return _BOTH if is_complex and opcode != "convert" else made
    return made


def _narrows(convert: Instruction) -> bool:
    source, target = convert.operands[0].shape.dtype, convert.shape.dtype.real
    return target.name != "f64" and (target.name != "f32" or source.real.name == "f64")


def has_non_finite_constant(instruction: Instruction) -> bool:
    """Whether an operand is, or spreads, a constant that is not finite throughout."""
    return any(_is_non_finite_constant(operand) for operand in instruction.operands)


def _is_non_finite_constant(value: Instruction) -> bool:
    while value.opcode in ("broadcast", "reshape", "transpose", "copy", "bitcast"):
        (value,) = value.operands
    if value.opcode != "constant" or not is_inexact(value.shape) or value.literal.elided:
        return False
    with np.errstate(all="ignore"):
        return not np.isfinite(value.literal.value).all()


def passes_on(user: Instruction, number: int, kinds: Collection[str]) -> bool:
    """Whether each element of an operand that is a NaN gives one in the user's value, an array.

    With `INF` in `kinds`: whether each that is not finite gives one that is not. False where that is not sure.
    """
    opcode, shape = user.opcode, user.shape
    if not is_inexact(shape) or not shape.size:
        return False
    operand = user.operands[number].shape
    if opcode in _MOVES or opcode in _SUMS:
        return True
    if opcode == "pad":
        return number == 0 and all(low >= 0 and high >= 0 for low, high, _ in user["padding"])
    if opcode == "dynamic-update-slice":
        return number == 1
    if opcode == "scatter":
        return number == 2 and _writes_one_window(user)
    if opcode == "convert":
        return shape.dtype.name in _HAS_NAN and shape.dtype.is_complex >= operand.dtype.is_complex
    if opcode == "abs" and operand.dtype.is_complex:
        return INF in kinds  # of an infinity and a NaN it is infinite
    if shape.dtype.is_complex or operand.dtype.is_complex:
        return False
    if opcode in _KEEPS_BOTH or opcode == "dot":
        return True
    if opcode in ("divide", "remainder"):
        return number == 0 or INF not in kinds
    if opcode == "reduce":
        return number == 0 and len(user.operands) == 2 and _sums_up(user, kinds)
    if opcode == "convolution":
        return number == 0 and _meets_all(user)
    return opcode in _KEEPS_NAN and INF not in kinds


def _writes_one_window(scatter: Instruction) -> bool:
    """True where the update stands in the value as it is: for one index that is known, and in range."""
    to_apply = scatter["to_apply"]
    if len(scatter.operands) != 3 or scatter["input_batching_dims"] or to_apply.root is not to_apply.parameters[1]:
        return False
    index = _known_index(scatter.operands[1])
    (use,) = index_operands(scatter)
    return len(index) == len(use.limits) and all(0 <= k <= most for k, most in zip(index, use.limits, strict=True))


def _known_index(indices: Instruction) -> list[int]:
    """The elements of a constant vector, also of one that is put together; empty where they are not known."""
    if indices.opcode == "concatenate":
        parts = [_known_index(operand) for operand in indices.operands]
        return [k for part in parts for k in part] if all(parts) else []
    if indices.opcode in ("broadcast", "reshape"):
        found = _known_index(indices.operands[0])
        return found if len(found) == indices.shape.size else found * indices.shape.size if len(found) == 1 else []
    return [int(k) for k in indices.literal.value.reshape(-1)] if indices.opcode == "constant" else []


def _sums_up(reduce: Instruction, kinds: Collection[str]) -> bool:
    region = reduce["to_apply"]
    if set(region.root.operands) != set(region.parameters):
        return False
    return region.root.opcode in ("add", "multiply") or (
        region.root.opcode in ("maximum", "minimum") and INF not in kinds
    )


def _meets_all(convolution: Instruction) -> bool:
    """True when every element of the input is in some window."""
    dims = [convolution.operands[0].shape.dims[d] for d in convolution["dim_labels"].input_spatial]
    for n, w in zip(dims, convolution["window"], strict=True):
        if w.window_dilation != 1 or w.stride > w.size or min(w.padding_low, w.padding_high) < 0:
            return False
        extent = (n - 1) * w.base_dilation + 1
        last = (extent + w.padding_low + w.padding_high - w.size) // w.stride * w.stride
        if last + w.size < w.padding_low + extent:
            return False
    return True
