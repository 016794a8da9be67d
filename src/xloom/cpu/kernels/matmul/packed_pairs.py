"""Products of narrow numbers in pairs: two elements along the depth at once, as 16-bit halves of a 32-bit element."""

from __future__ import annotations

from llvmlite import ir

from xloom.cpu.kernels.matmul.arithmetic import Arithmetic, Parts
from xloom.hlo.dtype import DType, Kind, bf16, f32, s32
from xloom.llvm.intrinsics import overloaded
from xloom.llvm.types import I16, I32, element_pointer
from xloom.llvm.vectors import like, uniform

_LANES = (4, 8, 16)
"""Of registers that have the instruction."""
_MULTIPLY = {4: "x86.sse2.pmadd.wd", 8: "x86.avx2.pmadd.wd", 16: "x86.avx512.pmaddw.d.512"}
"""The same without a sum that they are added to, by lanes."""


class PairArithmetic(Arithmetic):
    """Sums of 32-bit integers, of operands that fit 16 bits with their sign; they wrap as single products would."""

    pack_factor = 2

    def multiply_add(self, b: ir.IRBuilder, x: Parts, y: Parts, total: Parts) -> Parts:
        """total + the sum of two products."""
        kind = total[0].type
        if not isinstance(kind, ir.VectorType) or kind.count not in _LANES:
            halves = [(self._half(b, x[0], k), self._half(b, y[0], k)) for k in (0, 1)]
            return [b.add(b.add(total[0], b.mul(*halves[0])), b.mul(*halves[1]))]
        if self.target.adds_pair_products:
            name = f"x86.avx512.vpdpwssd.{32 * kind.count}"
            return [overloaded(b, name, [], kind, [total[0], x[0], y[0]])]
        pairs = ir.VectorType(I16, 2 * kind.count)
        operands = [b.bitcast(x[0], pairs), b.bitcast(y[0], pairs)]
        return [b.add(total[0], overloaded(b, _MULTIPLY[kind.count], [], kind, operands))]

    def _half(self, b: ir.IRBuilder, x: ir.Value, k: int) -> ir.Value:
        """The low or the high 16 bits of each element, with their sign."""
        sixteen = uniform(x.type, 16)
        return b.ashr(x if k else b.shl(x, sixteen), sixteen)

    def joined(self, b: ir.IRBuilder, low: Parts, high: Parts) -> Parts:
        """Two elements that are neighbours along the depth."""
        kind = low[0].type
        return [b.or_(b.and_(low[0], uniform(kind, 0xFFFF)), b.shl(high[0], uniform(kind, 16)))]

    def adjacent(self, b: ir.IRBuilder, pointer: ir.Value, dtype: DType, offset: ir.Value, lanes: int) -> Parts:
        """Loads `lanes` pairs that are adjacent in memory, as `load` does."""
        raw = self.load(b, pointer, dtype, offset, 2 * lanes)[0]
        return [b.bitcast(b.trunc(raw, like(raw.type, I16)), self.kind(lanes))]


class _BFloat(ir.Type):
    """LLVM's 16-bit upper halves of floats."""

    def _to_string(self) -> str:
        return "bfloat"


_BFLOAT = _BFloat()


class BFloatPairArithmetic(Arithmetic):
    """Sums in f32 of products of bf16, each added with one rounding. What is below the normal numbers counts as 0."""

    pack_factor = 2

    def multiply_add(self, b: ir.IRBuilder, x: Parts, y: Parts, total: Parts) -> Parts:
        """total + the product of the high halves + that of the low ones."""
        kind = total[0].type
        if kind.count not in _LANES:
            for k in (1, 0):
                total = [self._fused(b, self._half(b, x[0], k), self._half(b, y[0], k), total[0])]
            return total
        halves = ir.VectorType(_BFLOAT, 2 * kind.count)
        name = f"x86.avx512bf16.dpbf16ps.{32 * kind.count}"
        return [overloaded(b, name, [], kind, [total[0], b.bitcast(x[0], halves), b.bitcast(y[0], halves)])]

    def _half(self, b: ir.IRBuilder, x: ir.Value, k: int) -> ir.Value:
        """The low or the high 16 bits of each element, as a float."""
        wide = like(x.type, I32)
        bits = b.bitcast(x, wide)
        return b.bitcast(b.and_(bits, uniform(wide, -1 << 16)) if k else b.shl(bits, uniform(wide, 16)), x.type)

    def joined(self, b: ir.IRBuilder, low: Parts, high: Parts) -> Parts:
        """Two elements that are neighbours along the depth."""
        wide = like(low[0].type, I32)
        bits = [b.bitcast(x[0], wide) for x in (low, high)]
        return [b.bitcast(b.or_(b.lshr(bits[0], uniform(wide, 16)), bits[1]), low[0].type)]

    def adjacent(self, b: ir.IRBuilder, pointer: ir.Value, dtype: DType, offset: ir.Value, lanes: int) -> Parts:
        """Loads `lanes` pairs that are adjacent in memory, as `load` does."""
        address = element_pointer(b, pointer, dtype, offset)
        return [b.load(address, typ=self.kind(lanes), align=dtype.bytes)]


def narrowed_normal(b: ir.IRBuilder, value: ir.Value) -> ir.Value:
    """A vector of sixteen floats rounded to bf16, as they lie in memory; what is below the normal numbers as 0."""
    kind = value.type
    halves = overloaded(b, f"x86.avx512bf16.cvtneps2bf16.{32 * kind.count}", [], ir.VectorType(_BFLOAT, 16), [value])
    return b.bitcast(halves, ir.VectorType(I16, kind.count))


def in_pairs(arithmetic: Arithmetic, *operands: DType) -> Arithmetic:
    """Arithmetic in pairs, where its target has it and the operands fit it; else the same arithmetic."""
    target = arithmetic.target
    if arithmetic.dtype is f32 and all(x is bf16 for x in operands) and target.has_bfloat_products:
        return BFloatPairArithmetic(f32, target)
    narrow = all(x.kind is Kind.PRED or x.bits < 16 or x.name == "s16" for x in operands)
    fits = arithmetic.dtype is s32 and narrow
    return PairArithmetic(s32, target) if fits and target.has_pair_products else arithmetic
