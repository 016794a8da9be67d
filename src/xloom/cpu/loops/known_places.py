"""Elements of small arrays one by one, at places that are known: what they are computed from stays in registers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product

from xloom.codegen.loop_ir.affine import Var
from xloom.cpu.loops.emission import Elements
from xloom.llvm.types import I64


def known_places(elements: Elements, loops: Sequence[Var]) -> Iterator[None]:
    """Yields where each iteration of the loops is emitted."""
    elements.b.is_alone = True
    for places in product(*(range(v.size) for v in loops)):
        with elements.scope():
            for var, place in zip(loops, places, strict=True):
                elements.vars[var], elements.ranges[var] = I64(place), (place, place)
            yield
    for var in loops:
        del elements.ranges[var]
