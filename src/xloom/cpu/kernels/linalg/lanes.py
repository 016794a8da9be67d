"""Vectors of real or complex numbers, explicit so that accumulators stay in registers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from llvmlite import ir

from xloom.hlo.dtype import DType
from xloom.llvm.masked_lanes import masked_store
from xloom.llvm.types import I32, I64, element_pointer, register_type
from xloom.llvm.vectors import splat

Number = list[Any]
"""One vector for a real type; real and imaginary parts for a complex one."""


@dataclass(frozen=True)
class Lanes:
    """Vectors of `count` numbers of a type."""

    dtype: DType
    count: int

    @property
    def kind(self) -> ir.VectorType:
        """The type of a vector of parts."""
        return ir.VectorType(register_type(self.dtype), self.count)

    @property
    def parts(self) -> int:
        """Vectors that a number needs: two for complex ones, else one."""
        return 2 if self.dtype.is_complex else 1

    def load(self, b: ir.IRBuilder, pointer: ir.Value, index: Any) -> Number:
        """Neighbours in memory from element `index`."""
        align = self.dtype.bytes // self.parts
        address = element_pointer(b, pointer, self.dtype, index)
        if self.parts == 1:
            return [b.load(address, typ=self.kind, align=align)]
        pairs = b.load(address, typ=ir.VectorType(self.kind.element, 2 * self.count), align=align)
        return [self._shuffled(b, pairs, pairs, [2 * k + part for k in range(self.count)]) for part in range(2)]

    def store(self, b: ir.IRBuilder, pointer: ir.Value, index: Any, value: Number, first: Any = None) -> None:
        """Writes neighbours in memory: those from lane `first` (i64) on, where it is given."""
        n, address, align = self.count, element_pointer(b, pointer, self.dtype, index), self.dtype.bytes // self.parts
        whole = value[0]
        if self.parts == 2:
            whole = self._shuffled(b, value[0], value[1], [k // 2 + n * (k % 2) for k in range(2 * n)])
        if first is None:
            b.store(whole, address, align=align)
            return
        numbers = ir.Constant(ir.VectorType(I32, whole.type.count), [k // self.parts for k in range(whole.type.count)])
        mask = b.icmp_signed(">=", numbers, splat(b, b.trunc(first, I32), whole.type.count))
        masked_store(b, whole, address, mask, align)

    def _shuffled(self, b: ir.IRBuilder, x: ir.Value, y: ir.Value, lane_numbers: list[int]) -> ir.Value:
        return b.shuffle_vector(x, y, ir.Constant(ir.VectorType(I32, len(lane_numbers)), lane_numbers))

    def splat(self, b: ir.IRBuilder, scalar: Number) -> Number:
        """A scalar in every lane."""
        nothing = ir.Constant(self.kind, ir.Undefined)
        return [self._shuffled(b, b.insert_element(nothing, s, I32(0)), nothing, [0] * self.count) for s in scalar]

    def minus_product(self, b: ir.IRBuilder, x: Number, y: Number, z: Number) -> Number:
        """x - y z, lane by lane."""
        fma = self.fma
        if self.parts == 1:
            return [fma(b, b.fneg(y[0]), z[0], x[0])]
        real = fma(b, y[1], z[1], fma(b, b.fneg(y[0]), z[0], x[0]))
        imag = fma(b, b.fneg(y[1]), z[0], fma(b, b.fneg(y[0]), z[1], x[1]))
        return [real, imag]

    def plus_product(self, b: ir.IRBuilder, x: Number, y: Number, z: Number) -> Number:
        """x + y z, lane by lane."""
        if self.parts == 1:
            return [self.fma(b, y[0], z[0], x[0])]
        return self.minus_product(b, x, [b.fneg(part) for part in y], z)

    def fma(self, b: ir.IRBuilder, x: ir.Value, y: ir.Value, z: ir.Value) -> ir.Value:
        """x y + z of vectors of parts."""
        element = "f64" if self.dtype.real.bits == 64 else "f32"
        name = f"llvm.fma.v{self.count}{element}"
        function = b.module.globals.get(name)
        if function is None:
            function = ir.Function(b.module, ir.FunctionType(self.kind, [self.kind] * 3), name)
        return b.call(function, [x, y, z])

    def product(self, b: ir.IRBuilder, x: Number, y: Number) -> Number:
        """The product x y, lane by lane."""
        if self.parts == 1:
            return [b.fmul(x[0], y[0])]
        real = b.fsub(b.fmul(x[0], y[0]), b.fmul(x[1], y[1]))
        return [real, b.fadd(b.fmul(x[0], y[1]), b.fmul(x[1], y[0]))]

    def quotient(self, b: ir.IRBuilder, x: Number, scalar: Number) -> Number:
        """x / scalar in every lane."""
        if self.parts == 1:
            return [b.fdiv(x[0], self.splat(b, scalar)[0])]
        return self.product(b, x, self.splat(b, inverse(b, scalar)))


def load_scalar(b: ir.IRBuilder, pointer: ir.Value, dtype: DType, index: Any, conjugate: bool = False) -> Number:
    """The element of an array at `index`, conjugated if asked."""
    address, kind = element_pointer(b, pointer, dtype, index), register_type(dtype)
    real = b.load(address, typ=kind)
    if not dtype.is_complex:
        return [real]
    imag = b.load(b.gep(address, [I64(1)], inbounds=True, source_etype=kind), typ=kind)
    return [real, b.fneg(imag) if conjugate else imag]


def selected(b: ir.IRBuilder, mask: ir.Value, number: Number, other: Number) -> Number:
    """A number where a mask is true, another elsewhere."""
    return [b.select(mask, x, y) for x, y in zip(number, other, strict=True)]


def inverse(b: ir.IRBuilder, z: Number) -> Number:
    """1 / z of a complex number, scaled so that no square overflows."""
    sizes = [b.select(b.fcmp_ordered("<", p, p.type(0.0)), b.fneg(p), p) for p in z]
    largest = b.select(b.fcmp_ordered("<", *sizes), sizes[1], sizes[0])
    x, y = (b.fdiv(p, largest) for p in z)
    square = b.fadd(b.fmul(x, z[0]), b.fmul(y, z[1]))
    return [b.fdiv(x, square), b.fneg(b.fdiv(y, square))]
