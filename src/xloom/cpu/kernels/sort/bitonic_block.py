"""A function that sorts or merges a block of vectors in registers, by compare-exchange operations.

Each lane is a column: most steps compare vectors as they are, and only those between columns move lanes first. When a
block has its last elements, columns become vectors.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from llvmlite import ir

from xloom.cpu.kernels.sort.exchanges import bitonic_merge, merge_exchange
from xloom.cpu.kernels.sort.lanes import BYTES, lanes, vector
from xloom.llvm.constant_table import constant_table
from xloom.llvm.intrinsics import declared
from xloom.llvm.phi_loop import PhiLoop
from xloom.llvm.routine import function
from xloom.llvm.types import I1, I64, POINTER
from xloom.llvm.vectors import constant_vector

_PERMUTE = {8: "qi", 16: "hi", 32: "si", 64: "di"}
_PERMUTE_TWO = {8: "qi", 16: "hi", 32: "d", 64: "q"}
"""What LLVM's names of AVX-512's instructions that bring lanes of one or two vectors in any order end in, by bits."""


class _Step(NamedTuple):
    """Between columns, each in a lane: what makes a lane's number its partner's, and the bit of those that get more."""

    partner: int
    greater: int


def _steps(columns: Sequence[int]) -> Iterator[_Step]:
    """Of merges of 2, 4, 8 ... columns, whose numbers have these bits, the lowest first; and a merge without its first.

    The first of each is between columns and reversed ones.
    """
    for level, bit in enumerate(columns, 1):
        yield _Step(sum(columns[:level]), bit)
        yield from (_Step(b, b) for b in reversed(columns[: level - 1]))
    yield from (_Step(b, b) for b in reversed(columns))


class Blocks:
    """Adds to a module the functions for blocks of vectors of integers of so many bits."""

    def __init__(self, module: ir.Module, bits: int):
        self._module, self._bits, self._kind = module, bits, vector(bits)
        w, element = lanes(bits), ir.IntType(bits)
        self._levels = w.bit_length() - 1
        self._umin, self._umax = (self._intrinsic(name, 2, [self._kind]) for name in ("umin", "umax"))
        self._permute = self._intrinsic(f"x86.avx512.permvar.{_PERMUTE[bits]}.512", 2)
        self._permute_two = self._intrinsic(f"x86.avx512.vpermi2var.{_PERMUTE_TWO[bits]}.512", 3)
        self._zip = [
            self._table(f"zip{k}", [constant_vector([n // 2 + n % 2 * w + k * w // 2 for n in range(w)], element)])
            for k in range(2)
        ]
        # what is different in each step between columns is data
        self._steps = list(_steps([1 << k for k in range(self._levels)]))
        partners = {s.partner: constant_vector([k ^ s.partner for k in range(w)], element) for s in self._steps}
        self._partners = self._table("partners", [partners[s.partner] for s in self._steps])
        self._mask = ir.IntType(w)
        greater = {s.greater: self._mask(sum(1 << k for k in range(w) if k & s.greater)) for s in self._steps}
        self._greater = self._table("greater", [greater[s.greater] for s in self._steps])

    def _intrinsic(self, name: str, arguments: int, overload: Sequence[ir.Type] = ()) -> ir.Function:
        return declared(self._module, name, overload, self._kind, [self._kind] * arguments)

    def _table(self, name: str, values: Sequence[ir.Constant]) -> ir.GlobalVariable:
        return constant_table(self._module, f"{name}.{self._bits}", values[0].type, values)

    def function(self, rows: int) -> ir.Function:
        """`block(ptr block, i1 merges, i1 last)`: sorts so many vectors, or merges what is bitonic.

        When that is the last time, their columns become vectors.
        """
        with function(self._module, f"block{rows}.{self._bits}", [POINTER, I1, I1]) as (b, out):
            memory, merges, last = out.args
            xs = [b.load(self._at(b, memory, k), typ=self._kind, align=BYTES) for k in range(rows)]
            xs = self._sorted(b, xs, merges)
            turns = b.select(last, I64(rows.bit_length() - 1), I64(0))
            columns = PhiLoop(b, turns, *xs, name="turns")
            left, *xs = columns.variables
            with columns.while_(b.icmp_unsigned("!=", left, I64(0))):
                columns.again(b.add(left, I64(-1)), *self._zipped(b, xs))
            for k, x in enumerate(xs):
                b.store(x, self._at(b, memory, k), align=BYTES)
        return out

    def _at(self, b: ir.IRBuilder, memory: ir.Value, k: int) -> ir.Value:
        return b.gep(memory, [I64(k)], inbounds=True, source_etype=self._kind)

    def _sorted(self, b: ir.IRBuilder, xs: list[ir.Value], merges: ir.Value) -> list[ir.Value]:
        """Lanes sorted, and merges of 2, 4, 8 ... columns; or only the last of these without its first step."""
        rows, levels, steps = len(xs), self._levels, len(self._steps)
        entry, sort = b.block, b.append_basic_block("sort")
        b.position_at_end(sort)
        merges_of_columns = PhiLoop(b, I64(0), I64(1), *self._exchanged(b, xs, _merge_exchange(rows)), name="merge")
        step, level, *flipped = merges_of_columns.variables
        flipped = self._between_columns(b, step, flipped, flipped[::-1])
        following, end = b.add(step, I64(1)), b.add(step, level)
        steps_of_merge = PhiLoop(b, following, end, level, *flipped, name="step")
        with b.goto_block(entry):
            b.cbranch(merges, steps_of_merge.head, sort)
            steps_of_merge.give(entry, I64(steps - levels), I64(steps), I64(levels), *xs)
        step, end, level, *ys = steps_of_merge.variables
        with steps_of_merge.while_(b.icmp_signed("<", step, end)):
            stepped = self._between_columns(b, step, ys, ys)
            steps_of_merge.again(b.add(step, I64(1)), end, level, *stepped)
        merged = self._exchanged(b, ys, _bitonic_merge(rows))
        merges_of_columns.again_if(b.icmp_unsigned("!=", level, I64(levels)), end, b.add(level, I64(1)), *merged)
        return merged

    def _between_columns(
        self, b: ir.IRBuilder, step: ir.Value, xs: Sequence[ir.Value], ys: Sequence[ir.Value]
    ) -> list[ir.Value]:
        """Lanes of xs after a step, given by its number, in which their partners are lanes of ys."""
        kind = self._kind
        at = b.gep(self._partners, [step], inbounds=True, source_etype=kind)
        partners = b.load(at, typ=kind, align=BYTES)
        at = b.gep(self._greater, [step], inbounds=True, source_etype=self._mask)
        greater = b.bitcast(b.load(at, typ=self._mask), ir.VectorType(I1, kind.count))
        out = list[ir.Value]()
        for x, y in zip(xs, ys, strict=True):
            low, high = self._ordered(b, x, b.call(self._permute, [y, partners]))
            out.append(b.select(greater, high, low))
        return out

    def _zipped(self, b: ir.IRBuilder, xs: Sequence[ir.Value]) -> list[ir.Value]:
        """Vectors of the lanes of one and one of the latter half in turn.

        Places, a lane's number below its vector's, are rotated by one bit.
        """
        order = [b.load(table, typ=self._kind, align=BYTES) for table in self._zip]
        half = len(xs) // 2
        pairs = zip(xs[:half], xs[half:], strict=True)
        return [b.call(self._permute_two, [x, places, y]) for x, y in pairs for places in order]

    def _exchanged(self, b: ir.IRBuilder, xs: Sequence[ir.Value], pairs: Iterable[tuple[int, int]]) -> list[ir.Value]:
        """Vectors with their lanes in order in each of the pairs, one after the other."""
        out = list(xs)
        for i, j in pairs:
            out[i], out[j] = self._ordered(b, out[i], out[j])
        return out

    def _ordered(self, b: ir.IRBuilder, x: ir.Value, y: ir.Value) -> tuple[ir.Value, ir.Value]:
        return b.call(self._umin, [x, y]), b.call(self._umax, [x, y])


def _merge_exchange(rows: int) -> Iterator[tuple[int, int]]:
    return ((i, i + d) for d, p, r in merge_exchange(rows) for i in range(rows - d) if i & p == r)


def _bitonic_merge(rows: int) -> Iterator[tuple[int, int]]:
    return ((i, i + d) for d in bitonic_merge(rows) for i in range(rows) if not i & d)
