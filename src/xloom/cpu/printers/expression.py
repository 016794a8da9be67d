"""Loop bodies as pseudo-code: what is used several times, or is long, gets a name and a line of its own."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import pairwise
from types import MappingProxyType

from xloom.codegen.loop_ir.affine import Affine, Var
from xloom.codegen.loop_ir.nest import LoopNest
from xloom.codegen.loop_ir.nodes import (
    AccumulatorValue,
    Clamp,
    Constant,
    If,
    Index,
    Load,
    Node,
    Op,
    Quotient,
    Reduced,
    Reduction,
    indices_of,
    operands_of,
    walk,
)
from xloom.cpu.printers.names import element_text, index_text, scalar_text
from xloom.hlo.dtype import s64
from xloom.trampoline import Nested, each, run

WIDTH = 72
"""Characters of an expression that is still one line."""

_COMPOSED = frozenset(" ([")
_INFIX = {"add": "+", "subtract": "-", "multiply": "*", "divide": "/"}
_COMPARISONS = {"EQ": "==", "NE": "!=", "LT": "<", "LE": "<=", "GT": ">", "GE": ">="}


class Writer:
    """Lines of pseudo-code, and the names that are known at each place of it."""

    def __init__(self, nest: LoopNest):
        self.lines: list[str] = []
        self.joined: dict[Var, Affine] = {}
        """What loop variables are now that some loops are one."""
        self._uses = _uses(nest)
        self._indent = 0
        self._scopes: list[dict[int, str]] = [{}]
        self._accumulators: dict[int, str] = {}
        self._reductions = 0
        self._names = 0

    # -- lines
    def line(self, text: str) -> None:
        """A line at the present depth."""
        self.lines.append("  " * self._indent + text)

    @contextmanager
    def inside(self, head: str) -> Iterator[None]:
        """A deeper level under a line."""
        self.line(head)
        self._indent += 1
        with self.scope():
            yield
        self._indent -= 1

    @contextmanager
    def scope(self) -> Iterator[None]:
        """A part whose names are forgotten afterwards."""
        self._scopes.append({})
        yield
        self._scopes.pop()

    @contextmanager
    def loops(
        self,
        variables: Sequence[Var],
        shared: Collection[str] = (),
        cuts: Mapping[Var, Sequence[int]] = MappingProxyType({}),
    ) -> Iterator[None]:
        """Loops, outermost first; those of the names `shared` are shared among threads, others cut in pieces."""
        if not variables:
            yield
            return
        var, *rest = variables
        head = "parallel for" if var.name in shared else "for"
        own = cuts.get(var, ())
        pieces = ", ".join(f"{low}..{high}" for low, high in pairwise([0, *own, var.size]))
        note = f"  # in pieces: {pieces}" if own else ""
        with self.inside(f"{head} {var.name} in 0..{var.size}:{note}"), self.loops(rest, shared, cuts):
            yield

    # -- values
    def value(self, node: Node) -> str:
        """An expression for a node; what it needs is written before."""
        return run(self._value(node))

    def _value(self, node: Node) -> Nested[str]:
        for scope in reversed(self._scopes):
            if id(node) in scope:
                return scope[id(node)]
        text = yield self._text(node)
        if _is_composed(text) and (self._uses[id(node)] > 1 or len(text) > WIDTH):
            self._names += 1
            self.line(f"v{self._names} = {_bare(text)}")
            text = f"v{self._names}"
        self._scopes[-1][id(node)] = text
        return text

    def element(self, value: tuple, address: Affine) -> str:
        """An element of an array, as the source or target of an assignment."""
        return run(self._element(value, address))

    def _element(self, value: tuple, address: Affine) -> Nested[str]:
        return element_text(value, (yield self._defined(address)))

    def _index(self, index: Affine) -> Nested[str]:
        """An index expression; numbers that it takes from data are written before."""
        return index_text((yield self._defined(index)))

    def assign(self, target: str, value: str) -> None:
        """Writes the line `target = value`."""
        self.line(f"{target} = {_bare(value)}")

    def _defined(self, index: Affine) -> Nested[Affine]:
        for var, _ in index.terms:
            if var.node is None or any(id(var) in scope for scope in self._scopes):
                continue
            text = _bare((yield self._value(var.node)))
            if text != var.name:
                self.line(f"{var.name} = {text}")
            self._scopes[-1][id(var)] = var.name
        return index.substitute(self.joined)

    def _text(self, node: Node) -> Nested[str]:
        if isinstance(node, Op):
            return (yield self._applied(node))
        if isinstance(node, Load):
            return (yield self._element(node.source, node.address))
        if isinstance(node, Constant):
            return scalar_text(node.value)
        if isinstance(node, Index):
            return _grouped((yield self._index(node.value)))
        if isinstance(node, Quotient):
            index = yield self._index(node.value)
            return f"({_grouped(index)} {'%' if node.remainder else '//'} {node.by})"
        if isinstance(node, Clamp):
            return f"clamp(0, {_bare((yield self._value(node.operand)))}, {node.high})"
        if isinstance(node, AccumulatorValue):
            return self._accumulators[id(node)]
        if isinstance(node, If):
            return (yield self._guarded(node))
        assert isinstance(node, Reduced)
        return (yield self._reduction(node.reduction))[node.number]

    def _applied(self, node: Op) -> Nested[str]:
        values = yield each(map(self._value, node.operands))
        if _is_passed_on(node):
            return values[0]
        if node.opcode in _INFIX and len(values) == 2:
            return f"({values[0]} {_INFIX[node.opcode]} {values[1]})"
        symbol = _comparison(node)
        if symbol:
            return f"({values[0]} {symbol} {values[1]})"
        name = node.dtype.name if node.opcode in ("convert", "index-cast") else node.opcode
        return f"{name}({', '.join(map(_bare, values))})"

    def _guarded(self, node: If) -> Nested[str]:
        conditions = yield each(self._condition(*c) for c in node.conditions)
        condition = " and ".join(c for c in conditions if c) or "true"
        self._names += 1
        name = f"v{self._names}"
        for head, branch in ((f"if {condition}:", node.then), ("else:", node.otherwise)):
            with self.inside(head):
                self.assign(name, (yield self._value(branch)))
        return name

    def _condition(self, index: Affine, low: int, high: int) -> Nested[str]:
        text = yield self._index(index)
        parts = [f"{low} <= "] if index.low < low else []
        parts.append(text)
        if index.high >= high:
            parts.append(f" < {high}")
        return "".join(parts) if len(parts) > 1 else ""

    # -- reductions
    def start(self, reduction: Reduction) -> list[str]:
        """Writes a reduction's accumulators with their initial values; returns their names."""
        return run(self._start(reduction))

    def _start(self, reduction: Reduction) -> Nested[list[str]]:
        names = []
        for argument, init in zip(reduction.arguments, reduction.inits, strict=True):
            self._reductions += 1
            names.append(f"acc{self._reductions}")
            self._accumulators[id(argument)] = names[-1]
            self.assign(names[-1], (yield self._value(init)))
        return names

    def accumulate(self, reduction: Reduction, names: Sequence[str]) -> None:
        """Writes one more element into the accumulators."""
        run(self._accumulate_element(reduction, names))

    def _accumulate_element(self, reduction: Reduction, names: Sequence[str]) -> Nested[None]:
        if reduction.plain in _INFIX:
            self.line(f"{names[0]} {_INFIX[reduction.plain]}= {_bare((yield self._value(reduction.elements[0])))}")
            return
        values = yield each(map(self._value, reduction.bodies))
        self.line(f"{', '.join(names)} = {', '.join(map(_bare, values))}")

    def _reduction(self, reduction: Reduction) -> Nested[list[str]]:
        """Writes a whole reduction; returns the names of its values."""
        for scope in reversed(self._scopes):
            if id(reduction) in scope:
                return scope[id(reduction)].split()
        names = yield self._start(reduction)
        with self.loops(reduction.vars):
            yield self._accumulate_element(reduction, names)
        self._scopes[-1][id(reduction)] = " ".join(names)
        return names


def _uses(nest: LoopNest) -> Counter[int]:
    """How often each node is asked for."""
    stores = [store for stage in nest.stages for store in stage.stores]
    roots = [s.node for s in stores] + [v.node for s in stores for v, _ in s.address.terms if v.node is not None]
    uses = Counter(id(root) for root in roots)
    reductions: set[int] = set()  # several nodes are the values of one
    for node in walk(roots):
        if not isinstance(node, Reduced):
            uses.update(id(o) for o in operands_of(node))
        elif id(node.reduction) not in reductions:
            reductions.add(id(node.reduction))
            # the elements are asked for by the bodies
            uses.update(id(o) for o in (*node.reduction.inits, *node.reduction.bodies))
        uses.update(id(v.node) for index in indices_of(node) for v, _ in index.terms if v.node is not None)
    return uses


def _is_passed_on(node: Node) -> bool:
    """True for what is its operand in another guise."""
    return isinstance(node, Op) and (node.opcode == "alias" or (node.opcode == "index-cast" and node.dtype is s64))


def _comparison(node: Op) -> str:
    """The sign of a comparison of numbers, if there is one."""
    if node.opcode == "compare" and node.operator["type"] != "TOTALORDER":
        return _COMPARISONS[node.operator["direction"]]
    return node.operator["predicate"] if node.opcode == "predicate" else ""


def _is_composed(text: str) -> bool:
    """True for more than a name or a number."""
    return not _COMPOSED.isdisjoint(text)


def _grouped(text: str) -> str:
    """A sum in parentheses."""
    return f"({text})" if " " in text else text


def _bare(text: str) -> str:
    """An expression without parentheses around all of it."""
    if not (text.startswith("(") and text.endswith(")")):
        return text
    depth = 0
    for k, character in enumerate(text):
        depth += (character == "(") - (character == ")")
        if depth == 0 and k < len(text) - 1:
            return text
    return text[1:-1]
