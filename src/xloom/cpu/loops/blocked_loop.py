"""A kernel's only loop in blocks of so many elements, where it is a whole number of them.

LLVM then sees how many iterations a block has, and makes of it a few vectors, one after another: the code for fewer
elements, which no call would reach, takes it longer than that of the vectors themselves.
"""

from __future__ import annotations

from collections.abc import Mapping

from xloom.codegen.loop_ir.affine import Var
from xloom.codegen.loop_ir.nest import LoopBody, cost_along, cost_of, pieces
from xloom.codegen.loop_ir.nodes import Constant, Index, Load, Op
from xloom.cpu.loops.bf16_pairs import is_bf16_in_pairs, store_pair
from xloom.cpu.loops.emission import Elements
from xloom.cpu.loops.nontemporal_stores import NontemporalStores, is_nontemporal
from xloom.cpu.loops.phases import Phases
from xloom.llvm import types
from xloom.llvm.cache_lines import LINE, fetch
from xloom.llvm.loop import VECTOR_ONLY, Hint, interleaving, loop
from xloom.llvm.types import I8, I32, I64

_CHEAP = 2
"""Vectors side by side of elements that cost next to nothing: more would load from too many places at once."""

_MANY = 6
"""Arrays, results among them, of which lines are fetched ahead."""
_AHEAD = 1024
"""How many bytes."""
_MOSTLY = 1.25
"""How much of what an element costs may be the same for all, as a ratio of all of it to the rest."""


def emit_in_blocks(code: Phases, stage: LoopBody, inner: Var, gone: Mapping[Var, None], cost: int) -> str:
    """A phase of blocks, each element of `cost`. Nothing is emitted where it gives a text, which says why."""
    nodes = [s.node for s in stage.stores]
    varying = cost_along(nodes, inner)
    if cost_of(nodes) > _MOSTLY * varying:
        return "much is the same for all elements, and would have to be taken out of two loops"
    vectors = interleaving(varying) or _CHEAP
    streamed = is_nontemporal(code, (), stage, inner)
    size = NontemporalStores.length(code, stage) if streamed else vectors * _lanes(code, stage, inner)
    if not size:
        return "its elements are no vector"
    if inner.size % size or inner.size == size:
        return f"{inner.size} elements are not several blocks of {size}"
    if len(pieces(stage, inner, code.nest.private)) > 1:
        return "parts of it are computed otherwise than the rest"
    hints: tuple[Hint, ...] = (*VECTOR_ONLY, ("llvm.loop.interleave.count", I32(vectors)))
    block = Var(inner.name, inner.size // size, None, -1)
    with code.phase([block], cost * size, block=size) as elements:
        b = elements.b
        elements.unbind(gone)
        elements.innermost = inner
        first = b.mul(elements.vars[block], I64(size), flags=["nsw"])
        if streamed:
            NontemporalStores(code, elements, stage, inner).piece(first, I64(size), hints)
            return ""
        elements.vars[inner] = first
        _fetch_ahead(elements, stage, inner, size)
        paired = is_bf16_in_pairs(code, stage, inner)
        with loop(b, 0, size, 2 if paired else 1, name=inner.name, hints=hints) as i, elements.scope():
            elements.vars[inner] = b.add(first, i, flags=["nsw"])
            if paired:
                store_pair(code, elements, stage, inner)
            else:
                code.stores(elements, stage.stores)
    return ""


def _fetch_ahead(elements: Elements, stage: LoopBody, inner: Var, size: int) -> None:
    """Fetches what a later block loads, where a processor would have to follow many arrays, and again in each page."""
    b = elements.b
    loads = {n.source: n for n in stage.nodes if isinstance(n, Load)}
    if len(loads) + len(stage.stores) < _MANY:
        return
    with elements.scope():
        for value, load in loads.items():
            if load.address.factor(inner) == 1:
                first = types.element_pointer(b, elements.pointers(value), load.dtype, elements.address_of(load))
                for at in range(_AHEAD, _AHEAD + size * load.dtype.bytes, LINE):
                    fetch(b, b.gep(first, [I64(at)], source_etype=I8))


def _lanes(code: Phases, stage: LoopBody, inner: Var) -> int:
    """Elements of one vector of the widest type; 0 where neighbours are not computed from neighbours."""
    found = stage.nodes
    if not all(isinstance(n, (Op, Constant, Index, Load)) for n in found):
        return 0
    addresses = [*(s.address for s in stage.stores), *(n.address for n in found if isinstance(n, Load))]
    if any(a.factor(inner) not in (0, 1) or any(v.node for v, _ in a.terms) for a in addresses):
        return 0
    dtypes = [*(code.types_of(s.target) for s in stage.stores), *(n.dtype for n in found if isinstance(n, Load))]
    vector = code.module.target.registers.nbytes
    return 0 if any(t.is_complex for t in dtypes) else vector // max(t.bytes for t in dtypes)
