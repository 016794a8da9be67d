"""Pieces of a loop between which no guard on its variable changes, and those that do the same with other arrays."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from xloom.codegen.buffer_values import BufferValue
from xloom.codegen.loop_ir.affine import Ranges, Var, range_of
from xloom.codegen.loop_ir.nodes import Condition, Constant, If, Load, Node, Op, dependencies, indices_of

Moved = Mapping[BufferValue, tuple[BufferValue, int]]
"""By array of the first range: the array that another one loads from, and how many elements on."""

PIECES = 128
PIECE_NODES = 1500
"""Into how many pieces a loop is cut at most, alike ones counted once, and how many nodes they may have together."""
FEW = 8
"""Pieces that are better written one by one, alike or not."""
UNROLLED = 16
"""Iterations that LLVM unrolls, each a piece by itself."""


@dataclass
class Piece:
    """Iterations that follow one another; or several such ranges that are alike, in their order."""

    ranges: list[tuple[int, int]]
    """From where up to where, the end not included."""
    moved: list[Moved]
    """Of each range; that of the first is empty."""


def pieces_of(
    roots: Sequence[Node], var: Var, fixed: Collection[BufferValue] | None, most_nodes: int, known: Ranges
) -> list[Piece]:
    """The pieces between which no guard's condition on the variable changes; none where there are too many.

    Alike ones load from other arrays, but not from others in place of `fixed` ones. With None no two are alike.
    """
    ranges = list(pairwise([0, *cuts_of(roots, var, known), var.size]))
    if len(ranges) <= FEW or fixed is None:
        if len(ranges) > PIECES:
            return []
        count = sum(len(reached(roots, {**known, var: (low, high - 1)})) for low, high in ranges)
        return [Piece([r], [{}]) for r in ranges] if count <= most_nodes else []
    found: list[Piece] = []
    alike: dict[tuple[Any, ...], list[tuple[Piece, _Structure]]] = {}
    for low, high in ranges:
        structure = _structure(roots, var, {**known, var: (low, high - 1)})
        same = alike.setdefault(tuple(structure.tokens), [])
        for piece, first in same:
            moved = _moved(first, structure, fixed)
            if moved is not None:
                piece.ranges.append((low, high))
                piece.moved.append(moved)
                break
        else:
            most_nodes -= len(structure.tokens)
            if most_nodes < 0 or len(found) == PIECES:
                return []
            found.append(Piece([(low, high)], [{}]))
            same.append((found[-1], structure))
    return found


def cuts_of(roots: Sequence[Node], var: Var, known: Ranges) -> list[int]:
    """Values of a variable at which a guard's condition on it alone changes."""
    found: set[int] = set()
    for node in reached(roots, known).values():
        for expression, low, high in node.conditions if isinstance(node, If) else ():
            if [v for v, _ in expression.terms] == [var]:
                factor = expression.factor(var)
                for limit in (low, high):
                    # factor * x + const >= limit from x on, or up to it
                    at = (
                        -((expression.const - limit) // factor)
                        if factor > 0
                        else (limit - expression.const) // factor + 1
                    )
                    found.add(at)
    return sorted(c for c in found if 0 < c < var.size)


def reached(roots: Sequence[Node], known: Ranges) -> dict[int, Node]:
    """What `roots` are computed from where variables are in these ranges: of a guard, the side that is taken."""
    seen: dict[int, Node] = {}
    stack = list(roots)
    while stack:
        node = _decided(stack.pop(), known)
        if id(node) not in seen:
            seen[id(node)] = node
            stack.extend(dependencies(node))
    return seen


def _decided(node: Node, known: Ranges) -> Node:
    """The node itself, or the side that is taken of a guard whose conditions are known to hold, or one not to."""
    while isinstance(node, If):
        decisions = [holds(c, range_of(c[0], known)) for c in node.conditions]
        if False in decisions:
            node = node.otherwise
        elif None not in decisions:
            node = node.then
        else:
            break
    return node


def holds(condition: Condition, values: tuple[int, int]) -> bool | None:
    """Whether a condition holds whose expression has a value between these two, None if that is not known."""
    _, low, high = condition
    least, greatest = values
    if greatest < low or least >= high:
        return False
    return True if low <= least and greatest < high else None


# --- pieces that are alike


@dataclass
class _Structure:
    """What is done in a range of the variable, without the arrays that it is done with."""

    tokens: list[Any]
    """One per node, in the order in which a walk comes to them."""
    loads: list[tuple[BufferValue, int]]
    """The array of each load, and the constant in its address."""


def _structure(roots: Sequence[Node], var: Var, known: Ranges) -> _Structure:
    found = _Structure([], [])
    numbers: dict[int, int] = {}
    stored = {id(node) for node in roots}
    stack = list(reversed(roots))
    while stack:
        node = _decided(stack.pop(), known)
        if id(node) in numbers:
            found.tokens.append(numbers[id(node)])
            continue
        numbers[id(node)] = len(numbers)
        token, operands = _token(node, var, known, found.loads)
        found.tokens.append((token, node.dtype, id(node) in stored))
        stack.extend(reversed(operands))
    return found


def _token(node: Node, var: Var, known: Ranges, loads: list[tuple[BufferValue, int]]) -> tuple[Any, Sequence[Node]]:
    """What a node is apart from its array, and its operands; itself where nothing else is like it."""
    dynamic = any(v.node is not None for index in indices_of(node) for v, _ in index.terms)
    if isinstance(node, Op):
        return (node.operator, node.has_excess_precision, node.takes_excess_precision), node.operands
    if isinstance(node, Load) and not dynamic:
        loads.append((node.source, node.address.const))
        return node.address.terms, ()
    if isinstance(node, Constant):
        return repr(node.value), ()
    if isinstance(node, If) and not dynamic:
        undecided = tuple(c for c in node.conditions if holds(c, range_of(c[0], known)) is None)
        if not any(c[0].factor(var) for c in undecided):
            return undecided, (node.then, node.otherwise)
    return _itself(node, known, loads), ()


def _itself(node: Node, known: Ranges, loads: list[tuple[BufferValue, int]]) -> tuple[Any, ...]:
    """A node that is alike to itself alone, where all guards below it decide the same; its arrays are not others."""
    tokens: list[Any] = []
    for below in reached([node], known).values():
        tokens.append(id(below))
        if isinstance(below, Load):
            loads.append((below.source, 0))
        elif isinstance(below, If):
            tokens.append(tuple(holds(c, range_of(c[0], known)) for c in below.conditions))
    return tuple(tokens)


def _moved(first: _Structure, other: _Structure, fixed: Collection[BufferValue]) -> Moved | None:
    """Where the loads of another with the same tokens are; None where they are not alike."""
    moved: dict[BufferValue, tuple[BufferValue, int]] = {}
    for (source, const), (its_source, its_const) in zip(first.loads, other.loads, strict=True):
        to = its_source, its_const - const
        if moved.setdefault(source, to) != to:
            return None
    changed = {source: to for source, to in moved.items() if to != (source, 0)}
    arrays = {*changed, *(source for source, _ in changed.values())}
    return None if arrays.intersection(fixed) else changed
