"""What a sort moves about: a record an element, which holds all operands' values, or a key and the element's number."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

from llvmlite import ir

from xloom.cpu.kernel_modules.kernel import PhaseBuilder
from xloom.cpu.kernels.sort.keys import Key
from xloom.cpu.kernels.sort.rows import INDEX_BITS, Rows, capacity
from xloom.hlo.dtype import DType
from xloom.llvm.element_access import load
from xloom.llvm.element_bits import bits_type, load_bits, move, store_bits, value_of_bits
from xloom.llvm.loop import allocate
from xloom.llvm.memory_copy import copy
from xloom.llvm.types import I32, I64, Value, i64

_LINE = 64
"""Bytes at whose multiples copies begin."""


class RowPointers(NamedTuple):
    """A row in memory: the operands, the outputs that are written, and where in them it begins."""

    operands: list[ir.Value]
    outputs: list[ir.Value | None]
    base: ir.Value
    copies: Mapping[int, ir.Value] = {}
    """Of operands, from which elements are written; the row's lie `apart` there."""
    apart: int = 1


class Records(Protocol):
    """How records are made, compared and written."""

    rows: Rows

    @property
    def type(self) -> ir.IntType:
        """The type of a record."""
        ...

    @property
    def key_bits(self) -> int:
        """The width of the key that orders them."""
        ...

    def read(self, b: ir.IRBuilder, row: RowPointers, i: ir.Value) -> ir.Value:
        """The record of element `i`."""
        ...

    def key(self, b: ir.IRBuilder, record: ir.Value) -> ir.Value:
        """The record's key, an unsigned integer of `key_bits`."""
        ...

    def elements(self, b: ir.IRBuilder, row: RowPointers, record: ir.Value) -> list[Value]:
        """The elements of all operands that a record stands for."""
        ...

    def write(self, b: ir.IRBuilder, row: RowPointers, i: ir.Value, record: ir.Value) -> None:
        """Makes the record's element number `i` of the outputs."""
        ...

    def kept(self, b: ir.IRBuilder, row: RowPointers) -> RowPointers:
        """What elements are read of while others are written, for rows that lie side by side."""
        ...


def row_of(phase: PhaseBuilder, rows: Rows, row: ir.Value) -> RowPointers:
    """Row number `row` in a phase's operands and outputs."""
    kernel = phase.kernel
    operands = [phase.operand(k) for k in range(len(kernel.operands))]
    outputs = [None if k in kernel.unread else phase.output(k) for k in range(len(kernel.outputs))]
    return RowPointers(operands, outputs, rows.base(phase.b, row))


class PackedRecords:
    """All the operands' bits side by side. Each element of the operands `numbers` is its number in the row."""

    def __init__(
        self, rows: Rows, dtypes: Sequence[DType], keys: Sequence[Key] = (), numbers: frozenset[int] = frozenset()
    ):
        self.rows, self.dtypes, self.keys, self.numbers = rows, dtypes, keys, numbers

    @staticmethod
    def bits(dtypes: Sequence[DType]) -> int:
        """The width of a record."""
        total = sum(8 * t.bytes for t in dtypes)
        return max(8, 1 << (total - 1).bit_length())

    @property
    def type(self) -> ir.IntType:
        """An integer as wide as the operands' elements together."""
        return ir.IntType(self.bits(self.dtypes))

    @property
    def is_element(self) -> bool:
        """True when records are the elements as they lie in memory."""
        return len(self.dtypes) == 1

    @property
    def key_bits(self) -> int:
        """The width of all keys side by side."""
        return sum(k.bits for k in self.keys)

    def read(self, b: ir.IRBuilder, row: RowPointers, i: ir.Value) -> ir.Value:
        """The record of element `i`: the bits of its operands side by side."""
        index = self.rows.index_of(b, row.base, i)
        parts = [
            resized(b, i, bits_type(t)) if k in self.numbers else load_bits(b, row.operands[k], t, index)
            for k, t in enumerate(self.dtypes)
        ]
        return joined(b, parts, self.type)

    def key(self, b: ir.IRBuilder, record: ir.Value) -> ir.Value:
        """The record's key, computed of the elements in it."""
        return joined_keys(b, self.keys, self._values(b, record))

    def elements(self, b: ir.IRBuilder, row: RowPointers, record: ir.Value) -> list[Value]:
        """The elements of all operands, taken out of the record."""
        return self._values(b, record)

    def write(self, b: ir.IRBuilder, row: RowPointers, i: ir.Value, record: ir.Value) -> None:
        """Writes the record's elements as number `i` of the outputs."""
        index = self.rows.index_of(b, row.base, i)
        for pointer, dtype, bits in zip(row.outputs, self.dtypes, self._parts(b, record), strict=True):
            if pointer is not None:
                store_bits(b, pointer, dtype, index, bits)

    def kept(self, b: ir.IRBuilder, row: RowPointers) -> RowPointers:
        """Records are all there is to write."""
        return row

    def _parts(self, b: ir.IRBuilder, record: ir.Value) -> list[ir.Value]:
        out, shift = [], 0
        for dtype in self.dtypes:
            out.append(resized(b, b.lshr(record, self.type(shift)), bits_type(dtype)))
            shift += 8 * dtype.bytes
        return out

    def _values(self, b: ir.IRBuilder, record: ir.Value) -> list[Value]:
        return [value_of_bits(b, bits, t) for bits, t in zip(self._parts(b, record), self.dtypes, strict=True)]


class IndexedRecords:
    """The element's number in the low 32 bits, and the key, if there is one, above.

    `numbers` as above. Outputs may have the memory of the operands `overwritable`, if they do where others do.
    """

    def __init__(
        self,
        rows: Rows,
        dtypes: Sequence[DType],
        keys: Sequence[Key] = (),
        numbers: frozenset[int] = frozenset(),
        overwritable: frozenset[int] = frozenset(),
    ):
        self.rows, self.dtypes, self.keys, self.numbers, self.overwritable = rows, dtypes, keys, numbers, overwritable

    @staticmethod
    def bits(keys: Sequence[Key]) -> int:
        """The width of a record."""
        return 1 << (sum(k.bits for k in keys) + INDEX_BITS - 1).bit_length()

    @property
    def type(self) -> ir.IntType:
        """An integer with the element's number in the low 32 bits and the key above."""
        return ir.IntType(self.bits(self.keys))

    @property
    def key_bits(self) -> int:
        """The width of all keys side by side."""
        return sum(k.bits for k in self.keys)

    def read(self, b: ir.IRBuilder, row: RowPointers, i: ir.Value) -> ir.Value:
        """The record of element `i`: its number, and its key above."""
        number = resized(b, i, self.type)
        if not self.keys:
            return number
        key = self.key_of(b, row, i)
        return b.or_(b.shl(resized(b, key, self.type), self.type(INDEX_BITS)), number)

    def key_of(self, b: ir.IRBuilder, row: RowPointers, i: ir.Value) -> ir.Value:
        """The key of element `i`."""
        return joined_keys(b, self.keys, self._values(b, row, i))

    def key(self, b: ir.IRBuilder, record: ir.Value) -> ir.Value:
        """The record's key: its bits above the number."""
        return resized(b, b.lshr(record, self.type(INDEX_BITS)), ir.IntType(self.key_bits))

    def elements(self, b: ir.IRBuilder, row: RowPointers, record: ir.Value) -> list[Value]:
        """The elements of all operands, loaded at the record's number."""
        return self._values(b, row, self.number(b, record))

    def number(self, b: ir.IRBuilder, record: ir.Value) -> ir.Value:
        """The number in its row of the record's element, i64."""
        return b.zext(resized(b, record, I32), I64)

    def write(self, b: ir.IRBuilder, row: RowPointers, i: ir.Value, record: ir.Value) -> None:
        """Copies the element from the operands."""
        number, target = self.number(b, record), self.rows.index_of(b, row.base, i)
        source = self.rows.index_of(b, row.base, number)
        for k, (operand, output, dtype) in enumerate(zip(row.operands, row.outputs, self.dtypes, strict=True)):
            if output is None:
                continue
            if k in self.numbers:
                store_bits(b, output, dtype, target, resized(b, number, bits_type(dtype)))
            elif k in row.copies:
                move(b, row.copies[k], b.mul(number, I64(row.apart)), output, target, dtype)
            else:
                move(b, operand, source, output, target, dtype)

    def kept(self, b: ir.IRBuilder, row: RowPointers, rows: int = 1, count: ir.Value | None = None) -> RowPointers:
        """With copies of the operands `overwritable`: of `count` elements, of at most so many rows."""
        operands = list(row.operands)
        for k in self.overwritable if self.rows.stride == 1 else ():
            kind, most = bits_type(self.dtypes[k]), rows * self.rows.size
            memory = allocate(b, kind, rows * capacity(self.rows.size))
            memory.align = _LINE
            nbytes = b.mul(i64(most) if count is None else count, I64(self.dtypes[k].bytes))
            copy(b, memory, b.gep(operands[k], [row.base], inbounds=True, source_etype=kind), nbytes)
            operands[k] = b.gep(memory, [b.neg(row.base)], source_etype=kind)
        return row._replace(operands=operands)

    def _values(self, b: ir.IRBuilder, row: RowPointers, i: ir.Value) -> list[Value]:
        index = self.rows.index_of(b, row.base, i)
        return [
            resized(b, i, bits_type(t)) if k in self.numbers else load(b, row.operands[k], t, index)
            for k, t in enumerate(self.dtypes)
        ]


def resized(b: ir.IRBuilder, value: ir.Value, kind: ir.IntType) -> ir.Value:
    """An unsigned integer in another width."""
    if value.type.width == kind.width:
        return value
    return b.zext(value, kind) if value.type.width < kind.width else b.trunc(value, kind)


def joined(b: ir.IRBuilder, parts: Sequence[ir.Value], kind: ir.IntType) -> ir.Value:
    """Integers side by side in one, the first lowest."""
    out, shift = None, 0
    for part in parts:
        wide = resized(b, part, kind)
        out = wide if out is None else b.or_(out, b.shl(wide, kind(shift)))
        shift += part.type.width
    assert out is not None
    return out


def joined_keys(b: ir.IRBuilder, keys: Sequence[Key], elements: Sequence[Value]) -> ir.Value:
    """All keys as one integer, the first highest."""
    return joined(b, [k.integer(b, elements) for k in reversed(keys)], ir.IntType(sum(k.bits for k in keys)))
