"""Where a program looks whether it is to end early: between the iterations of long loops, and between long thunks.

To look takes some 30 ns, so loops of quick iterations do it every so many of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from llvmlite import ir

from xloom.codegen.buffer_values import leaf_shapes
from xloom.cpu.entry.main_function import INTERRUPTED
from xloom.cpu.runtime.threads.poll_ir import POLL
from xloom.hlo.cost import flops
from xloom.hlo.instruction import Instruction
from xloom.llvm.loop import allocate
from xloom.llvm.types import I32, I64, POINTER

_OFTEN = 1_000_000
"""So many additions take some thousand times as long as to look, if vectors do them."""
_SELDOM = 50_000_000
"""Thunks of so many additions in all take some milliseconds."""
OF_CALL = _OFTEN // 5
"""What counts for a call of code outside, which may take any time."""
_OF_ELEMENT = 32
"""What counts for an element that a kernel reads: it may sort them."""


def kernel_cost(instruction: Instruction) -> int:
    """About how many additions take as long as a kernel."""
    return max(
        flops(instruction), _OF_ELEMENT * sum(leaf.size for o in instruction.operands for leaf in leaf_shapes(o.shape))
    )


class Polling:
    """Emits the looks of the function that `builder` emits."""

    def __init__(self, builder: ir.IRBuilder):
        self.cost = 0
        """Additions of the thunks so far; of a loop of unknown trip count, those until it looks."""
        self.calls = 0
        """How many of them call code outside."""
        self._b = builder
        self._looked = 0
        self._poll: ir.Function | None = None
        self._next: ir.Value | None = None

    def between_thunks(self) -> None:
        """Looks where much was done since the last time."""
        if self.cost - self._looked >= _SELDOM:
            self.look()

    @contextmanager
    def loop(self, head: ir.Block, trips: int | None) -> Iterator[None]:
        """Around the code of a loop that begins at `head`, and whose last block is to go on there.

        So many iterations as need no look are a loop of their own, in which is nothing but the loop's own code. One of
        few `trips` in all never looks.
        """
        b, before, calls = self._b, self.cost, self.calls
        round = b.function.append_basic_block("while.round")
        b.branch(round)
        yield
        cost = max(1, self.cost - before)
        self.cost = before + (cost + _OFTEN if trips is None else cost * trips)
        if self.cost - before < _SELDOM and trips is not None and self.calls == calls:
            b.branch(head)
            with b.goto_block(round):
                b.branch(head)
            return
        each = max(1, _OFTEN // cost)
        left = allocate(b, I64)
        with b.goto_block(round):
            b.store(I64(each), left)
            b.branch(head)
        count = b.sub(b.load(left, typ=I64), I64(1))
        b.store(count, left)
        look = b.function.append_basic_block("while.look")
        b.cbranch(b.icmp_unsigned("==", count, I64(0)), look, head)
        b.position_at_end(look)
        self.look()
        b.branch(round)

    def look(self) -> None:
        """Looks here."""
        b = self._b
        if self._poll is None or self._next is None:
            self._poll, self._next = _declared(b.module), allocate(b, I64)
            with b.goto_block(b.function.entry_basic_block):
                b.store(I64(0), self._next)
        with b.if_then(self.is_over(b.call(self._poll, [self._next])), likely=False):
            self.end()
        self._looked = self.cost

    def is_over(self, found: ir.Value) -> ir.Value:
        """Whether the run is to end, by what was found."""
        return self._b.icmp_signed("!=", found, I32(0))

    def end(self) -> None:
        """Ends the function here."""
        self._b.ret(I32(INTERRUPTED))


def _declared(module: ir.Module) -> ir.Function:
    if POLL in module.globals:
        return module.globals[POLL]
    poll = ir.Function(module, ir.FunctionType(I32, [POINTER]), POLL)
    for attribute in ("nounwind", "cold", "inaccessiblemem_or_argmemonly"):
        poll.attributes.add(attribute)  # the program's arrays may stay in registers meanwhile
    return poll
