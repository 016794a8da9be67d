"""Matrices of a batch, each done by one thread in scratch memory of its own."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from llvmlite import ir

from xloom.cpu.kernel_modules.kernel import Kernel, PhaseBuilder
from xloom.llvm.loop import allocate, loop
from xloom.llvm.types import I8, I64

_FLOPS = 500_000
"""Of one thread in about 20 µs."""
_STACK = 1 << 16
"""Bytes up to which scratch memory lies on the stack."""


@contextmanager
def each_matrix(
    kernel: Kernel, batch: int, flops: int, sizes: Sequence[int]
) -> Iterator[tuple[PhaseBuilder, ir.Value, list[ir.Value]]]:
    """Adds a phase whose items are matrices of `flops`; gives a matrix's number, and memory of `sizes` bytes."""
    starts, nbytes = [], 0
    for size in sizes:
        starts.append(nbytes)
        nbytes += -(-size // 64) * 64
    is_small = nbytes <= _STACK
    scratch = None if is_small else kernel.add_scratch(batch * nbytes)
    with kernel.phase(batch, max(1, _FLOPS // max(1, flops))) as p:
        b = p.b
        memory = allocate(b, ir.VectorType(I8, 64), nbytes // 64) if is_small else None
        with loop(b, p.begin, p.end, name="matrix") as number:
            if scratch is not None:
                memory = b.gep(p.scratch(scratch), [b.mul(number, I64(nbytes))], inbounds=True, source_etype=I8)
            yield p, number, [b.gep(memory, [I64(start)], inbounds=True, source_etype=I8) for start in starts]
