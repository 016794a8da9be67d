"""Maps that read along another dimension than they write: in tiles, which pass through shared memory."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from llvmlite import ir

from xloom.codegen.loop_ir.affine import Var
from xloom.codegen.loop_ir.nest import LoopBody, arranged
from xloom.codegen.loop_ir.nodes import If, Load, Reduced, walk
from xloom.cuda.kernel import blocks_for, strided
from xloom.cuda.loops.nest_code import NestCode
from xloom.llvm import element_access
from xloom.llvm.types import I64

TILE = 32
"""Elements along each side of a tile."""
_LARGE = 64
"""The same of single bytes, of which fewer would be less than memory gives at once."""
_MOST_LOADS = 4
"""Arrays that pass through shared memory, at most."""


@dataclass(frozen=True)
class Crossing:
    """The loop along which results lie, the one along which some loads do, and those loads."""

    loops: list[Var]
    gone: tuple[Var, ...]
    along: Var
    across: Var
    loads: list[Load]

    @property
    def side(self) -> int:
        """Elements along each side of a tile."""
        return _LARGE if all(n.dtype.bytes == 1 for n in self.loads) else TILE

    @property
    def pitch(self) -> int:
        """Elements between rows of a tile in shared memory, so that columns are in different banks."""
        return self.side + (4 if self.side == _LARGE else 1)

    @property
    def around(self) -> list[Var]:
        """The other loops."""
        return [v for v in self.loops if v not in (self.along, self.across)]

    @property
    def tiles(self) -> list[Var]:
        """Loops over tiles, in numbers of their own."""
        return [
            *self.around,
            *(Var(v.name, -(-v.size // self.side), None, v.number) for v in (self.across, self.along)),
        ]


def crossing_of(stage: LoopBody) -> Crossing | None:
    """How a map crosses, if it is worth tiles."""
    loops, gone = arranged(stage, stage.vars)
    nodes = walk([s.node for s in stage.stores])
    if any(isinstance(n, (If, Reduced)) for n in nodes) or any(
        v.node is not None for s in stage.stores for v, _ in s.address.terms
    ):
        return None
    inner = [v for v in loops if all(s.address.factor(v) == 1 for s in stage.stores)]
    loads = [n for n in nodes if isinstance(n, Load)]
    for along in inner:
        for across in loops:
            found = [n for n in loads if n.address.factor(across) == 1 and n.address.factor(along) > 1]
            if across is along or not found or min(along.size, across.size) < TILE // 4:
                continue
            if any(v.node is not None for n in found for v, _ in n.address.terms) or len(found) > _MOST_LOADS:
                continue
            return Crossing(loops, tuple(gone), along, across, found)
    return None


def transpose_blocks(crossing: Crossing) -> int:
    """Blocks that the kernel is launched with."""
    return blocks_for(math.prod(v.size for v in crossing.tiles), 1)


def emit_transpose(code: NestCode, stage: LoopBody, crossing: Crossing) -> None:
    """Emits the kernel: a block loads a tile along one dimension, and stores it along the other."""
    kernel, b, elements = code.kernel, code.kernel.b, code.elements
    side, pitch = crossing.side, crossing.pitch
    kernel.strategy = f"tiles of {side} x {side} through shared memory"
    elements.unbind(crossing.gone)
    tiles, along, across = crossing.tiles, crossing.along, crossing.across
    total = math.prod(v.size for v in tiles)
    memory = [kernel.shared(n.dtype.bytes * side * pitch) for n in crossing.loads]
    with kernel.each_row(total, transpose_blocks(crossing)) as tile, code.at(tiles, tile, total):
        first = {v: b.mul(elements.vars[v], I64(side), flags=["nsw"]) for v in (along, across)}
        with strided(b, kernel.thread, I64(side * side), kernel.threads) as item:
            _place(code, item, (along, across), first, side)
            with b.if_then(_inside(code, (along, across))), elements.scope():
                at = b.add(b.mul(b.udiv(item, I64(side)), I64(pitch)), b.urem(item, I64(side)))
                for node, pointer in zip(crossing.loads, memory, strict=True):
                    element_access.store(b, pointer, node.dtype, at, elements.value(node), exact=True)
        kernel.barrier()
        with strided(b, kernel.thread, I64(side * side), kernel.threads) as item:
            _place(code, item, (across, along), first, side)
            with b.if_then(_inside(code, (along, across))), elements.scope():
                at = b.add(b.mul(b.urem(item, I64(side)), I64(pitch)), b.udiv(item, I64(side)))
                elements.staged = {id(n): (p, at) for n, p in zip(crossing.loads, memory, strict=True)}
                for store, value in zip(stage.stores, code.values(stage.stores), strict=True):
                    code.store(store, value)
                elements.staged = {}
        if total > transpose_blocks(crossing):
            kernel.barrier()


def _place(code: NestCode, item: ir.Value, loops: Sequence[Var], first: dict[Var, ir.Value], side: int) -> None:
    """Sets two loops to where element `item` of the tile is, the second of them innermost."""
    b = code.kernel.b
    outer, inner = loops
    code.elements.vars[outer] = b.add(first[outer], b.udiv(item, I64(side)), flags=["nsw"])
    code.elements.vars[inner] = b.add(first[inner], b.urem(item, I64(side)), flags=["nsw"])


def _inside(code: NestCode, loops: Sequence[Var]) -> ir.Value:
    b = code.kernel.b
    tests = [b.icmp_signed("<", code.elements.vars[v], I64(v.size)) for v in loops]
    return b.and_(*tests)
