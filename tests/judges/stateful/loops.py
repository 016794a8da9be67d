"""Loops whose state is permuted, reset, aliased, swapped, changed in place, and partly unread."""

from __future__ import annotations

from tests.judges.programs.scene import Value
from tests.judges.stateful.groups import combined
from tests.judges.stateful.scene import MOST_DEPTH, StateScene, family, grouped, packed
from tests.judges.stateful.updates import update
from xloom.hlo.computation import Computation
from xloom.hlo.dtype import DTYPES, DType, pred
from xloom.hlo.shape import Shape

_COUNTERS = ("s32", "s32", "s32", "s64", "u32", "s16", "u8")
TRIPS = (0, 0, 1, 1, 2, 2, 3, 3, 5, 7)


@family(14)
def loop(scene: StateScene) -> None:
    """A `while` over one to seven arrays, a counter among them, and maybe its limit."""
    if scene.depth >= MOST_DEPTH:
        return
    values = _initial(scene)
    counter = DTYPES[scene.chance.choice(_COUNTERS)]
    step = scene.chance.choice((1, 1, 1, 2, 3))
    trips = scene.chance.choice(TRIPS if scene.depth == 0 else TRIPS[:6])
    place = scene.chance.randint(0, len(values)) if scene.flip(0.5) else 0
    first = scene.constant(scene.chance.choice((0, 0, 0, 1, 4)), counter)
    values.insert(place, first)
    limit = None
    if scene.flip(0.35):  # known when it runs: from 0 to 3 more
        limit = scene.chance.randint(0, len(values))
        values.insert(limit, _bounded(scene, counter, first))
        place += limit <= place
    shape = grouped(scene, [v.shape.with_default_layout() for v in values])
    more = _condition(scene, shape, place, limit, first, trips * step)
    fixed = {k for k in range(len(values)) if k != place and scene.flip(0.25)} | (
        {limit} if limit is not None else set()
    )
    body = _body(scene, shape, place, fixed, step)
    instruction = scene.builder.while_(packed(scene, values, shape), condition=more, body=body)
    results = scene.unpack(instruction, scene.kind.bits)
    unread = scene.chance.choice((0, 0.2, 0.6))
    for k, result in enumerate(results):  # some are read by nobody, what the body only reads most of all
        if scene.flip(unread if k not in fixed else max(unread, 0.7)):
            scene.values.remove(result)


def _initial(scene: StateScene) -> list[Value]:
    """Arrays of few shapes, so that they can take one another's place; some twice, some of one number."""
    shapes = [scene.some_state().shape for _ in range(scene.chance.choice((1, 1, 1, 2)))]
    values: list[Value] = []
    for _ in range(scene.chance.choice((1, 2, 2, 3, 3, 4, 5))):
        shape = scene.chance.choice(shapes)
        how = scene.chance.random()
        if values and how < 0.15:
            values.append(scene.chance.choice(values))
        elif how < 0.4:
            values.append(scene.filled(scene.chance.choice((0, 1)), shape))
        else:
            values.append(scene.state(shape) if how < 0.9 else scene.some_state())
    return values


def _bounded(scene: StateScene, dtype: DType, first: Value) -> Value:
    given = scene.like(dtype[()])
    few = scene.emit("and", given, scene.constant(3, dtype))
    return scene.emit("add", few, first) if scene.flip(0.8) else few


def _condition(outer: StateScene, shape: Shape, place: int, limit: int | None, first: Value, most: int) -> Computation:
    scene = outer.nested("more")
    parts = scene.unpack(scene.builder.parameter(shape), scene.kind.bits)
    counter = parts[place]
    if limit is None:
        end = scene.constant(first.instruction.literal.value + most, counter.dtype)
    else:
        end = parts[limit]
    proceed = scene.emit("compare", counter, end, direction="LT")
    if scene.flip(0.2):
        scene.grow(2)
        flag = scene.pick(lambda v: v.dtype is pred and not v.shape.rank, lambda: pred[()])
        proceed = scene.emit("and", proceed, flag)
    return scene.builder.finish(proceed.instruction)


def _body(outer: StateScene, shape: Shape, place: int, fixed: set[int], step: int) -> Computation:
    """`place` is that of the counter; what is `fixed` stays as it is."""
    scene = outer.nested("step")
    state = scene.builder.parameter(shape)
    parts = scene.unpack(state, scene.kind.bits)
    if scene.flip(0.1):
        scene.unpack(state, scene.kind.bits)  # each element read twice
    following = scene.emit("add", parts[place], scene.constant(step, parts[place].dtype))
    scene.grow(scene.chance.choice((0, 1, 1, 2, 3, 5)))
    way = scene.chance.choice(("any", "any", "any", "permuted", "rotated", "reset"))
    results = [_next(scene, parts, k, way) for k in range(len(parts))]
    results[place] = following
    for k in fixed:
        results[k] = parts[k]
    return scene.builder.finish(packed(scene, results, shape))


def _next(scene: StateScene, parts: list[Value], k: int, way: str) -> Value:
    """What takes the place of element `k`."""
    alike = [p for p in parts if (p.dtype, p.shape.dims) == (parts[k].dtype, parts[k].shape.dims)]
    if way == "permuted":
        return scene.chance.choice(alike)
    if way == "rotated":
        return alike[(alike.index(parts[k]) + 1) % len(alike)]
    if way == "reset" and scene.flip(0.5):
        return alike[0] if scene.flip(0.5) else scene.filled(scene.chance.choice((0, 1)), parts[k].shape)
    how = scene.chance.random()
    if how < 0.12:
        return parts[k]
    if how < 0.27:
        return scene.chance.choice(alike)
    if how < 0.37:
        return scene.filled(scene.chance.choice((0, 1, 1)), parts[k].shape)
    if how < 0.6:
        return update(scene, scene.chance.choice(alike) if scene.flip(0.3) else parts[k])
    if how < 0.8:
        return combined(scene, parts[k], scene.chance.choice(alike) if scene.flip(0.6) else scene.state(parts[k].shape))
    return scene.state(parts[k].shape)
