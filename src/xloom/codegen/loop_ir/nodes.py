"""What one element is: a graph of loads, constants, indices and scalar operators."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from xloom.codegen.buffer_values import BufferValue
from xloom.codegen.loop_ir.affine import Affine, Var
from xloom.codegen.ops import OP_ROWS
from xloom.hlo.dtype import DType
from xloom.llvm.scalar.operator import Operator


@dataclass(eq=False)
class Node:
    """An expression of a loop body, of which each iteration has one scalar of type `dtype`."""

    dtype: DType


@dataclass(eq=False)
class Constant(Node):
    """The only element of a scalar constant."""

    value: Any


@dataclass(eq=False)
class Load(Node):
    """An element of an array."""

    source: BufferValue
    address: Affine


@dataclass(eq=False)
class Index(Node):
    """An index expression as an s64, or its low half as an s32."""

    value: Affine


@dataclass(eq=False)
class Quotient(Node):
    """An index divided by a constant, where that is not an index expression; or what is left of it."""

    value: Affine
    by: int
    remainder: bool


@dataclass(eq=False)
class Clamp(Node):
    """An integer that the program computes, as an s64 clamped to [0, high]."""

    operand: Node
    high: int


@dataclass(eq=False)
class Op(Node):
    """A scalar operator of operands; `loop_ir.scalar_ops` makes them."""

    operator: Operator
    operands: tuple[Node, ...]
    has_excess_precision: bool = False
    """It is a narrow float, computed with more digits than it has; whoever stores it rounds it."""
    takes_excess_precision: bool = False
    """Its operands may be such."""

    @property
    def opcode(self) -> str:
        """The HLO opcode of the operator."""
        return self.operator.opcode

    @property
    def cost(self) -> int:
        """The cost of its arithmetic, in additions."""
        return OP_ROWS[self.opcode].cost if self.opcode in OP_ROWS else OWN_COSTS[self.opcode]


OWN_COSTS = {
    "alias": 0,
    "bitcast-element": 1,
    "bitcast-part": 1,
    "bitcast-parts": 1,
    "index-cast": 0,
    "log-plus-one-of-fraction": 12,
    "predicate": 1,
    "rotate-left": 2,
}
"""Opcodes of the loop IR that are none of HLO, and their costs."""


Condition = tuple[Affine, int, int]
"""`low <= index < high`."""


@dataclass(eq=False)
class If(Node):
    """`then` where every condition holds, else `otherwise`; the other one is not computed."""

    conditions: tuple[Condition, ...]
    then: Node
    otherwise: Node


@dataclass(eq=False)
class AccumulatorValue(Node):
    """What a reduction has accumulated so far: its value number `number`."""

    number: int


@dataclass(eq=False)
class Reduction:
    """Values accumulated over loops: `state = body(state, elements)`, from `inits`."""

    vars: tuple[Var, ...]
    inits: tuple[Node, ...]
    arguments: tuple[AccumulatorValue, ...]
    bodies: tuple[Node, ...]
    elements: tuple[Node, ...]
    plain: str = ""
    """The opcode, when the body is one operator of one accumulator and one element."""
    in_order: tuple[Node, ...] = ()
    """What is as good as `bodies` for elements that come one after another, where that is less."""


@dataclass(eq=False)
class Reduced(Node):
    """Value `number` of a reduction."""

    reduction: Reduction
    number: int


def operands_of(node: Node) -> Sequence[Node]:
    """The nodes that a node is computed from; of a reduction, not what is inside its loops."""
    if isinstance(node, Op):
        return node.operands
    if isinstance(node, If):
        return (node.then, node.otherwise)
    if isinstance(node, Clamp):
        return (node.operand,)
    if isinstance(node, Reduced):
        return (*node.reduction.inits, *node.reduction.elements)
    return ()


def indices_of(node: Node) -> Sequence[Affine]:
    """The index expressions in a node itself."""
    if isinstance(node, Load):
        return (node.address,)
    if isinstance(node, (Index, Quotient)):
        return (node.value,)
    if isinstance(node, If):
        return tuple(c[0] for c in node.conditions)
    return ()


def walk(roots: Sequence[Node], *, guarded: bool = True) -> list[Node]:
    """Every node that `roots` are computed from, each once, those inside reductions and inside indices too.

    Without `guarded`, not what is computed only where a guard's conditions hold, or only where they do not.
    """
    seen: dict[int, Node] = {}
    stack = list(roots)
    while stack:
        node = stack.pop()
        if id(node) in seen:
            continue
        seen[id(node)] = node
        if isinstance(node, Op):  # as most are
            stack.extend(node.operands)
            continue
        if guarded or not isinstance(node, If):
            stack.extend(operands_of(node))
        if isinstance(node, Reduced):
            stack.extend(node.reduction.bodies)
        for index in indices_of(node):
            stack += [v.node for v, _ in index.terms if v.node is not None]
    return list(seen.values())


def has_changing_numbers(index: Affine, loops: Sequence[Var]) -> bool:
    """True where a number that the program computes for an index expression changes along loops."""
    computed = walk([v.node for v, _ in index.terms if v.node is not None])
    return any(i.factor(v) for n in computed for i in indices_of(n) for v in loops)


def dependencies(node: Node) -> Iterator[Node]:
    """All nodes that are computed before a node: its operands, what is inside a reduction, and numbers in indices."""
    yield from operands_of(node)
    if isinstance(node, Reduced):
        yield from node.reduction.bodies
        yield from node.reduction.in_order
    for index in indices_of(node):
        for var, _ in index.terms:
            if var.node is not None:
                yield var.node


def post_order(roots: Sequence[Node]) -> list[Node]:
    """Every node that `roots` are computed from, each once, after those that it is computed from."""
    found: dict[int, Node] = {}
    begun: set[int] = set()
    stack = list(reversed(roots))
    while stack:
        node = stack[-1]
        if id(node) in begun:
            stack.pop()
            found.setdefault(id(node), node)
            continue
        begun.add(id(node))
        stack.extend(n for n in reversed(list(dependencies(node))) if id(n) not in begun)
    return list(found.values())
