"""Calls of computations, which the compiler puts in place: of one by several, with more than one result."""

from __future__ import annotations

from tests.judges.stateful.scene import MOST_DEPTH, StateScene, family, grouped, packed


@family(1.5)
def called(scene: StateScene) -> None:
    """A computation, called once or twice on different arrays."""
    if scene.depth >= MOST_DEPTH:
        return
    given = [scene.some_state() for _ in range(scene.chance.choice((1, 2, 3)))]
    inner = scene.nested("callee")
    for value in given:
        inner.keep(inner.builder.parameter(value.shape.with_default_layout()), scene.kind.bits)
    inner.grow(scene.chance.choice((1, 2, 3)))
    possible = [v for v in inner.values if v.bits <= scene.kind.bits]
    results = inner.chance.choices(possible, k=scene.chance.choice((1, 2, 3)))
    whole = grouped(scene, [v.shape.with_default_layout() for v in results])
    callee = inner.builder.finish(packed(inner, results, whole))
    for again in range(scene.chance.choice((1, 1, 2))):
        if again:
            given = [scene.state(v.shape) for v in given]
        made = scene.builder.call(*(v.instruction for v in given), to_apply=callee)
        scene.unpack(made, scene.kind.bits)
