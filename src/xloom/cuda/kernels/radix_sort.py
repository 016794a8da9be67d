"""The order of long rows by keys of so many bits: four bits at a time, from the lowest, by counting.

For each four bits there are three kernels: the first counts the digits of each tile, the second sums the counts of
tiles before each, and the third moves keys and the numbers of their elements to where they belong. A warp has 256
elements of a tile, in order, and lane `d` of it counts those of digit `d`; so it is stable.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

from llvmlite import ir

from xloom.codegen.buffers.allocation import BufferAllocation
from xloom.cpu.kernels.sort.keys import Key
from xloom.cuda.kernel import THREADS, WARP, KernelBuilder, blocks_for, strided
from xloom.cuda.lowering import ThunkLowering
from xloom.llvm.intrinsics import intrinsic
from xloom.llvm.loop import allocate
from xloom.llvm.types import I32, I64, Value

_BITS, _DIGITS = 4, 16
_EACH = 256
"""Elements of a warp."""
_TILE = THREADS // WARP * _EACH
FROM = 4096
"""Elements of a row from which on it is worth its launches."""

Elements = Callable[[KernelBuilder, ir.Value, ir.Value], list[Value]]
"""Of all operands, that of a number (i64) in a row."""


class Rows(NamedTuple):
    """Rows that are sorted."""

    count: int
    size: int


def suits(keys: Sequence[Key] | None, rows: Rows) -> bool:
    """Whether rows are sorted so."""
    return keys is not None and rows.size >= FROM and sum(key.bits for key in keys) <= 64


class RadixSort:
    """Adds the launches."""

    def __init__(self, lowering: ThunkLowering, rows: Rows, keys: Sequence[Key]):
        self._lowering, self._rows, self._keys = lowering, rows, keys
        self._bits = sum(key.bits for key in keys)
        self._kind = I32 if self._bits <= 32 else I64
        self._tiles = -(-rows.size // _TILE)

    def order(self, read: Sequence[BufferAllocation], elements: Elements) -> BufferAllocation:
        """The numbers (i32) of each row's elements in order. Kernels that read elements have pointers to `read`."""
        total = self._rows.count * self._rows.size
        scratch = self._lowering.scratch
        keys = [scratch(self._kind.width // 8 * total) for _ in range(2)]
        numbers = [scratch(4 * total) for _ in range(2)]
        counts = scratch(4 * self._rows.count * _DIGITS * self._tiles)
        totals = scratch(4 * self._rows.count * _DIGITS)
        self._make_keys([*read, keys[0]], elements, total)
        for shift in range(0, self._bits, _BITS):
            self._count([keys[0], counts], shift)
            self._sum([counts, totals])
            before = [] if shift == 0 else [numbers[0]]
            self._move([keys[0], counts, totals, keys[1], numbers[1], *before], shift)
            keys.reverse()
            numbers.reverse()
        return numbers[0]

    def _builder(self, arguments: Sequence[BufferAllocation], threads: int, strategy: str) -> KernelBuilder:
        how = f"{strategy} of {self._rows.count} rows of {self._rows.size}"
        return KernelBuilder(self._lowering.target, len(arguments), threads, how)

    def _make_keys(self, arguments: Sequence[BufferAllocation], elements: Elements, total: int) -> None:
        k = self._builder(arguments, THREADS, f"keys of {self._bits} bits")
        b, blocks = k.b, blocks_for(total, THREADS)
        with k.each(total, blocks, THREADS, k.thread) as item:
            row, number = b.udiv(item, I64(self._rows.size)), b.urem(item, I64(self._rows.size))
            values, whole = elements(k, row, number), self._kind(0)
            for key in self._keys:
                part = key.integer(b, values)
                part = b.zext(part, self._kind) if part.type.width < self._kind.width else part
                shifted = b.shl(whole, self._kind(key.bits)) if key.bits < self._kind.width else self._kind(0)
                whole = b.or_(shifted, part)
            self._store(b, k.pointers[-1], item, whole)
        self._lowering.launch(k.finished(), blocks, arguments)

    def _count(self, arguments: Sequence[BufferAllocation], shift: int) -> None:
        k = self._builder(arguments, THREADS, f"counts digits of bits {shift} to {shift + _BITS - 1}")
        b = k.b
        tile = _Tile(self, k, shift)
        shared = tile.counted(k.pointers[0])
        with b.if_then(b.icmp_signed("<", k.thread, I64(_DIGITS))):
            total = I32(0)
            for warp in range(THREADS // WARP):
                total = b.add(total, self._load(b, shared, b.add(k.thread, I64(warp * _DIGITS)), I32))
            self._store(b, k.pointers[1], tile.count_index(k.thread), total)
        self._lowering.launch(k.finished(), self._rows.count * self._tiles, arguments)

    def _sum(self, arguments: Sequence[BufferAllocation]) -> None:
        """A warp for each digit of each row."""
        k = self._builder(arguments, WARP, "sums counts")
        b, carry = k.b, allocate(k.b, I32)
        b.store(I32(0), carry)
        first = b.mul(k.block, I64(self._tiles), flags=["nsw"])
        with strided(b, I64(0), I64(self._tiles), WARP) as start:
            tile = b.add(start, k.lane, flags=["nsw"])
            inside, slot = b.icmp_signed("<", tile, I64(self._tiles)), allocate(b, I32)
            b.store(I32(0), slot)
            place = b.add(first, tile, flags=["nsw"])
            with b.if_then(inside):
                b.store(self._load(b, k.pointers[0], place, I32), slot)
            value = b.load(slot, typ=I32)
            upto = _summed(k, value)
            with b.if_then(inside):
                self._store(b, k.pointers[0], place, b.add(b.load(carry, typ=I32), b.sub(upto, value)))
            b.store(b.add(b.load(carry, typ=I32), k.broadcast(upto, WARP - 1)), carry)
        with b.if_then(b.icmp_signed("==", k.thread, I64(0))):
            self._store(b, k.pointers[1], k.block, b.load(carry, typ=I32))
        self._lowering.launch(k.finished(), self._rows.count * _DIGITS, arguments)

    def _move(self, arguments: Sequence[BufferAllocation], shift: int) -> None:
        k = self._builder(arguments, THREADS, f"moves elements by bits {shift} to {shift + _BITS - 1}")
        b = k.b
        keys, counts, totals, keys_after, numbers_after, *numbers = k.pointers
        tile = _Tile(self, k, shift)
        shared = tile.counted(keys)
        digit = b.and_(k.lane, I64(_DIGITS - 1))
        of_row = b.add(b.mul(tile.row, I64(_DIGITS), flags=["nsw"]), digit, flags=["nsw"])
        own = b.select(b.icmp_signed("<", k.lane, I64(_DIGITS)), self._load(b, totals, of_row, I32), I32(0))
        place = b.sub(_summed(k, own), own)
        place = b.add(place, self._load(b, counts, tile.count_index(digit), I32))
        for warp in range(THREADS // WARP - 1):
            other = self._load(b, shared, b.add(digit, I64(warp * _DIGITS)), I32)
            place = b.add(place, b.select(b.icmp_signed(">", k.warp, I64(warp)), other, I32(0)))
        next_place = allocate(b, I32)
        b.store(place, next_place)
        with tile.each(keys) as (position, inside, key, mine):
            first = b.load(next_place, typ=I32)
            shifted = b.lshr(key, self._kind(shift))
            digit_of_key = b.and_(b.trunc(shifted, I32) if self._kind is I64 else shifted, I32(_DIGITS - 1))
            lower = b.sub(b.shl(I32(1), b.trunc(k.lane, I32)), I32(1))
            rank = intrinsic(b, "ctpop", b.and_(mine(digit_of_key), lower))
            start = k.of_lane(first, digit_of_key)
            target = b.add(tile.first_of_row, b.zext(b.add(start, rank), I64), flags=["nsw"])
            with b.if_then(inside):
                self._store(b, keys_after, target, key)
                source = b.add(tile.first_of_row, position, flags=["nsw"])
                number = self._load(b, numbers[0], source, I32) if numbers else b.trunc(position, I32)
                self._store(b, numbers_after, target, number)
            count = intrinsic(b, "ctpop", mine(b.trunc(digit, I32)))
            b.store(b.add(first, count), next_place)
        self._lowering.launch(k.finished(), self._rows.count * self._tiles, arguments)

    def _load(self, b: ir.IRBuilder, pointer: ir.Value, index: ir.Value, kind: ir.IntType) -> ir.Value:
        return b.load(b.gep(pointer, [index], inbounds=True, source_etype=kind), typ=kind, align=kind.width // 8)

    def _store(self, b: ir.IRBuilder, pointer: ir.Value, index: ir.Value, value: ir.Value) -> None:
        kind = value.type
        b.store(value, b.gep(pointer, [index], inbounds=True, source_etype=kind), align=kind.width // 8)


Peers = Callable[[ir.Value], ir.Value]
"""The lanes (a mask, i32) whose keys have a digit, the lowest bits of an i32."""


class _Tile:
    """The elements of a block."""

    def __init__(self, sort: RadixSort, k: KernelBuilder, shift: int):
        self._sort, self._k, self._shift = sort, k, shift
        b = k.b
        self.row, self._tile = b.udiv(k.block, I64(sort._tiles)), b.urem(k.block, I64(sort._tiles))
        self.first_of_row = b.mul(self.row, I64(sort._rows.size), flags=["nsw"])

    def count_index(self, digit: ir.Value) -> ir.Value:
        """Where the count of a digit is."""
        b = self._k.b
        of_row = b.add(b.mul(self.row, I64(_DIGITS), flags=["nsw"]), digit, flags=["nsw"])
        return b.add(b.mul(of_row, I64(self._sort._tiles), flags=["nsw"]), self._tile, flags=["nsw"])

    def counted(self, keys: ir.Value) -> ir.Value:
        """Shared memory with the counts of each warp, of all digits."""
        k, b = self._k, self._k.b
        shared, count = k.shared(4 * _DIGITS * (THREADS // WARP)), allocate(b, I32)
        b.store(I32(0), count)
        with self.each(keys) as (_, _, _, mine):
            found = intrinsic(b, "ctpop", mine(b.trunc(k.lane, I32)))
            b.store(b.add(b.load(count, typ=I32), found), count)
        with b.if_then(b.icmp_signed("<", k.lane, I64(_DIGITS))):
            place = b.add(b.mul(k.warp, I64(_DIGITS), flags=["nsw"]), k.lane, flags=["nsw"])
            self._sort._store(b, shared, place, b.load(count, typ=I32))
        k.barrier()
        return shared

    @contextmanager
    def each(self, keys: ir.Value) -> Iterator[tuple[ir.Value, ir.Value, ir.Value, Peers]]:
        """Goes through a warp's elements: number in the row, whether there is one, its key, and who has which digit."""
        k, b, sort = self._k, self._k.b, self._sort
        begin = b.add(b.mul(self._tile, I64(_TILE)), b.mul(k.warp, I64(_EACH)), flags=["nsw"])
        with strided(b, I64(0), I64(_EACH), WARP) as step:
            position = b.add(begin, b.add(step, k.lane, flags=["nsw"]), flags=["nsw"])
            inside, slot = b.icmp_signed("<", position, I64(sort._rows.size)), allocate(b, sort._kind)
            b.store(sort._kind(0), slot)
            with b.if_then(inside):
                place = b.add(self.first_of_row, position, flags=["nsw"])
                b.store(sort._load(b, keys, place, sort._kind), slot)
            key = b.load(slot, typ=sort._kind)
            present = k.ballot(inside)
            masks = [
                k.ballot(b.trunc(b.lshr(key, sort._kind(self._shift + bit)), ir.IntType(1))) for bit in range(_BITS)
            ]

            def peers(digit: ir.Value) -> ir.Value:
                found = present
                for bit, mask in enumerate(masks):
                    is_set = b.trunc(b.lshr(digit, I32(bit)), ir.IntType(1))
                    found = b.and_(found, b.select(is_set, mask, b.not_(mask)))
                return found

            yield position, inside, key, peers


def _summed(k: KernelBuilder, value: ir.Value) -> ir.Value:
    """What the lanes up to each have together."""
    b, offset = k.b, 1
    while offset < WARP:
        other = k.shuffled_up(value, offset)
        value = b.add(value, b.select(b.icmp_signed(">=", k.lane, I64(offset)), other, I32(0)))
        offset *= 2
    return value
