"""Stored instructions that one loop nest can do together: they run over the same loops and share what they read."""

from __future__ import annotations

from xloom.cpu.fusion import Fusion, Group, inlined_by, is_fusible
from xloom.cpu.leaves import owner
from xloom.cpu.loops.nest import Nest, Stage, node_count, sources
from xloom.cpu.loops.nodes import Source
from xloom.cpu.roots import loop_dims, traced
from xloom.hlo.module import Instruction

Step = Group | Instruction
"""A loop nest, or an instruction with code of its own."""

NODES = 300
ROOTS = 16
WINDOW = 24
"""How many steps back a nest looks for another to join."""


def steps_of(fusion: Fusion) -> list[Step]:
    """The computation's steps in an order that they can run in."""
    steps: list[Step] = []
    for instruction in fusion.order:
        if instruction not in fusion.stored:
            continue
        if is_fusible(instruction) and instruction.opcode != "constant":
            _place(steps, Group([instruction], inlined_by([instruction], fusion.stored)), fusion.stored)
        else:
            steps.append(instruction)
    return [s for s in steps if not isinstance(s, Group) or s.roots]


def reads_of(step: Step, stored: set[Instruction]) -> set[Instruction]:
    """The owners of the arrays that a step reads."""
    if isinstance(step, Instruction):
        instructions = [*step._operands, *step.control_predecessors]
        return {i for o in instructions for i in _owners(o)}
    found: set[Instruction] = set()
    for instruction in (*step.roots, *step.inlined):
        found.update(i for o in instruction._operands if o not in step.inlined for i in _owners(o))
        found.update(instruction.control_predecessors)
    return found - set(step.roots)


def _owners(instruction: Instruction) -> list[Instruction]:
    from xloom.cpu.leaves import leaf_count

    return [owner(instruction, k)[0] for k in range(leaf_count(instruction.shape))]


def _place(steps: list[Step], group: Group, stored: set[Instruction]) -> None:
    """Appends a group, or joins it to an earlier one."""
    (root,) = group.roots
    reads = reads_of(group, stored)
    if root.opcode != "dynamic-update-slice":
        between: set[Instruction] = set()  # made by steps after the candidate
        for k in range(len(steps) - 1, max(-1, len(steps) - 1 - WINDOW), -1):
            step = steps[k]
            made = set(step.roots) if isinstance(step, Group) else {step}
            if isinstance(step, Group) and not reads & between and _fits(step, group, reads, stored):
                step.roots.append(root)
                step.inlined = inlined_by(step.roots, stored) - set(step.roots)
                return
            between |= made
    steps.append(group)


def _loops(root: Instruction) -> tuple:
    """What two roots must have in common to share loops."""
    if root.opcode == "reduce":
        return ("reduce", root._operands[0].shape.dims, tuple(sorted(root["dimensions"])))
    return ("map", loop_dims(root))


def _fits(step: Group, group: Group, reads: set[Instruction], stored: set[Instruction]) -> bool:
    root = group.roots[0]
    if any(_loops(r) != _loops(root) or r.opcode == "dynamic-update-slice" for r in step.roots):
        return False
    if len(step.roots) >= ROOTS:
        return False
    produced = reads & set(step.roots)
    if not produced and not _shares(step, reads, stored):
        return False
    roots = [*step.roots, root]
    _, _, stores = traced(roots, inlined_by(roots, stored) - set(roots))
    nest = Nest([], [Stage([], stores)])
    if node_count(nest) > NODES:
        return False
    # what is made here is seen at its own element only
    made = set(roots)
    return not any(owner(*source)[0] in made for source in sources(nest))


def _shares(step: Group, reads: set[Instruction], stored: set[Instruction]) -> bool:
    both = reads & reads_of(step, stored)
    return any(i.shape.is_tuple or i.shape.size > 1 for i in both)


def nest_of(group: Group, kept: set[Source]) -> Nest:
    """The group's loops. Roots that nothing outside reads are not stored: `kept` are those that are."""
    _, loops, stores = traced(group.roots, group.inlined)
    kept_stores = [s for s in stores if s.target in kept]
    return Nest([], [Stage(loops, kept_stores or stores[-1:])])
