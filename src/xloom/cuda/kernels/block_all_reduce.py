"""Reductions over all threads of a block, whose results each of them gets."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

from llvmlite import ir

from xloom.cuda.kernel import WARP, KernelBuilder
from xloom.cuda.warp_reduction import Combine, in_warp
from xloom.llvm.intrinsics import intrinsic
from xloom.llvm.types import I64


class BlockAllReduce:
    """Of some scalars of each thread, with a barrier; to use it again takes another one in between."""

    def __init__(self, kernel: KernelBuilder, *kinds: ir.Type):
        self._kernel, self._kinds = kernel, kinds
        self._warps = kernel.threads // WARP
        self._memory = [kernel.shared(self._warps * 8) for _ in kinds]

    def of(self, values: Sequence[ir.Value], combine: Combine) -> Sequence[ir.Value]:
        """What `combine` makes of all threads' values."""
        k, b = self._kernel, self._kernel.b
        values = in_warp(k, values, combine)
        with b.if_then(b.icmp_signed("==", k.lane, I64(0))):
            for number, value in enumerate(values):
                b.store(value, self._at(number, k.warp))
        k.barrier()
        return reduce(combine, (self._read(I64(warp)) for warp in range(self._warps)))

    def sum(self, value: ir.Value) -> ir.Value:
        """The sum of one number of each."""
        return self.of([value], lambda x, y: [self._kernel.b.fadd(x[0], y[0])])[0]

    def greatest(self, value: ir.Value) -> ir.Value:
        """The greatest of one number of each; NaN where one is."""
        return self.of([value], lambda x, y: [intrinsic(self._kernel.b, "maximum", x[0], y[0])])[0]

    def argmax(self, value: ir.Value, index: ir.Value) -> ir.Value:
        """The index of the greatest number, the first of several."""
        b = self._kernel.b

        def greater(x: Sequence[ir.Value], y: Sequence[ir.Value]) -> Sequence[ir.Value]:
            is_first = b.and_(b.fcmp_ordered("==", y[0], x[0]), b.icmp_signed("<", y[1], x[1]))
            is_second = b.or_(b.fcmp_ordered(">", y[0], x[0]), is_first)
            return [b.select(is_second, q, p) for p, q in zip(x, y, strict=True)]

        return self.of([value, index], greater)[1]

    def _read(self, warp: ir.Value) -> Sequence[ir.Value]:
        b = self._kernel.b
        return [b.load(self._at(n, warp), typ=kind) for n, kind in enumerate(self._kinds)]

    def _at(self, number: int, warp: ir.Value) -> ir.Value:
        return self._kernel.b.gep(self._memory[number], [warp], inbounds=True, source_etype=self._kinds[number])
