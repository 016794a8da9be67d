"""Copies between buffers that happen as if all at once, one after another."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from xloom.codegen.buffers.allocation import BufferAllocation

Copies = Sequence[tuple[BufferAllocation, BufferAllocation]]
"""Targets and their sources."""


def one_by_one(
    pairs: Copies, temporary: Callable[[int], BufferAllocation]
) -> Iterator[tuple[BufferAllocation, BufferAllocation]]:
    """Each copy, target and source: sources that are targets too are first saved in memory of `temporary`."""
    pairs = [(t, s) for t, s in pairs if t is not s and t.nbytes]
    targets = {t for t, _ in pairs}
    saved: dict[BufferAllocation, BufferAllocation] = {}
    for _, source in pairs:
        if source in targets and source not in saved:
            saved[source] = temporary(source.nbytes)
            yield saved[source], source
    for target, source in pairs:
        yield target, saved.get(source, source)
