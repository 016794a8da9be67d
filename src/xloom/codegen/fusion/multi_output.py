"""Stored instructions that one loop nest can do together: they run over the same loops and share what they read."""

from __future__ import annotations

import math

from xloom.codegen import thresholds
from xloom.codegen.buffer_values import BufferValue, defining_values, leaf_shapes
from xloom.codegen.elemental.loop_nests import loop_dims, nest_for
from xloom.codegen.fusion.fusion_group import FusionGroup, inlined_by, is_fusible
from xloom.codegen.fusion.producer_consumer import COST_LIMIT, Fusion
from xloom.codegen.loop_ir.affine import Affine, Var
from xloom.codegen.loop_ir.nest import (
    LoopBody,
    LoopNest,
    element_cost,
    loaded_values,
    node_count,
    nodes_of,
    reductions_of,
)
from xloom.codegen.loop_ir.nodes import If, Load, walk
from xloom.codegen.loop_ir.strided_loads import strided_loads
from xloom.codegen.schedule.order import Thunk, filled_late, freeing_first, reads_of
from xloom.codegen.schedule.overwriting_last import overwriting_last
from xloom.hlo.instruction import Instruction

NODES = 360
"""In the expressions of a nest: LLVM has more to do than with two nests, but these pass arrays on through memory."""
ROOTS = 24
WINDOW = 24
"""How many thunks back a nest looks for another to join."""
LEAST_ROWS = 8
SHORTEST_ROW = 64
ROW_BYTES = 1 << 18
"""Rows that are done stage by stage: at least so many, at least so long, of at most so many bytes."""
_NOTHING_SHARED = "they share nothing that they read"

Refusals = dict[tuple[Instruction, Instruction], str]
"""Why the second instruction is not in the loop nest of the first."""


def thunks_of(fusion: Fusion, refusals: Refusals | None = None) -> list[Thunk]:
    """The computation's thunks in an order that they can run in; `refusals` gets what was asked on the way."""
    thunks: list[Thunk] = []
    for instruction in fusion.order:
        if instruction not in fusion.stored:
            continue
        if is_fusible(instruction) and instruction.opcode != "constant":
            group = FusionGroup([[instruction]], inlined_by([instruction], fusion.stored))
            _fuse_or_append(thunks, group, fusion, refusals)
        else:
            thunks.append(instruction)
    returned = {made for made, _ in defining_values(fusion.root)}
    return filled_late(overwriting_last(freeing_first(thunks, returned), fusion.root))


def _waiting(made: set[Instruction]) -> str:
    return f"%{min(i.name for i in made)} is made between them, which the later one reads"


def _fuse_or_append(thunks: list[Thunk], group: FusionGroup, fusion: Fusion, refusals: Refusals | None) -> None:
    """Appends a group, or joins it to an earlier one."""
    (root,) = group.roots
    reads, stored, together = group.reads, fusion.stored, fusion.together
    if root.opcode != "dynamic-update-slice":
        between: set[Instruction] = set()  # made by thunks after the candidate
        for k in range(len(thunks) - 1, max(-1, len(thunks) - 1 - WINDOW), -1):
            thunk = thunks[k]
            made = thunk.made if isinstance(thunk, FusionGroup) else {thunk}
            if isinstance(thunk, FusionGroup):
                if made.isdisjoint(reads) and thunk.reads.isdisjoint(reads):
                    joined: FusionGroup | str = _NOTHING_SHARED
                elif waits := reads & between:
                    joined = _waiting(waits)
                elif any(together.get(other) is not together.get(root) for other in thunk.roots):
                    joined = "one of them is of an expression that was cut, with another that shares what is costly"
                else:
                    joined = _joined(thunk, group, stored)
                if isinstance(joined, FusionGroup):
                    thunks[k] = joined
                    _absorb(thunks, k, stored)
                    return
                if refusals is not None:
                    refusals.update({(other, root): joined for other in thunk.roots})
            between |= made
    thunks.append(group)


def _absorb(thunks: list[Thunk], at: int, stored: set[Instruction]) -> None:
    """Joins a group of rows with an earlier group that it reads, unless something in between reads that too."""
    group = thunks[at]
    if not isinstance(group, FusionGroup) or not group.rank:
        return
    for k in range(at - 1, max(-1, at - 1 - WINDOW), -1):
        thunk = thunks[k]
        if not isinstance(thunk, FusionGroup) or not group.reads & thunk.made:
            continue
        roots = [*thunk.roots, *group.roots]
        waits = any(reads_of(s) & thunk.made for s in thunks[k + 1 : at])
        if waits or len(roots) > ROOTS or any(r.opcode == "dynamic-update-slice" for r in roots):
            continue
        joined = _grouped([*thunk.stages, *group.stages], group.rank, stored) if _fits_rows(roots, group.rank) else ""
        if isinstance(joined, FusionGroup):
            thunks[at] = joined
            del thunks[k]
            return


def _joined(thunk: FusionGroup, single: FusionGroup, stored: set[Instruction]) -> FusionGroup | str:
    """One group of a group and that of one instruction; why not, where that is not possible or not worth it."""
    (root,), reads = single.roots, single.reads
    if len(thunk.roots) >= ROOTS:
        return f"a loop nest stores {ROOTS} arrays at most"
    if any(r.opcode == "dynamic-update-slice" for r in thunk.roots):
        return "a dynamic-update-slice has a loop nest of its own"
    produced = bool(reads & thunk.made)
    reason = _NOTHING_SHARED
    if produced or _shares(thunk, reads):
        reason = "their loops are different"
        last = thunk.stages[-1]
        if all(_loops(r) == _loops(root) for r in last):
            group = None if produced else _beside(thunk, single)
            group = group or _grouped([*thunk.stages[:-1], [*last, root]], thunk.rank, stored)
            if isinstance(group, FusionGroup):
                return group
            reason = group
    most = thunk.rank or _row_rank(thunk, root)
    if produced and not thunk.rank and _is_transposed(thunk):
        return "it reads columns, as tiles or side by side, which rows done one after another are not"
    for rank in range(most, min(most, thunk.rank or 1) - 1, -1) if produced and most else ():
        if _fits_rows([*thunk.roots, root], rank):
            return _grouped([*thunk.stages, [root]], rank, stored)
    return reason


def _beside(thunk: FusionGroup, single: FusionGroup) -> FusionGroup | None:
    """One group of two over the same loops that do not need each other, if it is short whatever they share."""
    # nodes(a and b) <= nodes(a) + nodes(b), and so costs; not where one divides loops that the other has whole
    nodes, cost = (a + b for a, b in zip(thunk.size, single.size, strict=True))
    if thunk.rank or nodes > NODES or cost > COST_LIMIT or thunk.is_divided or single.is_divided:
        return None
    group = FusionGroup([[*thunk.roots, *single.roots]], thunk.inlined | single.inlined, most=(nodes, cost))
    group.reads = thunk.reads | single.reads
    return group


def _loops(root: Instruction) -> tuple:
    """What two roots must have in common to share loops."""
    if root.opcode == "reduce":
        return ("reduce", root._operands[0].shape.dims, tuple(sorted(root["dimensions"])))
    return ("map", loop_dims(root))


def _shares(thunk: FusionGroup, reads: set[Instruction]) -> bool:
    both = reads & thunk.reads
    return any(i.shape.is_tuple or i.shape.size > 1 for i in both)


def _row_rank(thunk: FusionGroup, root: Instruction) -> int:
    """How many dimensions the rows of a reduction have around them at most; 0 when there is none."""
    for candidate in (*thunk.roots, root):
        if candidate.opcode == "reduce":
            return min(candidate["dimensions"], default=0)
    return 0


def _is_transposed(thunk: FusionGroup) -> bool:
    """Whether it reads an array across its rows that is too large for a near cache to have the lines until they are
    read again."""
    (stage,) = thunk.nest.stages
    reduced = [var for reduction in reductions_of(stage)[:1] for var in reduction.vars]
    crossed = strided_loads(stage, [*stage.vars, *reduced])
    return crossed is not None and any(_nbytes(load.source) > ROW_BYTES for load in crossed[1])


def _nbytes(value: BufferValue) -> int:
    instruction, leaf = value
    return leaf_shapes(instruction.shape)[leaf].nbytes


def _fits_rows(roots: list[Instruction], rank: int) -> bool:
    """True when all roots have the same outer dimensions, enough of them for the threads, and rows that fit a cache."""
    lead = loop_dims(roots[0])[:rank]
    if len(lead) != rank or math.prod(lead) < LEAST_ROWS:
        return False
    kept, longest = 0, 0
    for root in roots:
        if loop_dims(root)[:rank] != lead or (root.opcode == "reduce" and min(root["dimensions"], default=0) < rank):
            return False
        whole = root._operands[0].shape.dims if root.opcode == "reduce" else loop_dims(root)
        longest = max(longest, math.prod(whole[rank:]))
        kept += math.prod(loop_dims(root)[rank:]) * 8
    return longest >= SHORTEST_ROW and kept <= ROW_BYTES


def _grouped(stages: list[list[Instruction]], rank: int, stored: set[Instruction]) -> FusionGroup | str:
    """The group; why not, if it is too long or reads what it makes before it is made, or out of another row."""
    roots = {r for stage in stages for r in stage}
    inlined = inlined_by(list(roots), stored) - roots
    nest = nest_for(stages, inlined, rank)
    if node_count(nest) > NODES:
        return f"a loop nest has {NODES} operators at most"
    if not rank and element_cost(nest) > COST_LIMIT:
        return f"an iteration of a loop nest costs {COST_LIMIT} additions at most"
    if rank and not nest.outer:
        return "there is one row"
    made: dict[BufferValue, tuple[Affine, int]] = {}
    for stage in nest.stages:
        for node in stage.loads:
            if node.source[0] not in roots:
                continue
            if node.source not in made or not _reads_row(nest.outer, node, stage, *made[node.source]):
                return f"it reads %{node.source[0].name} elsewhere than where the same iteration has written"
        for store in stage.stores:
            root, _ = store.target
            made[store.target] = (store.address, math.prod(loop_dims(root)[rank:]))
    group = FusionGroup(stages, inlined, rank)
    group.nest = nest
    return group


def same_row(outer: list[Var], load: Affine, store: Affine, size: int) -> bool:
    """True when a load sees only the elements that the same iteration of the outer loops has stored."""
    rest = _in_row(outer, load, store)
    return rest is not None and rest.low >= 0 and rest.high < size


def _in_row(outer: list[Var], load: Affine, store: Affine) -> Affine | None:
    """Where a load lies in the row of the same iteration of the outer loops; None where it goes along others."""
    if any(load.factor(v) != store.factor(v) for v in outer):
        return None
    return Affine(load.const, tuple(t for t in load.terms if t[0] not in outer))


def _reads_row(outer: list[Var], load: Load, stage: LoopBody, store: Affine, size: int) -> bool:
    """`same_row`, also of a load that is done only where its index is in the row, as the stage's single guard says."""
    if same_row(outer, load.address, store, size):
        return True
    index, guards = _in_row(outer, load.address, store), [node for node in nodes_of(stage) if isinstance(node, If)]
    if index is None or len(guards) != 1 or load in walk([s.node for s in stage.stores], guarded=False):
        return False
    (guard,) = guards
    if load in walk([guard.otherwise]):
        return False
    gaps = ((index - where, low, high) for where, low, high in guard.conditions)
    return any(gap.is_constant and low + gap.const >= 0 and high + gap.const <= size for gap, low, high in gaps)


def nest_of(group: FusionGroup, kept: set[BufferValue]) -> LoopNest:
    """The group's loops. Of what nothing outside reads only what later stages read is stored, in private memory."""
    inside = set(loaded_values(group.nest))
    private: set[BufferValue] = set()
    stages = []
    for stage in group.nest.stages:
        stores = [s for s in stage.stores if s.target in kept or s.target in inside]
        private.update(s.target for s in stores if s.target not in kept)
        if stores:
            stages.append(LoopBody(stage.vars, stores))
    returned = {s.target for stage in stages for s in stage.stores if _is_returned(s.target)}
    return LoopNest(group.nest.outer, stages, private, returned)


def _is_returned(value: BufferValue) -> bool:
    instruction, _ = value
    computation = instruction.parent
    if computation is None or not computation.is_entry or _nbytes(value) < thresholds.RETURNED:
        return False
    return all(user is computation.root and user.opcode == "tuple" for user in instruction.users)
