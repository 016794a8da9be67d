"""A loop nest: what a fused kernel does, element by element, and the order of its loops."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise

from xloom.codegen.loop_ir.affine import EVERYWHERE, Affine, Ranges, Var
from xloom.codegen.loop_ir.nodes import (
    BufferValue,
    If,
    Load,
    Node,
    Op,
    Reduced,
    Reduction,
    indices_of,
    operands_of,
    walk,
)
from xloom.codegen.loop_ir.pieces import FEW, PIECE_NODES, UNROLLED, Piece, cuts_of, pieces_of
from xloom.codegen.ops import OP_ROWS


@dataclass(frozen=True)
class Store:
    """Stores `node` in array `target` at element `address`: `target[address] = node`."""

    target: BufferValue
    address: Affine
    node: Node


@dataclass
class LoopBody:
    """Loops over `vars`, outermost first, that do `stores`."""

    vars: list[Var]
    stores: list[Store]

    @cached_property
    def nodes(self) -> list[Node]:
        """Every node that what it stores is computed from, each once: asked for by most that looks at a loop."""
        return walk([s.node for s in self.stores])

    @cached_property
    def loads(self) -> list[Load]:
        """What it reads: for what it stores, and for where."""
        return [n for n in nodes_of(self) if isinstance(n, Load)]


@dataclass
class LoopNest:
    """Loops over `outer`, shared among threads, and within them `stages` one after another."""

    outer: list[Var]
    stages: list[LoopBody]
    private: set[BufferValue] = field(default_factory=set)
    """Arrays that live within one iteration of the outer loops."""
    returned: set[BufferValue] = field(default_factory=set)
    """Large arrays that are results of the program, of which nothing else in it reads."""
    divided: bool = False
    """Whether several loops run over one dimension."""
    read_soon: bool = False
    """Whether what it makes is read again row by row, while that is in the caches, however large the whole is."""


def nodes_of(stage: LoopBody) -> list[Node]:
    """Every node of a stage: of what it stores, and of the numbers that say where."""
    where = [v.node for s in stage.stores for v, _ in s.address.terms if v.node is not None]
    return walk([*where, *(s.node for s in stage.stores)]) if where else stage.nodes


def loaded_values(nest: LoopNest) -> list[BufferValue]:
    """The arrays that the nest loads, in order of first use."""
    return list(dict.fromkeys(load.source for stage in nest.stages for load in stage.loads))


def affine_expressions(stage: LoopBody) -> list[Affine]:
    """Every index expression of a stage."""
    return [s.address for s in stage.stores] + [i for n in nodes_of(stage) for i in indices_of(n)]


def reductions_of(stage: LoopBody) -> list[Reduction]:
    """The reductions that are stored as they are, when all stores of the stage are of such, over the same loops."""
    found: dict[int, Reduction] = {}
    for store in stage.stores:
        if not isinstance(store.node, Reduced):
            return []
        found[id(store.node.reduction)] = store.node.reduction
    reductions = list(found.values())
    return reductions if all(f.vars == reductions[0].vars for f in reductions) else []


def stride_score(stage: LoopBody, var: Var) -> int:
    """How well `var` serves as the innermost loop: unit strides are good, long ones bad.

    Stores count more, but those of reductions not at all: there are few.
    """
    score = 0
    for store in stage.stores:
        if not isinstance(store.node, Reduced):
            score += 3 * _worth(store.address, var)
    for node in stage.nodes:
        if isinstance(node, Load):
            score += _worth(node.address, var)
    return score


def _worth(address: Affine, var: Var) -> int:
    factor = address.factor(var)
    if factor == 0:
        return 0
    return 2 if factor == 1 else 1 if factor == -1 else -2


def ordered(stage: LoopBody, loops: Iterable[Var]) -> list[Var]:
    """Loops in the order in which their stores (or first loads) lie in memory, the best innermost loop last."""
    return _best_last(stage, by_extent(stage, loops))


def arranged(stage: LoopBody, loops: Iterable[Var]) -> tuple[list[Var], dict[Var, None]]:
    """Loops joined where they are as one, in the same order; and those that thereby are always 0."""
    joined, gone = merged([stage], by_extent(stage, loops))
    return _best_last(stage, joined), gone


def by_extent(stage: LoopBody, loops: Iterable[Var]) -> list[Var]:
    """Loops of more than one iteration, those of the longest steps in memory first."""
    loops = [v for v in loops if v.size != 1]
    if len(loops) < 2:
        return loops
    addresses = [s.address for s in stage.stores]
    addresses += [n.address for n in stage.nodes if isinstance(n, Load)]

    def extent(var: Var) -> int:
        return next((abs(a.factor(var)) for a in addresses if a.factor(var)), 0)

    return sorted(loops, key=extent, reverse=True)


def _best_last(stage: LoopBody, loops: list[Var]) -> list[Var]:
    if len(loops) < 2:
        return loops
    wide = [v for v in loops if v.size >= 8 and not _differs(stage, v)] or loops
    best = max(reversed(wide), key=lambda v: stride_score(stage, v))
    return [*(v for v in loops if v != best), best]


def interleaved(stage: LoopBody, loops: Sequence[Var]) -> Var | None:
    """A short loop whose elements lie between those of the innermost one, so that it is better done in each step."""
    if not loops:
        return None
    for var in loops[:-1]:
        dense = (s.address.factor(var) == 1 and s.address.factor(loops[-1]) == var.size for s in stage.stores)
        if (var.size <= INTERLEAVED or _differs(stage, var)) and all(dense):
            return var if var.size * len(stage.nodes) < INTERLEAVED_NODES else None
    return None


def _differs(stage: LoopBody, var: Var) -> bool:
    """True when about each step of a short loop does something else."""
    return var.size <= 2 * INTERLEAVED and len(breakpoints(pieces(stage, var))) >= var.size // 2


def merged(stage_groups: Sequence[LoopBody], loops: list[Var]) -> tuple[list[Var], dict[Var, None]]:
    """Loops with neighbours joined where every index treats them as one; and those that thereby are always 0.

    The joined loop is the inner one of the two, with the size of both.
    """
    expressions = [e for stage in stage_groups for e in affine_expressions(stage)]
    sizes = {v: v.size for v in loops}
    out = list(loops)
    gone: dict[Var, None] = {}
    k = len(out) - 2
    while k >= 0:
        outer, inner = out[k], out[k + 1]
        if all(e.factor(outer) == e.factor(inner) * sizes[inner] for e in expressions):
            sizes[inner] *= sizes[outer]
            gone[outer] = None
            del out[k]
        k -= 1
    return [Var(v.name, sizes[v], None, v.number) if sizes[v] != v.size else v for v in out], gone


def pieces(
    stage: LoopBody, inner: Var, private: Collection[BufferValue] = (), known: Ranges = EVERYWHERE
) -> list[Piece]:
    """Pieces of the innermost loop between which no guard's condition on its variable changes; none if too many.

    `known` are the values that variables of loops around it have.
    """
    roots = [s.node for s in stage.stores]
    if inner.size <= UNROLLED and len(cuts_of(roots, inner, known)) >= FEW:
        return []
    return pieces_of(roots, inner, _fixed(stage, private), PIECE_NODES, known)


def breakpoints(pieces: Sequence[Piece]) -> list[int]:
    """Values of a variable at which pieces of its loop begin, the first's apart."""
    return sorted(low for piece in pieces for low, _ in piece.ranges)[1:]


def outer_pieces(
    stage: LoopBody, loops: Sequence[Var], private: Collection[BufferValue] = (), known: Ranges = EVERYWHERE
) -> list[Piece]:
    """Those of the first of some loops, each of which is around the next: there is code for each.

    None are alike around some that are. Where the first is not just around the innermost one, LLVM takes conditions on
    it out of that itself, but for those around functions, and for several that arrays put together have.
    """
    outer, *around, inner = loops
    roots = [s.node for s in stage.stores]
    cuts = cuts_of(roots, outer, known)
    longest = max(high - low for low, high in pairwise([0, *cuts, outer.size]))
    if not cuts or (around and 2 * longest > outer.size and not _has_functions(roots)):
        return []
    inside = [outer_pieces(stage, loops[k:], private, known) for k in range(1, len(around) + 1)]
    inside.append(pieces(stage, inner, private, known))
    fixed = None if any(len(piece.ranges) > 1 for found in inside for piece in found) else _fixed(stage, private)
    count = math.prod(max(1, len(found)) for found in inside)
    return pieces_of(roots, outer, fixed, PIECE_NODES // count, known)


def _has_functions(roots: Sequence[Node]) -> bool:
    instruction = OP_ROWS["divide"].cost  # none costs more
    return any(isinstance(n, Op) and n.cost > instruction for n in walk(roots))


def _fixed(stage: LoopBody, private: Collection[BufferValue]) -> set[BufferValue]:
    return {*private, *(s.target for s in stage.stores)}


INTERLEAVED = 4
INTERLEAVED_NODES = 400
"""How many elements at most are done in a step, what processors shuffle well; and how many nodes they may have."""


def node_count(nest: LoopNest) -> int:
    """Operators in the nest, a measure of its code."""
    return sum(len(stage.nodes) for stage in nest.stages)


def element_cost(nest: LoopNest) -> int:
    """About how many additions all stages cost, an element each."""
    return sum(_cost(stage.nodes) for stage in nest.stages)


def cost_of(nodes: Sequence[Node]) -> int:
    """About how many additions an element of `nodes` costs, loads counted."""
    return _cost(walk(nodes))


def _cost(nodes: Iterable[Node]) -> int:
    total = 1
    for node in nodes:
        if isinstance(node, Op):
            total += node.cost
        elif isinstance(node, (Load, If)):
            total += 1
    return total


def cost_along(nodes: Sequence[Node], var: Var) -> int:
    """About how many additions an iteration over `var` costs: what does not change with it is computed once."""
    found = walk(nodes)
    users: dict[int, list[Node]] = {}
    for node in found:
        inside = [v.node for i in indices_of(node) for v, _ in i.terms if v.node is not None]
        for operand in (*operands_of(node), *inside):
            users.setdefault(id(operand), []).append(node)
    changing: dict[int, Node] = {}
    stack = [node for node in found if any(i.factor(var) for i in indices_of(node))]
    while stack:
        node = stack.pop()
        if id(node) not in changing:
            changing[id(node)] = node
            stack += users.get(id(node), [])
    return _cost(changing.values())


def stage_cost(stage: LoopBody) -> int:
    """About how many additions all of a stage costs."""
    reductions = reductions_of(stage)
    extent = math.prod(v.size for v in stage.vars) * (
        math.prod(v.size for v in reductions[0].vars) if reductions else 1
    )
    nodes = [e for f in reductions for e in f.elements] if reductions else [s.node for s in stage.stores]
    return cost_of(nodes) * extent


def nest_cost(nest: LoopNest) -> int:
    """About how many additions all of a nest costs."""
    return math.prod(v.size for v in nest.outer) * sum(map(stage_cost, nest.stages))
