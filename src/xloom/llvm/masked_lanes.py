"""Some lanes of a vector, which a mask names: read, written, counted, or moved to the front."""

from __future__ import annotations

from llvmlite import ir
from llvmlite.ir.instructions import GEPInstr

from xloom.llvm.intrinsics import intrinsic, overloaded
from xloom.llvm.types import FLOAT, HALF, I1, I32, I64, POINTER, VOID
from xloom.llvm.vectors import first_lanes, shuffled


def leading_lanes(b: ir.IRBuilder, lanes: int, count: ir.Value) -> ir.Value:
    """A mask that is true in the first `count` lanes (i64), of which none may be left, or more than there are.

    Made of its bits: where masks have registers of their own, `lanes_below` takes longer.
    """
    if lanes > I64.width:
        half = lanes // 2
        first, second = leading_lanes(b, half, count), leading_lanes(b, half, b.sub(count, I64(half), flags=["nsw"]))
        return shuffled(b, first, range(lanes), second)
    some = b.select(b.icmp_signed(">", count, I64(0)), count, I64(0))
    partial = b.icmp_signed("<", some, I64(lanes))
    below = b.add(b.shl(I64(1), b.select(partial, some, I64(0))), I64(-1))
    bits = b.select(partial, below, I64(-1))
    return b.bitcast(b.trunc(bits, ir.IntType(lanes)), ir.VectorType(I1, lanes))


def mask_bits(b: ir.IRBuilder, mask: ir.Value) -> ir.Value:
    """An integer of a bit for each lane, the first one lowest."""
    return b.bitcast(mask, ir.IntType(mask.type.count))


def any_lane(b: ir.IRBuilder, mask: ir.Value) -> ir.Value:
    """True when a mask is somewhere."""
    bits = mask_bits(b, mask)
    return b.icmp_unsigned("!=", bits, bits.type(0))


def lane_count(b: ir.IRBuilder, mask: ir.Value) -> ir.Value:
    """In how many lanes a mask is true (i64)."""
    return b.zext(intrinsic(b, "ctpop", mask_bits(b, mask)), I64)


def packed_lanes(b: ir.IRBuilder, vector: ir.Value, mask: ir.Value) -> ir.Value:
    """The lanes in which a mask is true, side by side from the first one on; the others may be anything."""
    kind = vector.type
    return overloaded(b, "experimental.vector.compress", [kind], kind, [vector, mask, ir.Constant(kind, ir.Undefined)])


def masked_load(b: ir.IRBuilder, address: ir.Value, mask: ir.Value, rest: ir.Constant, align: int) -> ir.Value:
    """The lanes in which a mask is true from memory, the others as those of `rest` are."""
    kinds, arguments = [rest.type, address.type], [address, I32(align), mask, rest]
    return overloaded(b, "masked.load", kinds, rest.type, arguments)


def masked_gather(
    b: ir.IRBuilder, addresses: ir.Value, mask: ir.Value | None, rest: ir.Constant, align: int
) -> ir.Value:
    """What lies at the addresses in whose lanes a mask is true, or at all; the other lanes as those of `rest` are."""
    if mask is None:
        mask = first_lanes(rest.type.count, rest.type.count)
    kinds, arguments = [rest.type, addresses.type], [addresses, I32(align), mask, rest]
    return overloaded(b, "masked.gather", kinds, rest.type, arguments)


def addresses_of(b: ir.IRBuilder, pointer: ir.Value, indices: ir.Value, element: ir.Type) -> ir.Value:
    """The addresses of elements of an array, by number in each lane."""
    made = GEPInstr(b.block, pointer, [indices], True, "", source_etype=element)
    made.type = ir.VectorType(POINTER, indices.type.count)  # llvmlite knows no vectors of addresses
    b._insert(made)
    return made


def masked_store(b: ir.IRBuilder, value: ir.Value, address: ir.Value, mask: ir.Value, align: int) -> None:
    """Writes the lanes in which a mask is true."""
    if isinstance(value.type.element, ir.IntType) and value.type.element.width < 64:
        value = _apart(b, value)
    overloaded(b, "masked.store", [value.type, address.type], VOID, [value, address, I32(align), mask])


def _apart(b: ir.IRBuilder, narrow: ir.Value) -> ir.Value:
    """The same integers, which LLVM does not take for wider ones that a store makes narrow.

    Where it finds that the mask of such a store is true in one lane alone, LLVM 22 stores that one as wide as it was.
    """
    kind = narrow.type
    words = kind.count * kind.element.width // 32
    fenced = ir.VectorType(FLOAT, words) if words > 1 else FLOAT if words else HALF
    return b.bitcast(intrinsic(b, "arithmetic.fence", b.bitcast(narrow, fenced)), kind)
