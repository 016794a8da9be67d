"""What a reduction has accumulated so far: in which representation, and where."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Protocol

from llvmlite import ir

from xloom.codegen.loop_ir.nodes import Op, Reduction, walk
from xloom.hlo.dtype import DType, f32, s16, s32, s64
from xloom.llvm import types
from xloom.llvm.folding_builder import FoldingBuilder
from xloom.llvm.intrinsics import intrinsic
from xloom.llvm.loop import allocate
from xloom.llvm.scalar import complex_math, conversion
from xloom.llvm.scalar.ordered_bits import bits_of, key_of
from xloom.llvm.types import I1, Complex, Value

_ANY_ORDER = "reassoc"
"""Without nsz, with which LLVM takes x - x for 0 where it is added, NaN or not."""


class Representation:
    """Accumulated values in registers as they are, by the computation that the program gives."""

    def __init__(self, dtype: DType):
        self.dtype = dtype
        self.kept = dtype
        """The type in which partial results are in registers and in memory."""

    def encoded(self, b: ir.IRBuilder, value: Value) -> Value:
        """What stands for a value of the type."""
        return value

    def decoded(self, b: ir.IRBuilder, state: Value) -> Value:
        """The value that is stood for."""
        return state


class Merging(Representation):
    """A representation of an operator whose elements may be taken in any order."""

    def merged(self, b: ir.IRBuilder, state: Value, other: Value) -> Value:
        """Both in one, as they are encoded."""
        raise NotImplementedError

    def with_element(self, b: ir.IRBuilder, state: Value, element: Value) -> Value:
        """A state with one more element, encoded."""
        return self.merged(b, state, element)


class Sum(Merging):
    """Sums or products of floats; those of narrow floats in f32, so that they round once."""

    def __init__(self, opcode: str, dtype: DType):
        super().__init__(dtype)
        self.opcode = opcode
        self.kept = dtype if types.is_wide(dtype) else f32

    def decoded(self, b: ir.IRBuilder, state: Value) -> Value:
        """The sum, rounded to the reduction's type."""
        return conversion.rounded_result(b, state, self.dtype)

    def merged(self, b: ir.IRBuilder, state: Value, other: Value) -> Value:
        """The sum or product of two states, which LLVM may associate in any order but where places are known."""
        return self._together(b, state, other, [] if _is_alone(b) else [_ANY_ORDER])

    def with_element(self, b: ir.IRBuilder, state: Value, element: Value) -> Value:
        """A state with one more element, of which a product need not be rounded for itself."""
        # states are not: LLVM would make one chain of sums that do not wait for one another
        return self._together(b, state, element, ["contract"] if _is_alone(b) else [_ANY_ORDER, "contract"])

    def _together(self, b: ir.IRBuilder, state: Value, other: Value, flags: Sequence[str]) -> Value:
        if isinstance(state, Complex):
            if self.opcode == "add":
                return Complex(*(b.fadd(s, o, flags=flags) for s, o in zip(state, other, strict=True)))
            return complex_math.BINARY["multiply"](b, state, other)
        return (b.fadd if self.opcode == "add" else b.fmul)(state, other, flags=flags)


def _is_alone(b: ir.IRBuilder) -> bool:
    """True where additions stand one by one in the order in which they are best done."""
    return isinstance(b, FoldingBuilder) and b.is_alone


class Extremum(Merging):
    """Maxima or minima of floats, as the maximum of their keys; for minima, of the negated numbers' keys.

    With `positive_nans`, NaNs are made such: LLVM takes a product of numbers that are none, as converted integers, for
    one of a known sign, and leaves out what looks at it, but 0 times inf has the other sign on x86.
    """

    def __init__(self, opcode: str, dtype: DType, *, positive_nans: bool = False):
        super().__init__(dtype)
        self._negates, self._positive_nans = opcode == "minimum", positive_nans
        # narrow floats have the order of their own bits; those of 8 bits and less are few, and computed as f32
        self.kept = {"f64": s64, "f16": s16, "bf16": s16}.get(dtype.name, s32)
        self._mantissa = (dtype if dtype.bits >= 16 else f32).mantissa_bits

    def encoded(self, b: ir.IRBuilder, value: Value) -> Value:
        """The key of a number."""
        if self._positive_nans:
            value = b.select(b.fcmp_unordered("uno", value, value), value.type(math.nan), value)
        bits = conversion.to_bits(b, value, self.dtype) if self.kept is s16 else b.bitcast(value, self._kind)
        return key_of(b, bits, self._mantissa, negates=self._negates)

    def decoded(self, b: ir.IRBuilder, state: Value) -> Value:
        """The number of a key."""
        bits = bits_of(b, state, self._mantissa, negates=self._negates)
        if self.kept is s16:
            return conversion.from_bits(b, bits, self.dtype)
        return b.bitcast(bits, types.register_type(self.dtype))

    @property
    def _kind(self) -> ir.Type:
        return types.register_type(self.kept)

    def merged(self, b: ir.IRBuilder, state: Value, other: Value) -> Value:
        """The larger of two keys."""
        return intrinsic(b, "smax", state, other)


def representation_of(reduction: Reduction, number: int = 0) -> Representation:
    """How value `number` of a reduction is accumulated."""
    dtype = reduction.inits[number].dtype
    if reduction.plain in ("add", "multiply") and (dtype.is_float or dtype.is_complex):
        return Sum(reduction.plain, dtype)
    if reduction.plain in ("maximum", "minimum") and dtype.is_float:
        return Extremum(reduction.plain, dtype, positive_nans=_converts_integers(reduction))
    return Representation(dtype)


def _converts_integers(reduction: Reduction) -> bool:
    converted = [n for n in walk(reduction.elements) if isinstance(n, Op) and n.opcode == "convert"]
    return any(not n.operands[0].dtype.is_float for n in converted)


def are_sums(reductions: Sequence[Reduction]) -> bool:
    """True where all reductions add floats, whose error grows with the number of steps."""
    return all(f.plain == "add" and isinstance(representation_of(f), Sum) for f in reductions)


class State(Protocol):
    """An accumulator, or one lane of it."""

    representation: Representation

    def get(self) -> Value:
        """What has been accumulated, encoded."""

    def set(self, value: Value) -> None:
        """Replaces what has been accumulated by an encoded value."""


class Accumulator:
    """A variable in registers; with `lanes`, an array of them on the stack."""

    def __init__(self, b: ir.IRBuilder, representation: Representation, lanes: int | None = None):
        self.b = b
        self.representation = representation
        kept = representation.kept
        self._register = types.register_type(kept)
        self._kind = types.I8 if lanes is not None and self._register == I1 else self._register
        self._slots = [allocate(b, self._kind, lanes, "acc") for _ in range(2 if kept.is_complex else 1)]

    def _pointers(self, lane: ir.Value | None) -> list[ir.Value]:
        if lane is None:
            return self._slots
        return [self.b.gep(s, [lane], inbounds=True, source_etype=self._kind) for s in self._slots]

    def get(self, lane: ir.Value | None = None) -> Value:
        """What has been accumulated, encoded."""
        values = [self.b.load(p, typ=self._kind) for p in self._pointers(lane)]
        if len(values) == 2:
            return Complex(*values)
        return values[0] if self._kind == self._register else self.b.trunc(values[0], I1)

    def set(self, value: Value, lane: ir.Value | None = None) -> None:
        """Replaces what has been accumulated, in a lane if there are several, by an encoded value."""
        parts = value if isinstance(value, Complex) else (value,)
        for pointer, part in zip(self._pointers(lane), parts, strict=True):
            self.b.store(self.b.zext(part, self._kind) if part.type != self._kind else part, pointer)

    def start(self, value: Value, lane: ir.Value | None = None) -> None:
        """Puts a value of the reduction's type."""
        self.set(self.representation.encoded(self.b, value), lane)

    def result(self, lane: ir.Value | None = None) -> Value:
        """The final value, of the reduction's type."""
        return self.representation.decoded(self.b, self.get(lane))

    def lane(self, lane: ir.Value) -> State:
        """The accumulator of one lane (i64) of several."""
        return _Lane(self, lane)


class _Lane:
    def __init__(self, accumulator: Accumulator, lane: ir.Value):
        self.representation = accumulator.representation
        self._accumulator = accumulator
        self._lane = lane

    def get(self) -> Value:
        return self._accumulator.get(self._lane)

    def set(self, value: Value) -> None:
        self._accumulator.set(value, self._lane)


def accumulators(b: ir.IRBuilder, reduction: Reduction, lanes: int | None = None) -> list[Accumulator]:
    """An accumulator for each value of a reduction."""
    return [Accumulator(b, representation_of(reduction, k), lanes) for k in range(len(reduction.inits))]
