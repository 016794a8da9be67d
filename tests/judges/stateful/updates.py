"""Changes that may be made in place: the result has the operand's shape, and often its memory."""

from __future__ import annotations

from tests.judges.programs.scene import FLOATS, INTEGERS, Bits, Value
from tests.judges.programs.sort import comparator
from tests.judges.stateful.scene import StateScene, family
from xloom.hlo.dtype import pred, s32


def update(scene: StateScene, x: Value) -> Value:
    """`x`, changed somewhere."""
    ways = [_elementwise]
    if x.shape.rank:
        ways += [_reversed, _slice_written, _slice_written, _row_scattered]
        if x.dtype.name in (*INTEGERS, *FLOATS) and x.bits == Bits.GIVEN:
            ways.append(_sorted)
    return scene.chance.choice(ways)(scene, x)


@family(4)
def updates(scene: StateScene) -> None:
    """Several in a row; what was before may be read later."""
    x = scene.some_state()
    for _ in range(scene.chance.choice((2, 2, 3, 4))):
        x = update(scene, x)


def _elementwise(scene: StateScene, x: Value) -> Value:
    if x.dtype is pred:
        return scene.emit("not", x)
    if x.dtype.is_integer:
        return scene.emit("add", x, scene.filled(1, x.shape))
    return scene.emit("negate", x)


def _reversed(scene: StateScene, x: Value) -> Value:
    return scene.emit("reverse", x, moves=True, dimensions=(scene.chance.randrange(x.shape.rank),))


def _slice_written(scene: StateScene, x: Value) -> Value:
    dims = tuple(scene.chance.randint(min(1, d), d) if scene.flip(0.6) else d for d in x.shape.dims)
    starts = [scene.like(s32[()]) for _ in dims]
    return scene.emit("dynamic-update-slice", x, scene.state(x.dtype[dims]), *starts, moves=True)


def _row_scattered(scene: StateScene, x: Value) -> Value:
    builder, (_, new) = scene.flat_scalars("overwrite", 2, x.dtype)
    places = scene.numbers.permutation(x.shape.dims[0] + 1)[: scene.chance.choice((1, 2, 3))]
    rows = scene.state(x.dtype[(len(places), *x.shape.dims[1:])])
    return scene.emit(
        "scatter",
        x,
        scene.constant(places.astype("int32")),
        rows,
        moves=True,
        update_window_dims=tuple(range(1, x.shape.rank)),
        inserted_window_dims=(0,),
        scatter_dims_to_operand_dims=(0,),
        index_vector_dim=1,
        unique_indices=scene.flip(0.5),
        to_apply=builder.finish(new),
    )


def _sorted(scene: StateScene, x: Value) -> Value:
    """Alone, or with another array of its shape, of which the one or the other may be read by nobody."""
    dimension = scene.chance.randrange(x.shape.rank)
    operands = [x]
    if scene.flip(0.4):
        operands.append(scene.like(x.shape, Bits.GIVEN))
    stable = len(operands) > 1 or scene.flip(0.5)
    compare = comparator(scene, [o.dtype for o in operands], 1)
    attributes = {"dimensions": (dimension,), "is_stable": stable, "to_apply": compare}
    if len(operands) == 1:
        return scene.emit("sort", x, moves=True, **attributes)
    made = scene.builder.sort(*(o.instruction for o in operands), **attributes)
    results = scene.unpack(made, scene.outcome(operands, rounds=False, moves=True))
    chosen = scene.chance.choice(results)
    if scene.flip(0.5):
        scene.values = [v for v in scene.values if v is chosen or v not in results]
    return chosen
