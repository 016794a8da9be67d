"""What the device has recorded and not yet run, as a path in the tree of all that it ever recorded.

Each operator is a step from a node of the tree to another. A path that was gone before is followed at the price of one
look-up a step, which makes the node reached the exact key of the program to run; where a path leaves all known ones is
where, and why, there is something to compile.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from sys import getrefcount
from typing import TYPE_CHECKING, Any

import numpy as np

from xloom.pjrt.buffer import Buffer
from xloom.reference_counts import ONE_VARIABLE
from xloom.torch.lazy.recording import log, trimming
from xloom.torch.lazy.recording.source import Source, caller
from xloom.torch.lazy.tensor.array_type import ArrayType
from xloom.torch.metrics import METRICS

if TYPE_CHECKING:
    from xloom.torch.lazy.recording.signature import Signature
    from xloom.torch.lazy.recording.sized_program import OfOneSize
    from xloom.torch.lazy.recording.trace_program import TraceProgram


class Value:
    """An array that never changes: in a buffer, or a result of the trace.

    Within the trace of `epoch`, `index` says which: n for the n-th result, ~n for the n-th argument. The strides of its
    type are those that torch gives to a new tensor of it.
    """

    __slots__ = ("buffer", "epoch", "index", "type")

    def __init__(self, type: ArrayType, buffer: Buffer | None = None, epoch: int = -1, index: int = 0):
        self.type = type
        self.buffer = buffer
        self.epoch = epoch
        self.index = index


class Node:
    """A place in the tree: the steps that lead here from the root, and the programs that were compiled for them."""

    __slots__ = (
        *("depth", "ends", "next", "numbered", "parent"),
        *("programs", "refs", "signature", "source", "twin", "used"),
    )

    def __init__(
        self, parent: Node | None, signature: Signature | None, refs: tuple[int, ...], source: Source | None, depth: int
    ):
        self.parent = parent
        self.signature = signature
        self.refs = refs
        self.source = source
        self.depth = depth
        self.next: dict[tuple, Node] = {}
        self.numbered: set[tuple] = set()
        """The steps from here that have numbers which may change, without those."""
        self.programs: dict[tuple[int, ...], TraceProgram | OfOneSize] = {}
        self.twin: Node | None = None
        """The node of an earlier path that differs from the path to here in numbers only."""
        self.ends = False
        """Whether a program ends here, as what follows is the same after other ones."""
        self.used = 0
        """The epoch in which a program of this node ran last."""

    def alike(self, other: Node) -> bool:
        """Whether both are the same operator of the same results, but for numbers that one of them is given."""
        assert self.signature is not None and other.signature is not None
        return self.refs == other.refs and self.signature.is_like(other.signature)

    def path(self) -> list[Node]:
        """The nodes from the root to here."""
        nodes, node = [], self
        while node.parent is not None:
            nodes.append(node)
            node = node.parent
        return nodes[::-1]


class Trace:
    """The operators since the last run."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.after_operator: Callable[[], None] | None = None
        """Called when an operator was recorded, in eager mode."""
        self.run: Callable[[], None] | None = None
        """Runs what was recorded, where that may be done before it is asked for."""
        self.of_own_sizes: set[tuple[str, Source | None]] = set()
        """Operators, by name and line, of paths that differ in sizes and could not share a program."""
        self.roots: dict[str, Node] = {}
        self.nodes = self.programs = 0
        self.epoch = 0
        self.enter("")

    def enter(self, pipeline: str) -> None:
        """Begins in the tree of programs that a pipeline of passes goes over."""
        self.keeps_numbers = bool(pipeline)
        """Whether numbers stay part of their programs, for passes to see, rather than arguments of the run."""
        self.root = self.roots.setdefault(pipeline, Node(None, None, (), None, 0))
        self.begin()

    def begin(self) -> None:
        """Forgets what was recorded; the next operator is the first."""
        if self.nodes > trimming.MOST_NODES or self.programs > trimming.MOST_PROGRAMS:
            most = trimming.MOST_NODES // 2, trimming.MOST_PROGRAMS // 2
            self.nodes, self.programs = trimming.trim(self.roots.values(), *most)
        self.epoch += 1
        self.node = self.root
        self.results: list[Value] = []
        self.arguments: list[Buffer] = []
        self.scalars: list[float] = []
        self.left_known: Node | None = None
        """Where the path left all that were known."""

    def record(
        self, what: Sequence[Any], signature: Signature, inputs: Sequence[Value], scalars: Sequence[float]
    ) -> list[Value]:
        """Adds an operator; its results. `what` tells its signature from all others."""
        epoch = self.epoch
        refs: list[int] = []
        taken = len(self.arguments)
        for value in inputs:
            if value.epoch != epoch and not self._take(value):
                raise RuntimeError("this tensor's value is lost: the program that makes it did not compile")
            refs.append(value.index)
        edge = (*what, *refs)
        node = self.node.next.get(edge)
        if node is None:
            source = caller()
            grown = self._before_it_grew(signature, refs, source)
            if grown and self.results and self.run is not None:
                self._give_back(inputs, taken)
                self.run()
                return self.record(what, signature, inputs, scalars)
            if self.left_known is None:
                self.left_known = self.node
            node = Node(self.node, signature, tuple(refs), source, self.node.depth + 1)
            before = [self.node] if self.node.twin is None else [self.node, self.node.twin]
            node.ends = any(other.outputs == signature.outputs for other in grown)
            node.twin = next((each for at in before for each in at.next.values() if each.alike(node)), None)
            self.node.next[edge] = node
            self.nodes += 1
        return self.go(node, scalars)

    def _before_it_grew(self, signature: Signature, refs: list[int], source: Source | None) -> list[Signature]:
        """Operators of that line that were here before and differ in sizes of arguments, as of tokens that become more.

        What comes before it need not be compiled once more, nor what follows if its result is as large. Where sizes
        share programs, none of that is.
        """
        if self.run is None or self.keeps_numbers:  # passes are to see all of a program
            return []
        if (signature.name, source) not in self.of_own_sizes:
            return []
        found = []
        for each in self.node.next.values():
            other = each.signature
            assert other is not None
            if other.name == signature.name and list(each.refs) == refs and each.source == source:
                pairs = zip((*other.inputs, *other.outputs), (*signature.inputs, *signature.outputs), strict=False)
                taken = all(a is b or ref < 0 for ref, a, b in zip(refs, other.inputs, signature.inputs, strict=False))
                if taken and all(a.dtype is b.dtype and len(a.dims) == len(b.dims) for a, b in pairs):
                    found += [other] if other.inputs != signature.inputs else []
        return found

    def known(self, what: list[Any], inputs: Sequence[Value]) -> Node | None:
        """The node that such an operator leads to, if it was recorded here before; then its inputs are in the trace."""
        epoch = self.epoch
        edge = what[:]
        taken = len(self.arguments)
        node = None
        for value in inputs:
            if value.epoch != epoch and not self._take(value):
                break
            edge.append(value.index)
        else:
            node = self.node.next.get(tuple(edge))
        if node is None and len(self.arguments) > taken:
            self._give_back(inputs, taken)
        return node

    def _give_back(self, inputs: Sequence[Value], first: int) -> None:
        """Makes those of the inputs no arguments that are so from number `first` on."""
        for value in inputs:
            if value.epoch == self.epoch and ~value.index >= first:
                value.epoch = -1
        del self.arguments[first:]

    def _take(self, value: Value) -> bool:
        """Makes it an argument of the trace, if it has a buffer."""
        if value.buffer is None:
            return False
        value.epoch = self.epoch
        value.index = ~len(self.arguments)
        self.arguments.append(value.buffer)
        return True

    def changes(self, what: tuple, without_numbers: tuple, inputs: Sequence[Value]) -> bool:
        """True for an operator that is new here, or on the path before, where one differs in numbers only."""
        fresh: dict[Value, int] = {}
        first = ~len(self.arguments)
        refs = [v.index if v.epoch == self.epoch else fresh.setdefault(v, first - len(fresh)) for v in inputs]
        node, exact, edge = self.node, (*what, *refs), (*without_numbers, *refs)
        if exact in node.next:
            return False
        if edge in node.numbered or (node.twin and edge in node.twin.numbered and exact not in node.twin.next):
            return True
        node.numbered.add(edge)
        return False

    def go(self, node: Node, scalars: Sequence[float]) -> list[Value]:
        """Adds the operator that leads to a node which follows; its results."""
        METRICS.operators += 1
        self.node = node
        if scalars:
            self.scalars.extend(scalars)
        epoch = self.epoch
        results = self.results
        outputs = node.signature.outputs  # type: ignore[union-attr]
        if len(outputs) == 1:
            made = [Value(outputs[0], None, epoch, len(results))]
            results.append(made[0])
        else:
            first = len(results)
            made = [Value(each, None, epoch, first + k) for k, each in enumerate(outputs)]
            results.extend(made)
        if log.on:
            log.recorded(node)
        if self.after_operator is not None:
            self.after_operator()
        if node.ends and self.run is not None:
            self.run()
        return made

    def live(self) -> list[Value]:
        """The results that are still referenced."""
        return _wanted(self.results)

    def packed_scalars(self) -> np.ndarray:
        """The numbers that are run-time arguments, in the order of their use."""
        return np.array(self.scalars, np.float64)


def _wanted(values: list[Value]) -> list[Value]:
    """Those that not only the list refers to; a list of weak references would take twice the time to write."""
    return [value for value in values if getrefcount(value) > _UNWANTED]


_UNWANTED = 1 + ONE_VARIABLE  # the list

TRACE = Trace()
