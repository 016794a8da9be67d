"""Lines in memory while they are transformed, one per lane: a vector of real parts and one of imaginary parts a point.

Where the transform is a backward one the parts are exchanged: forward transforms of such points are backward ones.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, TypeVar

from llvmlite import ir

from xloom.cpu.kernels.linalg.lanes import Lanes, Number, load_scalar
from xloom.llvm.routine import read
from xloom.llvm.types import I8, I64

_Numbers = TypeVar("_Numbers", bound=NamedTuple)


@dataclass(frozen=True)
class LineMemory:
    """How points lie in it."""

    lanes: Lanes
    exchanged: bool = False

    def get(self, b: ir.IRBuilder, data: ir.Value, point: ir.Value) -> Number:
        """A point of all lines, by its number."""
        kind, first = self.lanes.kind, b.mul(point, I64(2))
        parts = [
            b.load(b.gep(data, [b.add(first, I64(k))], inbounds=True, source_etype=kind), typ=kind) for k in range(2)
        ]
        return parts[::-1] if self.exchanged else parts

    def put(self, b: ir.IRBuilder, data: ir.Value, point: ir.Value, value: Number) -> None:
        """Writes one point of all lines."""
        kind, first = self.lanes.kind, b.mul(point, I64(2))
        for k, part in enumerate(value[::-1] if self.exchanged else value):
            b.store(part, b.gep(data, [b.add(first, I64(k))], inbounds=True, source_etype=kind))

    def part(self, b: ir.IRBuilder, data: ir.Value, point: ir.Value, part: int, lane: ir.Value) -> ir.Value:
        """The address of a part, 0 or 1, of a point of the lines from `lane` on."""
        count = self.lanes.count
        number = 1 - part if self.exchanged else part
        index = b.add(b.mul(point, I64(2 * count)), b.add(lane, I64(number * count)))
        return b.gep(data, [index], inbounds=True, source_etype=self.lanes.kind.element)

    def root(self, b: ir.IRBuilder, table: ir.Value, index: ir.Value) -> Number:
        """The number at an index of a table of complex ones, in every lane."""
        return self.lanes.splat(b, load_scalar(b, table, self.lanes.dtype, index))


def numbers(b: ir.IRBuilder, table: ir.Value, kind: type[_Numbers], first: int = 0) -> _Numbers:
    """The fields of a tuple, one after the other in a table from number `first` on."""
    return kind._make(read(b, table, I64, I64(first + k)) for k in range(len(kind._fields)))


def at(b: ir.IRBuilder, tables: ir.Value, place: ir.Value) -> ir.Value:
    """The address of a table, so many bytes from the first one."""
    return b.gep(tables, [place], inbounds=True, source_etype=I8)
