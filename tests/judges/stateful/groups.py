"""What is fused: chains of elementwise operators, operators side by side, and rows that are reduced and broadcast again."""

from __future__ import annotations

from tests.judges.programs.combiners import combiner
from tests.judges.programs.scene import FLOATS, INTEGERS, Scene, Value
from tests.judges.stateful.scene import StateScene, family
from xloom.hlo.dtype import pred


def combined(scene: Scene, x: Value, y: Value) -> Value:
    """An elementwise operator of two values that is exact."""
    if x.dtype is pred:
        return scene.emit(scene.chance.choice(("and", "or", "xor")), x, y)
    if x.dtype.is_integer:
        return scene.emit(scene.chance.choice(("add", "subtract", "multiply", "maximum", "xor")), x, y)
    if x.dtype.is_complex:
        return scene.emit(
            "select",
            scene.emit("compare", x, y, direction="EQ"),
            scene.emit("negate", x),
            y,
        )
    return scene.emit(scene.chance.choice(("maximum", "minimum")), x, y)


@family(1)
def chain(scene: StateScene) -> None:
    """Long, each link with an earlier one of the last few."""
    x = scene.some_state()
    links = [x, scene.state(x.shape)]
    for _ in range(scene.chance.choice((8, 15, 30, 80, 130))):
        links.append(combined(scene, links[-1], scene.chance.choice(links[-6:])))
    read = scene.chance.sample(links, 3)
    scene.values = [v for v in scene.values if v not in links[2:-1] or v in read]


@family(0.7)
def side_by_side(scene: StateScene) -> None:
    """Many that do not need one another, some of one shape, combined into one at last."""
    inputs = [scene.some_state() for _ in range(scene.chance.choice((4, 8, 20)))]
    before = len(scene.values)
    made = [combined(scene, x, scene.state(x.shape)) for x in inputs]
    last: dict[object, Value] = {}
    for x in made:
        key = x.dtype, x.shape.dims
        last[key] = combined(scene, last[key], x) if key in last else x
    scene.values = [v for k, v in enumerate(scene.values) if k < before or v in last.values() or scene.flip(0.1)]


@family(2)
def rows(scene: StateScene) -> None:
    """Reduced along some dimensions, broadcast over them again, and reduced once more."""
    x = scene.any("pred", *INTEGERS, *FLOATS, least_rank=2, exact=scene.kind.bits)
    reduced = tuple(range(scene.chance.randrange(1, x.shape.rank), x.shape.rank))
    if scene.flip(0.3):
        reduced = tuple(sorted(scene.chance.sample(range(x.shape.rank), len(reduced))))
    kept = tuple(k for k in range(x.shape.rank) if k not in reduced)
    for _ in range(scene.chance.choice((1, 2, 3))):
        only = () if x.dtype is pred else ("maximum", "minimum")
        combine = combiner(scene, x.dtype, x.shape.size, only)
        total = scene.emit(
            "reduce",
            x,
            scene.constant(combine.identity_value),
            dimensions=reduced,
            to_apply=combine.computation,
        )
        spread = scene.emit(
            "broadcast",
            total,
            moves=True,
            shape=x.shape.with_default_layout(),
            dimensions=kept,
        )
        x = combined(scene, x if scene.flip(0.7) else scene.state(x.shape), spread)
