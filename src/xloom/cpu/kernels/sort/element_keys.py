"""Elements that are their own keys, and the functions that make of them unsigned integers that order as they do."""

from __future__ import annotations

from dataclasses import dataclass

from xloom.cpu.kernels.sort.keys import Key, canonical_nan
from xloom.hlo.dtype import DType, Kind


@dataclass(frozen=True)
class ElementKey:
    """How elements order that have as many bits as integers have."""

    dtype: DType
    descending: bool
    equal_zeros: bool = False
    nan: int | None = None
    """The bits of the NaN that all NaNs are taken for, if they are."""

    @classmethod
    def of(cls, key: Key) -> ElementKey | None:
        """The order of a key of the comparator, where that is of the element itself; else None."""
        dtype, expression = key.dtype, key.expression
        least = 16 if dtype.is_float else 8
        if not least <= dtype.bits <= 64 or dtype.kind is Kind.PRED or dtype.is_complex:
            return None
        if expression.opcode == "parameter":
            return cls(dtype, key.descending, dtype.is_float and not key.total_order)
        nan = canonical_nan(expression) if key.total_order else None
        return None if nan is None else cls(dtype, key.descending, equal_zeros=True, nan=nan)

    @property
    def name(self) -> str:
        """A name that tells the order from all others."""
        parts = [self.dtype.name, "descending" if self.descending else "ascending"]
        if self.equal_zeros:
            parts.append("zeros" if self.nan is None else f"zeros.{self.nan:x}")
        return ".".join(parts)

    @property
    def convert_symbol(self) -> str:
        """`i1 convert(ptr elements, ptr keys, i64 count)`: true when elements that differ got one key."""
        return f"xloom.sort.keys.{self.name}"

    @property
    def back_symbol(self) -> str:
        """`void back(ptr keys, ptr elements, i64 count)`: the one element of each key."""
        return f"xloom.sort.elements.{self.name}"

    @property
    def restore_symbol(self) -> str:
        """`void restore(ptr unsorted, i64 count, ptr elements, i64 begin, i64 end)`: makes elements what they were.

        Of the row, [begin, end) is a part that has all elements of one key or none.
        """
        return f"xloom.sort.restore.{self.name}"

    @property
    def number_symbol(self) -> str:
        """`void number(ptr elements, ptr records, i64 begin, i64 end)`: 64 bits, the key above the number in the row.

        Of elements of 32 bits.
        """
        return f"xloom.sort.number.{self.name}"

    @property
    def pair_symbol(self) -> str:
        """`void pair(ptr elements, ptr keys, ptr numbers, i64 begin, i64 end)`: keys, and where their elements are.

        Of elements of 32 bits; keys may lie where they do.
        """
        return f"xloom.sort.pair.{self.name}"

    @property
    def scan_symbol(self) -> str:
        """`i64 scan(ptr elements, i64 begin, i64 count, integer limit)`: where a key below the limit is near.

        The first element, from `begin` on in steps of a vector, of one that has such a key; or `count`.
        """
        return f"xloom.sort.scan.{self.name}"

    def bound_symbol(self, vectors: int) -> str:
        """`integer bound(ptr elements, i64 count)`: a key that as many elements as vectors have lanes do not exceed.

        Each lane has its own elements, which lie all over the row; of few elements it is the greatest integer.
        """
        return f"xloom.sort.bound.{vectors}.{self.name}"

    def integer(self, bits: int) -> int:
        """The key of the element that has these bits."""
        width, sign = self.dtype.bits, 1 << (self.dtype.bits - 1)
        if self.dtype.is_float:
            bits ^= (1 << width) - 1 if bits & sign else sign
        elif self.dtype.kind is Kind.SIGNED:
            bits ^= sign
        return bits ^ ((1 << width) - 1 if self.descending else 0)
