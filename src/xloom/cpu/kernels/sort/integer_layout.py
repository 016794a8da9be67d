"""How unsigned integers lie in memory: as they are, or as high and low halves in two arrays."""

from __future__ import annotations

from llvmlite import ir

from xloom.cpu.kernels.sort.lanes import lanes
from xloom.llvm.masked_lanes import masked_load, masked_store
from xloom.llvm.types import I8
from xloom.llvm.vectors import like, splat, uniform

Parts = list[ir.Value]
"""A vector of integers, or those of their high and of their low halves."""


class Layout:
    """Of integers of so many bits, of which halves that are `apart` lie `distance` bytes from one another."""

    def __init__(self, bits: int, apart: bool):
        self.bits, self.apart = bits, apart
        self.part = ir.IntType(bits // 2 if apart else bits)
        """The type of what is at a pointer."""
        self.parts_lanes = lanes(self.part.width)
        """How many integers are in parts that are vectors as long as there are."""

    def at(self, b: ir.IRBuilder, pointer: ir.Value, index: ir.Value) -> ir.Value:
        """Where integer number `index` lies, or its high half."""
        return b.gep(pointer, [index], inbounds=True, source_etype=self.part)

    def load_parts(
        self, b: ir.IRBuilder, pointer: ir.Value, distance: ir.Value, lanes: int, mask: ir.Value | None = None
    ) -> Parts:
        """So many integers, where the mask is true, and else the greatest there is; one as a scalar."""
        kind, align = ir.VectorType(self.part, lanes) if lanes > 1 else self.part, self.part.width // 8
        addresses = self._addresses(b, pointer, distance)
        if mask is None:
            return [b.load(p, typ=kind, align=align) for p in addresses]
        return [masked_load(b, p, mask, uniform(kind, -1), align) for p in addresses]

    def load(self, b: ir.IRBuilder, pointer: ir.Value, distance: ir.Value, mask: ir.Value | None = None) -> ir.Value:
        """A vector of integers."""
        return self._joined(b, self.load_parts(b, pointer, distance, lanes(self.bits), mask))

    def load_one(self, b: ir.IRBuilder, pointer: ir.Value, distance: ir.Value) -> ir.Value:
        """An integer."""
        return self._joined(b, self.load_parts(b, pointer, distance, lanes=1))

    def store_parts(
        self, b: ir.IRBuilder, parts: Parts, pointer: ir.Value, distance: ir.Value, mask: ir.Value | None = None
    ) -> None:
        """Writes integers, where the mask is true."""
        align = self.part.width // 8
        for part, address in zip(parts, self._addresses(b, pointer, distance), strict=True):
            if mask is None:
                b.store(part, address, align=align)
            else:
                masked_store(b, part, address, mask, align)

    def store(
        self, b: ir.IRBuilder, x: ir.Value, pointer: ir.Value, distance: ir.Value, mask: ir.Value | None = None
    ) -> None:
        """Writes an integer, or a vector of them where the mask is true."""
        self.store_parts(b, self._parted(b, x), pointer, distance, mask)

    def splat(self, b: ir.IRBuilder, x: ir.Value) -> Parts:
        """Parts whose integers all are x."""
        return [splat(b, part, self.parts_lanes) for part in self._parted(b, x)]

    def below(self, b: ir.IRBuilder, xs: Parts, ys: Parts) -> ir.Value:
        """A mask that is true where xs are less than ys."""
        less = b.icmp_unsigned("<", xs[0], ys[0])
        if not self.apart:
            return less
        same = b.icmp_unsigned("==", xs[0], ys[0])
        return b.or_(less, b.and_(same, b.icmp_unsigned("<", xs[1], ys[1])))

    def _addresses(self, b: ir.IRBuilder, pointer: ir.Value, distance: ir.Value) -> list[ir.Value]:
        return [pointer, b.gep(pointer, [distance], source_etype=I8)] if self.apart else [pointer]

    def _joined(self, b: ir.IRBuilder, parts: Parts) -> ir.Value:
        if not self.apart:
            return parts[0]
        kind = like(parts[0].type, ir.IntType(self.bits))
        high = b.shl(b.zext(parts[0], kind), uniform(kind, self.bits // 2))
        return b.or_(high, b.zext(parts[1], kind))

    def _parted(self, b: ir.IRBuilder, x: ir.Value) -> Parts:
        if not self.apart:
            return [x]
        half = like(x.type, self.part)
        return [b.trunc(b.lshr(x, uniform(x.type, self.bits // 2)), half), b.trunc(x, half)]
