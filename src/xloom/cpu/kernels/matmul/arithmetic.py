"""How a product loads, multiplies, sums and stores elements.

A value is a list of parts: one, or the real and the imaginary part of complex numbers. Each part is a scalar or a
vector. Sums are formed in the accumulator's type; operands are converted to it as they are loaded.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

from llvmlite import ir

from xloom.hlo.dtype import DType, Kind, c64, c128, f32, f64, s32, s64
from xloom.llvm.folding_builder import Zeros
from xloom.llvm.intrinsics import overloaded
from xloom.llvm.masked_lanes import masked_load, masked_store
from xloom.llvm.scalar.conversion import widen, wrapped
from xloom.llvm.target import Target
from xloom.llvm.types import I16, I32, element_pointer, i64, memory_type, register_type
from xloom.llvm.vectors import like, shuffled, splat, uniform

Parts = list[ir.Value]


def accumulator(result: DType) -> DType:
    """The type that sums of a product with this result are formed in."""
    if result.is_complex:
        return c128 if result is c128 else c64
    if result.is_float:
        return f64 if result is f64 else f32
    return s64 if result.bits == 64 else s32


@dataclass(frozen=True)
class Arithmetic:
    """Arithmetic in vectors of one accumulator type."""

    dtype: DType
    target: Target = field(repr=False)

    pack_factor = 1
    """Of the depth, that an element of a packed operand has."""

    @cached_property
    def element(self) -> ir.Type:
        """The type of a part of an accumulator."""
        return register_type(self.dtype)

    @property
    def parts(self) -> int:
        """Vectors that a number needs: two for complex ones, else one."""
        return 2 if self.dtype.is_complex else 1

    @property
    def lanes(self) -> int:
        """How many parts a vector register holds."""
        return self.target.registers.nbytes * 8 // self.dtype.real.bits

    @property
    def few_sums(self) -> int:
        """Vectors of sums that keep the multipliers busy, when operands come from the first-level cache.

        Of 16 registers, complex numbers take seven for two vectors, a scalar and a negated part of it.
        """
        return 16 if self.target.registers.count == 32 else 12 if self.parts == 1 else 8

    @property
    def most_sums(self) -> int:
        """Vectors of sums that fit the registers, for fewer loads of the operands."""
        return 28 if self.target.registers.count == 32 else 12

    @property
    def has_plain_floats(self) -> bool:
        """True when a number is one float: adding a product takes one instruction, and no register beside its own."""
        return self.dtype.is_float and self.parts == self.pack_factor == 1

    @property
    def has_third_vector(self) -> bool:
        """True where 16 registers hold 12 sums, three vectors and a scalar: nothing else is needed to add a product."""
        return self.target.registers.count == 16 and self.pack_factor == self.parts == 1

    def kind(self, lanes: int) -> ir.Type:
        """The type of a part of `lanes` elements; of a scalar for 1."""
        return self.element if lanes == 1 else ir.VectorType(self.element, lanes)

    def zero(self, lanes: int) -> Parts:
        """Zeros in all lanes."""
        return [Zeros(self.kind(lanes), None)] * self.parts

    def loads(self, dtype: DType) -> bool:
        """True when elements of `dtype` can be converted as they are loaded."""
        if dtype is self.dtype:
            return True
        if self.dtype is f32:
            return dtype.bits <= 16 and (dtype.is_float or (dtype.is_integer and dtype.bits <= 8))
        return self.dtype.is_integer and (dtype.is_integer or dtype.kind is Kind.PRED)

    def stores(self, dtype: DType) -> bool:
        """True when sums can be converted to `dtype` as they are stored."""
        if dtype.is_integer:
            return dtype.bits >= 8
        return dtype.name in ("bf16", "f16") or dtype is self.dtype

    def load(
        self,
        b: ir.IRBuilder,
        pointer: ir.Value,
        dtype: DType,
        offset: ir.Value,
        lanes: int,
        mask: ir.Value | None = None,
    ) -> Parts:
        """`lanes` adjacent elements of an array from `offset` on; 0 where `mask` is false."""
        address, kind, size = element_pointer(b, pointer, dtype, offset), memory_type(dtype), dtype.bytes
        if not dtype.is_complex:
            return [self._widened(b, _load(b, address, kind, lanes, size, mask), dtype)]
        size //= 2
        if lanes == 1:
            second = b.gep(address, [i64(1)], inbounds=True, source_etype=kind)
            return [b.load(address, typ=kind, align=size), b.load(second, typ=kind, align=size)]
        both = _load(b, address, kind, 2 * lanes, size, None if mask is None else _doubled(b, mask))
        return [shuffled(b, both, range(k, 2 * lanes, 2)) for k in (0, 1)]

    def load_several(
        self, b: ir.IRBuilder, pointer: ir.Value, dtype: DType, lanes: int, masks: Sequence[ir.Value | None]
    ) -> list[Parts]:
        """Vectors of so many lanes one after the other, a mask or None for each.

        Narrow elements that none masks are converted in vectors as wide as registers.
        """
        if dtype.is_complex or lanes == 1 or any(mask is not None for mask in masks):
            return [self.load(b, pointer, dtype, i64(v * lanes), lanes, mask) for v, mask in enumerate(masks)]
        vectors = len(masks)
        all_lanes = self.load(b, pointer, dtype, i64(0), vectors * lanes)[0]
        return [[shuffled(b, all_lanes, range(v * lanes, (v + 1) * lanes))] for v in range(vectors)]

    def joined(self, b: ir.IRBuilder, low: Parts, high: Parts) -> Parts:
        """`pack_factor` elements that are neighbours along the depth as one packed element."""
        raise NotImplementedError

    def adjacent(self, b: ir.IRBuilder, pointer: ir.Value, dtype: DType, offset: ir.Value, lanes: int) -> Parts:
        """`lanes` packed elements, each of elements that are adjacent in memory along the depth."""
        return self.load(b, pointer, dtype, offset, lanes)

    def store(
        self,
        b: ir.IRBuilder,
        pointer: ir.Value,
        dtype: DType,
        offset: ir.Value,
        value: Parts,
        mask: ir.Value | None = None,
    ) -> None:
        """Writes adjacent elements from `offset` on, where `mask` is true."""
        address, size = element_pointer(b, pointer, dtype, offset), dtype.bytes
        if not dtype.is_complex:
            _store(b, address, self._narrowed(b, value[0], dtype), size, mask)
            return
        size //= 2
        if not isinstance(value[0].type, ir.VectorType):
            b.store(value[0], address, align=size)
            b.store(value[1], b.gep(address, [i64(1)], inbounds=True, source_etype=self.element), align=size)
            return
        lanes = value[0].type.count
        both = shuffled(b, value[0], [k // 2 + lanes * (k % 2) for k in range(2 * lanes)], value[1])
        _store(b, address, both, size, None if mask is None else _doubled(b, mask))

    def splat(self, b: ir.IRBuilder, value: Parts, lanes: int) -> Parts:
        """A scalar in every lane."""
        return [splat(b, x, lanes) for x in value]

    def multiply_add(self, b: ir.IRBuilder, x: Parts, y: Parts, total: Parts) -> Parts:
        """total + x * y."""
        if self.parts == 1:
            return [self._fused(b, x[0], y[0], total[0])]
        real = self._fused(b, x[0], y[0], self._fused(b, b.fneg(x[1]), y[1], total[0]))
        return [real, self._fused(b, x[0], y[1], self._fused(b, x[1], y[0], total[1]))]

    def add(self, b: ir.IRBuilder, x: Parts, y: Parts) -> Parts:
        """x + y, lane by lane."""
        return [b.add(p, q) if self.dtype.is_integer else b.fadd(p, q) for p, q in zip(x, y, strict=True)]

    def reduced(self, b: ir.IRBuilder, value: Parts) -> Parts:
        """The sum over the lanes."""
        if not isinstance(value[0].type, ir.VectorType):
            return value
        lanes = value[0].type.count
        while lanes > 1:
            lanes //= 2
            halves = [[shuffled(b, x, range(k * lanes, (k + 1) * lanes)) for x in value] for k in (0, 1)]
            value = self.add(b, *halves)
        return [b.extract_element(x, I32(0)) for x in value]

    def totals(self, b: ir.IRBuilder, vectors: Sequence[Parts]) -> list[Parts]:
        """The sums over the lanes of at most as many vectors as they have lanes, added up side by side."""
        lanes, rows = vectors[0][0].type.count, list(vectors)
        while len(rows) & (len(rows) - 1):
            rows.append(rows[-1])
        steps = lanes.bit_length() - len(rows).bit_length()
        while len(rows) > 1:
            pairs = zip(rows[::2], rows[1::2], strict=True)
            rows = [
                self.add(
                    b,
                    *([shuffled(b, x, range(k, 2 * lanes, 2), y) for x, y in zip(*pair, strict=True)] for k in (0, 1)),
                )
                for pair in pairs
            ]
        [total] = rows
        for _ in range(steps):
            lanes //= 2
            total = self.add(b, *([shuffled(b, x, range(k, 2 * lanes, 2)) for x in total] for k in (0, 1)))
        return [[b.extract_element(x, I32(k)) for x in total] for k in range(len(vectors))]

    def _fused(self, b: ir.IRBuilder, x: ir.Value, y: ir.Value, total: ir.Value) -> ir.Value:
        if self.dtype.is_integer:
            return b.add(total, b.mul(x, y))
        return overloaded(b, "fmuladd", [x.type], x.type, [x, y, total])

    def _widened(self, b: ir.IRBuilder, raw: ir.Value, dtype: DType) -> ir.Value:
        if dtype is self.dtype:
            return raw
        if dtype.is_float:
            return widen(b, raw, dtype)
        kind = like(raw.type, self.element)
        raw = wrapped(b, raw, dtype)  # what others write need not be extended
        if not self.dtype.is_integer:
            return b.sitofp(raw, kind) if dtype.kind is Kind.SIGNED else b.uitofp(raw, kind)
        width = memory_type(dtype).width
        if width >= self.element.width:
            return raw if width == self.element.width else b.trunc(raw, kind)
        return b.sext(raw, kind) if dtype.kind is Kind.SIGNED else b.zext(raw, kind)

    def _narrowed(self, b: ir.IRBuilder, value: ir.Value, dtype: DType) -> ir.Value:
        if dtype is self.dtype:
            return value
        kind = like(value.type, memory_type(dtype))
        if dtype.name == "f16":
            return b.fptrunc(value, kind)
        if dtype.is_integer:
            return b.trunc(value, kind) if dtype.bits < self.element.width else value
        wide = like(value.type, I32)
        bits = b.bitcast(value, wide)
        high = b.lshr(bits, uniform(wide, 16))
        up = b.add(b.and_(high, uniform(wide, 1)), uniform(wide, 0x7FFF))  # ties go to even
        rounded = b.lshr(b.add(bits, up), uniform(wide, 16))
        nan = b.fcmp_unordered("uno", value, value)
        return b.trunc(b.select(nan, b.or_(high, uniform(wide, 0x40)), rounded), like(value.type, I16))


def _load(b: ir.IRBuilder, address: ir.Value, kind: ir.Type, lanes: int, align: int, mask: ir.Value | None) -> ir.Value:
    if lanes == 1:
        return b.load(address, typ=kind, align=align)
    vector = ir.VectorType(kind, lanes)
    if mask is None:
        return b.load(address, typ=vector, align=align)
    return masked_load(b, address, mask, ir.Constant(vector, None), align)


def _store(b: ir.IRBuilder, address: ir.Value, value: ir.Value, align: int, mask: ir.Value | None) -> None:
    if mask is None:
        b.store(value, address, align=align)
    else:
        masked_store(b, value, address, mask, align)


def _doubled(b: ir.IRBuilder, mask: ir.Value) -> ir.Value:
    return shuffled(b, mask, [k // 2 for k in range(2 * mask.type.count)])
