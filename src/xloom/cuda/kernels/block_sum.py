"""A sum over all threads of a block, which each of them gets."""

from __future__ import annotations

from functools import reduce

from llvmlite import ir

from xloom.cuda.kernel import WARP, KernelBuilder
from xloom.llvm.types import I64


class BlockSum:
    """Sums of scalars of one kind (float or double), one after another."""

    def __init__(self, kernel: KernelBuilder, kind: ir.Type):
        self._kernel, self._kind = kernel, kind
        self._warps = kernel.threads // WARP
        self._memory = kernel.shared(self._warps * 8)

    def of(self, value: ir.Value) -> ir.Value:
        """The sum of what the threads have; a barrier is before and behind it."""
        k, b = self._kernel, self._kernel.b
        for offset in (16, 8, 4, 2, 1):
            value = b.fadd(value, k.shuffled_down(value, offset))
        k.barrier()
        with b.if_then(b.icmp_signed("==", k.lane, I64(0))):
            b.store(value, self._at(k.warp))
        k.barrier()
        return reduce(b.fadd, [b.load(self._at(I64(w)), typ=self._kind) for w in range(self._warps)])

    def _at(self, warp: ir.Value) -> ir.Value:
        return self._kernel.b.gep(self._memory, [warp], inbounds=True, source_etype=self._kind)
