"""A partition of integers by vectors, in place: the step of a quicksort.

A few vectors of both ends are kept apart, so that there is room for lanes below the pivot at the front and for all
others at the end; what is read next is taken from the end with less room. Lanes are moved to the front of vectors by
one instruction: Bramas, "A novel hybrid quicksort algorithm vectorized using AVX-512 on Intel Skylake", 2017.
"""

from __future__ import annotations

from typing import NamedTuple

from llvmlite import ir

from xloom.cpu.kernels.sort.integer_layout import Layout, Parts
from xloom.cpu.kernels.sort.lanes import BYTES, lanes, vector
from xloom.llvm.loop import allocate
from xloom.llvm.masked_lanes import lane_count, leading_lanes, packed_lanes
from xloom.llvm.phi_loop import PhiLoop
from xloom.llvm.types import I64
from xloom.llvm.vectors import splat

_UNROLLED = 4
"""Vectors that are read at once; so many of both ends are kept apart, and so many at most are left in the middle."""


class Integers(NamedTuple):
    """`count` integers in memory."""

    pointer: ir.Value
    distance: ir.Value
    """Between halves that are apart."""
    count: ir.Value


def partition_buffer(b: ir.IRBuilder, layout: Layout) -> ir.Value:
    """Memory for the vectors that are kept apart."""
    buffer = allocate(b, vector(layout.bits), 3 * _UNROLLED * layout.parts_lanes // lanes(layout.bits))
    buffer.align = BYTES
    return buffer


class Partition:
    """Emits code that brings integers that are less than a pivot before all others."""

    def __init__(self, b: ir.IRBuilder, layout: Layout, integers: Integers, pivot: ir.Value, buffer: ir.Value):
        self._b, self._layout, self._buffer = b, layout, buffer
        self._pointer, self._distance, self._count = integers
        self._kind, self._lanes = vector(layout.bits), lanes(layout.bits)
        self._kept = _UNROLLED * layout.parts_lanes
        """Integers of each end."""
        self._pivots = splat(b, pivot, self._lanes)
        self._pivot_parts = layout.splat(b, pivot) if layout.apart else [self._pivots]

    def emit(self) -> ir.Value:
        """How many are less."""
        b = self._b
        self._keep_ends()
        room = PhiLoop(b, I64(self._kept), b.sub(self._count, I64(self._kept)), I64(0), self._count, name="blocks")
        left, right, lows, highs = room.variables
        rest = b.sub(right, left)
        with room.while_(b.icmp_signed(">=", rest, I64(self._kept))):
            room.again(*self._block(left, right, lows, highs))
        kept = b.add(rest, I64(2 * self._kept))
        self._keep_middle(left, rest)
        return self._part_kept(kept, lows, highs)

    def _at(self, index: ir.Value) -> ir.Value:
        return self._layout.at(self._b, self._pointer, index)

    def _buffered(self, place: ir.Value) -> ir.Value:
        return self._b.gep(self._buffer, [place], inbounds=True, source_etype=self._kind.element)

    def _load(self, index: ir.Value) -> ir.Value:
        return self._layout.load(self._b, self._at(index), self._distance)

    def _keep_ends(self) -> None:
        b, ends = self._b, I64(2 * self._kept)
        behind = b.sub(self._count, ends)
        loop = PhiLoop(b, I64(0), name="keep")
        (k,) = loop.variables
        x = self._load(b.select(b.icmp_signed("<", k, I64(self._kept)), k, b.add(behind, k)))
        b.store(x, self._buffered(k), align=BYTES)
        k = b.add(k, I64(self._lanes))
        loop.again_if(b.icmp_signed("<", k, ends), k)

    def _keep_middle(self, left: ir.Value, rest: ir.Value) -> None:
        """What is left there joins what was kept."""
        b = self._b
        loop = PhiLoop(b, I64(0), name="middle")
        (k,) = loop.variables
        x = self._load(b.add(left, k))
        b.store(x, self._buffered(b.add(k, I64(2 * self._kept))), align=BYTES)
        k = b.add(k, I64(self._lanes))
        loop.again_if(b.icmp_signed("<", k, rest), k)

    def _block(
        self, left: ir.Value, right: ir.Value, lows: ir.Value, highs: ir.Value
    ) -> tuple[ir.Value, ir.Value, ir.Value, ir.Value]:
        """Parts what is read next: what is below the pivot goes to the front, the rest to the end."""
        b, layout, kept, w = self._b, self._layout, I64(self._kept), self._layout.parts_lanes
        is_left = b.icmp_signed("<=", b.sub(left, lows), b.sub(highs, right))
        after_left, before_right = b.add(left, kept), b.sub(right, kept)
        following = b.select(is_left, after_left, left), b.select(is_left, right, before_right)
        at = self._at(b.select(is_left, left, before_right))
        loaded = list[Parts]()
        for k in range(_UNROLLED):
            loaded.append(layout.load_parts(b, layout.at(b, at, I64(k * w)), self._distance, w))
        for xs in loaded:
            below = layout.below(b, xs, self._pivot_parts)
            above = b.not_(below)
            lesser, greater = ([packed_lanes(b, x, mask) for x in xs] for mask in (below, above))
            count = lane_count(b, below)
            rest = b.sub(I64(w), count)
            mask = leading_lanes(b, w, rest)
            layout.store_parts(b, lesser, self._at(lows), self._distance)
            lows, highs = b.add(lows, count), b.sub(highs, rest)
            layout.store_parts(b, greater, self._at(highs), self._distance, mask)
        return *following, lows, highs

    def _part_kept(self, kept: ir.Value, lows: ir.Value, highs: ir.Value) -> ir.Value:
        """What was kept takes the room that is left."""
        b, w = self._b, self._lanes
        loop = PhiLoop(b, I64(0), lows, highs, name="kept")
        k, lows, highs = loop.variables
        valid = leading_lanes(b, w, b.sub(kept, k))
        x = b.load(self._buffered(k), typ=self._kind, align=BYTES)
        below = b.and_(b.icmp_unsigned("<", x, self._pivots), valid)
        above = b.xor(below, valid)
        lesser, greater = packed_lanes(b, x, below), packed_lanes(b, x, above)
        count, rest = lane_count(b, below), lane_count(b, above)
        mask, rest_mask = leading_lanes(b, w, count), leading_lanes(b, w, rest)
        highs = b.sub(highs, rest)
        front, end = self._at(lows), self._at(highs)
        self._layout.store(b, lesser, front, self._distance, mask)
        self._layout.store(b, greater, end, self._distance, rest_mask)
        lows, k = b.add(lows, count), b.add(k, I64(w))
        loop.again_if(b.icmp_signed("<", k, kept), k, lows, highs)
        return lows
