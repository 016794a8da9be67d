"""Branches: conditionals of two to five, over tuples of state, by a pred or an index that may be out of range."""

from __future__ import annotations

from tests.judges.programs.scene import Value
from tests.judges.stateful.scene import MOST_DEPTH, StateScene, family, grouped, leaves, packed
from tests.judges.stateful.updates import update
from xloom.hlo.computation import Computation
from xloom.hlo.dtype import pred, s32
from xloom.hlo.shape import Shape


@family(6)
def branch(scene: StateScene) -> None:
    """A `conditional` whose branches hand on, swap, change or replace what they are given."""
    if scene.depth >= MOST_DEPTH:
        return
    by_pred = scene.flip(0.4)
    count = 2 if by_pred else scene.chance.choice((1, 2, 3, 4, 5))
    chooser = scene.like((pred if by_pred else s32)[()])
    if not by_pred and scene.flip(0.6):
        chooser = scene.emit("and", chooser, scene.constant(3, s32))
    given = [scene.some_state() for _ in range(scene.chance.choice((1, 1, 2, 3)))]
    given.append(scene.state(given[0].shape))
    results = [v.shape.with_default_layout() for v in scene.chance.choices(given, k=scene.chance.choice((1, 2, 2, 3)))]
    whole = grouped(scene, results)
    taken = grouped(scene, [v.shape.with_default_layout() for v in given])
    same = packed(scene, given, taken)
    branches, operands = [], []
    for _ in range(count):
        if scene.flip(0.6):
            operand, shape = same, taken
        else:
            mine = [scene.some_state() for _ in range(scene.chance.choice((1, 2, 3)))]
            shape = (
                grouped(scene, [v.shape.with_default_layout() for v in mine])
                if len(mine) > 1 or scene.flip(0.5)
                else mine[0].shape.with_default_layout()
            )
            operand = packed(scene, mine, shape)
        branches.append(_branch(scene, shape, whole))
        operands.append(operand)
    if by_pred and scene.flip(0.5):
        attributes = {"true_computation": branches[0], "false_computation": branches[1]}
    else:
        attributes = {"branch_computations": tuple(branches)}
    made = scene.builder.conditional(chooser.instruction, *operands, **attributes)
    for result in scene.unpack(made, scene.kind.bits):
        if scene.flip(0.2):
            scene.values.remove(result)


def _branch(outer: StateScene, shape: Shape, whole: Shape) -> Computation:
    scene = outer.nested("branch")
    given = scene.unpack(scene.builder.parameter(shape), scene.kind.bits)
    scene.grow(scene.chance.choice((0, 0, 1, 2, 3)))
    results: list[Value] = []
    for leaf in leaves(whole):
        alike = [v for v in given if (v.dtype, v.shape.dims) == (leaf.dtype, leaf.dims)]
        if results and results[-1].shape == leaf and scene.flip(0.15):
            results.append(results[-1])
        elif alike and scene.flip(0.4):
            results.append(scene.chance.choice(alike))
        else:
            value = scene.state(leaf)
            results.append(update(scene, value) if scene.flip(0.4) else value)
    return scene.builder.finish(packed(scene, results, whole))
