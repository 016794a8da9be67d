"""Reductions that find where the greatest (or least) element is, first: JAX's and PyTorch's arg-max and arg-min.

Their computations compare indices where values are equal. While elements come in order there is no need: the one before
is the first. Where parts of a row are joined it counts, also of values that are NaN, whatever the computation says.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from xloom.codegen.loop_ir.nodes import AccumulatorValue, Constant, Index, Node, Op, Reduction
from xloom.codegen.loop_ir.scalar_ops import float_compare, logical, select
from xloom.hlo.dtype import Kind, pred
from xloom.trampoline import Nested, each, run

_WINS, _EQUALS, _LOSES, _IS_NAN, _MEETS_NAN, _BOTH_NAN = range(6)
"""How a kept value is to a new one."""
_FIRST = {_WINS: True, _EQUALS: True, _LOSES: False, _IS_NAN: True, _MEETS_NAN: False, _BOTH_NAN: True}
"""Whether it is kept, if it was before."""
_LAST = _FIRST | {_EQUALS: False}
"""The same if the new one was before; of two that are NaN, either."""
_NUMBERS = (_WINS, _EQUALS, _LOSES)
_ORDERS = {"GT": (1,), "GE": (0, 1), "LT": (-1,), "LE": (-1, 0), "EQ": (0,), "NE": (-1, 1)}
"""By direction, the signs of the difference for which it holds."""


def arg_extremum(reduction: Reduction, *, is_used: Sequence[bool]) -> Reduction:
    """The reduction of two values, of which some are used: if it is one of these, with less to compute.

    Which of several NaN is first is then definite, also where parts of a row are joined.
    """
    if not reduction.vars:
        return reduction
    for value, index in ((0, 1), (1, 0)):
        found = _Found(reduction, value, index)
        symbol = found.symbol if _is_increasing(reduction, index) else ""
        if symbol:
            simpler = _simplified(reduction, found, symbol, is_used[value])
            # the order in which several loops are done is open
            return simpler if len(reduction.vars) == 1 else replace(simpler, in_order=())
    return reduction


def _is_increasing(reduction: Reduction, number: int) -> bool:
    """True of elements that are greater with each iteration, and none less than what the reduction begins with."""
    node, init = reduction.elements[number], reduction.inits[number]
    while isinstance(node, Op) and node.opcode in ("alias", "index-cast"):
        (node,) = node.operands
    if not isinstance(node, Index) or not isinstance(init, Constant) or not reduction.elements[number].dtype.is_integer:
        return False
    inner = 0
    for var in reversed(reduction.vars):  # an iteration of a loop is more than all of those in it
        if node.value.factor(var) <= inner:
            return False
        inner += node.value.factor(var) * (var.size - 1)
    return int(init.value) <= node.value.low and _fits(reduction, number, node)


def _fits(reduction: Reduction, number: int, node: Index) -> bool:
    dtype = reduction.elements[number].dtype
    return node.value.high < 1 << dtype.bits - (dtype.kind is Kind.SIGNED)


class _Found:
    """A reduction of values and indices, as it decides which to keep."""

    def __init__(self, reduction: Reduction, value: int, index: int):
        self.value, self.index = value, index
        self._values = (reduction.arguments[value], reduction.elements[value])
        self._indices = (reduction.arguments[index], reduction.elements[index])
        self.value_choice = _choice(reduction.bodies[value], self._values)
        self.index_choice = _choice(reduction.bodies[index], self._indices)
        self._relations = tuple(_FIRST) if reduction.elements[value].dtype.is_float else _NUMBERS

    @property
    def symbol(self) -> str:
        """Greater for an arg-max, less for an arg-min, nothing for others."""
        if self.value_choice is None or self.index_choice is None:
            return ""
        for symbol in (">", "<"):
            index_tables = [self._table(self.index_choice, symbol, is_first) for is_first in (True, False)]
            values = [self._table(self.value_choice, symbol, is_first) for is_first in (True, False)]
            if (
                _agree(index_tables[0], _FIRST)
                and _agree(index_tables[1], _LAST, but=(_BOTH_NAN,))
                and all(_agree(v, _FIRST, but=(_EQUALS, _BOTH_NAN)) for v in values)
            ):
                return symbol
        return ""

    def keeps_first_value(self, symbol: str) -> bool:
        """Whether of equal values the first is kept."""
        assert self.value_choice is not None
        return self._table(self.value_choice, symbol, is_first=True)[_EQUALS] is True

    def _table(self, choice: tuple[Node, bool], symbol: str, is_first: bool) -> Mapping[int, bool | None]:
        condition, keeps = choice
        found = {}
        for relation in self._relations:
            known: dict[Node, bool | None] = {}
            holds = run(self._holds(condition, symbol, relation, is_first, known))
            found[relation] = None if holds is None else holds == keeps
        return found

    def _holds(
        self, node: Node, symbol: str, relation: int, is_first: bool, known: dict[Node, bool | None]
    ) -> Nested[bool | None]:
        """A condition's value; None of those that depend on more."""
        if node not in known:
            parts: list[bool | None] = []
            if isinstance(node, Op) and node.opcode != "compare":
                parts = yield each(self._holds(o, symbol, relation, is_first, known) for o in node.operands)
            known[node] = self._joined(node, parts, symbol, relation, is_first)
        return known[node]

    def _joined(
        self, node: Node, parts: Sequence[bool | None], symbol: str, relation: int, is_first: bool
    ) -> bool | None:
        """The same, with that of its operands."""
        if isinstance(node, Constant) and node.dtype is pred:
            return bool(node.value)
        if not isinstance(node, Op):
            return None
        if node.opcode == "compare":
            return self._compared(node, symbol, relation, is_first)
        if any(part is None for part in parts):
            return None
        if node.opcode == "not":
            return not parts[0]
        if node.opcode in ("and", "or", "xor"):
            first, second = parts
            return {"and": first and second, "or": first or second, "xor": first is not second}[node.opcode]
        return None

    def _compared(self, node: Op, symbol: str, relation: int, is_first: bool) -> bool | None:
        direction = node.operator["direction"]
        x, y = node.operands
        if node.operator["type"] == "TOTALORDER":
            return None
        if {id(x), id(y)} <= set(map(id, self._values)):
            if x is y:
                is_nan = relation == _BOTH_NAN or relation == (_IS_NAN if x is self._values[0] else _MEETS_NAN)
                order = None if is_nan else 0
            elif relation in _NUMBERS:
                order = {_WINS: 1, _EQUALS: 0, _LOSES: -1}[relation] * (1 if symbol == ">" else -1)
                order = order if x is self._values[0] else -order
            else:
                order = None
            return direction == "NE" if order is None else order in _ORDERS[direction]
        if {id(x), id(y)} == set(map(id, self._indices)):
            order = -1 if is_first == (x is self._indices[0]) else 1
            return order in _ORDERS[direction]
        return None


def _agree(table: Mapping[int, bool | None], wanted: Mapping[int, bool], but: tuple[int, ...] = ()) -> bool:
    return all(holds is not None and (holds == wanted[k] or k in but) for k, holds in table.items())


def _choice(body: Node, pair: tuple[AccumulatorValue, Node]) -> tuple[Node, bool] | None:
    """The condition on which one of two is chosen, and whether the first is if it holds."""
    if not isinstance(body, Op) or body.opcode != "select":
        return None
    condition, on_true, on_false = body.operands
    for keeps, (x, y) in ((True, pair), (False, pair[::-1])):
        if on_true is x and on_false is y:
            return condition, keeps
    return None


def _simplified(reduction: Reduction, found: _Found, symbol: str, value_is_used: bool) -> Reduction:
    kept, new = reduction.arguments[found.value], reduction.elements[found.value]
    before, after = reduction.arguments[found.index], reduction.elements[found.index]
    # kept >= new | isnan(kept) = the first, while elements come in order
    first = float_compare(f"{symbol}=", kept, new)
    joined = list(reduction.bodies)
    if kept.dtype.is_float:
        is_nan, meets_nan = float_compare("uno", kept, kept), float_compare("uno", new, new)
        first = logical("or", first, is_nan)
        # kept > new | isnan(kept) & !isnan(new) | (kept == new | isnan(kept) & isnan(new)) & before < after
        wins = logical("or", float_compare(symbol, kept, new), logical("and", is_nan, float_compare("ord", new, new)))
        equal = logical("or", float_compare("==", kept, new), logical("and", is_nan, meets_nan))
        condition = logical("or", wins, logical("and", equal, float_compare("<", before, after)))
        joined[found.index] = select(condition, before, after)
    in_order = list(reduction.bodies)
    in_order[found.index] = select(first, before, after)
    if found.keeps_first_value(symbol) or not value_is_used:
        in_order[found.value] = select(first, kept, new)
    return replace(reduction, bodies=tuple(joined), in_order=tuple(in_order))
