"""Loops whose iterations do not need each other: a thread does some that lie side by side."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

from llvmlite import ir

from xloom.codegen.buffer_values import dtype_of
from xloom.codegen.loop_ir.affine import Var
from xloom.codegen.loop_ir.nest import LoopBody, arranged
from xloom.codegen.loop_ir.nodes import If, Load, Node, Reduced, walk
from xloom.codegen.loop_ir.pieces import FEW, cuts_of
from xloom.cuda.kernel import blocks_for
from xloom.cuda.loops.nest_code import NestCode
from xloom.llvm.types import I64

VECTOR_BYTES = 16
"""What a thread loads or stores at once, at most."""
LEAST_ITEMS = 1 << 10
"""Threads that there are to be at least before one does several elements."""


def map_width(stage: LoopBody, loops: list[Var], least: int = LEAST_ITEMS) -> int:
    """How many elements along the innermost loop a thread does: what loads and stores of 16 bytes have.

    There are at least so many items, or it does one.
    """
    if not loops:
        return 1
    inner = loops[-1]
    if any(s.address.factor(inner) != 1 for s in stage.stores):
        return 1
    stored, roots = max(dtype_of(s.target).bytes for s in stage.stores), [s.node for s in stage.stores]
    width = vector_width(walk(roots), inner, stored, _cuts(roots, inner))
    total = math.prod(v.size for v in loops)
    while width > 1 and total // width < least:
        width //= 2
    return width


def _cuts(roots: Sequence[Node], inner: Var) -> list[int]:
    """Where guards change along a loop, of which there are a few that depend on nothing else; or nothing."""
    conditions = [c for n in walk(roots) if isinstance(n, If) for c in n.conditions if c[0].factor(inner)]
    if any(len(c[0].terms) > 1 for c in conditions):
        return []
    cuts = cuts_of(roots, inner, {})
    return cuts if len(cuts) < FEW else []


def vector_width(nodes: Sequence[Node], inner: Var, stored: int = 0, cuts: Sequence[int] = ()) -> int:
    """How many neighbours along a loop have loads of 16 bytes, of what is at most `stored` bytes wide elsewhere.

    None of the `cuts` is between neighbours; without any, no guard is on the loop.
    """
    has_guards = any(isinstance(n, If) and any(c[0].factor(inner) for c in n.conditions) for n in nodes)
    if (has_guards and not cuts) or any(isinstance(n, Reduced) for n in nodes):
        return 1
    loads = [n for n in nodes if isinstance(n, Load)]
    if any(n.address.factor(inner) not in (0, 1) for n in loads):
        return 1
    widest = max([stored, *(n.dtype.bytes for n in loads if n.address.factor(inner))])
    width = max(1, VECTOR_BYTES // widest) if widest else 1
    while any(size % width for size in (inner.size, *cuts)):
        width //= 2
    return width


def map_blocks(stage: LoopBody, threads: int) -> int:
    """The blocks that `emit_map` is launched with."""
    loops, _ = arranged(stage, stage.vars)
    return blocks_for(math.prod(v.size for v in loops) // map_width(stage, loops), threads)


def emit_map(code: NestCode, stage: LoopBody) -> None:
    """Emits a stage that all threads of the grid share."""
    loops, gone = arranged(stage, stage.vars)
    total, width, kernel = math.prod(v.size for v in loops), map_width(stage, loops), code.kernel
    code.elements.unbind(gone)
    kernel.strategy = f"a thread does {width} of {total} elements" if width > 1 else f"a thread for each of {total}"
    blocks = map_blocks(stage, kernel.threads)
    with kernel.each(total // width, blocks, kernel.threads, kernel.thread) as item:
        emit_items(code, stage, loops, width, item)


def emit_items(code: NestCode, stage: LoopBody, loops: list[Var], width: int, item) -> None:
    """Emits the `width` elements of an item, between whose guards there is no cut."""
    b, total = code.kernel.b, math.prod(v.size for v in loops)
    *outer, inner = loops or [Var("none", 1)]
    groups = [*outer, Var(inner.name, inner.size // width, None, inner.number)] if loops else []
    with code.at(groups, item, total // width):
        if width == 1:
            for store, value in zip(stage.stores, code.values(stage.stores), strict=True):
                code.store(store, value)
            return
        base = b.mul(code.elements.vars[inner], I64(width), flags=["nsw", "nuw"])
        cuts = _cuts([s.node for s in stage.stores], inner)
        if not cuts:
            _emit_neighbours(code, stage, inner, base, width)
            return
        for low, high in pairwise([0, *cuts, inner.size]):
            here = b.icmp_unsigned("<", b.sub(base, I64(low)), I64(high - low))
            with b.if_then(here), code.elements.scope():
                code.elements.ranges[inner] = low, high - 1
                _emit_neighbours(code, stage, inner, base, width)
                del code.elements.ranges[inner]


def _emit_neighbours(code: NestCode, stage: LoopBody, inner: Var, base: ir.Value, width: int) -> None:
    """Emits `width` elements from `base` on: all of their loads, then all of their stores."""
    places = [code.kernel.b.add(base, I64(k), flags=["nsw", "nuw"]) for k in range(width)]
    found = []
    for place in places:
        code.elements.vars[inner] = place
        with code.elements.scope():
            found.append(code.values(stage.stores))
    for k, store in enumerate(stage.stores):
        for place, values in zip(places, found, strict=True):
            code.elements.vars[inner] = place
            with code.elements.scope():
                code.store(store, values[k])
