"""The blocks of a loop body that branches inside: in their order, and which of them every iteration comes through."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from llvmlite import ir
from llvmlite.ir import instructions as kinds

from xloom.llvm.vectorizer.not_plain import NotPlain


def following(block: ir.Block) -> list[ir.Block]:
    """Where a block may go on."""
    return [o for o in block.instructions[-1].operands if isinstance(o, ir.Block)] if block.instructions else []


def ordered(first: ir.Block, blocks: set[ir.Block]) -> list[ir.Block]:
    """Blocks without a loop, each after all that lead to it. Raises NotPlain where no single bit decides."""
    found: dict[ir.Block, None] = {}

    def visit(block: ir.Block) -> None:
        if block in found or block not in blocks:
            return
        if not isinstance(block.instructions[-1], (kinds.Branch, kinds.ConditionalBranch)):
            raise NotPlain
        for other in following(block):
            visit(other)
        found[block] = None

    visit(first)
    return list(reversed(found))


def certain(blocks: Sequence[ir.Block]) -> Iterator[ir.Block]:
    """Of such blocks, those that no way from the first one to the last one leaves out."""
    numbers = {block: k for k, block in enumerate(blocks)}
    farthest = 0
    for number, block in enumerate(blocks):
        if farthest <= number:
            yield block
        farthest = max([farthest, *(numbers[other] for other in following(block) if other in numbers)])
