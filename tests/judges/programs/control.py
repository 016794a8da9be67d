"""call, map, conditional and while, nested in one another."""

from __future__ import annotations

from tests.judges.programs.scene import FLOATS, INTEGERS, Bits, Scene, Value, family
from xloom.hlo.computation import Computation
from xloom.hlo.dtype import pred, s32
from xloom.hlo.instruction import Instruction
from xloom.hlo.shape import Shape, tuple_shape

DEEPEST = 2


def grow(scene: Scene) -> None:
    """Adds a few instructions."""
    from tests.judges.programs import generator  # which imports the families

    generator.grow(scene, scene.chance.choice((1, 1, 2, 3, 5)))


def enter(outer: Scene, name: str, shapes: list[Shape], as_tuple: bool, bits: Bits) -> Scene:
    """The scene of a computation that takes arrays of `shapes`, or one tuple of them."""
    inner = outer.nested(name)
    if as_tuple:
        inner.unpack(inner.builder.parameter(tuple_shape(shapes)), bits)
    else:
        for shape in shapes:
            inner.keep(inner.builder.parameter(shape), bits)
    return inner


def leave(scene: Scene, shapes: list[Shape], as_tuple: bool) -> Computation:
    """Ends the computation with values of `shapes`."""
    results = [scene.like(shape).instruction for shape in shapes]
    return scene.builder.finish(scene.builder.tuple_(*results) if as_tuple else results[0])


def _operands(scene: Scene, most: int) -> list[Value]:
    return [scene.any() for _ in range(scene.chance.randint(1, most))]


def _tuple(scene: Scene, values: list[Value]) -> Instruction:
    return scene.builder.tuple_(*(v.instruction for v in values))


@family(1)
def call(scene: Scene) -> None:
    """Of a computation of arrays."""
    if scene.depth >= DEEPEST:
        return
    operands = _operands(scene, 3)
    inner = enter(scene, "callee", [o.shape for o in operands], False, max(o.bits for o in operands))
    grow(inner)
    results = inner.chance.sample(inner.values, min(len(inner.values), 2))
    callee = leave(inner, [r.shape for r in results], len(results) > 1)
    instruction = scene.builder.call(*(o.instruction for o in operands), to_apply=callee)
    scene.unpack(instruction, Bits.ROUNDED)


@family(1)
def map_(scene: Scene) -> None:
    """A few scalar operators on each element."""
    x = scene.any(*FLOATS, *INTEGERS)
    y = scene.like(x.shape)
    builder, (a, b) = scene.flat_scalars("each", 2, x.dtype)
    result = a
    for _ in range(scene.chance.randint(1, 3)):
        result = builder.emit(scene.chance.choice(("add", "multiply", "maximum", "subtract")), result, b)
    body = builder.finish(result)
    scene.emit("map", x, y, rounds=True, dimensions=tuple(range(x.shape.rank)), to_apply=body)


@family(1.5)
def conditional(scene: Scene) -> None:
    """By a pred, or by an index in or out of range."""
    if scene.depth >= DEEPEST:
        return
    by_pred = scene.flip(0.5)
    count = 2 if by_pred else scene.chance.randint(1, 4)
    chooser = scene.like((pred if by_pred else s32)[()])
    shapes: list[Shape] = []
    branches, operands = [], []
    for k in range(count):
        values = _operands(scene, 2)
        inner = enter(scene, f"branch_{k}", [v.shape for v in values], len(values) > 1, Bits.ROUNDED)
        grow(inner)
        if k == 0:
            shapes = [v.shape for v in inner.chance.sample(inner.values, min(len(inner.values), 2))]
        branches.append(leave(inner, shapes, len(shapes) > 1))
        operands.append(_tuple(scene, values) if len(values) > 1 else values[0].instruction)
    if by_pred and scene.flip(0.5):
        attributes = {"true_computation": branches[0], "false_computation": branches[1]}
    else:
        attributes = {"branch_computations": tuple(branches)}
    scene.unpack(scene.builder.conditional(chooser.instruction, *operands, **attributes), Bits.ROUNDED)


@family(1.5)
def while_(scene: Scene) -> None:
    """A counted loop over a tuple; now and then it ends early because of a value."""
    if scene.depth >= DEEPEST:
        return
    state = _operands(scene, 3)
    counter = scene.constant(0, s32)
    shapes = [s32[()], *(v.shape for v in state)]
    condition = scene.nested("condition")
    parts = condition.unpack(condition.builder.parameter(tuple_shape(shapes)), Bits.ROUNDED)
    limit = condition.constant(scene.chance.choice((0, 1, 2, 3, 5)), s32)
    proceed = condition.emit("compare", parts[0], limit, direction="LT")
    flags = [p for p in parts if p.dtype is pred and p.shape.rank == 0]
    if flags:
        proceed = condition.emit("and", proceed, flags[0])
    body = scene.nested("body")
    count, *_ = body.unpack(body.builder.parameter(tuple_shape(shapes)), Bits.ROUNDED)
    one = body.constant(1, s32)
    following = body.emit("add", count, one)
    grow(body)
    results = [following, *(body.like(shape) for shape in shapes[1:])]
    instruction = scene.builder.while_(
        _tuple(scene, [counter, *state]),
        condition=condition.builder.finish(proceed.instruction),
        body=body.builder.finish(_tuple(body, results)),
    )
    scene.unpack(instruction, Bits.ROUNDED)
