"""Of reductions whose elements are masked by comparisons with their loop's variable: the range in which they are not.

Outside it, all elements are one that does not change along the loop: computed once, added as often as it occurs.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, NamedTuple, TypeVar

from xloom.codegen.loop_ir.affine import Affine, Var
from xloom.codegen.loop_ir.index_numbers import index_expression
from xloom.codegen.loop_ir.nodes import (
    Clamp,
    Constant,
    If,
    Load,
    Node,
    Op,
    Reduction,
    dependencies,
    has_changing_numbers,
    indices_of,
    post_order,
    walk,
)
from xloom.hlo.dtype import pred

SHORTEST = 64
"""Iterations of a loop of which some are worth leaving out: shorter ones are a few vectors."""
FAR = 1 << 62
"""What limits of 64 bits are cut to: beyond all places of masks, and not so far that sums of it are too large."""
_TURNED = {"LT": "GT", "LE": "GE", "GT": "LT", "GE": "LE", "EQ": "EQ"}
_IDEMPOTENT = frozenset(["and", "maximum", "minimum", "or"])
_N = TypeVar("_N", bound=Node)


class Mask(NamedTuple):
    """`place <direction> limit`, of an index expression that has the loop's variable once, and what does not change."""

    node: Op
    place: Affine
    direction: str
    limit: Node


@dataclass(frozen=True)
class MaskedRange:
    """The masks that hold in the range, and the element of each reduction where one of them does not."""

    masks: tuple[Mask, ...]
    outside: tuple[Node, ...]


def masked_range(reductions: Sequence[Reduction], var: Var, beside: Var | None = None) -> MaskedRange | None:
    """The range along a loop; None where there are no such masks, or elements outside them are not all the same.

    It is the same for all iterations of a loop `beside` it, along which elements outside may change.
    """
    if var.size < SHORTEST or not all(map(_takes_many, reductions)):
        return None
    elements = [f.elements[0] for f in reductions]
    nodes = post_order(elements)

    @cache
    def changes(node: Node) -> bool:
        return any(i.factor(var) for n in walk([node]) for i in indices_of(n))

    found: dict[tuple[Node, ...], list[Mask]] = {}
    made: dict[Hashable, Any] = {}
    masks = list(_masks(nodes, var, changes))
    guards = _guards(nodes) if masks else {}
    for mask in masks:
        variables = _variables([mask.place, *(i for n in walk([mask.limit]) for i in indices_of(n))]) - {var}
        if beside in variables or not variables.isdisjoint(guards[id(mask.node)]):
            continue
        without = _Without(mask.node, made)
        for node in nodes:
            without.add(node)
        outside = tuple(map(without.of, elements))
        if not any(map(changes, outside)):
            found.setdefault(outside, []).append(mask)
    if not found:
        return None
    outside, holding = max(found.items(), key=lambda item: len(item[1]))
    return MaskedRange(tuple(holding), outside)


def _takes_many(reduction: Reduction) -> bool:
    """True where any number of equal elements is as one of them, or as that number times one."""
    dtype = reduction.inits[0].dtype
    is_number = dtype.is_float or (dtype.is_integer and dtype.bits >= 8)
    return reduction.plain in _IDEMPOTENT or (reduction.plain == "add" and is_number)


def _masks(nodes: Sequence[Node], var: Var, changes: Callable[[Node], bool]) -> Iterator[Mask]:
    for node in nodes:
        if not isinstance(node, Op) or node.opcode != "compare" or not node.operands[0].dtype.is_integer:
            continue
        direction = node.operator["direction"]
        x, y = node.operands
        for place, limit, way in ((x, y, direction), (y, x, _TURNED.get(direction))):
            if way in _TURNED and not changes(limit):
                expression = index_expression(place)
                if expression is None or abs(expression.factor(var)) != 1 or has_changing_numbers(expression, (var,)):
                    continue
                if expression.low > -FAR // 2 and expression.high < FAR // 2:
                    yield Mask(node, expression, way, limit)


def _guards(nodes: Sequence[Node]) -> dict[int, set[Var]]:
    """The loops whose iterations decide whether nodes are computed: a limit may lie outside its array in others."""
    found: dict[int, set[Var]] = {id(node): set() for node in nodes}
    for node in reversed(nodes):
        deciding = _variables(indices_of(node)) if isinstance(node, If) else set()
        for operand in dependencies(node):
            found[id(operand)] |= found[id(node)] | deciding
    return found


def _variables(indices: Sequence[Affine]) -> set[Var]:
    """The loops along which index expressions change, numbers in them that the program computes too."""
    computed = walk([v.node for i in indices for v, _ in i.terms if v.node is not None])
    return {v for i in (*indices, *(i for n in computed for i in indices_of(n))) for v, _ in i.terms}


class _Without:
    """What nodes are where a predicate is false. Equal ones are `made` once."""

    def __init__(self, mask: Op, made: dict[Hashable, Any]):
        self._made = made
        self._known: dict[int, Node] = {}
        self._mask = mask

    def of(self, node: Node) -> Node:
        """What a node is that has been added."""
        return self._known[id(node)]

    def add(self, node: Node) -> None:
        """Adds a node, after all that it is computed from."""
        self._known[id(node)] = self._constant(node, 0) if node is self._mask else self._changed(node)

    def _changed(self, node: Node) -> Node:
        if isinstance(node, Op):
            operands = tuple(map(self.of, node.operands))
            return self._folded(node, operands) or self._with(node, operands=operands)
        if isinstance(node, Load):
            return self._with(node, address=self._index(node.address))
        if isinstance(node, Clamp):
            return self._with(node, operand=self.of(node.operand))
        if isinstance(node, If):
            return self._with(node, then=self.of(node.then), otherwise=self.of(node.otherwise))
        return node

    def _folded(self, node: Op, operands: Sequence[Node]) -> Node | None:
        """What a predicate that is false makes of an operator; None where it makes nothing else of it."""
        first = operands[0]
        known = bool(first.value) if isinstance(first, Constant) and first.dtype is pred else None
        if node.opcode == "alias":
            return first
        if node.opcode == "select" and known is not None:
            return operands[1] if known else operands[2]
        if node.opcode == "not" and known is not None:
            return self._constant(node, not known)
        if node.opcode in ("and", "or") and node.dtype is pred:
            for one, other in (operands, operands[::-1]):
                if isinstance(one, Constant):
                    return other if bool(one.value) == (node.opcode == "and") else one
        if node.opcode == "convert" and known is not None and not node.dtype.is_complex:
            return self._constant(node, int(known))
        return None

    def _with(self, node: _N, **parts: Any) -> _N:
        """The node with other parts, or itself where these are its own."""
        if all(getattr(node, name) == part for name, part in parts.items()):
            return node
        changed = replace(node, **parts)
        return self._made.setdefault((type(node), *vars(changed).values()), changed)

    def _index(self, index: Affine) -> Affine:
        """An index expression of what the numbers in it are that the program computes."""
        moved: dict[Var, Affine] = {}
        for var, _ in index.terms:
            if var.node is not None and (node := self.of(var.node)) is not var.node:
                # below the numbers of all loops
                number = self._made.setdefault(("number", var.number, id(node)), -2 - len(self._made))
                moved[var] = Affine(0, ((replace(var, node=node, number=number), 1),))
        return index.substitute(moved)

    def _constant(self, node: Node, value: int) -> Node:
        return self._made.setdefault(("constant", node.dtype, value), Constant(node.dtype, value))
