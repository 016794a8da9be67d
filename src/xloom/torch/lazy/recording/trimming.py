"""Forgetting programs: the tree of traces keeps those that ran latest."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from xloom.torch.lazy.recording.trace import Node

MOST_NODES = 100_000
MOST_PROGRAMS = 2_000
"""How large a tree may grow; what is left of it then is half of that."""
MOST_SIGNATURES = 10_000
"""So many of one operator are remembered: a loop's numbers may differ each time."""


def remember(known: dict[Any, Any], key: Any, made: Any) -> None:
    """Adds to an operator's records, which are dropped when there are too many."""
    if len(known) >= MOST_SIGNATURES:
        known.clear()
    known[key] = made


def trim(roots: Iterable[Node], most_nodes: int, most_programs: int) -> tuple[int, int]:
    """Leaves the paths to the programs that ran latest, at least to the last one; how many nodes and programs."""
    roots = list(roots)
    kept: dict[int, Node] = {}
    programs = 0
    for end in sorted(_ends(roots), key=lambda node: node.used, reverse=True):
        path = _new_part(end, kept)
        full = len(kept) + len(path) > most_nodes or programs + len(end.programs) > most_programs
        if full and programs:
            end.programs.clear()  # it may be on the way to others
            continue
        kept.update((id(node), node) for node in path)
        programs += len(end.programs)
    for node in [*roots, *kept.values()]:
        node.twin = None  # it may be forgotten
        node.next = {step: following for step, following in node.next.items() if id(following) in kept}
    return len(kept), programs


def _ends(roots: Iterable[Node]) -> list[Node]:
    found: list[Node] = []
    left = list(roots)
    while left:
        node = left.pop()
        if node.programs:
            found.append(node)
        left.extend(node.next.values())
    return found


def _new_part(end: Node, kept: dict[int, Node]) -> list[Node]:
    """The nodes from the first that is not kept to the end."""
    path = []
    node = end
    while node.parent is not None and id(node) not in kept:
        path.append(node)
        node = node.parent
    return path
