"""Associative operators on elements, or on vectors of them."""

from __future__ import annotations

from typing import Any

from llvmlite import ir

from xloom.cpu.kernels.window.reducer import Reducer
from xloom.hlo.dtype import DType, Kind
from xloom.interpreter.reduce import plain_operator
from xloom.llvm.scalar.identity_value import identity_value
from xloom.llvm.scalar.ordered_bits import bits_of, key_of, least_key
from xloom.llvm.types import I32, memory_type, register_type

LANES = 16
_TYPES = frozenset({"f32", "f64", "s8", "u8", "s16", "u16", "s32", "u32", "s64", "u64"})
_ORDERED = frozenset({"bf16", "f16", "f32", "f64"})
"""Floats of which the greatest is found without computing."""


class AssociativeOperator:
    """One operator of elements of a type, so many of them at once."""

    cost = 1
    """Operations that it takes of values as they lie in memory."""

    def __init__(self, opcode: str, dtype: DType, lanes: int):
        self.opcode, self.dtype, self.lanes = opcode, dtype, lanes
        self.element = self._element_type()
        self.type = self.element if lanes == 1 else ir.VectorType(self.element, lanes)

    @staticmethod
    def of(reducer: Reducer, lanes: int = 1) -> AssociativeOperator | None:
        """The operator that a reduction applies to its elements; None where it is none, or types differ."""
        opcode = plain_operator(reducer.body)
        dtypes = {*reducer.inputs, *reducer.states, *(p.shape.dtype for p in reducer.body.parameters)}
        if opcode is None or len(dtypes) != 1:
            return None
        (dtype,) = dtypes
        if opcode in ("maximum", "minimum") and dtype.name in _ORDERED:
            return _Extremum(opcode, dtype, lanes)
        known = dtype.name in _TYPES and identity_value(opcode, dtype) is not None
        return AssociativeOperator(opcode, dtype, lanes) if known else None

    @property
    def identity_value(self) -> ir.Constant:
        """What changes no other operand."""
        number = self._identity_value()
        return ir.Constant(self.type, number if self.lanes == 1 else [number] * self.lanes)

    def load(self, b: ir.IRBuilder, pointer: ir.Value, index: ir.Value) -> ir.Value:
        """The element of an array at `index`, or adjacent ones from there on."""
        return b.load(self._at(b, pointer, index), typ=self.type, align=self.dtype.bytes)

    def store(self, b: ir.IRBuilder, pointer: ir.Value, index: ir.Value, x: ir.Value) -> None:
        """Makes it the element of an array at `index`, or adjacent ones from there on."""
        b.store(x, self._at(b, pointer, index), align=self.dtype.bytes)

    def splat(self, b: ir.IRBuilder, pointer: ir.Value, index: ir.Value) -> ir.Value:
        """The element of an array at `index`, in all lanes."""
        x = type(self)(self.opcode, self.dtype, 1).load(b, pointer, index)
        if self.lanes == 1:
            return x
        return self.lane(b, b.insert_element(ir.Constant(self.type, ir.Undefined), x, I32(0)), 0)

    def lane(self, b: ir.IRBuilder, x: ir.Value, lane: int) -> ir.Value:
        """A vector with one lane of `x` in all."""
        return b.shuffle_vector(x, ir.Constant(self.type, ir.Undefined), mask([lane] * self.lanes))

    def store_first(self, b: ir.IRBuilder, pointer: ir.Value, index: ir.Value, x: ir.Value) -> None:
        """Makes the first lane the element of an array at `index`."""
        type(self)(self.opcode, self.dtype, 1).store(b, pointer, index, b.extract_element(x, I32(0)))

    def apply(self, b: ir.IRBuilder, x: ir.Value, y: ir.Value) -> ir.Value:
        """`x opcode y`, lane by lane."""
        if self.opcode in ("maximum", "minimum"):
            compare = b.icmp_signed if self.dtype.kind is Kind.SIGNED else b.icmp_unsigned
            return b.select(compare(">" if self.opcode == "maximum" else "<", x, y), x, y)
        plain = {"and": b.and_, "or": b.or_, "xor": b.xor}
        plain |= {"add": b.fadd, "multiply": b.fmul} if self.dtype.is_float else {"add": b.add, "multiply": b.mul}
        return plain[self.opcode](x, y)

    def _at(self, b: ir.IRBuilder, pointer: ir.Value, index: ir.Value) -> ir.Value:
        return b.gep(pointer, [index], inbounds=True, source_etype=memory_type(self.dtype))

    def _element_type(self) -> Any:
        return register_type(self.dtype)

    def _identity_value(self) -> Any:
        return identity_value(self.opcode, self.dtype)


class _Extremum(AssociativeOperator):
    """Maxima or minima of floats, which are keys in registers: one operation where NaN and the zeros make it more."""

    cost = 4

    def load(self, b: ir.IRBuilder, pointer: ir.Value, index: ir.Value) -> ir.Value:
        """The keys of the floats from `index` on."""
        return key_of(b, super().load(b, pointer, index), self.dtype.mantissa_bits, negates=self._negates)

    def store(self, b: ir.IRBuilder, pointer: ir.Value, index: ir.Value, x: ir.Value) -> None:
        """Writes the floats that keys stand for, from `index` on."""
        super().store(b, pointer, index, bits_of(b, x, self.dtype.mantissa_bits, negates=self._negates))

    def apply(self, b: ir.IRBuilder, x: ir.Value, y: ir.Value) -> ir.Value:
        """The larger keys: of minima, keys are those of the negated floats."""
        return b.select(b.icmp_signed(">", x, y), x, y)

    @property
    def _negates(self) -> bool:
        return self.opcode == "minimum"

    def _element_type(self) -> Any:
        return ir.IntType(self.dtype.bits)

    def _identity_value(self) -> Any:
        return least_key(self.dtype.bits)


def mask(lanes: list[int]) -> ir.Constant:
    """Which lanes a shuffle takes."""
    return ir.Constant(ir.VectorType(I32, len(lanes)), lanes)
