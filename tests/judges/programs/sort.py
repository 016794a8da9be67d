"""sort, with comparators that order strictly, and topk."""

from __future__ import annotations

from tests.judges.programs.scene import FLOATS, INTEGERS, Bits, Scene, family
from xloom.hlo.builder import ComputationBuilder
from xloom.hlo.computation import Computation
from xloom.hlo.dtype import DType
from xloom.hlo.instruction import Instruction

KEYS = (*INTEGERS, *FLOATS)


def _precedes(builder: ComputationBuilder, a: Instruction, b: Instruction, descending: bool) -> Instruction:
    kind = {"type": "TOTALORDER"} if a.shape.dtype.is_float else {}
    return builder.compare(a, b, direction="GT" if descending else "LT", **kind)


def comparator(scene: Scene, dtypes: list[DType], keys: int) -> Computation:
    """Orders by the first `keys` operands, each ascending or descending."""
    builder = scene.module.computation("compare")
    pairs = [(builder.parameter(d[()]), builder.parameter(d[()])) for d in dtypes]
    descending = [scene.flip(0.4) for _ in range(keys)]
    result = _precedes(builder, *pairs[keys - 1], descending[keys - 1])
    for (a, b), down in reversed(list(zip(pairs[: keys - 1], descending[: keys - 1], strict=True))):
        same = builder.compare(a, b, direction="EQ", **({"type": "TOTALORDER"} if a.shape.dtype.is_float else {}))
        result = builder.select(same, result, _precedes(builder, a, b, down))
    return builder.finish(result)


@family(2.5)
def sort(scene: Scene) -> None:
    """One to four operands; stable unless equal keys have equal bits."""
    key = scene.any(*KEYS, least_rank=1, exact=Bits.GIVEN)
    operands = [key]
    keys = 1
    if scene.flip(0.5):
        count = scene.chance.randint(1, 3)
        operands += [scene.like(scene.dtype(*KEYS)[key.shape.dims], exact=Bits.GIVEN) for _ in range(count)]
        keys = scene.chance.randint(1, min(2, len(operands)))
    compare = comparator(scene, [o.dtype for o in operands], keys)
    stable = keys < len(operands) or scene.flip(0.5)
    attributes = {"dimensions": (scene.chance.randrange(key.shape.rank),), "is_stable": stable, "to_apply": compare}
    if len(operands) == 1:
        scene.emit("sort", key, moves=True, **attributes)
    else:
        scene.emit_many("sort", *operands, moves=True, **attributes)


@family(1)
def topk(scene: Scene) -> None:
    """The largest or smallest few."""
    x = scene.any("f32", "s32", "bf16", "f64", "u32", least_rank=1, exact=Bits.GIVEN)
    k = scene.chance.randint(0, x.shape.dims[-1])
    scene.emit_many("topk", x, moves=True, k=k, largest=scene.flip(0.7))
