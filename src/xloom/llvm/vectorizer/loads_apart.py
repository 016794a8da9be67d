"""Elements at equal distances, each read with its neighbours: processors gather far slower than they shuffle."""

from __future__ import annotations

from dataclasses import dataclass

from llvmlite import ir

from xloom.llvm.masked_lanes import leading_lanes, masked_load
from xloom.llvm.target_module import target_of
from xloom.llvm.types import I64
from xloom.llvm.vectorizer.widening import bytes_of
from xloom.llvm.vectors import first_lanes, shuffled, uniform

MOST_APART = 4
"""Vectors that one is picked out of, at most."""
_LEAST_BYTES = 4
"""Of elements that all processors pick out of vectors by number."""


def is_picked(element: ir.Type, stride: int) -> bool:
    """True of elements so many bytes apart that lie in few vectors."""
    size = bytes_of(element)
    return size >= _LEAST_BYTES and stride % size == 0 and 1 < stride // size <= MOST_APART


@dataclass(frozen=True)
class LoadsApart:
    """Every `apart`-th element from `pointer` on; only the first `left` of them are read, if that is not None."""

    b: ir.IRBuilder
    pointer: ir.Value
    element: ir.Type
    apart: int
    left: ir.Value | int | None

    def vector(self, lanes: int) -> ir.Value:
        """So many elements; nothing after the last one is read."""
        each = min(lanes, target_of(self.b).registers.nbytes // bytes_of(self.element))
        parts = [self._register(each, first) for first in range(0, lanes, each)]
        while len(parts) > 1:
            count = 2 * parts[0].type.count
            parts = [shuffled(self.b, x, range(count), y) for x, y in zip(parts[::2], parts[1::2], strict=True)]
        return parts[0]

    def _register(self, lanes: int, first: int) -> ir.Value:
        """The elements from number `first` on, as many as a register has."""
        apart = self.apart
        last = (lanes - 1) * (apart - 1)  # then the last vector ends with the last element
        starts = [*range(0, (apart - 1) * lanes, lanes), last]
        found = [min(k * apart // lanes, apart - 1) for k in range(lanes)]
        picked = None
        for number, start in enumerate(starts):
            read = self._neighbours(lanes, first * apart + start)
            at = [k * apart - start if found[k] == number else 0 for k in range(lanes)]
            if picked is None:
                picked = shuffled(self.b, read, at)
            else:
                picks = [lanes + at[k] if found[k] == number else k for k in range(lanes)]
                picked = shuffled(self.b, picked, picks, read)
        return picked

    def _neighbours(self, lanes: int, start: int) -> ir.Value:
        b, kind, size = self.b, ir.VectorType(self.element, lanes), bytes_of(self.element)
        address = b.gep(self.pointer, [I64(start)], inbounds=True, source_etype=self.element)
        if self.left is None:
            return b.load(address, typ=kind, align=size)
        if isinstance(self.left, int):
            mask = first_lanes(lanes, (self.left - 1) * self.apart + 1 - start)
        else:
            mask = leading_lanes(b, lanes, b.add(b.mul(self.left, I64(self.apart)), I64(1 - self.apart - start)))
        return masked_load(b, address, mask, uniform(kind, 0), size)
