"""Scatters as loops over their updates: where each element goes, and what it is."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from xloom.codegen.elemental.lowering import Factors, Split, Tracer, joined
from xloom.codegen.elemental.scatter_plan import ScatterPlan
from xloom.codegen.loop_ir.affine import Affine, Var, constant
from xloom.codegen.loop_ir.nest import LoopBody, Store, merged
from xloom.codegen.loop_ir.nodes import Node
from xloom.hlo.instruction import Instruction
from xloom.trampoline import run


@dataclass(frozen=True)
class ScatterNest:
    """Loops, outermost first, and the nodes of an index vector and of an update in them."""

    batches: Sequence[Var]
    """Over indices whose updates never meet."""
    updates: Sequence[Var]
    """Over all other indices."""
    window: Sequence[Var]
    starts: Sequence[Node]
    """The numbers of the index vector, as in the plan's `starts`."""
    base: Affine
    """Where in the operand an element goes, but for what the index vector says."""
    values: Sequence[Node]
    """The element of each array of updates."""


def scatter_nest(scatter: Instruction, plan: ScatterPlan, inlined: Collection[Instruction] = ()) -> ScatterNest:
    """The loops of a scatter, of whose indices and updates `inlined` are computed where they are used."""
    factors: Factors = {}
    while True:
        try:
            return _nest(scatter, plan, Tracer(inlined, factors))
        except Split:
            continue


def _nest(scatter: Instruction, plan: ScatterPlan, tracer: Tracer) -> ScatterNest:
    indices, *updates = scatter._operands[plan.count :]
    at, window_dims = scatter["index_vector_dim"], sorted(scatter["update_window_dims"])
    loops = [tracer.loops(("update", u), size, "i") for u, size in enumerate(updates[0].shape.dims)]
    index = tuple(map(joined, loops))
    outer = [u for u in range(len(index)) if u not in window_dims]
    # the dimensions of the indices but for the vector's own, in the order of those of the updates
    place = dict(zip([k for k in range(indices.shape.rank) if k != at], outer, strict=True))

    base = constant(0)
    left_out = {*scatter["inserted_window_dims"], *scatter["input_batching_dims"]}
    kept = [d for d in range(len(plan.strides)) if d not in left_out]
    for d, u in zip(kept, window_dims, strict=True):
        base += index[u] * plan.strides[d]
    batches = [place[k] for k in scatter["scatter_indices_batching_dims"]]
    for d, u in zip(scatter["input_batching_dims"], batches, strict=True):
        base += index[u] * plan.strides[d]

    starts: list[Node] = []
    for column in range(len(plan.starts)):
        vector = [index[u] for u in outer]
        if at < indices.shape.rank:
            vector.insert(at, constant(column))
        starts.append(run(tracer.element(indices, tuple(vector))))
    values = [run(tracer.element(update, index)) for update in updates]

    target = (scatter, 0)
    stage = LoopBody([], [*(Store(target, base, v) for v in values), *(Store(target, constant(0), s) for s in starts)])

    def along(dims: Iterable[int]) -> Sequence[Var]:
        return merged([stage], [v for u in dims for v in loops[u] if v.size != 1])[0]

    others = (u for u in outer if u not in batches)
    return ScatterNest(along(sorted(batches)), along(others), along(window_dims), starts, base, values)
