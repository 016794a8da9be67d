"""Stored instructions as loops and stores: the way from HLO to a loop nest."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from xloom.cpu.elements.dynamic import starts_of
from xloom.cpu.elements.reduce import fold_of
from xloom.cpu.loops.affine import Affine, Var, linear
from xloom.cpu.loops.nest import Store
from xloom.cpu.loops.nodes import Folded
from xloom.cpu.loops.trace import Factors, Split, Tracer, joined
from xloom.errors import LoweringError
from xloom.hlo.module import Instruction


def traced(
    roots: Sequence[Instruction], inlined: Collection[Instruction], factors: Factors | None = None
) -> tuple[Tracer, list[Var], list[Store]]:
    """Loops over the dimensions that all `roots` have, and the stores of each root's elements."""
    factors = {} if factors is None else factors
    while True:
        tracer = Tracer(inlined, factors)
        try:
            dims = loop_dims(roots[0])
            loops = [tracer.loops(d, size, "i") for d, size in enumerate(dims)]
            index = tuple(joined(group) for group in loops)
            stores: list[Store] = []
            for root in roots:
                address = linear(index, dims)
                if root.opcode == "reduce":
                    fold = fold_of(tracer, root, index, "reduced")
                    parts = root.shape.elements if root.shape.is_tuple else (root.shape,)
                    nodes = [Folded(part.dtype, fold, k) for k, part in enumerate(parts)]
                    stores += [Store((root, k), address, node) for k, node in enumerate(nodes)]
                elif root.opcode == "dynamic-update-slice":
                    stores.append(_update(tracer, root, index))
                else:
                    stores.append(Store((root, 0), address, tracer.root_element(root, index)))
            return tracer, [v for group in loops for v in group if v.size != 1], stores
        except Split:
            continue
        except RecursionError:
            raise LoweringError("a chain of operators too long for one kernel", where=roots[0].name) from None


def loop_dims(root: Instruction) -> tuple[int, ...]:
    """The dimensions that the loops of a stored instruction run over; a fold's own loops not counted."""
    if root.opcode == "dynamic-update-slice":
        return root._operands[1].shape.dims
    return root.shape.elements[0].dims if root.shape.is_tuple else root.shape.dims


def _update(tracer: Tracer, root: Instruction, index: tuple[Affine, ...]) -> Store:
    dims = root.shape.dims
    update = root._operands[1]
    limits = [d - n for d, n in zip(dims, update.shape.dims, strict=True)]
    starts = starts_of(tracer, list(root._operands[2:]), limits)
    place = tuple(s + i for s, i in zip(starts, index, strict=True))
    return Store((root, 0), linear(place, dims), tracer.element(update, index))
