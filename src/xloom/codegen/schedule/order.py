"""The order of thunks, so that less memory is taken at a time."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from xloom.codegen.buffer_values import BufferValue, defining_values
from xloom.codegen.fusion.fusion_group import FusionGroup
from xloom.codegen.kernel_facts import unread_operands
from xloom.hlo.instruction import Instruction

Thunk = FusionGroup | Instruction
"""A loop nest, or an instruction with code of its own."""


def reads_of(thunk: Thunk) -> set[Instruction]:
    """What makes the arrays that a thunk reads, and what it waits for."""
    if isinstance(thunk, FusionGroup):
        return thunk.reads
    operands = {made for o in thunk._operands for made, _ in defining_values(o)}
    return operands.union(thunk.control_predecessors)


def values_read(thunk: Thunk) -> list[BufferValue]:
    """The arrays that a thunk reads."""
    if isinstance(thunk, FusionGroup):
        return thunk.values_read
    skipped = unread_operands(thunk)
    read = (o for k, o in enumerate(thunk._operands) if k not in skipped)
    return list(dict.fromkeys(value for o in read for value in defining_values(o)))


def made_by(thunk: Thunk) -> Sequence[Instruction]:
    """The instructions whose values a thunk stores."""
    return thunk.roots if isinstance(thunk, FusionGroup) else [thunk]


class _Release:
    """Goes through the thunks in their order, but does those that free more memory than they take as soon as it can."""

    def __init__(self, thunks: Sequence[Thunk], returned: Collection[Instruction]):
        self._made = [made_by(s) for s in thunks]
        self._returned = returned
        producer = {made: k for k, found in enumerate(self._made) for made in found}
        self._reads = [[m for m in reads_of(s) if m in producer] for s in thunks]
        self._readers: dict[Instruction, set[int]] = {m: set() for m in producer}
        self._waits_for = [{producer[m] for m in reads} - {k} for k, reads in enumerate(self._reads)]
        self._followers: list[list[int]] = [[] for _ in thunks]
        for k, reads in enumerate(self._reads):
            for made in reads:
                self._readers[made].add(k)
            for before in self._waits_for[k]:
                self._followers[before].append(k)
        self._left = [len(w) for w in self._waits_for]
        self._done = [False] * len(thunks)
        self.order: list[int] = []

    def run(self) -> list[int]:
        """The numbers of the thunks in their new order."""
        for k in range(len(self._made)):
            candidates = [k]
            while candidates:
                number = candidates.pop()
                is_next = number == k or (self._left[number] == 0 and self._gain(number) > 0)
                if not self._done[number] and is_next:
                    candidates += self._do(number)
        return self.order

    def _do(self, k: int) -> list[int]:
        """Does a thunk; returns those that it may have made worth doing."""
        self._done[k] = True
        self.order.append(k)
        found: list[int] = []
        for made in self._reads[k]:
            self._readers[made].discard(k)
            if len(self._readers[made]) == 1:
                found += self._readers[made]
        for follower in self._followers[k]:
            self._left[follower] -= 1
            if not self._left[follower]:
                found.append(follower)
        return sorted(found, reverse=True)  # taken from the end: the earliest thunk first

    def _gain(self, k: int) -> int:
        """Bytes that are free after a thunk and were not before."""
        freed = sum(m.shape.nbytes for m in self._reads[k] if m not in self._returned and self._readers[m] == {k})
        return freed - sum(m.shape.nbytes for m in self._made[k] if m not in self._returned and self._readers[m])


def freeing_first(thunks: Sequence[Thunk], returned: Collection[Instruction]) -> list[Thunk]:
    """Thunks that free more than they take come as early as they can; `returned` are results, which are never free."""
    return [thunks[k] for k in _Release(thunks, returned).run()]


def filled_late(thunks: Sequence[Thunk]) -> list[Thunk]:
    """What reads nothing goes to just before its first reader, so that it takes no memory until then."""
    first: dict[Instruction, int] = {}
    for k, thunk in enumerate(thunks):
        for made in reads_of(thunk):
            first.setdefault(made, k)

    def position(k: int) -> tuple[int, bool]:
        thunk = thunks[k]
        if not isinstance(thunk, FusionGroup) or thunk.reads or any(r.control_successors for r in thunk.roots):
            return k, True
        readers = [first[r] for r in thunk.roots if r in first]
        return (min(readers), False) if readers else (k, True)

    return [thunks[k] for k in sorted(range(len(thunks)), key=position)]
