"""Pieces of a loop between which no guard on its variable changes, and those that do the same with other arrays."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from xloom.codegen.buffer_values import BufferValue
from xloom.codegen.loop_ir.affine import Affine, Var
from xloom.codegen.loop_ir.nodes import Constant, If, Load, Node, Op, dependencies, indices_of

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
    roots: Sequence[Node], var: Var, cuts: Sequence[int], fixed: Collection[BufferValue] | None, most_nodes: int
) -> list[Piece]:
    """The pieces between `cuts`; none where there are too many.

    Alike ones load from other arrays, but not from others in place of `fixed` ones. With None no two are alike.
    """
    ranges = list(pairwise([0, *cuts, var.size]))
    if len(ranges) <= FEW or fixed is None:
        if len(ranges) > PIECES:
            return []
        count = sum(len(_reached(roots, var, low)) for low, _ in ranges)
        return [Piece([r], [{}]) for r in ranges] if count <= most_nodes else []
    found: list[Piece] = []
    known: dict[tuple[Any, ...], list[tuple[Piece, _Structure]]] = {}
    for low, high in ranges:
        structure = _structure(roots, var, low)
        same = known.setdefault(tuple(structure.tokens), [])
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


def _reached(roots: Sequence[Node], var: Var, at: int) -> dict[int, Node]:
    """What `roots` are computed from where the variable has a value: of guards on it alone, one side."""
    seen: dict[int, Node] = {}
    stack = list(roots)
    while stack:
        node = _decided(stack.pop(), var, at)
        if id(node) not in seen:
            seen[id(node)] = node
            stack.extend(dependencies(node))
    return seen


def _decided(node: Node, var: Var, at: int) -> Node:
    """The node itself, or the side of a guard on the variable alone that is taken at a value."""
    while isinstance(node, If):
        holds = [_holds(c, at) for c in node.conditions if _is_on(c[0], var)]
        if not all(holds):
            node = node.otherwise
        elif len(holds) == len(node.conditions):
            node = node.then
        else:
            break
    return node


def _is_on(expression: Affine, var: Var) -> bool:
    return [v for v, _ in expression.terms] == [var]


def _holds(condition: tuple[Affine, int, int], at: int) -> bool:
    expression, low, high = condition
    return low <= expression.terms[0][1] * at + expression.const < high


# --- pieces that are alike


@dataclass
class _Structure:
    """What is done at a value of the variable, without the arrays that it is done with."""

    tokens: list[Any]
    """One per node, in the order in which a walk comes to them."""
    loads: list[tuple[BufferValue, int]]
    """The array of each load, and the constant in its address."""


def _structure(roots: Sequence[Node], var: Var, at: int) -> _Structure:
    found = _Structure([], [])
    numbers: dict[int, int] = {}
    stored = {id(node) for node in roots}
    stack = list(reversed(roots))
    while stack:
        node = _decided(stack.pop(), var, at)
        if id(node) in numbers:
            found.tokens.append(numbers[id(node)])
            continue
        numbers[id(node)] = len(numbers)
        token, operands = _token(node, var, found.loads)
        found.tokens.append((token, node.dtype, id(node) in stored))
        stack.extend(reversed(operands))
    return found


def _token(node: Node, var: Var, loads: list[tuple[BufferValue, int]]) -> tuple[Any, Sequence[Node]]:
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
        undecided = tuple(c for c in node.conditions if not _is_on(c[0], var))
        if not any(c[0].factor(var) for c in undecided):
            return undecided, (node.then, node.otherwise)
    return id(node), ()


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
