"""A nest with other loops than it has: joined ones, or of other sizes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from xloom.codegen.loop_ir.affine import Affine, Var
from xloom.codegen.loop_ir.nest import LoopBody, LoopNest, Store
from xloom.codegen.loop_ir.nodes import Clamp, If, Index, Load, Node, Op, Quotient, Reduced, Reduction, post_order


@dataclass
class NestCopy:
    """A nest of these loops, by the numbers of those that they are instead of: without others, which are always 0.

    They are in this order. No index may have numbers that the program computes.
    """

    loops: Mapping[int, Var]
    size: Callable[[int], Any] = int
    """What becomes of distances in memory, and of where elements begin."""
    _nodes: dict[int, Node] = field(default_factory=dict)
    _reductions: dict[int, Reduction] = field(default_factory=dict)

    def of(self, nest: LoopNest) -> LoopNest:
        """The nest that is `nest` with these loops."""
        return replace(nest, outer=self._kept(nest.outer), stages=[self._stage(stage) for stage in nest.stages])

    def _stage(self, stage: LoopBody) -> LoopBody:
        for node in post_order([s.node for s in stage.stores]):
            if id(node) not in self._nodes:
                self._nodes[id(node)] = self._made(node)
        stores = [Store(s.target, self._index(s.address), self._nodes[id(s.node)]) for s in stage.stores]
        return LoopBody(self._kept(stage.vars), stores)

    def _kept(self, loops: Iterable[Var]) -> list[Var]:
        numbers = {v.number for v in loops}
        return [var for number, var in self.loops.items() if number in numbers]

    def _index(self, index: Affine) -> Affine:
        terms = [(self.loops[v.number], self.size(f)) for v, f in index.terms if v.number in self.loops]
        return Affine(self.size(index.const), tuple(terms))

    def _made(self, node: Node) -> Node:
        match node:
            case Load():
                return replace(node, address=self._index(node.address))
            case Index() | Quotient():
                return replace(node, value=self._index(node.value))
            case Op():
                return replace(node, operands=self._all(node.operands))
            case Clamp():
                return replace(node, operand=self._nodes[id(node.operand)])
            case If():
                conditions = tuple((self._index(index), low, high) for index, low, high in node.conditions)
                then, otherwise = self._all((node.then, node.otherwise))
                return replace(node, conditions=conditions, then=then, otherwise=otherwise)
            case Reduced():
                return replace(node, reduction=self._reduction(node.reduction))
        return node

    def _all(self, nodes: Sequence[Node]) -> tuple[Node, ...]:
        return tuple(self._nodes[id(n)] for n in nodes)

    def _reduction(self, reduction: Reduction) -> Reduction:
        made = self._reductions.get(id(reduction))
        if made is None:
            made = self._reductions[id(reduction)] = replace(
                reduction,
                vars=tuple(self._kept(reduction.vars)),
                inits=self._all(reduction.inits),
                bodies=self._all(reduction.bodies),
                elements=self._all(reduction.elements),
                in_order=self._all(reduction.in_order),
            )
        return made
