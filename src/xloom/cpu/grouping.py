"""Stored instructions that one loop nest can do together: they run over the same loops and share what they read."""

from __future__ import annotations

import math

from xloom.cpu.fusion import COST_LIMIT, Fusion, Group, inlined_by, is_fusible
from xloom.cpu.leaves import Source, leaf_shapes, owners
from xloom.cpu.loops import streaming
from xloom.cpu.loops.affine import Affine, Var
from xloom.cpu.loops.nest import Nest, Stage, element_cost, node_count, sources
from xloom.cpu.loops.nodes import Load, walk
from xloom.cpu.roots import loop_dims, nest_for
from xloom.cpu.step_order import Step, filled_late, freeing_first, reads_of
from xloom.hlo.instruction import Instruction

NODES = 360
"""In the expressions of a nest: LLVM has more to do than with two nests, but these pass arrays on through memory."""
ROOTS = 24
WINDOW = 24
"""How many steps back a nest looks for another to join."""
LEAST_ROWS = 8
SHORTEST_ROW = 64
ROW_BYTES = 1 << 18
"""Rows that are done stage by stage: at least so many, at least so long, of at most so many bytes."""


def steps_of(fusion: Fusion) -> list[Step]:
    """The computation's steps in an order that they can run in."""
    steps: list[Step] = []
    for instruction in fusion.order:
        if instruction not in fusion.stored:
            continue
        if is_fusible(instruction) and instruction.opcode != "constant":
            _place(steps, Group([[instruction]], inlined_by([instruction], fusion.stored)), fusion.stored)
        else:
            steps.append(instruction)
    returned = {made for made, _ in owners(fusion.root)}
    return filled_late(freeing_first(steps, returned))


def _place(steps: list[Step], group: Group, stored: set[Instruction]) -> None:
    """Appends a group, or joins it to an earlier one."""
    (root,) = group.roots
    reads = group.reads
    if root.opcode != "dynamic-update-slice":
        between: set[Instruction] = set()  # made by steps after the candidate
        for k in range(len(steps) - 1, max(-1, len(steps) - 1 - WINDOW), -1):
            step = steps[k]
            made = set(step.roots) if isinstance(step, Group) else {step}
            if isinstance(step, Group) and not reads & between:
                joined = _joined(step, group, stored)
                if joined is not None:
                    steps[k] = joined
                    _absorb(steps, k, stored)
                    return
            between |= made
    steps.append(group)


def _absorb(steps: list[Step], at: int, stored: set[Instruction]) -> None:
    """Joins a group of rows with an earlier group that it reads, unless something in between reads that too."""
    group = steps[at]
    if not isinstance(group, Group) or not group.rank:
        return
    for k in range(at - 1, max(-1, at - 1 - WINDOW), -1):
        step = steps[k]
        if not isinstance(step, Group) or not group.reads & set(step.roots):
            continue
        roots = [*step.roots, *group.roots]
        waits = any(reads_of(s) & set(step.roots) for s in steps[k + 1 : at])
        if waits or len(roots) > ROOTS or any(r.opcode == "dynamic-update-slice" for r in roots):
            continue
        joined = _grouped([*step.stages, *group.stages], group.rank, stored) if _fits_rows(roots, group.rank) else None
        if joined is not None:
            steps[at] = joined
            del steps[k]
            return


def _joined(step: Group, single: Group, stored: set[Instruction]) -> Group | None:
    """One group of a group and that of one instruction, where that is possible and worth it."""
    (root,), reads = single.roots, single.reads
    if len(step.roots) >= ROOTS or any(r.opcode == "dynamic-update-slice" for r in step.roots):
        return None
    produced = bool(reads & set(step.roots))
    if produced or _shares(step, reads):
        last = step.stages[-1]
        if all(_loops(r) == _loops(root) for r in last):
            group = None if produced else _beside(step, single)
            if group is not None:
                return group
            group = _grouped([*step.stages[:-1], [*last, root]], step.rank, stored)
            if group is not None:
                return group
    most = step.rank or _row_rank(step, root)
    for rank in range(most, min(most, step.rank or 1) - 1, -1) if produced and most else ():
        if _fits_rows([*step.roots, root], rank):
            return _grouped([*step.stages, [root]], rank, stored)
    return None


def _beside(step: Group, single: Group) -> Group | None:
    """One group of two over the same loops that do not need each other, if it is short whatever they share."""
    # nodes(a and b) <= nodes(a) + nodes(b), and so costs; not where one divides loops that the other has whole
    nodes, cost = (a + b for a, b in zip(step.size, single.size, strict=True))
    if step.rank or nodes > NODES or cost > COST_LIMIT or step.is_divided or single.is_divided:
        return None
    group = Group([[*step.roots, *single.roots]], step.inlined | single.inlined, most=(nodes, cost))
    group.reads = step.reads | single.reads
    return group


def _loops(root: Instruction) -> tuple:
    """What two roots must have in common to share loops."""
    if root.opcode == "reduce":
        return ("reduce", root._operands[0].shape.dims, tuple(sorted(root["dimensions"])))
    return ("map", loop_dims(root))


def _shares(step: Group, reads: set[Instruction]) -> bool:
    both = reads & step.reads
    return any(i.shape.is_tuple or i.shape.size > 1 for i in both)


def _row_rank(step: Group, root: Instruction) -> int:
    """How many dimensions the rows of a fold have around them at most; 0 when there is none."""
    for candidate in (*step.roots, root):
        if candidate.opcode == "reduce":
            return min(candidate["dimensions"], default=0)
    return 0


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


def _grouped(stages: list[list[Instruction]], rank: int, stored: set[Instruction]) -> Group | None:
    """The group, unless it is too long or reads what it makes before it is made, or out of another row."""
    roots = {r for stage in stages for r in stage}
    inlined = inlined_by(list(roots), stored) - roots
    nest = nest_for(stages, inlined, rank)
    if node_count(nest) > NODES or (not rank and element_cost(nest) > COST_LIMIT) or (rank and not nest.outer):
        return None
    made: dict[Source, tuple[Affine, int]] = {}
    for stage in nest.stages:
        for node in walk([s.node for s in stage.stores]):
            if not isinstance(node, Load) or node.source[0] not in roots:
                continue
            if node.source not in made or not same_row(nest.outer, node.address, *made[node.source]):
                return None
        for store in stage.stores:
            root, _ = store.target
            made[store.target] = (store.address, math.prod(loop_dims(root)[rank:]))
    return Group(stages, inlined, rank)


def same_row(outer: list[Var], load: Affine, store: Affine, size: int) -> bool:
    """True when a load sees only the elements that the same iteration of the outer loops has stored."""
    if any(load.factor(v) != store.factor(v) for v in outer):
        return False
    rest = Affine(load.const, tuple(t for t in load.terms if t[0] not in outer))
    return rest.low >= 0 and rest.high < size


def nest_of(group: Group, kept: set[Source]) -> Nest:
    """The group's loops. Of what nothing outside reads only what later stages read is stored, in private memory."""
    inside = set(sources(group.nest))
    private: set[Source] = set()
    stages = []
    for stage in group.nest.stages:
        stores = [s for s in stage.stores if s.target in kept or s.target in inside]
        private.update(s.target for s in stores if s.target not in kept)
        if stores:
            stages.append(Stage(stage.vars, stores))
    returned = {s.target for stage in stages for s in stage.stores if _is_returned(s.target)}
    return Nest(group.nest.outer, stages, private, returned)


def _is_returned(source: Source) -> bool:
    instruction, leaf = source
    computation = instruction.parent
    if computation is None or not computation.is_entry or leaf_shapes(instruction.shape)[leaf].nbytes < streaming.LEAST:
        return False
    return all(user is computation.root and user.opcode == "tuple" for user in instruction.users)
