"""Loop nests to LLVM IR, with what loops on a processor have besides."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager

from llvmlite import ir

from xloom.codegen.emission.elements import ElementEmitter
from xloom.codegen.loop_ir.affine import Var
from xloom.cpu.loops.software_prefetch import CHUNK, PrefetchedRow
from xloom.llvm.intrinsics import intrinsic
from xloom.llvm.loop import AS_OFTEN, Hint, loop
from xloom.llvm.types import I64


class Elements(ElementEmitter):
    """Emits nodes in a phase, whose items a call has a range of, and in loops that fetch rows meanwhile."""

    prefetched: Sequence[PrefetchedRow] = ()
    """What the loops of the stage at hand are to fetch meanwhile."""
    bounds: tuple[ir.Value, ir.Value] = (I64(0), I64(0))
    """The items that this call of the phase does."""
    ends_with_fence = False
    """Something is stored around the caches: whoever learns that the phase is done has to see it."""

    @contextmanager
    def innermost_loop(
        self, var: Var, begin: ir.Value, end: ir.Value, hints: Sequence[Hint], step: int = 1
    ) -> Iterator[None]:
        """A loop over `var`, in pieces where there are rows to fetch meanwhile."""
        b, rows = self.b, [r for r in self.prefetched if r.length == var.size]
        with ExitStack() as stack:
            if rows:
                count = min(CHUNK, var.size)
                begin = stack.enter_context(loop(b, begin, end, count, name="piece", hints=AS_OFTEN))
                for row in rows:
                    row.fetch(b, self.pointers(row.source), b.add(self.index(row.start), begin), count)
                last = b.add(begin, I64(count), flags=["nsw", "nuw"])
                end = last if var.size % count == 0 else intrinsic(b, "smin", last, end)
            stack.enter_context(super().innermost_loop(var, begin, end, hints, step))
            yield
