"""Graphs of a simulated driver: nodes run in an order that is drawn among those that their dependencies allow."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from xloom.cuda.simulated_driver.streams import Stream, Work


@dataclass(eq=False)
class Node:
    """Some work, or a conditional, after other nodes of its graph."""

    does: Work | Conditional
    after: Sequence[Node]


@dataclass(eq=False)
class Graph:
    """Nodes, each behind those it depends on."""

    nodes: list[Node] = field(default_factory=list)

    def add(self, does: Work | Conditional, after: Sequence[Node]) -> Node:
        """A new node."""
        node = Node(does, list(after))
        self.nodes.append(node)
        return node


@dataclass(eq=False)
class Conditional:
    """Bodies that run once, or as long as a condition holds."""

    is_while: bool
    body: Graph
    holds: Callable[[], bool]


@dataclass(eq=False)
class Capture:
    """What a stream is given while it makes a part of a graph."""

    graph: Graph
    last: Sequence[Node]
    """What the next node comes after."""
    thread: int
    """Who began it, and must not load modules meanwhile."""

    def add(self, work: Work) -> None:
        """A node of work."""
        self.last = [self.graph.add(work, self.last)]


@dataclass(eq=False)
class Executable:
    """A graph that can be launched."""

    graph: Graph

    def launch(self, stream: Stream, generator: np.random.Generator) -> None:
        """A stream does it after all that it was given before."""
        stream.waiting.extend(_works(self.graph, stream, generator))


def _works(graph: Graph, stream: Stream, generator: np.random.Generator) -> Iterator[Work]:
    for node in _drawn(graph, generator):
        does = node.does
        yield does if isinstance(does, Work) else Work(lambda c=does: _decide(c, stream, generator))


def _decide(conditional: Conditional, stream: Stream, generator: np.random.Generator) -> None:
    """Puts what a condition asks for before all else that the stream has to do."""
    if not conditional.holds():
        return
    works = [*_works(conditional.body, stream, generator)]
    if conditional.is_while:
        works.append(Work(lambda: _decide(conditional, stream, generator)))
    stream.waiting.extendleft(reversed(works))


def _drawn(graph: Graph, generator: np.random.Generator) -> Iterator[Node]:
    left, done = list(graph.nodes), set()
    while left:
        ready = [k for k, node in enumerate(left) if all(n in done for n in node.after)]
        node = left.pop(ready[int(generator.integers(len(ready)))])
        done.add(node)
        yield node
