"""Stored instructions as loops and stores: lowering from HLO to a loop nest."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from xloom.codegen.elemental.contraction import window_reduction
from xloom.codegen.elemental.dynamic import starts_of
from xloom.codegen.elemental.lowering import Factors, Split, Tracer, joined
from xloom.codegen.elemental.reduce import reduction_of
from xloom.codegen.loop_ir.affine import Affine, Var, linear
from xloom.codegen.loop_ir.nest import LoopBody, LoopNest, Store
from xloom.codegen.loop_ir.nodes import Reduced
from xloom.hlo.instruction import Instruction
from xloom.trampoline import run


def nest_for(stages: Sequence[Sequence[Instruction]], inlined: Collection[Instruction], rank: int = 0) -> LoopNest:
    """The loops of stages, each a list of instructions that are stored and run over the same dimensions.

    The first `rank` dimensions are those of all stages: the loops around them.
    """
    factors: Factors = {}
    while True:
        tracer = Tracer(inlined, factors)
        try:
            lead = loop_dims(stages[0][0])[:rank]
            outer = [tracer.loops(("outer", d), size, "i") for d, size in enumerate(lead)]
            made = [_stage(tracer, roots, [joined(v) for v in outer], number) for number, roots in enumerate(stages)]
            return LoopNest(_longer(outer), made, divided=any(len(sizes) > 1 for sizes in factors.values()))
        except Split:
            continue


def _stage(tracer: Tracer, roots: Sequence[Instruction], lead: list[Affine], number: int) -> LoopBody:
    dims = loop_dims(roots[0])
    inner = [tracer.loops((number, d), size, "i") for d, size in enumerate(dims[len(lead) :])]
    index = (*lead, *(joined(v) for v in inner))
    return LoopBody(_longer(inner), [s for root in roots for s in _stores(tracer, root, index, number)])


def _longer(loops: Sequence[Sequence[Var]]) -> list[Var]:
    return [v for group in loops for v in group if v.size != 1]


def _stores(tracer: Tracer, root: Instruction, index: tuple[Affine, ...], number: int) -> list[Store]:
    if root.opcode == "dynamic-update-slice":
        return [_update(tracer, root, index)]
    address = linear(index, loop_dims(root))
    if root.opcode == "reduce":
        reduction = run(reduction_of(tracer, root, index, ("reduced", number)))
    elif root.opcode == "reduce-window":
        reduction = run(window_reduction(tracer, root, index))
    else:
        return [Store((root, 0), address, tracer.root_element(root, index))]
    parts = root.shape.elements if root.shape.is_tuple else (root.shape,)
    return [Store((root, k), address, Reduced(part.dtype, reduction, k)) for k, part in enumerate(parts)]


def loop_dims(root: Instruction) -> tuple[int, ...]:
    """The dimensions that the loops of a stored instruction run over; a reduction's own loops not counted."""
    if root.opcode == "dynamic-update-slice":
        return root._operands[1].shape.dims
    return root.shape.elements[0].dims if root.shape.is_tuple else root.shape.dims


def _update(tracer: Tracer, root: Instruction, index: tuple[Affine, ...]) -> Store:
    dims = root.shape.dims
    update = root._operands[1]
    limits = [d - n for d, n in zip(dims, update.shape.dims, strict=True)]
    starts = run(starts_of(tracer, list(root._operands[2:]), limits))
    position = tuple(s + i for s, i in zip(starts, index, strict=True))
    return Store((root, 0), linear(position, dims), run(tracer.element(update, index)))
