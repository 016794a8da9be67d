"""What must hold of a loop nest: types, which variables there are where, and that no address leaves its array.

Addresses are tried: at the first and last iterations, and at random ones. What is computed only under conditions counts
where these hold.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Sequence

import numpy as np

from xloom.codegen.buffer_values import BufferValue, leaf_shapes
from xloom.codegen.loop_ir.affine import Affine, Var
from xloom.codegen.loop_ir.nest import LoopBody, LoopNest
from xloom.codegen.loop_ir.nodes import (
    AccumulatorValue,
    Clamp,
    If,
    Load,
    Node,
    Op,
    Quotient,
    Reduced,
    dependencies,
    indices_of,
    operands_of,
    post_order,
)
from xloom.errors import LoopIRError

_POINTS = 24
"""Iterations that are tried."""

Free = frozenset[int | tuple[str, int]]
"""Numbers of variables, and accumulators, that a value needs from outside."""


def verify_nest(nest: LoopNest) -> None:
    """Raises LoopIRError for a nest that breaks a rule."""
    for stage in nest.stages:
        _Verifier(nest, stage).verify()


class _Verifier:
    def __init__(self, nest: LoopNest, stage: LoopBody):
        self._stage = stage
        self._loops = {v.number for v in (*nest.outer, *stage.vars)}
        inside = [v.node for s in stage.stores for v, _ in s.address.terms if v.node is not None]
        self._nodes = post_order([*inside, *(s.node for s in stage.stores)])
        self._indices = [s.address for s in stage.stores] + [i for n in self._nodes for i in indices_of(n)]
        self._points: dict[int, np.ndarray] = {}
        """What each variable is, at the iterations that are tried."""
        self._random = np.random.default_rng(zlib.crc32(self._name.encode()))

    @property
    def _name(self) -> str:
        return ", ".join(f"%{s.target[0].name}" for s in self._stage.stores)

    def verify(self) -> None:
        """All rules."""
        known: set[int] = set()
        for node in self._nodes:
            self._check(all(id(n) in known for n in dependencies(node)), "a value that is computed from itself")
            known.add(id(node))
            self._types(node)
        for store in self._stage.stores:
            held, given = leaf_shapes(store.target[0].shape)[store.target[1]].dtype, store.node.dtype
            self._check(held is given, f"{given} is stored in an array of {held}")
        self._scopes()
        self._addresses()

    def _check(self, holds: bool, message: str) -> None:
        if not holds:
            raise LoopIRError(message, where=f"the loop nest of {self._name}")

    # -- types
    def _types(self, node: Node) -> None:
        if isinstance(node, Op):
            types = tuple(o.dtype for o in node.operands)
            self._check(
                types == node.operator.operand_types, f"{node.opcode} of {node.operator.operand_types}: {types}"
            )
            self._check(
                node.dtype is node.operator.dtype, f"{node.opcode} gives {node.operator.dtype}, not {node.dtype}"
            )
        elif isinstance(node, If):
            types = {node.dtype, node.then.dtype, node.otherwise.dtype}
            self._check(len(types) == 1, f"a choice between {node.then.dtype} and {node.otherwise.dtype}")
        elif isinstance(node, Load):
            held = leaf_shapes(node.source[0].shape)[node.source[1]].dtype
            self._check(held is node.dtype, f"{node.dtype} is loaded from an array of {held}")
        elif isinstance(node, Reduced):
            reduction = node.reduction
            for name, values in (("to", reduction.arguments), ("with", reduction.bodies)):
                self._check(
                    [v.dtype for v in values] == [i.dtype for i in reduction.inits],
                    f"a reduction of other types {name}",
                )
            self._check(
                node.dtype is reduction.inits[node.number].dtype, "a value of a reduction that has another type"
            )

    # -- variables
    def _scopes(self) -> None:
        free: dict[int, Free] = {}
        for node in self._nodes:
            found: set[int | tuple[str, int]] = set()
            for operand in operands_of(node) if not isinstance(node, Reduced) else ():
                found |= free[id(operand)]
            for index in indices_of(node):
                found |= self._free(index, free)
            if isinstance(node, AccumulatorValue):
                found.add(("accumulator", id(node)))
            if isinstance(node, Reduced):
                reduction = node.reduction
                for inner in (*reduction.elements, *reduction.bodies, *reduction.in_order):
                    found |= free[id(inner)]
                found -= {v.number for v in reduction.vars}
                found -= {("accumulator", id(a)) for a in reduction.arguments}
                for init in reduction.inits:
                    found |= free[id(init)]
            free[id(node)] = frozenset(found)
        for store in self._stage.stores:
            left = (free[id(store.node)] | self._free(store.address, free)) - self._loops
            self._check(not left, "a variable or an accumulator of no loop around it")

    def _free(self, index: Affine, free: dict[int, Free]) -> Free:
        parts = [free[id(v.node)] if v.node is not None else frozenset([v.number]) for v, _ in index.terms]
        return frozenset[int | tuple[str, int]]().union(*parts)

    # -- addresses
    def _addresses(self) -> None:
        variables = {v.number: v for index in self._indices for v, _ in index.terms}
        if any(v.size <= 0 for v in variables.values()):
            return
        for var in variables.values():
            if not isinstance(var.node, Quotient):
                self._points[var.number] = self._tried(var)
        quotients = {id(v.node): v for v in variables.values()}
        for node in self._nodes:  # of which a later one may have an index that an earlier one computes
            if isinstance(node, Quotient) and id(node) in quotients:
                whole = self._at(node.value)
                points = whole % node.by if node.remainder else whole // node.by
                self._points[quotients[id(node)].number] = points
        reached = self._reached()
        for node in self._nodes:
            if isinstance(node, Load):
                self._inside(node.source, node.address, reached[id(node)], "loads")
        for store in self._stage.stores:
            self._inside(store.target, store.address, np.ones(_POINTS, bool), "stores")

    def _tried(self, var: Var) -> np.ndarray:
        most = (
            (var.node.high if isinstance(var.node, Clamp) else var.size - 1) if var.node is not None else var.size - 1
        )
        points = self._random.integers(0, most + 1, _POINTS)
        points[0], points[1] = 0, most
        # the others are corners half of the time
        corners = self._random.integers(0, 4, _POINTS)
        points[2:][corners[2:] == 0] = 0
        points[2:][corners[2:] == 1] = most
        return points

    def _at(self, index: Affine) -> np.ndarray:
        total = np.full(_POINTS, index.const, np.int64)
        for var, factor in index.terms:
            total += factor * self._points[var.number]
        return total

    def _reached(self) -> dict[int, np.ndarray]:
        """At which of the points each node is computed."""
        reached = {id(node): np.zeros(_POINTS, bool) for node in self._nodes}
        everywhere: Sequence[Node] = [s.node for s in self._stage.stores]
        inside = [v.node for s in self._stage.stores for v, _ in s.address.terms if v.node is not None]
        for node in (*everywhere, *inside):
            reached[id(node)][:] = True
        for node in reversed(self._nodes):
            here = reached[id(node)]
            branches = {}
            if isinstance(node, If):
                holds = np.ones(_POINTS, bool)
                for index, low, high in node.conditions:
                    at = self._at(index)
                    holds &= (low <= at) & (at < high)
                reached[id(node.then)] |= here & holds
                reached[id(node.otherwise)] |= here & ~holds
                branches = {id(node.then), id(node.otherwise)}
            needed: Iterable[Node] = dependencies(node)
            if isinstance(node, Reduced):  # whose bodies may have its elements behind guards
                needed = (*node.reduction.inits, *node.reduction.bodies, *node.reduction.in_order)
            for operand in needed:
                if id(operand) not in branches:
                    reached[id(operand)] |= here
        return reached

    def _inside(self, value: BufferValue, address: Affine, reached: np.ndarray, verb: str) -> None:
        size = leaf_shapes(value[0].shape)[value[1]].size
        at = self._at(address)[reached]
        out = at[(at < 0) | (at >= size)]
        self._check(not out.size, f"it {verb} element {out[:1]} of %{value[0].name}, which has {size}")
