"""Loops in LLVM IR whose variables are phis, for code in which no pass makes registers of stack memory."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from llvmlite import ir


class PhiLoop:
    """A loop, in whose first block the builder is left.

    `variables` are `begin` at first, then what the end of the iteration before gave.
    """

    def __init__(self, b: ir.IRBuilder, *begin: ir.Value, name: str = "loop"):
        self._b, before = b, b.block
        self.head = b.append_basic_block(name)
        b.branch(self.head)
        b.position_at_end(self.head)
        self.variables = [b.phi(x.type) for x in begin]
        self.give(before, *begin)

    def give(self, block: ir.Block, *values: ir.Value) -> None:
        """Says what the variables are after a block that branches to `head`."""
        for variable, value in zip(self.variables, values, strict=True):
            variable.add_incoming(value, block)

    def again(self, *values: ir.Value) -> None:
        """Ends the builder's block with one more iteration."""
        self.give(self._b.block, *values)
        self._b.branch(self.head)

    def again_if(self, condition: ir.Value, *values: ir.Value) -> None:
        """Ends the iteration: one more, or the builder goes on behind the loop."""
        b = self._b
        done = b.append_basic_block(f"{self.head.name}.done")
        self.give(b.block, *values)
        b.cbranch(condition, self.head, done)
        b.position_at_end(done)

    @contextmanager
    def while_(self, condition: ir.Value) -> Iterator[None]:
        """Emits the `with`, which ends in `again`, as what is done if `condition` is true; else the loop is left."""
        b = self._b
        body, done = (b.append_basic_block(f"{self.head.name}.{part}") for part in ("body", "done"))
        b.cbranch(condition, body, done)
        b.position_at_end(body)
        yield
        b.position_at_end(done)
