"""A short row in whole vectors, the last of which begins before the end of the one before it.

What both have is computed twice: one at a time, the few elements that are left could take as long as all the others.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from xloom.codegen.loop_ir.affine import Var
from xloom.codegen.loop_ir.nest import LoopBody
from xloom.codegen.loop_ir.nodes import Load
from xloom.cpu.loops.emission import Elements
from xloom.cpu.loops.phases import Phases
from xloom.llvm.intrinsics import intrinsic
from xloom.llvm.loop import UNROLLED, VECTOR_ONLY, loop
from xloom.llvm.types import I64

_MANY = 16
"""Whole vectors of a row beside which it does not matter how the rest is computed."""


def may_overlap(code: Phases, stage: LoopBody, size: int, lanes: int) -> bool:
    """True where that pays for a row of `size` elements, and what is computed twice is the same twice.

    It is not where results are written over what they are computed from.
    """
    if size % lanes < 2 or not 1 <= size // lanes < _MANY:
        return False
    written = {id(code.pointers[store.target]) for store in stage.stores}
    read = [n for n in stage.nodes if isinstance(n, Load)]
    return not any(id(code.pointers[load.source]) in written for load in read)


@contextmanager
def overlapped_vectors(elements: Elements, inner: Var, lanes: int) -> Iterator[None]:
    """All iterations of `inner`, `lanes` at a time; what is emitted meanwhile is one iteration."""
    b = elements.b
    with loop(b, 0, inner.size, lanes, name="vector", hints=UNROLLED) as at:
        first = intrinsic(b, "smin", at, I64(inner.size - lanes))
        with loop(b, 0, lanes, name=inner.name, hints=VECTOR_ONLY) as lane:
            elements.vars[inner] = b.add(first, lane, flags=["nsw"])
            yield
