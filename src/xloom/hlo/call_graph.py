"""The order in which computations call each other."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator

from xloom.hlo.computation import Computation
from xloom.hlo.instruction import CALLERS


def callees_first(tops: Iterable[Computation], done: Container[Computation] = ()) -> list[Computation]:
    """`tops` and everything they call, directly or not, each once and after all that it calls; but nothing in `done`.

    The first call comes first, as in XLA. But XLA notes a callee when it meets the call, and so may put one that an
    inner loop calls too after that loop, where no parser of HLO text accepts it.
    """
    seen: set[Computation] = set()
    order: list[Computation] = []
    for top in tops:
        stack: list[tuple[Computation, Iterator[Computation]]] = []
        if top not in seen and top not in done:
            seen.add(top)
            stack.append((top, _callees(top)))
        while stack:
            computation, rest = stack[-1]
            callee = next((c for c in rest if c not in seen and c not in done), None)
            if callee is None:
                stack.pop()
                order.append(computation)
            else:
                seen.add(callee)
                stack.append((callee, _callees(callee)))
    return order


def _callees(computation: Computation) -> Iterator[Computation]:
    for instruction in computation._instructions:
        if instruction.opcode in CALLERS:
            yield from instruction.called_computations
